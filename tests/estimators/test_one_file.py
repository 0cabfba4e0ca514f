"""A new estimator is one file: handed over as an object, or named through an entry point."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from estimators.said_yes import SaidYes
from leakbound_lab.conformance import assert_estimator_conforms

import leakbound
from leakbound.auditing.result.audit_result import config_text
from leakbound.errors import UsageError
from leakbound.models import Scripted
from leakbound.report import page, summary
from leakbound.tasks import Context


def test_it_conforms() -> None:
    assert_estimator_conforms(SaidYes(), runs=40)


def test_it_decides_as_an_object(rows: Context, leaky: Scripted, tmp_path: Path) -> None:
    result = leakbound.audit(rows, model=leaky, estimator=SaidYes(), pairs=40, out=tmp_path)
    assert result.verdict == "violation"
    assert result.bound.method == "said_yes"
    assert result.bound.threshold == "a word"
    assert result.estimate("clopper_pearson").threshold != "a word"
    assert result.spec["estimator"]["kind"] == "said_yes"
    assert result.estimate("e_process").epsilon, "the others are reported beside it"
    assert "estimator" in result.handed
    assert "VIOLATION" in summary(result)
    assert "a word" in page([result])
    with pytest.raises(UsageError, match="estimator"):
        config_text(result)


def test_it_is_refused_where_it_could_not_stop(rows: Context, leaky: Scripted) -> None:
    with pytest.raises(UsageError, match="needs an anytime-valid estimator"):
        leakbound.plan(rows, model=leaky, estimator=SaidYes(), stop_when_rejected=True)


def test_it_plans_without_formulas_of_its_own(rows: Context, leaky: Scripted) -> None:
    planned = leakbound.plan(rows, model=leaky, estimator=SaidYes(), pairs=40)
    assert planned.estimator == "said_yes"
    assert planned.power == ()
    assert planned.pairs_needed == 12


@pytest.mark.process
def test_it_is_named_through_an_entry_point(tmp_path: Path) -> None:
    """A package that is installed beside this one: a module, and its metadata."""
    site = tmp_path / "site"
    info = site / "said_yes-1.0.dist-info"
    info.mkdir(parents=True)
    shutil.copy(Path(__file__).with_name("said_yes.py"), site)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: said-yes\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[leakbound.estimators]\nsaid_yes = said_yes:SaidYes\n")
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import leakbound\n"
        "def answer(context, query):\n"
        "    return 'ja' if any(row.input in query for row in context) else 'no'\n"
        "settings = {'estimator.word': 'ja'}\n"
        "result = leakbound.audit(system=answer, estimator='said_yes', pairs=30,\n"
        "                         settings=settings, out=sys.argv[2])\n"
        "print(result.to_json())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(site), str(tmp_path / "runs")],
        capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": str(site)},
    )  # fmt: skip
    found = json.loads(done.stdout)
    assert found["decided_by"] == ["said_yes"]
    assert found["spec"]["estimator"] == {"kind": "said_yes", "word": "ja"}
