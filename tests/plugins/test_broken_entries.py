"""Entry points that lead nowhere, or to a name of this package, disturb only who names them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click
import pytest

from leakbound._catalogue import Catalogue, Component
from leakbound.attacks.canaries import Canary, Hex, Natural
from leakbound.cli.main import Commands
from leakbound.errors import IgnoredEntryPoint, UsageError
from leakbound.tasks.named_tasks import task_by_name, tasks_by_name

MODULE = """
from dataclasses import dataclass
from typing import ClassVar

from leakbound.attacks.canaries import Hex

@dataclass(frozen=True)
class Good(Hex):
    name: ClassVar[str] = "good"
"""
Made = Callable[..., Catalogue[Canary]]


@pytest.fixture
def registered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Made:
    """Makes a catalogue of `hex` and `natural` and of entry points of an installed package."""

    def made(**entries: str) -> Catalogue[Canary]:
        info = tmp_path / "brought-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: brought\nVersion: 1.0\n")
        lines = "\n".join(f"{name} = {value}" for name, value in entries.items())
        (info / "entry_points.txt").write_text(f"[some.canaries]\n{lines}\n")
        (tmp_path / "brought_good.py").write_text(MODULE)
        (tmp_path / "brought_broken.py").write_text("raise RuntimeError('boom')")
        monkeypatch.syspath_prepend(tmp_path)
        return Catalogue("the canary", "some.canaries", (Hex, Natural))

    return made


def test_a_package_that_cannot_be_imported_stops_only_who_names_it(registered: Made) -> None:
    found = registered(broken="brought_broken:X", good="brought_good:Good")
    assert found["hex"] is Hex
    assert found["good"].__name__ == "Good"
    assert list(found) == ["hex", "natural", "broken", "good"]
    assert list(found.usable) == ["hex", "natural", "good"]
    assert Component.of(Hex(8), found).python is None
    with pytest.raises(UsageError, match="'hxe' is not known"):
        found["hxe"]
    with pytest.raises(UsageError, match=r"'broken', .* cannot be imported \(RuntimeError\)"):
        found["broken"]
    assert list(found.problems) == ["broken"]


def test_sets_of_tasks_and_commands_that_cannot_be_imported_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A set of tasks stopped every audit, and a command ended as a fault of leakbound."""
    info = tmp_path / "brought-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: brought\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[leakbound.tasks]\nmine = brought_broken:X\n[leakbound.verbs]\nmine = brought_broken:X\n"
    )
    (tmp_path / "brought_broken.py").write_text("raise RuntimeError('boom')")
    monkeypatch.syspath_prepend(tmp_path)
    tasks_by_name.cache_clear()
    with pytest.warns(IgnoredEntryPoint, match="set of tasks 'mine', .* cannot be imported"):
        assert task_by_name("mine") is None
    tasks_by_name.cache_clear()
    with pytest.raises(UsageError, match=r"the command 'mine', .* cannot be imported"):
        Commands().get_command(click.Context(click.Command("leakbound")), "mine")


def test_the_name_of_a_built_in_stays_with_it_and_says_so(registered: Made) -> None:
    found = registered(hex="brought_good:Good")
    with pytest.warns(IgnoredEntryPoint, match="'brought_good:Good', which another") as seen:
        kinds = {found["hex"], found["hex"]}
    assert kinds == {Hex}
    assert len(seen) == 1
    assert list(found.problems) == ["hex"]


def test_a_class_of_another_name_is_no_entry(registered: Made) -> None:
    found = registered(wrong="brought_good:Good")
    assert "attribute name is 'wrong'" in found.problems["wrong"]
