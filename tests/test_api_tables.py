"""Rows and scores as researchers have them: data frames, mappings, arrays."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from pydantic import BaseModel

import leakbound
from leakbound.errors import DataError, UsageError
from leakbound.stats import cut

ROWS = [(f"row {at} is {at * at}", "ab"[at % 2]) for at in range(40)]
NAMED = [{"text": text, "label": label} for text, label in ROWS]
SMALL: dict[str, Any] = {"pairs": 8, "shots": 4, "controls": 2}


def audited(rows: Any, tmp_path: Any, **more: Any) -> leakbound.AuditResult:
    return leakbound.audit(rows, system=lambda context, query: "no", out=tmp_path, **SMALL, **more)


class PolarsLike:
    def to_dicts(self) -> list[dict[str, str]]:
        return NAMED


def frames() -> dict[str, Callable[[], Any]]:
    def pandas() -> Any:
        return pytest.importorskip("pandas").DataFrame(NAMED)

    def arrow() -> Any:
        return pytest.importorskip("pyarrow").Table.from_pylist(NAMED)

    def dataset() -> Any:
        return pytest.importorskip("datasets").Dataset.from_list(NAMED)

    return {
        "mappings": lambda: NAMED, "iterator": lambda: iter(NAMED), "pairs": lambda: iter(ROWS),
        "polars": PolarsLike, "pandas": pandas, "arrow": arrow, "dataset": dataset,
    }  # fmt: skip


@pytest.mark.parametrize("kind", frames())
def test_any_table_is_the_same_rows(kind: str, tmp_path: Any) -> None:
    plain = audited(ROWS, tmp_path / "plain")
    assert audited(frames()[kind](), tmp_path / kind).results() == plain.results()


def test_columns_are_named_and_gaps_are_refused(tmp_path: Any) -> None:
    other = [{"note": text, "kind": label} for text, label in ROWS]
    with pytest.raises(DataError, match="rows has the fields note, kind"):
        audited(other, tmp_path)
    names = {"input_field": "note", "label_field": "kind"}
    found = audited(other, tmp_path / "a", settings=names)
    assert found.trials == audited(ROWS, tmp_path / "b").trials
    gaps = pytest.importorskip("pandas").DataFrame([*NAMED, {"text": None, "label": "a"}])
    with pytest.raises(DataError, match="row 41 has an empty field 'text'"):
        audited(gaps, tmp_path)
    left = audited(gaps, tmp_path / "c", settings={"drop_empty": True})
    assert left.trials == found.trials


def test_a_private_answer_and_a_sweep_take_tables(tmp_path: Any) -> None:
    found = leakbound.answer(
        "row 5", NAMED, model=leakbound.Scripted(lambda _: "a"), labels=["a", "b"],
        mechanism="report_noisy_max", epsilon=8.0, delta=1e-5, ledger=tmp_path / "ledger",
    )  # fmt: skip
    assert found.text in ("a", "b", "(no answer)")
    swept = leakbound.sweep(
        {"shots": [2]}, rows=NAMED, system=lambda context, query: "no", out=tmp_path / "sweep",
        pairs=8, controls=2,
    )  # fmt: skip
    assert len(swept.points) == 1


def test_a_result_shows_its_own_names_alone(tmp_path: Any) -> None:
    found = audited(ROWS, tmp_path)
    assert "bound" in dir(found)
    assert all(name not in dir(BaseModel) for name in dir(found))
    assert found.epsilon == found.bound.epsilon
    assert "claim=1.0, delta=1e-05, pairs=8" in repr(found)


def drawn(shift: float, count: int = 200) -> Any:
    return np.random.default_rng(int(10 * shift) + 1).normal(shift, 1.0, count)


@pytest.mark.slow
def test_scores_of_arrays_are_those_of_a_file() -> None:
    one, other = drawn(2.0), drawn(0.0)
    found = leakbound.bounds(one, other, design="unpaired", delta=1e-5, epsilon=1.0)
    assert (found.verdict, found.decided_by) == ("violation", "e_process")
    assert found.epsilon == found.bounds.estimate("e_process").epsilon > 1.0
    assert repr(found).startswith("ScoreResult(epsilon=1.8")
    losses = leakbound.bounds(
        -one, -other, design="unpaired", delta=1e-5, epsilon=1.0, lower_is_member=True
    )
    assert losses.epsilon == found.epsilon
    assert leakbound.bounds(one, other, design="unpaired").verdict is None
    guessed = leakbound.bounds(other, one, design="paired", claim="random-guessing")
    assert guessed.verdict == "violation"
    assert guessed.power
    blind = leakbound.bounds(drawn(0.0), drawn(0.01), design="paired", epsilon=1.0)
    assert (blind.verdict, blind.reason) == ("inconclusive", "attack_blind")
    shown = leakbound.bounds(
        drawn(0.0), drawn(0.01), design="paired", epsilon=1.0, control_scores=(one, other)
    )
    assert shown.verdict == "no_violation"


def test_scores_the_wrong_way_round_are_said() -> None:
    found = leakbound.bounds(drawn(0.0), drawn(2.0), design="paired", epsilon=1.0)
    assert found.verdict == "inconclusive"
    assert "members score clearly lower" in found.sentences[-1]
    right = leakbound.bounds(drawn(2.0), drawn(0.0), design="paired", epsilon=9.0)
    assert "lower" not in " ".join(right.sentences)


def test_results_of_scores_take_a_number_as_claim_and_are_drawn_and_saved(tmp_path: Path) -> None:
    found = leakbound.bounds([1.0] * 60, [0.0] * 60, design="paired", claim=1.0)
    assert (found.verdict, found.claim) == ("violation", leakbound.Claim(1.0, 0.0))
    said = leakbound.bounds([0.0] * 60, [1.0] * 60, design="paired")
    assert "Members score clearly lower than others" in str(said)
    axes = found.plot(Figure().add_subplot())
    assert axes.texts[0].get_text() == cut(found.epsilon)  # never rounded up
    assert axes.get_legend().get_texts()[0].get_text() == "claim: ε = 1"
    kept = json.loads(found.save(tmp_path / "found.json").read_text())
    assert (kept["verdict"], kept["claim"]["epsilon"]) == ("violation", 1.0)
    assert set(found.to_pandas()["method"]) == {one.method for one in found.bounds.estimates}
    with pytest.raises(UsageError, match="cannot be written"):
        found.save(tmp_path / "no" / "folder.json")


ONE = [0.5, 1.0]
BAD: list[tuple[tuple[Any, Any], dict[str, Any], str]] = [
    (([], ONE), {}, "scores_in holds no scores; it needs at least one"),
    ((ONE, [1.0]), {}, "there are 2 member and 1 non-member scores; paired trials have one"),
    (([np.nan, 1.0], ONE), {}, "scores_in holds 1 NaN scores"),
    ((["x"], ONE), {}, "scores_in "),
    ((ONE, ONE), {"design": "other"}, "design is 'other'; it must be one of"),
    ((ONE, ONE), {"estimator": "gdp", "epsilon": 1.0}, "estimator is 'gdp'; it must be one of"),
    ((ONE, ONE), {"claim": "x"}, "the claim is 'x'"),
    ((ONE, ONE), {"claim": True}, "claim is True; it must be a number"),
    ((ONE, ONE), {"claim": 1.0, "epsilon": 1.0}, "claim and epsilon are both given"),
    ((ONE, ONE), {"claim": leakbound.Claim(1.0, 0.1), "delta": 0.1}, "which has its own delta"),
    ((ONE, ONE), {"design": None}, "design is missing, .* of one pair"),
    ((ONE, ONE), {"control_scores": (ONE, ONE)}, "control_scores is for a verdict"),
    ((ONE, ONE), {"epsilon": 1.0, "control_scores": ONE[:1]}, "control_scores must be a pair"),
    ((ONE, ONE), {"threshold": "foo"}, "threshold is 'foo'"),
    ((ONE * 9, ONE * 9), {"confidence": 95}, "confidence is 95"),
]


@pytest.mark.parametrize(("scores", "more", "said"), BAD)
def test_scores_that_cannot_be_read_get_a_sentence(
    scores: tuple[Any, Any], more: dict[str, Any], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        leakbound.bounds(*scores, **{"design": "paired"} | more)
