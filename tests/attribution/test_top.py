"""`--top K`: exact numbers of the spans that a screen puts first, and a limit on what it missed."""

from __future__ import annotations

from dataclasses import replace
from math import comb
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from tiny_models import save_tiny_text_model

import leakbound
from leakbound.attribution import load_influence
from leakbound.attribution.ablation_sets import limit_unopened, open_units
from leakbound.attribution.measure import InfluenceSettings
from leakbound.attribution.record import SpanGrid
from leakbound.cli.verbs.attribute.influence import command
from leakbound.errors import UsageError
from leakbound.models import Model
from leakbound.report.influence import influence_page, influence_summary
from leakbound.stats import most_in_population

pytest.importorskip("torch")

import torch

from leakbound.models.local import load

pytestmark = pytest.mark.torch

DOORS = [f"It is {at}." for at in range(59)]
NOTES = " ".join([*DOORS[:40], "The door code of Marta is 48213.", *DOORS[40:]])
DRAW = 20
QUERY = "What is the door code of Marta?"


@pytest.mark.parametrize("alpha", [0.05, 0.3])
@pytest.mark.parametrize(("population", "drawn"), [(1, 1), (7, 3), (12, 5), (12, 12), (9, 0)])
def test_the_limit_is_below_the_truth_in_at_most_alpha_of_all_draws(
    population: int, drawn: int, alpha: float
) -> None:
    for marked in range(population + 1):
        ways = {
            x: comb(marked, x) * comb(population - marked, drawn - x)
            for x in range(drawn + 1)
            if x <= marked and drawn - x <= population - marked
        }
        wrong = sum(
            n for x, n in ways.items() if most_in_population(x, drawn, population, alpha) < marked
        )
        assert wrong <= alpha * sum(ways.values())


@given(st.integers(0, 40), st.integers(0, 40), st.integers(1, 400), st.floats(0.001, 0.5))
def test_the_limit_is_the_largest_number_that_is_not_rejected(
    found: int, drawn: int, population: int, alpha: float
) -> None:
    drawn, found = min(drawn, population), min(found, drawn, population)
    limit = most_in_population(found, drawn, population, alpha)
    assert found <= limit <= population - (drawn - found)

    def tail(marked: int) -> float:
        ways = [comb(marked, x) * comb(population - marked, drawn - x) for x in range(found + 1)]
        return sum(ways) / comb(population, drawn)

    assert limit in (found, population) or tail(limit) > alpha * (1 - 1e-12)
    if limit < population - (drawn - found):
        assert tail(limit + 1) <= alpha * (1 + 1e-12)


@pytest.mark.parametrize("numbers", [(3, 2, 9), (1, 10, 9), (-1, 2, 3), (0, 201, 999)])
def test_counts_out_of_order_are_refused(numbers: tuple[int, int, int]) -> None:
    with pytest.raises(UsageError, match="must"):
        most_in_population(*numbers, 0.05)


@pytest.mark.parametrize("missed", [0, 1, 5, 20])
def test_the_statement_is_right_in_400_searches_with_planted_misses(missed: int) -> None:
    """A screen that leaves `missed` of the largest units out; at 95 %, 369 of 400 at least."""
    units, top, right = 300, 5, 0
    for seed in range(400):
        rng = np.random.default_rng([missed, seed])
        totals = rng.random(units)
        lost = rng.choice(units, missed, replace=False)
        totals[lost] += 2
        seen = np.where(np.isin(np.arange(units), lost), 0.0, totals)
        first, drawn = opened = search(seen, totals, 1, rng, draw=59)
        found = limit_unopened(opened, units, top, totals[np.sort(np.concatenate(opened))])
        assert not set(first) & set(drawn)
        assert (len(drawn), found.units) == (59, units - len(first))
        others = np.setdiff1d(np.arange(units), first)
        truth = int((totals[others] > found.kth).sum())
        assert truth == missed
        right += found.most >= truth
    assert right >= 369


