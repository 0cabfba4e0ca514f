"""Claims of papers as data: what is refused, which outcome follows, and how often by chance."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from leakbound_lab.reproduce import (
    FailedRecipe,
    MeasuredValue,
    PaperClaim,
    Quantity,
    Recipe,
    RecipeContext,
    Reproduction,
    Sample,
    every_json,
    every_page,
    exit_code,
    judge,
    load_recipes,
    run_every,
)
from leakbound_lab.reproduce.claim_tests import compare, compare_with_number
from leakbound_lab.reproduce.claims import Inequality, Side, cell_names, fill
from leakbound_lab.reproduce.recipe_files import load_file, recipes_of
from leakbound_lab.reproduce.sections import figures_of_recipe

from leakbound.errors import DataError, UsageError
from leakbound.mechanisms import ReportNoisyMax
from leakbound.tasks import Votes

RECIPES = load_recipes()
ACCURACY, AREA, UTILITY = Quantity.AUDITING_ACCURACY, Quantity.AUROC, Quantity.ACCURACY
BY_CHANCE = 1e-6  # false alarm of a simulation


def cell(
    setting: str, quantity: str, mean: float, ceiling: float | None = None, n: int = 24,
    spread: float = 4.0,
) -> MeasuredValue:  # fmt: skip
    """A cell with a sample of this mean; units of equal number are the same in all cells."""
    noise = np.random.default_rng(len(setting)).normal(0, spread, n)
    values = tuple((mean + noise - noise.mean()).tolist())
    sample = Sample(values, "paired trial", "pairs of seed 0", ceiling=ceiling)
    return MeasuredValue(setting, quantity, mean, f"{mean:.1f}", sample, ceiling)


def outcome(name: str, *cells: MeasuredValue) -> Reproduction:
    return Reproduction(RECIPES[name], cells, "made up")


# --- what the first release reported without a word


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("poetry/table4", (cell("no DP, likelihoods", AREA, 54.1, n=400),
                           cell("DP, likelihoods", AREA, 60.8, n=400))),
        ("contextleak/fig4", tuple(
            cell(f"{query}, {canary}", ACCURACY, 60.0 if query == "input_output" else 75.0)
            for query in ("input_output", "if_then_explicit", "if_then_implicit")
            for canary in ("hex", "unigram", "false_fact"))),
        ("contextleak/fig3", (
            *(cell(f"L{level}, {attack}", ACCURACY, 91.7 if attack == "injection" else 72.9)
              for level in range(4) for attack in ("injection", "our attack")),
            cell("L3, our attack", Quantity.WITHHELD_NONMEMBER, 20.0))),
    ],
    ids=["poetry/table4", "contextleak/fig4", "contextleak/fig3"],
)  # fmt: skip
def test_what_is_reversed_is_said(name: str, cells: tuple[MeasuredValue, ...]) -> None:
    """The numbers of the first release: the opposite of the paper, and no word about it."""
    found = outcome(name, *cells)
    assert found.outcome is not None
    assert found.outcome.status == "reversed"
    assert "Outcome: reversed." in found.markdown()
    assert json.loads(found.json())["claim"]["outcome"] == "reversed"


def test_an_area_over_likelihoods_says_why_it_is_reversed() -> None:
    found = outcome("poetry/table4", cell("no DP, likelihoods", AREA, 54.1, n=400),
                    cell("DP, likelihoods", AREA, 60.8, n=400))  # fmt: skip
    assert found.outcome is not None
    assert "only on their order" in found.outcome.explained
    page = found.html()
    assert found.outcome.explained in page
    assert '<p class="violation">reversed, by the pocket model</p>' in page


def test_a_ceiling_below_what_is_needed_is_a_reason() -> None:
    """Figure 5 started at 83.9 under a ceiling of 84.1: no search can be shown to help there."""
    found = outcome("contextleak/fig5", cell("before", ACCURACY, 83.9, 84.1),
                    cell("after", ACCURACY, 84.0, 84.1)).outcome  # fmt: skip
    assert found is not None
    assert found.status == "cannot_show"
    assert found.reason == f"{ACCURACY}: after is at most 84.1, and has to be above 84.9."


def test_votes_that_learn_nothing_are_a_reason() -> None:
    """Figure 2 of PoE: voting stayed at zero-shot for every number of examples."""
    means = {"PoE": 40.0, "RNM": 39.9, "no DP": 70.0, "zero-shot": 48.0}
    cells = [cell(f"{name}, J = {j}", UTILITY, mean, n=60)
             for j in (1, 2, 4, 8, 16, 32) for name, mean in means.items()]  # fmt: skip
    found = outcome("poetry/fig2", *cells).outcome
    assert found is not None
    assert found.status == "cannot_show"
    assert found.reason.startswith("votes stay at the zero-shot accuracy")


def test_a_model_that_learns_nothing_from_examples_is_a_reason() -> None:
    """Few-shot prompts on real rows were at chance."""
    means = {"PoE": 25.0, "RNM": 25.0, "no DP": 20.0, "zero-shot": 25.0}
    cells = [cell(f"{name}, J = {j}", UTILITY, mean, n=60, spread=9.0)
             for j in (8, 25) for name, mean in means.items()]  # fmt: skip
    found = outcome("poetry/table1", *cells).outcome
    assert found is not None
    assert found.status == "cannot_show"
    assert "examples do not help this model" in found.reason


READ = [cell(f"{of} context", Quantity.WORDS_TAKEN, mean, 100.0, n=8, spread=0.0)
        for of, mean in (("own", 60.0), ("another", 20.0))]  # fmt: skip


def test_influence_that_cannot_grow_is_a_reason() -> None:
    """Influence saturated beyond λ = 1, where the context makes every token certain."""
    means = {0: 0.0, 0.5: 11.6, 1: 22.07, 1.5: 22.08, 2: 22.08}
    cells = [cell(f"λ = {lam:g}", Quantity.INFLUENCE, mean, 22.1, n=8, spread=0.0)
             for lam, mean in means.items()]  # fmt: skip
    found = outcome("influence/fig8", *cells, *READ).outcome
    assert found is not None
    assert found.status == "cannot_show"
    assert "λ = 1.5 is at most 22.1" in found.reason


def test_responses_too_short_to_be_counted_are_a_reason() -> None:
    """The authors' program counts responses with more than 25 shared words; ours had 6 to 32."""
    cells = []
    for lam, mean in ((0.5, 5.0), (1.0, 15.0), (1.5, 25.0)):
        cells.append(cell(f"λ = {lam:g}", Quantity.INFLUENCE, mean, n=8, spread=1.0))
        counts = {Quantity.REPEAT_PROGRAM: (0, 0.0), Quantity.ROUGE_PROGRAM: (8 * (lam > 1), 1.0)}
        for quantity, (hits, most) in counts.items():
            values = (1.0,) * hits + (0.0,) * (8 - hits)
            sample = Sample(values, "response", f"λ {lam}", ceiling=most)
            cells.append(MeasuredValue(f"λ = {lam:g}", quantity, hits, str(hits), sample))
    found = outcome("influence/table2", *cells, *READ).outcome
    assert found is not None
    assert found.status == "cannot_show"
    assert found.reason == (
        f"{Quantity.REPEAT_PROGRAM}: λ = 1.5 is at most 0, and has to be above 0."
    )


