"""What a command's help shows, and what --json, --quiet and --verbose print."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import click
import pytest
from click.shell_completion import get_completion_class
from in_process import run

from leakbound.cli.main import COMMANDS, SECTIONS, group
from leakbound.cli.screen.help_pages import SectionedCommand
from leakbound.mechanisms import MECHANISMS
from leakbound.privacy import NonPrivate

SYSTEM = Path(__file__).parents[2] / "examples" / "user_system.py"


def command_of(name: str) -> click.Command:
    found = group.get_command(click.Context(group), name)
    assert found is not None
    return found


PLAIN = [name for name in COMMANDS if isinstance(command_of(name), SectionedCommand)]


def test_commands_stand_in_sections_and_first_what_starts() -> None:
    shown = run("--help").output
    places = [shown.index(f"\n{title}:\n") for title in SECTIONS]
    assert places == sorted(places)
    assert shown.index("  plan ") < shown.index("  audit ")


@pytest.mark.parametrize("name", ["audit", "plan", "sweep", "tune", "answer", "serve", "influence"])
def test_the_help_of_a_large_command_fits_a_screen_and_counts_the_rest(name: str) -> None:
    shown = run(name, "--help").output
    assert len(shown.splitlines()) <= 40
    assert "Examples:" in shown
    assert "--help-all shows" in shown


def test_help_all_shows_every_option_once_in_sections_with_its_choices() -> None:
    shown = run("audit", "--help-all").output
    command = command_of("audit")
    heads = re.findall(r"^  (--?\S+?)[, ].*?$", shown, re.MULTILINE)
    for param in command.params:
        if isinstance(param, click.Option):
            assert sum(head in param.opts for head in heads) == 1, param.opts
    assert "\nAttack:\n" in shown
    assert "[paired|session|one_run|tenants|deletion]" in shown
    assert "one of zero_shot, few_shot" in " ".join(shown.split())


@pytest.mark.parametrize("name", PLAIN)
def test_the_examples_of_a_help_are_command_lines_that_parse(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("shards/1", "shards/2"):
        Path(folder).mkdir(parents=True)
    command = command_of(name)
    assert isinstance(command, SectionedCommand)
    assert command.examples
    for example in command.examples:
        args = shlex.split(example.partition(" > ")[0])
        assert command.make_context(name, args).params is not None


@pytest.mark.parametrize("name", ["answer", "serve"])
def test_the_default_mechanism_of_private_answers_has_a_guarantee(name: str) -> None:
    """Before, both had a default that they refused."""
    (option,) = (param for param in command_of(name).params if "--mechanism" in param.opts)
    assert isinstance(option, click.Option)
    (kind,) = re.findall(r"default: (\w+)", option.help or "")
    assert not isinstance(MECHANISMS[kind].calibrated(4.0, 1e-5).guarantee, NonPrivate)


@pytest.mark.slow
def test_an_audit_prints_one_json_value_with_its_record(tmp_path: Path) -> None:
    done = run("audit", "--system", f"python:{SYSTEM}:answer", "--pairs", "16", "--json",
               "--out", str(tmp_path))  # fmt: skip
    found = json.loads(done.stdout)
    assert done.return_value == found["exit_code"] == 1
    assert found["record"]["verdict"] == "violation"
    kept = json.loads((Path(found["folder"]) / "record.json").read_text())
    assert kept["verdict"] == "violation"
    assert kept["name"] == found["record"]["name"]


@pytest.mark.slow
def test_a_gate_a_plan_and_a_list_print_one_json_value(tmp_path: Path) -> None:
    run("audit", "--system", f"python:{SYSTEM}:answer", "--pairs", "16", "-q", "--out",
        str(tmp_path))  # fmt: skip
    gate = json.loads(run("gate", str(tmp_path), "--max-epsilon", "1", "--json").stdout)
    assert gate["exit_code"] == 1
    assert gate["runs"][0]["outcome"] == "violation"
    plan = json.loads(run("plan", "--pairs", "20", "--json").stdout)["plan"]
    assert plan["pairs"] == 20
    assert plan["model_calls"] == 2 * (20 + 8 + 8)  # 8 controls of each kind
    assert "few_shot" in json.loads(run("list", "mechanisms", "--json").stdout)["mechanisms"]


@pytest.mark.slow
def test_a_quiet_audit_prints_nothing_and_keeps_its_exit_code(tmp_path: Path) -> None:
    done = run("audit", "--system", f"python:{SYSTEM}:answer", "--pairs", "16", "--quiet",
               "--out", str(tmp_path))  # fmt: skip
    assert (done.output, done.return_value) == ("", 1)


def test_verbose_names_the_options_and_who_gave_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAKBOUND_PAIRS", "20")
    done = run("plan", "-v", "--epsilon", "2")
    assert "--pairs (environment)" in done.stderr
    assert "--epsilon (commandline)" in done.stderr
    assert "leakbound 0." in done.stderr
    assert "--delta" not in done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_commands_as_the_reference_says(shell: str) -> None:
    page = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
    assert f"_LEAKBOUND_COMPLETE={shell}_source leakbound" in page
    kind = get_completion_class(shell)
    assert kind is not None
    made = kind(group, {}, "leakbound", "_LEAKBOUND_COMPLETE")
    assert {one.value for one in made.get_completions([], "aud")} == {"audit", "audit-log"}
