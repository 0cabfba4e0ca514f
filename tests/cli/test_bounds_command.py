"""`leakbound bounds`: files of other tools in, bounds and a verdict out."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from leakbound.cli.main import group
from leakbound.errors import UsageError


def run(*args: str) -> Result:
    return CliRunner().invoke(
        group, ["bounds", *args], prog_name="leakbound", standalone_mode=False
    )


def written(path: Path, shift: float, n: int = 60, seed: int = 0) -> str:
    rng = np.random.default_rng(seed)
    rows = [(rng.normal(shift * side), side) for side in (1, 0) for _ in range(n)]
    path.write_text("score,member\n" + "".join(f"{score},{side}\n" for score, side in rows))
    return str(path)


def test_without_a_claim_it_ends_with_0_and_with_one_as_an_audit_does(tmp_path: Path) -> None:
    file = written(tmp_path / "scores.csv", 3.0)
    done = run(file, "--design", "unpaired")
    assert done.return_value == 0
    assert "clopper_pearson" in done.output
    assert "each bound at 95% confidence" in done.output
    assert run(file, "--design", "unpaired", "--epsilon", "0.5").return_value == 1
    assert run(file, "--design", "unpaired", "--epsilon", "2.5").return_value == 0
    few = run(file, "--design", "unpaired", "--epsilon", "6")
    assert few.return_value == 3
    assert "can show at most ε =" in few.output


def test_scores_that_show_nothing_need_a_control(tmp_path: Path) -> None:
    file, control = written(tmp_path / "a.csv", 0.0, seed=1), written(tmp_path / "b.csv", 3.0, 8)
    blind = run(file, "--design", "unpaired", "--epsilon", "1", "--json")
    found = json.loads(blind.stdout)
    assert (found["exit_code"], found["reason"]) == (3, "attack_blind")
    seen = run(file, "--design", "unpaired", "--epsilon", "1", "--control-scores", control)
    assert seen.return_value == 0
    again = run(file, "--design", "unpaired", "--epsilon", "1", "--control-scores", file)
    assert again.return_value == 3


def test_random_guessing_is_epsilon_0_on_both_sides_with_its_power(tmp_path: Path) -> None:
    """An attack that is wrong too often rejects it as well."""
    inverted = run(written(tmp_path / "scores.csv", -2.0), "--design", "unpaired", "--claim",
                   "random-guessing", "--json")  # fmt: skip
    found = json.loads(inverted.stdout)
    assert found["exit_code"] == 1
    assert found["claim"]["epsilon"] == found["claim"]["delta"] == 0
    assert [accuracy for accuracy, _ in found["power"]] == [0.55, 0.6, 0.7, 0.8, 0.9]
    twice = run(str(tmp_path / "scores.csv"), "--claim", "random-guessing", "--epsilon", "1",
                "--design", "unpaired")  # fmt: skip
    assert "leave --epsilon and --delta out" in str(twice.exception)


def test_two_files_losses_and_pairs_by_name(tmp_path: Path) -> None:
    for name, low in (("in", 0), ("out", 5)):
        lines = [json.dumps({"loss": low + i % 3}) for i in range(40)]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines))
    done = run(str(tmp_path / "in.jsonl"), str(tmp_path / "out.jsonl"), "--design", "paired",
               "--score-field", "loss", "--lower-is-member", "--threshold", "-4",
               "--json")  # fmt: skip
    found = json.loads(done.stdout)["bounds"]
    estimates = {one["method"]: one for one in found["estimates"]}
    assert estimates["clopper_pearson"]["counts"] == {"tp": 40, "fn": 0, "fp": 0, "tn": 40}
    rows = [f"{i},{side},{side}" for side in (1, 0) for i in range(30)]
    (tmp_path / "pairs.csv").write_text("\n".join(["pair,member,score", *rows]))
    done = run(str(tmp_path / "pairs.csv"), "--json")
    assert json.loads(done.stdout)["bounds"]["design"] == "paired"


@pytest.mark.parametrize(
    ("text", "args", "sentence"),
    [
        ("score,member\n1,1\n0,0\n", [], "nothing says how the trials were made"),
        ("score,member\n1,maybe\n", ["--design", "unpaired"], "neither member nor non-member"),
        ("score,member\nx,1\n", ["--design", "unpaired"], "is not a number"),
        ("value,member\n1,1\n", ["--design", "unpaired"], "has no column 'score'"),
        ("pair,score,member\n1,1,1\n1,2,1\n", [], "a second member trial of its pair"),
        ("pair,score,member\n1,1,1\n2,2,0\n", [], "2 of 2 pairs have one trial"),
        ("score,member\n1,1\n1,1\n0,0\n", ["--design", "paired"], "2 member and 1 non-member"),
        ("score,member\n1,1\n", ["--design", "unpaired"], "there is no score of a non-member"),
        ("score,member\n1,1\n0,0\n", ["--design", "unpaired", "--threshold", "rank"],
         "guesses by rank are for one run"),
        ("score,member\n1,1\n0,0\n", ["--design", "unpaired", "--threshold", "1,x"],
         "must be numbers with commas"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_a_sentence(
    text: str, args: list[str], sentence: str, tmp_path: Path
) -> None:
    (tmp_path / "scores.csv").write_text(text)
    done = run(str(tmp_path / "scores.csv"), *args)
    assert isinstance(done.exception, UsageError)
    assert sentence in str(done.exception)