# --- outcomes


def test_few_trials_and_many() -> None:
    few, many = (
        outcome(
            "contextleak/fig6",
            *(cell(f"ε = {e}", ACCURACY, 50 + 5 * at, n=n) for at, e in enumerate("1248∞")),
        )
        for n in (3, 24)
    )
    assert few.outcome is not None
    assert few.outcome.status == "too_few_trials"
    assert "p = 0.12 (3 paired trials, compared one by one)" in few.outcome.reason
    assert many.outcome is not None
    assert many.outcome.words == "shown"
    assert "Outcome: shown." in many.claim_sentence


def test_a_cell_that_was_not_measured_and_a_model_that_was_not_given() -> None:
    found = outcome("contextleak/fig5", cell("before", ACCURACY, 60.0)).outcome
    assert found is not None
    assert (found.status, found.reason) == ("cannot_show", f"after, {ACCURACY} was not measured.")
    models = outcome("tight/fig11").outcome
    assert models is not None
    assert models.status == "cannot_show"
    assert "give --model twice" in models.reason
    needs = outcome("contextleak/fig15").outcome
    assert needs is not None
    assert needs.status == "cannot_show"
    assert needs.reason == "it takes two models; give --model twice."


def test_a_number_without_a_spread_is_not_compared() -> None:
    cells = (MeasuredValue(name, ACCURACY, 60.0, "60") for name in ("before", "after"))
    found = outcome("contextleak/fig5", *cells).outcome
    assert found is not None
    assert "one number without a spread" in found.reason


