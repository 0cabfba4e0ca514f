"""Flags of options that components of several packages share with each other and with commands."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import click
import pytest
from click.testing import CliRunner

from leakbound._catalogue import Catalogue
from leakbound.auditing.spec import audit_spec as spec
from leakbound.cli.options import spec as options
from leakbound.cli.verbs.audit.plan import command as plan_command


@dataclass(frozen=True)
class Counted:
    """A mechanism with a level that is a number."""

    name: ClassVar[str] = "counted"
    level: int = 3


@dataclass(frozen=True)
class Worded:
    """A mechanism with a level that is a text, and names that commands have flags of."""

    name: ClassVar[str] = "worded"
    level: str = "low"
    timeout: float = 3.0
    epsilon: float = 1.0
    help: str = ""
    longest_query: int = 1


Run = Callable[..., dict[str, Any]]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> click.Command:
    """A command with a flag --timeout of its own; it gives what `overrides` makes of its flags."""
    two: Catalogue[object] = Catalogue("the mechanism", "no.group", (Counted, Worded))
    monkeypatch.setitem(spec.COMPONENTS, "mechanism", two)

    @click.option("--timeout", type=float)
    def function(timeout: float | None, config: None, assignments: Any, **flags: Any) -> Any:
        return {"own": timeout, **options.overrides(assignments, flags)}

    return click.command()(options.spec_options(function, ("--longest-query",)))


@pytest.fixture
def run(command: click.Command) -> Run:
    """Runs that command; warnings of click are errors."""

    def ran(*flags: str) -> dict[str, Any]:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found: dict[str, Any] = command.main([*flags], standalone_mode=False)
        return found

    return ran


@pytest.mark.parametrize(
    ("flags", "level"),
    [
        (("--mechanism", "worded", "--level", "5"), "5"),
        (("--mechanism", "counted", "--level", "5"), 5),
        (("--set", "mechanism=worded", "--level", "low"), "low"),
    ],
)
def test_the_chosen_component_says_how_a_flag_is_read(
    run: Run, flags: tuple[str, ...], level: object
) -> None:
    assert run(*flags)["mechanism"]["level"] == level


def test_a_configuration_file_may_choose_the_component(command: click.Command) -> None:
    text = options.FlagText("5")
    base = {"mechanism": {"kind": "worded"}}
    read = options.read_flags({"mechanism": {"level": text}}, base)
    assert read == {"mechanism": {"level": "5"}}


def test_a_value_of_another_type_is_refused_with_the_component(run: Run) -> None:
    with pytest.raises(click.BadParameter, match="not a valid integer, which counted needs"):
        run("--mechanism", "counted", "--level", "low")


def test_a_flag_of_the_command_wins_and_the_help_says_how_else(
    command: click.Command, run: Run
) -> None:
    found = run("--mechanism", "worded", "--timeout", "65", "--option", "timeout=67")
    assert (found["own"], found["mechanism"]["timeout"]) == (65.0, 67)
    shown = " ".join(CliRunner().invoke(command, ["--help"]).output.split())
    assert (
        "also those whose flag means something else here: timeout of worded; epsilon of worded; "
        "help of worded; longest_query of worded"
    ) in shown


def test_noise_in_place_of_a_claim_has_no_flag() -> None:
    """It is given as `--option sigma=2`; the flags are those of noise that is calibrated."""
    names = {one.name for one in plan_command.params}
    assert "mechanism__partitions" in names
    assert "mechanism__sigma" not in names
