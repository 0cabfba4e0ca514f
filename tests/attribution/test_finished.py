"""Interrupted and failing runs over many contexts:

what is finished is kept, and the same command resumes there.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from commands import forked
from leakbound_lab.studies.bundled import notes
from leakbound_lab.verbs.influence_study import command as study_command

from leakbound.attribution import Case, Finished, InfluenceSettings, attribute, load_influence
from leakbound.cli.verbs.attribute.influence import command as influence_command
from leakbound.errors import TargetError, UsageError
from leakbound.models import Model
from leakbound.models.model import Counted

pytestmark = pytest.mark.process

COUNT = 3  # contexts


# The command, but Ctrl-C comes once it has kept two contexts.
INTERRUPTED = """
import signal, sys
from leakbound.attribution.attribute import Finished
from leakbound.cli import main

def interrupted(self, *args, add=Finished.add):
    add(self, *args)
    if len(self.found) == 2:
        signal.raise_signal(signal.SIGINT)

Finished.add = interrupted
main(sys.argv[1:])
"""


def interrupt(folder: Path, kept: Path, *args: str) -> None:
    """Run the command in a process of its own, until contexts are kept and it gets a SIGINT."""
    done = forked(INTERRUPTED, "leakbound", *args, cwd=folder)
    assert done.returncode == 130, done.stderr
    assert "Traceback" not in done.stderr
    assert "the same command resumes there" in done.stderr
    assert kept.read_bytes().count(b"\n") >= 2
    assert kept.stat().st_mode & 0o77 == 0


def invoked(command: Any, args: tuple[str, ...]) -> str:
    """What the command prints when it ends well."""
    done = CliRunner().invoke(command, args, standalone_mode=False)
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture
def many(tmp_path: Path) -> Path:
    rows = [
        {"context": case.context, "query": case.query, "reference": case.reference}
        for case in notes(COUNT)
    ]
    (tmp_path / "many.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


@pytest.mark.slow
def test_an_interrupted_command_goes_on_to_the_same_record(
    many: Path, pocket: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    args = (
        "influence",
        "--context",
        "many.jsonl",
        "--ngram",
        "48",
        "--max-tokens",
        "3",
        "--out",
        "stopped",
    )
    interrupt(many, many / "stopped" / "influence.partial.jsonl", *args)
    monkeypatch.chdir(many)
    assert "contexts were finished before" in invoked(influence_command, args[1:])
    assert not list((many / "stopped").glob("*partial*"))
    found = load_influence(many / "stopped").attributions
    whole = attribute(
        notes(COUNT), pocket, InfluenceSettings(ngrams=(48,), max_tokens=3)
    ).attributions
    for a, b in zip(whole, found, strict=True):
        assert (a.context, a.readings[0].token_ids) == (b.context, b.readings[0].token_ids)
        for left, right in zip(a.readings[0].grids, b.readings[0].grids, strict=True):
            np.testing.assert_allclose(left.signed, right.signed, atol=1e-4)


@pytest.mark.slow
def test_an_interrupted_study_goes_on(many: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    args = (
        "influence-study",
        "lambda",
        "--context",
        "many.jsonl",
        "--values",
        "0.5,1",
        "--max-tokens",
        "3",
        "--out",
        "study",
    )
    interrupt(many, many / "study" / "run-1.partial.jsonl", *args)
    monkeypatch.chdir(many)
    shown = invoked(study_command, args[1:])
    assert "contexts were finished before" in shown
    assert f"means over {COUNT} contexts" in shown
    assert {path.name for path in (many / "study").iterdir()} == {
        "study.csv",
        "study.html",
        "study.json",
    }


class Failing:
    """The pocket model until so many answers were given; then its server is gone."""

    def __init__(self, model: Any, answers: int) -> None:
        self.model, self.left = model, answers

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    def answer(self, requests: Any, /) -> Any:
        self.left -= 1
        if self.left < 0:
            raise TargetError("the model went away.")
        return self.model.answer(requests)


CASES = [
    Case(f"The code of Anna is {code}. A dog slept.", "What is the code of Anna?", code)
    for code in "123"
]
SETTINGS = InfluenceSettings(ngrams=(4,))


def finished(
    path: Path, model: Any, settings: InfluenceSettings = SETTINGS, redact: bool = False
) -> Finished:
    return Finished(path / "x.partial.jsonl", model, settings, CASES, redact)


def test_a_failure_half_way_keeps_what_is_done(pocket: Model, tmp_path: Path) -> None:
    counted = Counted(pocket)
    attribute(CASES, counted, SETTINGS)
    kept = finished(tmp_path, pocket)
    with pytest.raises(TargetError, match="went away"):
        attribute(CASES, Failing(pocket, 14), SETTINGS, kept.add)
    assert 0 < len(kept.found) < 3
    again, count = finished(tmp_path, pocket), Counted(pocket)
    assert again.found == kept.found
    record = attribute(CASES, count, SETTINGS, again.add, dict(again.found))
    assert 0 < count.calls < counted.calls
    assert len(record.attributions) == 3
    assert record.attributions[0] == kept.found[0]


def test_only_whole_lines_of_the_same_inputs_are_used(pocket: Model, tmp_path: Path) -> None:
    kept = finished(tmp_path, pocket)
    attribute(CASES, pocket, SETTINGS, kept.add)
    text = kept.path.read_text()
    kept.path.write_text(text[:-20])  # the last line was cut off
    assert set(finished(tmp_path, pocket).found) == {0, 1}
    assert not finished(tmp_path, pocket, InfluenceSettings(ngrams=(2,))).found
    cut = finished(tmp_path, pocket)
    cut.add(2, kept.found[2])
    assert kept.path.read_text() == text
    cut.drop()
    assert not list(tmp_path.iterdir())


def test_redacted_runs_keep_no_letter(pocket: Model, tmp_path: Path) -> None:
    kept = finished(tmp_path, pocket, redact=True)
    attribute(CASES, pocket, SETTINGS, kept.add)
    assert not any(word in kept.path.read_text() for word in ("Anna", "dog", "code"))
    assert set(finished(tmp_path, pocket, redact=True).found) == {0, 1, 2}
    assert not finished(tmp_path, pocket).found


def test_a_failure_of_the_command_says_what_is_kept(
    pocket: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The third response holds a token that may not be drawn, which shows when its turn comes."""
    monkeypatch.chdir(tmp_path)
    rows = [
        {"context": case.context, "query": case.query, "response": case.response} for case in CASES
    ]
    Path("three.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    ban = str(pocket.encode_response("3")[-1])
    done = CliRunner().invoke(
        influence_command,
        ["--context", "three.jsonl", "--ngram", "4", "--ban", ban],
        standalone_mode=False,
    )
    assert isinstance(done.exception, UsageError)
    assert "is banned there" in str(done.exception)
    assert (
        "2 finished contexts are kept in 'influence', and the same command resumes there."
        in str(done.exception)
    )
    assert Path("influence/influence.partial.jsonl").is_file()