NEEDS = [
    (name, at)
    for name, recipe in sorted(RECIPES.items())
    if recipe.claim is not None
    for at in range(len(recipe.claim.needs))
]


@pytest.mark.parametrize(("name", "at"), NEEDS)
def test_what_a_claim_needs_is_the_reason_where_it_does_not_hold(name: str, at: int) -> None:
    """All that it needs holds, or all but one thing."""
    claim = RECIPES[name].claim
    assert claim is not None
    need, cells = claim.needs[at], {}
    for one in claim.needs:
        cells |= {(one.larger.setting, one.larger.quantity): 90.0}
        cells |= {(one.smaller.setting, one.smaller.quantity): 10.0}
    broken = cells | {
        (need.larger.setting, need.larger.quantity): 10.0,
        (need.smaller.setting, need.smaller.quantity): 100.0,
    }
    names = {"model": "small", "model 2": "large"}
    met, unmet = (
        Reproduction(RECIPES[name], tuple(
            MeasuredValue(fill(setting, names), of, v, f"{v}", exact=True)
            for (setting, of), v in those.items()
        ), "made up", names)
        for those in (cells, broken)
    )  # fmt: skip
    assert met.outcome is not None
    assert unmet.outcome is not None
    assert unmet.outcome.status == "cannot_show"
    assert unmet.outcome.reason.startswith(need.because)
    assert need.because not in met.outcome.reason


def test_signals_that_leak_alike_are_a_reason() -> None:
    """The pocket model answers with neither text of a pair, so all pairs show nothing alike."""
    same = Sample((0.0,) * 6, "paired trial", "pairs of seed 0")
    cells = [MeasuredValue(f"pair {p}", Quantity.DISTANCE, 1 / p, "d", exact=True)
             for p in range(1, 6)]  # fmt: skip
    cells += [MeasuredValue(f"pair {p}", Quantity.MEAN_EXACT, 0.0, "0", same) for p in range(1, 6)]
    found = outcome("tight/fig18", *cells).outcome
    assert found is not None
    assert found.status == "cannot_show"
    assert "pair 1 and pair 5 are equal in all of 6 paired trials" in found.reason


def test_a_ceiling_that_is_not_known_is_a_reason() -> None:
    settings = [f"ε = {e}, {box}" for e in (1, 2, 4, 8)
                for box in ("black box", "white box", "brainwash, black box")]  # fmt: skip
    cells = [cell(s, of, 60.0 - 9 * ("brain" in s)) for s in settings
             for of in (ACCURACY, Quantity.RESAMPLED)]  # fmt: skip
    found = outcome("tight/fig5", *cells).outcome
    assert found is not None
    assert found.status == "cannot_show"
    assert "has no known ceiling" in found.reason


KINDS = ("is at most", "equal in all of", "it takes two models", "was not measured",
         "without a spread", "has no known ceiling")  # fmt: skip
ON_POCKET = json.loads(
    (Path(__file__).parents[2] / "bench" / "results" / "recipe-outcomes.json").read_text()
)


@pytest.mark.parametrize("name", sorted(ON_POCKET))
def test_what_stands_against_a_claim_here_is_tested_or_explained(name: str) -> None:
    """Of the last runs on the pocket model: each reason has its test above, and each claim that is
    reversed says why.
    """
    row, claim = ON_POCKET[name], RECIPES[name].claim
    assert claim is not None
    if row["outcome"] == "reversed":
        assert claim.explained, row["reason"]
    if row["outcome"] == "cannot_show":
        known = (*KINDS, *(need.because for need in claim.needs))
        assert any(kind in row["reason"] for kind in known), row["reason"]


