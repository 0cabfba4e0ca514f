"""Records in a notebook:

cells executed by IPython, with the display formatter that notebooks use.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import leakbound
from leakbound._install import install_hint
from leakbound.attribution import InfluenceRecord, InfluenceSettings, context_influence
from leakbound.models import Model, Scripted
from leakbound.sweeping import load_sweep
from leakbound.tasks import Task

SWEEP = Path(__file__).parents[1] / "golden" / "sweep-2.json"
SECRET = "the code of Marta is 48213"


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> leakbound.AuditResult:
    data = [(f"{SECRET}, row {i}", "ab"[i % 2]) for i in range(30)]
    model = Scripted(complete=lambda p: "yes" if p.count(p.split('"')[-2]) > 1 else "no")
    out = tmp_path_factory.mktemp("runs")
    return leakbound.audit(
        data, model=model, out=out, pairs=20, shots=4, store_text="all", canary="natural"
    )


@pytest.fixture(scope="module")
def influence(pocket: Model) -> InfluenceRecord:
    settings = InfluenceSettings(ngrams=(8,))
    query = "What is the code of Marta?"
    return context_influence(f"Note: {SECRET}.", query, pocket, settings=settings)


def displayed(cell: str, **names: Any) -> dict[str, str]:
    """The MIME bundle of a cell's result."""
    shell = pytest.importorskip("IPython.core.interactiveshell").InteractiveShell.instance()
    shell.push(names)
    shown = shell.run_cell(cell, store_history=False)
    shown.raise_error()
    bundle, _ = shell.display_formatter.format(shown.result)
    return dict(bundle)


def test_a_cell_shows_verdict_bound_claim_and_figures_and_no_row(
    record: leakbound.AuditResult,
) -> None:
    assert SECRET in record.example_prompt
    bundle = displayed("record", record=record)
    shown = bundle["text/html"]
    assert "VIOLATION: few_shot on scripted; claim: ε = 1 at δ = 1e-05 (the default of" in shown
    assert "guessed correctly in 39 of 40 trials" in shown
    assert "One answer can shift the odds that a person" in shown
    assert "≥ 1.53" in shown
    assert "claimed: 1" in shown
    assert "Attacks tried: membership from answers. Not tried: votes or scores" in shown
    assert shown.count("<svg") == 2
    assert "rates of the attack on few_shot" in shown  # a ROC curve would be three points
    assert not re.search("ROC|histogram", shown)
    assert "Marta" not in shown + bundle["text/plain"]
    assert "<style" not in shown.split("<svg")[0]
    assert "<script" not in shown


def test_a_card_of_the_bundled_model_says_that_it_is_not_the_readers(
    record: leakbound.AuditResult,
) -> None:
    of = {**record.provenance, "model": "pocket"}
    bundled = record.model_copy(update={"provenance": of})
    said = "few_shot on pocket (test model, not yours); claim: ε = 1"
    assert said in displayed("bundled", bundled=bundled)["text/html"]
    assert said in str(bundled).splitlines()[0]


@pytest.mark.slow
def test_a_score_with_many_values_has_its_roc_curve_and_histogram(tmp_path: Path) -> None:
    data = [(f"row {i}", "ab"[i % 2]) for i in range(30)]
    seen = leakbound.audit(
        data, model=Scripted(complete=lambda prompt: "a"), mechanism="report_noisy_max",
        task=Task("rows", ("a", "b")), pairs=10, shots=10, out=tmp_path,
    )  # fmt: skip
    shown = displayed("seen", seen=seen)["text/html"]
    assert "ROC" in shown
    assert shown.count("<svg") == 3


def test_cells_show_plans_decisions_of_gates_comparisons_and_sweeps(
    record: leakbound.AuditResult,
) -> None:
    data = [(f"{SECRET}, row {i}", "ab"[i % 2]) for i in range(30)]
    plan = leakbound.plan(data, system=lambda context, query: "no", pairs=4, shots=4, epsilon=1)
    cards = {
        "4 pairs, ": plan, "by its score alone, a perfect attack certifies at most ε = 0": plan,
        "VIOLATION: few_shot": leakbound.gate(record, max_epsilon=1),
        "2 runs compared": leakbound.compare([record, record]),
        "Sweep: ": load_sweep(SWEEP), "own model; claim: ε = 1 at δ = 1e-05 (stated by": plan,
        "Audited: report_noisy_max on pocket (test model, not yours)": load_sweep(SWEEP),
        "True-positive rate, B minus A: +0.000": leakbound.compare([record, record]),
    }  # fmt: skip
    for words, found in cards.items():
        shown = displayed("found", found=found)["text/html"]
        assert words.lower() in shown.lower(), shown
        assert "Marta" not in shown
        assert "<script" not in shown


def test_a_symbol_at_the_start_of_a_sentence_stays_as_it_is(
    record: leakbound.AuditResult,
) -> None:
    shown = displayed("record", record=record)["text/html"]
    assert "ε(δ=" in shown
    assert "Ε(δ=" not in shown


def test_a_cell_shows_influence_by_places_and_no_text(influence: InfluenceRecord) -> None:
    bundle = displayed("record", record=influence)
    shown = bundle["text/html"]
    assert "top-attributed span" in shown
    assert "tokens " in shown
    assert shown.count("<svg") == 2
    for word in ("Marta", "48213", "Note"):
        assert word not in shown + bundle["text/plain"] + repr(influence.attributions)


def test_estimates_as_a_data_frame(record: leakbound.AuditResult) -> None:
    frame = displayed("record.to_pandas()", record=record)
    assert "clopper_pearson" in frame["text/html"]
    table = record.to_pandas()
    assert list(table["method"]) == [e.method for e in record.estimates]
    assert list(table.loc[table["decides"], "epsilon"]) == [record.bound.epsilon]
    cells = table.set_index("method").loc["clopper_pearson", ["tp", "fn", "fp", "tn"]]
    assert cells.sum() == 2 * 20


def test_influence_as_a_data_frame(influence: InfluenceRecord) -> None:
    table = influence.to_pandas()
    (reading,) = influence.attributions[0].readings
    sums = table[table["n"] == 8].groupby("span")["absolute"].sum()
    assert sums.to_numpy() == pytest.approx(reading.grids[0].totals)
    assert any("48213" in text for text in table["span_text"])
    assert not any("48213" in text for text in influence.redacted().to_pandas()["span_text"])


def test_without_pandas_there_is_a_sentence(
    record: leakbound.AuditResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(leakbound.LeakboundError, match=re.escape(install_hint("notebook"))):
        record.to_pandas()


@pytest.mark.slow
@pytest.mark.process
def test_records_do_not_load_the_report_room_before_they_are_shown(tmp_path: Path) -> None:
    code = (
        "import sys, leakbound.auditing, leakbound.attribution\n"
        "print([m for m in sys.modules if 'leakbound.report' in m or m == 'pandas'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout.strip() == "[]"
