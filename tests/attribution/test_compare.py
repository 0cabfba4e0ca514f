"""Two influence records side by side, over the contexts that both have."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import leakbound
from leakbound.attribution import (
    Attribution,
    InfluenceRecord,
    Reading,
    SpanGrid,
    compare_influences,
)
from leakbound.attribution.compare import median_interval
from leakbound.cli.main import main
from leakbound.errors import UsageError


def record(model: str, strengths: list[float], first: int = 0, lam: float = 1.0) -> InfluenceRecord:
    """A context of two spans for each strength; the response has two tokens."""
    return InfluenceRecord(
        model=model, settings={"lams": [lam], "seed": 0}, expected=(), provenance={},
        attributions=tuple(
            Attribution(context=f"secret {first + i}", query="q", bounds=(0, 1, 2),
                        readings=(reading(strength, lam),))
            for i, strength in enumerate(strengths)
        ),
    )  # fmt: skip


def reading(strength: float, lam: float) -> Reading:
    spans = SpanGrid(n=1, stride=1, spans=((0, 1), (1, 2)), signed=((0.5, -strength), (0.0, 0.1)))
    whole = SpanGrid(n=2, stride=2, spans=((0, 2),), signed=((strength, strength),))
    return Reading(
        lam=lam, temperature=1.0, sampled=False, text="yes", token_ids=(1, 2), tokens=("y", "es"),
        log_p=(0.0, 0.0), prior_log_p=(0.0, 0.0), pmi=(0.0, 0.0), tolerance=0.0,
        grids=(spans, whole),
    )  # fmt: skip


def test_differences_are_paired_by_context_and_counted_for_each_token() -> None:
    strengths = [float(i) for i in range(1, 31)]
    found = compare_influences(
        record("a", strengths), record("b", [s + 0.5 for s in strengths[2:]], first=2)
    )
    by_name = {one.of: one for one in found.differences}
    assert found.unmatched == (2, 0)
    assert found.models == ("a", "b")
    assert [by_name["context"].larger, by_name["context"].smaller] == [28, 0]
    assert by_name["context"].median == pytest.approx(0.5)
    assert by_name["top_attributed"].median == pytest.approx(0.25)
    assert by_name["span"].median == pytest.approx(0.125)
    assert all(one.significant and one.contexts == 28 for one in found.differences)
    assert "secret" not in found.to_json()


def test_equal_records_and_few_contexts_show_no_difference() -> None:
    same = record("a", [1.0, 2.0, 3.0] * 10)
    assert not any(one.significant for one in compare_influences(same, same).differences)
    few = compare_influences(record("a", [1.0] * 5), record("b", [9.0] * 5))
    assert {(one.low, one.high) for one in few.differences} == {(-np.inf, np.inf)}


def test_the_interval_of_a_median_holds() -> None:
    """Of 2,000 samples of 25, .043 miss in the mean; the seed is fixed."""
    rng = np.random.default_rng(5)
    found = [median_interval(rng.exponential(size=25), 0.05) for _ in range(2000)]
    misses = sum(not low <= np.log(2) <= high for low, high in found)
    assert 40 <= misses <= 130


def test_what_shares_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match="share 0 contexts"):
        compare_influences(record("a", [1.0]), record("b", [1.0], first=9))
    with pytest.raises(UsageError, match="share 1 contexts, and no lambda"):
        compare_influences(record("a", [1.0]), record("b", [1.0], lam=0.5))


def test_records_and_folders_are_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, strength in (("a", 1.0), ("b", 2.0)):
        (tmp_path / name).mkdir()
        text = record(name, [strength] * 12).to_json()
        (tmp_path / name / "influence.json").write_text(text)
    found = leakbound.compare([tmp_path / "a", record("b", [2.0] * 12)])
    assert found.to_json() == leakbound.compare([tmp_path / "a", tmp_path / "b"]).to_json()
    with pytest.raises(SystemExit) as ended:
        main(["compare", str(tmp_path / "a"), str(tmp_path / "b")])
    assert ended.value.code == 0
    short = capsys.readouterr().out
    assert "the whole context, λ = 1: +1.000 [1.000, 1.000] *" in " ".join(short.split())
    with pytest.raises(SystemExit, match="0"):
        main(["compare", str(tmp_path / "a"), str(tmp_path / "b"), "-v"])
    (line,) = [one for one in capsys.readouterr().out.splitlines() if "whole context" in one]
    assert line.split()[3:] == ["1", "1", "12", "12", "0", "+1.000", "[1.000,", "1.000]", "*"]
    with pytest.raises(SystemExit, match="2"):
        main(["compare", str(tmp_path / "a"), str(tmp_path / "b"), "--html", "x.html"])