def test_cells_that_are_equal_in_every_trial_cannot_show_an_order() -> None:
    sample = Sample((50.0, 60.0, 70.0), "paired trial", "pairs of seed 0")
    cells = [MeasuredValue(f"temperature {t}, {box} box", Quantity.RESAMPLED, 1.0, "1", sample)
             for t in (1, 3) for box in ("black", "white")]  # fmt: skip
    found = outcome("tight/fig10", *cells).outcome
    assert found is not None
    assert found.status == "cannot_show"
    assert "are equal in all of 3 paired trials" in found.reason


@pytest.mark.parametrize("truth", [0.0, 0.5])
def test_a_claim_is_rarely_shown_or_reversed_by_chance(truth: float) -> None:
    """At equality both mistakes have at most 5 %, over three inequalities together; at a true
    difference "reversed" is rarer still. Bounds have a false alarm below 1e-6.
    """
    sides = [Side(setting, "q") for setting in "abcd"]
    claim = PaperClaim("s.", tuple(map(Inequality, sides[1:], sides)))
    rng, audits = np.random.default_rng(0), 300
    statuses = []
    for _ in range(audits):
        draws = rng.normal(0, 1, (4, 9)) + truth * np.arange(4)[:, None]
        measured = [MeasuredValue(name, "q", 0.0, "", Sample(tuple(row), "query", "x"))
                    for name, row in zip("abcd", draws.tolist(), strict=True)]  # fmt: skip
        found = judge(claim, measured)
        statuses.append(found.status)
    most = 0.05 * audits + 4.9 * (0.05 * 0.95 * audits) ** 0.5
    assert statuses.count("reversed") <= most
    if not truth:
        assert statuses.count("shown") <= most


@pytest.mark.slow
def test_queries_of_other_contexts_are_compared_context_by_context() -> None:
    """Queries about one context are alike: counted one by one, they told contexts of one kind
    apart three times in ten. By contexts it is one time in twenty; false alarm below 1e-6.
    """
    rng, audits, contexts, queries = np.random.default_rng(0), 100, 3, 20
    asked = tuple(i for i in range(contexts) for _ in range(queries))
    by_context, by_query = 0, 0
    for _ in range(audits):
        of_context = rng.normal(0, 10, (2, contexts))
        values = of_context[:, list(asked)] + rng.normal(0, 20, (2, len(asked)))
        cells = [Sample(tuple(row), "query", f"contexts of {shots} examples", contexts=asked)
                 for row, shots in zip(values.tolist(), (4, 16), strict=True)]  # fmt: skip
        by_context += compare(*cells, 0.0).claimed <= 0.05
        flat = [replace(one, contexts=()) for one in cells]
        by_query += compare(*flat, 0.0).claimed <= 0.05
    most = 0.05 * audits + 4.9 * (0.05 * 0.95 * audits) ** 0.5
    assert by_context <= most < by_query


def test_units_and_means_of_contexts() -> None:
    one = Sample((1.0, 3.0, 5.0, 7.0), "query", "a", ceiling=9.0, contexts=(0, 0, 1, 1))
    other = Sample((0.0, 0.0, 1.0), "query", "b", contexts=(0, 1, 1))
    assert one.by_context().values == (2.0, 6.0)
    assert compare(one, other, 0.0).units == "2 and 2 contexts"
    assert compare(one, replace(one, values=(0.0, 1.0, 2.0, 3.0)), 0.0).units.startswith("4 quer")
    assert compare_with_number(one, 3.0).units == "2 contexts, compared one by one"
    alone = replace(one, contexts=())
    assert alone.by_context() is alone


@pytest.mark.parametrize(("labels", "wins"), [(2, 91), (4, 80)])
def test_how_often_ten_unanimous_votes_win(labels: int, wins: int) -> None:
    """As the explanation of contextleak/fig8 says. 40,000 draws; standard error 0.2 points."""
    voting = ReportNoisyMax.calibrated(1, 1e-5, 10)
    votes = Votes((10, *(0,) * (labels - 1)))
    answers = voting.release(votes, 40_000, np.random.default_rng(0)).answers
    assert 100 * float(np.mean(np.asarray(answers) == 0)) == pytest.approx(wins, abs=1)
    claim = RECIPES["contextleak/fig8"].claim
    assert claim is not None
    assert f"{wins} %" in claim.explained


