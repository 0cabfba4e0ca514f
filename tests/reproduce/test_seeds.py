"""Several seeds: other pairs, queries and contexts, taken together as one measurement."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from leakbound_lab.reproduce import MeasuredValue, Quantity, RecipeContext, Sample, together
from leakbound_lab.reproduce.claim_tests import compare
from leakbound_lab.reproduce.utility import repeats_of

from leakbound.cli.main import group

NUMBERS = st.lists(st.floats(-9, 9), min_size=3, max_size=6)


def cell(setting: str, values: list[float], seed: int) -> MeasuredValue:
    sample = Sample(tuple(values), "pair", f"pairs of seed {seed}", ceiling=10.0)
    return MeasuredValue(setting, "q", sample.mean, f"{sample.mean:.2f}", sample, 10.0)


@given(st.lists(NUMBERS, min_size=2, max_size=4), st.floats(-3, 3))
def test_units_of_all_seeds_stay_paired(each: list[list[float]], by: float) -> None:
    found = [[cell("a", one, at), cell("b", [v + by for v in one], at)]
             for at, one in enumerate(each)]  # fmt: skip
    a, b = together(found)
    assert a.sample is not None
    assert b.sample is not None
    whole = [value for one in each for value in one]
    assert a.sample.values == tuple(whole)
    assert len(set(a.sample.ids)) == len(whole)
    assert a.sample.mean == pytest.approx(np.mean(whole))
    assert "compared one by one" in compare(b.sample, a.sample, 0.0).units
    assert compare(b.sample, a.sample, 0.0).difference == pytest.approx(by)
    assert a.ceiling == a.sample.ceiling == 10.0


def test_units_that_only_some_seeds_share_are_not_paired() -> None:
    found = [[cell("a", [1.0, 2.0], 0), cell("b", [1.0, 2.0], at)] for at in (0, 1)]
    a, b = together(found)
    assert a.sample is not None
    assert b.sample is not None
    assert "one by one" not in compare(a.sample, b.sample, 0.0).units


def test_queries_of_a_context_stay_with_it() -> None:
    sample = Sample((1.0, 2.0, 3.0), "query", "q", contexts=(0, 0, 1))
    [both] = together([[MeasuredValue("a", "q", 2.0, "2", sample)]] * 2)
    assert both.sample is not None
    assert both.sample.by_context().values == (1.5, 3.0, 1.5, 3.0)


def test_a_bound_of_several_seeds_is_the_least() -> None:
    each = [[MeasuredValue("a", Quantity.BOUND, v, f"≥ {v}")] for v in (0.5, 0.25, 1.0)]
    [both] = together(each)
    assert both.value == 0.25
    assert both.shown == "0.25 (≥ 0.5; ≥ 0.25; ≥ 1.0)"


def test_cells_that_differ_are_an_error() -> None:
    with pytest.raises(ValueError, match="different cells"):
        together([[cell("a", [1.0], 0)], [cell("b", [1.0], 1)]])


def test_no_two_contexts_are_drawn_from_one_seed(tmp_path: Path) -> None:
    drawn = [repeat.seed for seed in range(4)
             for repeat in repeats_of(RecipeContext(tmp_path, seed=seed), 4)]  # fmt: skip
    assert len(set(drawn)) == len(drawn) == 12


@pytest.mark.torch
def test_the_command_takes_several_seeds_together_and_goes_on(tmp_path: Path) -> None:
    def reproduced(*seeds: int) -> dict[str, object]:
        given = [text for seed in seeds for text in ("--seed", str(seed))]
        names = ("poetry/fig3", "tight/lemmaA.1")
        done = CliRunner().invoke(
            group, ["reproduce", *names, "--quick", "--out", str(tmp_path), *given],
            catch_exceptions=False, standalone_mode=False,
        )  # fmt: skip
        assert done.return_value == 0
        assert (
            "seed"
            not in json.loads((tmp_path / "tight" / "lemmaA.1.json").read_text())["made_with"]
        )
        found: dict[str, object] = json.loads((tmp_path / "poetry" / "fig3.json").read_text())
        return found

    def first(found: dict[str, object]) -> tuple[float, int]:
        cells: list[dict[str, float]] = found["measured"]  # type: ignore[assignment]
        return cells[0]["mean"], int(cells[0]["n"])

    zero, one = (first(reproduced(seed)) for seed in (0, 1))
    assert zero[0] != one[0]
    measured = [*(tmp_path / "measured").rglob("*.json")]
    before = {file: file.stat().st_mtime_ns for file in measured}
    both = reproduced(0, 1)
    assert str(both["made_with"]).endswith("seeds 0, 1")
    assert first(both) == (pytest.approx((zero[0] + one[0]) / 2), zero[1] + one[1])
    assert {file: file.stat().st_mtime_ns for file in measured} == before
