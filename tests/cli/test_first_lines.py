"""The first line of every output: the system, its model, and who claims what of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import cli

pytestmark = [pytest.mark.process, pytest.mark.torch]

BUNDLED = "on pocket (test model, not yours)"
DEFAULT = "; claim: ε = 1 at δ = 1e-05 (the default of an audit; nobody stated it)"
STATED = " at δ = 1e-05 (stated by the operator)"
FEW = ("--pairs", "2", "--shots", "2", "--controls", "1")
FOUR = "few_shot, prompt_defense L1, prompt_defense L2, report_noisy_max T=10"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two audits and a sweep on the bundled model, and an audit of a system of the user."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "app.py").write_text("def answer(context, query):\n    return 'no'\n")
    for args in (
        ("audit", *FEW, "--out", "one"),
        ("audit", *FEW, "--out", "many"),
        ("audit", *FEW, "--mechanism", "zero_shot", "--out", "many"),
        ("audit", *FEW, "--system", "python:app.py:answer", "--epsilon", "2", "--out", "own"),
        ("sweep", "-v", *FEW, "--grid", "epsilon=1,2", "--out", "grid"),
    ):
        done = cli(*args, cwd=folder)
        assert done.returncode in (0, 1, 3), done.stderr
    return folder


VOTES = ("--mechanism", "report_noisy_max:partitions=2", "--threshold", "0")
OWN = ("--system", "python:app.py:answer", "--epsilon", "2")
ALONE = "python:app.py:answer on the system's own model"
OF_OWN = f"{ALONE}; claim: ε = 2{STATED}"
LINES = {
    "audit": (("audit", *FEW), "? INCONCLUSIVE   few_shot " + BUNDLED),
    "audit, a system": (("audit", *FEW, *OWN), "? INCONCLUSIVE   python:app.py:answer"),
    "plan": (("plan", "-v", *FEW), "PLAN: few_shot " + BUNDLED + DEFAULT),
    "plan, a system": (("plan", "-v", *FEW, *OWN), "PLAN: " + OF_OWN),
    "plan, a claim": (
        ("plan", "-v", *FEW, *VOTES, "--epsilon", "3", "--answers", "2"),
        f"PLAN: report_noisy_max T=2 {BUNDLED}; claim: ε = 6 at δ = 2e-05 (3 for each answer; "
        "stated by the operator)",
    ),
    "plan, guessing": (
        ("plan", "-v", *FEW, "--claim", "random-guessing"),
        f"PLAN: few_shot {BUNDLED}; claim: ε = 0 at δ = 0 (random guessing, tested on both sides; "
        "stated by the operator)",
    ),
    "sweep": (
        ("sweep", "-v", *FEW, "--grid", "epsilon=1,2"),
        f"SWEEP (2 inconclusive): few_shot {BUNDLED}; claim: ε = 1, 2{STATED}",
    ),
    "gate": (
        ("gate", "-v", "one", "--max-epsilon", "1"),
        f"GATE (1 inconclusive): few_shot {BUNDLED}{DEFAULT}",
    ),
    "gate, two": (
        ("gate", "-v", "one", "own", "--max-epsilon", "1"),
        "GATE (2 inconclusive): few_shot, python:app.py:answer on pocket (test model, "
        f"not yours), the system's own model{DEFAULT}, ε = 2{STATED}",
    ),
    "compare": (("compare", "-v", "many"), f"COMPARISON: few_shot, zero_shot {BUNDLED}{DEFAULT}"),
    "compare, sweeps": (
        ("compare", "-v", "grid", "grid"),
        f"SWEEPS COMPARED: few_shot {BUNDLED}; claim: ε = 1, 2{STATED}",
    ),
    "report": (("report", "one"), f"? INCONCLUSIVE   few_shot {BUNDLED}"),
    "report, two": (
        ("report", "many"), f"AUDITS (2 inconclusive): few_shot, zero_shot {BUNDLED}{DEFAULT}"
    ),
    "influence": (
        ("influence", "-v", "--text", "The door code is 48213.",
         "--question", "What is the door code?", "--response", "48213", "--ngram", "4"),
        "INFLUENCE of the context on the answers of pocket (test model, not "
        "yours)",
    ),
    "report, a sweep": (
        ("report", "-v", "grid"),
        f"SWEEP (2 inconclusive): few_shot {BUNDLED}; claim: ε = 1, 2{STATED}",
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("verb", LINES)
def test_the_first_line_names_the_model_and_who_made_the_claim(runs: Path, verb: str) -> None:
    args, line = LINES[verb]
    done = cli(*args, cwd=runs)
    assert done.returncode in (0, 3), done.stderr
    first, *rest = done.stdout.splitlines()
    if not line.startswith("?"):
        assert first == line
    else:
        code = "exit 3" if verb.startswith("audit") else ""
        assert first.split("   ")[:2] == line.split("   ")
        assert first.endswith(code)
        told = "2" if verb.endswith("system") else "1 (default; state yours: --epsilon)"
        assert f"claim {told} reason too few trials: " in " ".join(" ".join(rest).split())


@pytest.mark.slow
def test_the_demo_says_that_the_model_is_not_the_readers(runs: Path) -> None:
    done = cli("demo", "--pairs", "6", cwd=runs)
    assert done.returncode == 0, done.stderr
    first, *rest = done.stdout.splitlines()
    assert first.startswith("AUDITS (")
    assert first.endswith(f"): {FOUR} {BUNDLED}{DEFAULT}")
    assert rest[-1].startswith("Report: ")