def test_what_limits_a_claim_that_is_shown_stands_beside_it() -> None:
    cells = [cell(f"{model}, ε = {epsilon}, {box} box", Quantity.RESAMPLED, mean)
             for model, mean in (("{model}", 1.0), ("{model 2}", 20.0))
             for epsilon in (1, 2, 4, 8) for box in ("black", "white")]  # fmt: skip
    recipe = RECIPES["tight/fig11"]
    names = {"model": "small", "model 2": "large"}
    named = tuple(replace(one, setting=fill(one.setting, names)) for one in cells)
    found = Reproduction(recipe, named, "made up", names)
    assert found.outcome is not None
    assert found.outcome.status == "shown"
    assert recipe.claim is not None
    assert recipe.claim.caveat
    assert recipe.claim.caveat in found.claim_sentence
    assert recipe.claim.caveat in found.html()


def test_p_values_against_counting_by_hand() -> None:
    one = Sample((100.0, 100.0, 100.0, 0.0), "answer", "a")
    assert compare_with_number(one, 50.0).claimed == pytest.approx(5 / 16)
    assert compare_with_number(one, 50.0).opposite == pytest.approx(15 / 16)
    high, low = (Sample((v,) * 4, "answer", name) for v, name in ((1.0, "b"), (0.0, "c")))
    assert compare(high, low, 0.0).claimed == pytest.approx(1 / 70)  # Fisher: 1 of 8 over 4
    paired = Sample((3.0, 1.0, 2.0), "answer", "d"), Sample((1.0, 0.0, 1.0), "answer", "d")
    assert compare(*paired, 0.0).claimed == pytest.approx(1 / 8)
    assert compare(*paired, 1.0).difference == pytest.approx(1 / 3)


# --- as data


def test_most_recipes_have_a_claim_and_cells_of_the_table() -> None:
    """What the paper prints is in the cells that a recipe lists, unless it speaks of several."""
    with_claim = [recipe for recipe in RECIPES.values() if recipe.claim is not None]
    assert len(with_claim) >= 50
    for recipe in with_claim:
        settings = {setting for setting, _ in cell_names(recipe.cells)}
        assert settings
        assert recipe.claim is not None
        assert recipe.claim.says.endswith("."), recipe.name


@pytest.mark.parametrize(
    "name", sorted(n for n, r in RECIPES.items() if r.needs == "nothing" and r.claim is not None)
)
def test_exact_recipes_have_the_cells_that_they_list(name: str, tmp_path: Path) -> None:
    recipe = RECIPES[name]
    measured = tuple(recipe.run(RecipeContext(tmp_path, models=("nothing/here",))))
    found = {(m.setting, str(m.quantity)) for m in measured}
    assert cell_names(recipe.cells) <= found
    made = Reproduction(recipe, measured, "no model: exact")
    assert made.outcome is not None
    assert made.outcome.status in ("shown", "reversed")
    if made.outcome.status == "reversed":
        assert made.outcome.explained


BROKEN = """
recipes:
- name: x/fig1
  title: t
  finding: s.
  needs: nothing
  measure: mean_sensitivity
  options: {{partitions: [1]}}
  printed: []
  differences: d.
  cells: {{"T = {{1|2}}": [sensitivity]}}
  claims:
    holds: [{holds}]
"""