def search(guessed: Any, totals: Any, step: int, rng: Any, draw: int = 10) -> Any:
    """A search among the places of two curves; no place is asked about twice."""
    asked: list[int] = []

    def exact(some: Any) -> Any:
        asked.extend(some)
        return totals[some]

    opened = open_units(len(totals), 5, draw, step, lambda some: guessed[some], exact, rng)
    assert opened is not None
    assert sorted(asked) == sorted(opened[0])
    assert len(asked) == len(set(asked))
    return opened


def test_a_draw_that_takes_all_of_the_others_is_not_made() -> None:
    def no_screen(_: Any) -> Any:
        raise AssertionError

    rng = np.random.default_rng(0)
    assert open_units(6 + 59, 5, 59, 1, no_screen, no_screen, rng) is None
    equal = np.ones(70)
    assert (
        open_units(70, 5, 59, 16, lambda some: equal[some], lambda some: equal[some], rng) is None
    )


@given(st.integers(80, 300), st.integers(2, 70), st.integers(0, 10**6))
def test_the_peak_of_a_smooth_curve_is_found_behind_a_screen_that_sees_it_roughly(
    units: int, step: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    peak = int(rng.integers(units))
    totals = np.exp(-np.abs(np.arange(units) - peak) / 40)
    first, _ = search(totals * rng.uniform(0.9, 1.1, units), totals, step, rng)
    assert peak in first
    assert len(first) <= 30 + 10 * (step.bit_length() + 1)


def test_more_is_measured_until_the_screen_says_that_the_rest_is_smaller() -> None:
    """The top one is number 20 of a screen whose values differ little; of a sharp one, few are."""
    totals = np.r_[np.linspace(1, 0.1, 200)]
    flat, rng = 1 + totals / 100, np.random.default_rng(0)
    flat[:20], totals[19] = flat[:20][::-1].copy(), 3
    assert 19 in search(flat, totals, 1, rng)[0]
    assert len(search(totals, totals, 1, rng)[0]) == 6


@pytest.fixture(scope="module")
def searched(pocket: Model) -> leakbound.InfluenceRecord:
    return leakbound.influence(
        NOTES, QUERY, model=pocket, response="48213", by="sentence", top=5, draw=DRAW
    )


@pytest.fixture(scope="module")
def measured(pocket: Model) -> leakbound.InfluenceRecord:
    return leakbound.influence(NOTES, QUERY, model=pocket, response="48213", by="sentence")


def grid_of(record: leakbound.InfluenceRecord) -> SpanGrid:
    return record.attributions[0].readings[0].grids[0]


def test_what_is_shown_is_what_all_shows(
    searched: leakbound.InfluenceRecord, measured: leakbound.InfluenceRecord
) -> None:
    some, every = grid_of(searched), grid_of(measured)
    assert some.unopened is not None
    assert (len(every.spans), every.unopened) == (60, None)
    assert len(some.spans) == 60 - some.unopened.units + DRAW
    place = {span: at for at, span in enumerate(every.spans)}
    same = [place[span] for span in some.spans]
    assert same == sorted(same)
    np.testing.assert_allclose(some.signed, np.array(every.signed)[same], atol=1e-4)
    assert [some.names[at] for at in (0, -1)] == [every.names[same[at]] for at in (0, -1)]
    assert int(every.totals.argmax()) == 40
    assert same[int(some.totals.argmax())] == 40


def test_the_statement_holds_of_all_units(
    searched: leakbound.InfluenceRecord, measured: leakbound.InfluenceRecord
) -> None:
    found, every = grid_of(searched).unopened, grid_of(measured).totals
    assert found is not None
    assert (found.top, found.drawn) == (5, DRAW)
    assert 60 - 30 <= found.units <= 60 - 6
    above = int((every > found.kth + 1e-4).sum()) - (found.top - 1)
    assert above <= found.most


def test_reports_say_what_was_left_out(searched: leakbound.InfluenceRecord) -> None:
    (shown, page) = influence_summary(searched), influence_page(searched)
    for text in (shown, page):
        assert f"{len(grid_of(searched).spans)} of 60 sentences were measured, chosen" in text
        assert "by a screen. With 95% confidence" in text
        assert "Without --top, every one is measured." in text
    assert "(0%)" not in shown  # a share is of all units
    assert "not known" in page
    assert ": not measured" in page
    spans = {(one.of, one.unit) for one in searched.expected}
    assert ("span", "sentence") not in spans
    assert ("top_attributed", "sentence") in spans


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("models") / "tiny"
    save_tiny_text_model(folder, seed=4)
    return f"hf/{folder}"


def test_short_spans_and_sets_are_all_measured(tiny: str) -> None:
    for how in ({"ngrams": (1,), "top": 5}, {"by": "sentence", "method": "lasso", "sets": 20}):
        text = NOTES if "by" in how else NOTES[:200]
        record = leakbound.influence(text, QUERY, model=tiny, response="4", draw=1, **how)  # type: ignore[arg-type]
        grid = grid_of(record)
        assert grid.unopened is None
        assert len(grid.spans) == (60 if "by" in how else grid.spans[-1][1])


def test_windows_are_searched_and_equal_seeds_draw_equal_spans(tiny: str) -> None:
    def windows(seed: int) -> SpanGrid:
        record = leakbound.influence(
            NOTES,
            QUERY,
            model=tiny,
            response="4",
            ngrams=(8,),
            stride=4,
            top=5,
            draw=DRAW,
            seed=seed,
        )
        return grid_of(record)

    first, again, other = windows(0), windows(0), windows(1)
    assert first == again
    assert first.unopened is not None
    assert first.unopened.drawn == DRAW
    assert first.spans != other.spans


def test_top_beside_what_needs_all_units_is_refused(tiny: str, tmp_path: Path) -> None:
    file = tmp_path / "n.txt"
    file.write_text(NOTES)
    common = ["--model", tiny, "--context", str(file), "--question", "q", "--response", "4", "--by",
              "sentence", "--draw", "9", "--out", str(tmp_path / "i")]  # fmt: skip

    def run(*more: str) -> Any:
        return CliRunner().invoke(command, [*common, *more], standalone_mode=False)

    assert not run("--top", "5").exception
    assert len(grid_of(load_influence(tmp_path / "i")).spans) < 40
    limited = run("--top", "5", "--max-share", "0.9", "--method", "leave-one-out")
    assert "not all units were measured" in str(limited.exception)
    for sets in (["--max-share", "0.9"], ["--method", "lasso"]):
        assert "--top has no effect" in str(run("--top", "5", *sets).exception)


@pytest.mark.parametrize("wrong", [{"top": 0}, {"draw": 0}, {"draw": 201}])
def test_numbers_out_of_range_are_refused(wrong: dict[str, int]) -> None:
    (name,) = wrong
    with pytest.raises(UsageError, match=f"{name} is .*must be"):
        InfluenceSettings(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("flight", [1 << 30, 1])
def test_hidden_tokens_are_those_that_a_mask_hides(tiny: str, flight: int) -> None:
    model = load(tiny.removeprefix("hf/"))
    model.passes.budget = replace(model.passes.budget, flight=flight)
    prompt, response, end = tuple(range(20, 45)), (7, 9, 11), 20
    hidden = [(0, 0), (3, 8), (12, 20), (19, 20)]
    found = model.masked_log_probs(prompt, response, hidden, end)
    row = torch.tensor([[*prompt, *response[:-1]]])
    for mine, (first, last) in zip(found, hidden, strict=True):
        mask = torch.full((row.shape[1],) * 2, float("-inf")).triu(1)
        mask[end:, first:last] = float("-inf")
        with torch.no_grad():
            logits = model.model(input_ids=row, attention_mask=mask[None, None]).logits[0, -3:]
        slow = torch.log_softmax(logits, -1)[torch.arange(3), torch.tensor(response)]
        np.testing.assert_allclose(mine, slow.numpy(), atol=1e-5)


def test_a_model_that_cannot_hide_tokens_measures_all(tiny: str) -> None:
    model = load(tiny.removeprefix("hf/"))
    model.passes.store.budget = 0  # as where keys and values cannot be used again
    found = leakbound.influence(
        NOTES, QUERY, model=model, response="4", by="sentence", top=5, draw=DRAW
    )
    assert (len(grid_of(found).spans), grid_of(found).unopened) == (60, None)