@pytest.mark.parametrize(
    ("holds", "sentence"),
    [
        ("{larger: T = 3, smaller: T = 1, quantity: sensitivity}",
         r"names the cell 'T = 3', .*must be one of: T = 1; T = 2"),
        ("{larger: T = 2, smaller: T = 1, quantity: mu}", "names the cell 'T = 2', μ"),
        ("{larger: '{pears} pairs', smaller: 1, quantity: sensitivity}", "must be one of .*pairs"),
        ("{larger: 'T = {1|2}', smaller: '{a|b|c}', quantity: sensitivity}", "2 and 3 settings"),
        ("", "holds no inequality"),
    ],
    ids=["setting", "quantity", "name", "numbers", "nothing"],
)  # fmt: skip
def test_claims_about_cells_that_do_not_exist_are_refused(
    tmp_path: Path, holds: str, sentence: str
) -> None:
    (tmp_path / "x.yaml").write_text(BROKEN.format(holds=holds))
    with pytest.raises(UsageError, match=sentence):
        list(recipes_of(load_file(tmp_path / "x.yaml")))


# --- all recipes on one page


def test_a_crash_is_shown_as_one_and_never_as_an_outcome() -> None:
    """The page and the exit code say so, and the message, which may be private, stays out."""
    exact = RECIPES["tight/lemmaA.1"]

    def run(recipe: Recipe) -> Reproduction:
        if recipe.name == "contextleak/fig6":
            raise RuntimeError("a private row")
        if recipe.name == "contextleak/fig7":
            raise DataError("no such rows.")
        return Reproduction(recipe, tuple(recipe.run(RecipeContext(Path()))), "no model: exact")

    chosen = [exact, RECIPES["contextleak/fig6"], RECIPES["contextleak/fig7"]]
    lines: list[str] = []
    found = run_every(chosen, run, lines.append)
    page, record = every_page(found), json.loads(every_json(found))
    assert record["counts"] == {"arithmetic": {"shown": 1}}
    assert record["failed"] == 2
    assert [row["outcome"] for row in record["recipes"]] == ["shown", "failed", "failed"]
    assert "RuntimeError in test_claims.py" in page
    assert "no such rows." in page
    assert "a private row" not in page + json.dumps(record) + "".join(lines)
    assert exit_code(found) == 70
    assert exit_code(found[2:]) == 2
    assert exit_code(found[:1]) == 0
    assert isinstance(found[1], FailedRecipe)


def test_figures_show_printed_points_and_ceilings() -> None:
    cells = [cell(f"ε = {e}", ACCURACY, 50.0 + at, 55.0 + at, n=4) for at, e in enumerate("1248∞")]
    (figure,) = figures_of_recipe(RECIPES["contextleak/fig6"], cells)
    kinds = [line.kind for line in figure.lines]
    assert kinds == ["measured", *["printed"] * 4, "ceiling"]
    assert figure.ticks == ("1", "2", "4", "8", "∞")
    printed = {line.name: [y for _, y, _, _ in line.points] for line in figure.lines[1:5]}
    assert printed["the paper, Table 1, llama subj"] == [57.2, 62.6, 71.6, 81.0, 92.5]
    assert [y for _, y, _, _ in figure.lines[-1].points] == [55.0, 56.0, 57.0, 58.0, 59.0]
    assert all(low < y < high for _, y, low, high in figure.lines[0].points)
    drawn = outcome("contextleak/fig6", *cells).html()
    assert drawn.count("<svg") == 1
    assert "the paper, Table 1, llama subj" in drawn


def test_settings_with_two_numbers_are_drawn_over_the_one_that_varies_most() -> None:
    settings = [f"T = {t}, ε = {e}, white box" for t in (2, 4, 8, 16) for e in (1, 8)]
    cells = [cell(setting, Quantity.RESAMPLED, 1.0) for setting in settings]
    endless = replace(cells[0], value=float("inf"))
    (figure,) = figures_of_recipe(RECIPES["tight/fig6"], [endless, *cells[1:]])
    assert figure.x == "T"
    assert {line.name: len(line.points) for line in figure.lines} == {
        "ε = 1, white box": 3,
        "ε = 8, white box": 4,
    }
    assert "1 value is not finite" in figure.caption


def test_votes_in_brackets_are_one_name() -> None:
    """Else the axis is called “]”, and a line “[1, 1] against [0”."""
    names = ("[1, 1] against [0, 2]", "[1, 9] against [0, 10]")
    cells = [cell(name, "μ", 0.2) for name in names]
    (figure,) = figures_of_recipe(RECIPES["tight/lemma3.1"], cells)
    assert (figure.x, figure.ticks) == ("", names)
