"""Recipes: every table and figure by name, what a recipe says, and quick runs of the command."""

from __future__ import annotations

import csv
import inspect
import io
import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from leakbound_lab.reproduce import (
    FORMATS,
    MeasuredValue,
    PrintedValue,
    Quantity,
    Recipe,
    RecipeContext,
    Reproduction,
    Scale,
    load_recipes,
    run_names,
)
from leakbound_lab.reproduce import QUICK as QUICK_SCALE
from leakbound_lab.reproduce.claims import cell_names, fill
from leakbound_lab.reproduce.measures import MEASURES
from leakbound_lab.reproduce.recipe_files import load_file
from leakbound_lab.reproduce.utility import NoiseGroup, repeats_of, utility
from leakbound_lab.studies.bundled import notes_to_summarize

from leakbound.cli.main import group
from leakbound.errors import DataError, StoreError, UsageError
from leakbound.mechanisms import FewShot

RECIPES = load_recipes()
NAMES = {
    "contextleak": ["table1", *(f"fig{i}" for i in (3, 4, 5, 6, 7, 8, 9, 10, 11, 14, 15))],
    "influence": ["table1", "table2", "table3", "table4", "fig2", "fig3", "fig4", "fig7", "fig8"],
    "tight": [*(f"fig{i}" for i in range(5, 22)), "table3"],
    "poetry": [*(f"table{i}" for i in (1, 2, 3, 4, 5, 6, 7, 9)), "fig2", "fig3", "fig4", "fig6"],
}
FREE = sorted(name for name, recipe in RECIPES.items() if recipe.needs == "nothing")


def run(name: str, tmp_path: Path, *more: str) -> Result:
    return CliRunner().invoke(
        group, ["reproduce", name, "--out", str(tmp_path), *more], catch_exceptions=False
    )


def test_every_table_and_figure_is_listed() -> None:
    listed = CliRunner().invoke(group, ["reproduce", "--list"], catch_exceptions=False).output
    for paper, figures in NAMES.items():
        for figure in figures:
            assert f"{paper}/{figure}" in RECIPES
            needs = r"exact, without a model|runs on pocket\S*( and pocket\S*)?"
            assert re.search(rf"^{paper}/{figure} +({needs}) ", listed, flags=re.M)
    assert len(listed.splitlines()) == len(RECIPES)


@pytest.mark.parametrize("name", sorted(RECIPES))
def test_what_a_recipe_says(name: str) -> None:
    """Words to read, and a place in the paper for whatever is printed."""
    recipe = RECIPES[name]
    assert recipe.title
    assert recipe.finding.endswith(".")
    assert recipe.differences.endswith(".")
    assert "{" not in recipe.differences
    assert all(row.where and row.quantity and row.setting for row in recipe.printed)


@pytest.mark.parametrize("name", FREE)
def test_exact_recipes_open_no_model(name: str, tmp_path: Path) -> None:
    done = run(name, tmp_path, "--model", "hf/./no-such-folder")
    assert done.exit_code == 0
    assert "no model: exact" in done.output


MADE = Recipe(
    name="x/fig1",
    title="t",
    finding="s.",
    printed=(PrintedValue("b", "q", 1.5, "p"), PrintedValue("a", "q", "high", "p")),
    differences="<b>d</b>.",
    measure="mean_sensitivity",
    options={"partitions": [1]},
    needs="nothing",
)


def test_tables_hold_both_sides() -> None:
    values = MeasuredValue("a", "q", math.inf, "∞"), MeasuredValue("c", "q", 2.0, "≥ 2")
    found = Reproduction(MADE, values, "m")
    assert found.lines() == [
        ("a", "q", "high (p)", "∞"),
        ("c", "q", "", "≥ 2"),
        ("b", "q", "1.5 (p)", ""),
    ]
    rows = list(csv.reader(io.StringIO(found.csv())))
    assert rows[1:] == [
        ["x/fig1", "paper", "b", "q", "1.5", "p"],
        ["x/fig1", "paper", "a", "q", "high", "p"],
        ["x/fig1", "this run", "a", "q", "inf", "∞"],
        ["x/fig1", "this run", "c", "q", "2.0", "≥ 2"],
    ]
    assert json.loads(found.json())["measured"][0]["value"] == "inf"
    assert "| c | q |  | ≥ 2 |" in found.markdown()
    assert ">≥ 2</td>" in found.html()
    assert "<b>d" not in found.html()


def test_quantities_are_plain_texts_in_every_format() -> None:
    """An enumeration must not leak its member names into a table."""
    value = MeasuredValue("a", Quantity.MU, 1.0, "1.0")
    found = Reproduction(replace(MADE, printed=()), (value,), "m")
    for written in FORMATS.values():
        assert "μ" in written(found)
        assert "Quantity" not in written(found)


def test_every_measure_is_used_and_documented() -> None:
    assert {recipe.measure for recipe in RECIPES.values()} == set(MEASURES)
    for measure in MEASURES.values():
        assert "Yields:" in (inspect.getdoc(measure) or "")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("recipes: [{name: x, colour: red}]", "colour"),
        ("recipes: [", "cannot be read"),
        ("tables: {t: {fields: [a], columns: [b], rows: {c: [d]}}}\nrecipes: []", "valid number"),
    ],
)
def test_a_damaged_file_is_refused_with_a_sentence(
    tmp_path: Path, text: str, sentence: str
) -> None:
    (tmp_path / "x.yaml").write_text(text)
    with pytest.raises(DataError, match=sentence):
        load_file(tmp_path / "x.yaml")


QUICK = {
    "contextleak/fig6": {Quantity.BOUND, "auditing accuracy, %"},
    "influence/table2": {"influence on a response", "repeat prompts, by the program"},
    "tight/fig18": {Quantity.PERFECT_EXACT, "L2 distance of the signals"},
    "poetry/fig4": {"accuracy, %"},
}


LONG = ("contextleak/fig6", "tight/fig18")  # most of the time of the four


@pytest.mark.torch
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow) if n in LONG else n for n in sorted(QUICK)]
)
def test_one_of_each_paper_runs_to_its_end(name: str, tmp_path: Path) -> None:
    pytest.importorskip("rouge_score")
    done = run(
        name,
        tmp_path,
        "--quick",
        "--pairs",
        "3",
        "--contexts",
        "1",
        "--repeats",
        "1",
        "--queries",
        "2",
        "--tokens",
        "3",
    )
    assert done.exit_code == 0
    for suffix in FORMATS:
        assert (tmp_path / f"{name}.{suffix}").stat().st_mode & 0o077 == 0
    kept = json.loads((tmp_path / f"{name}.json").read_text())
    assert QUICK[name] <= {row["quantity"] for row in kept["measured"]}
    assert {(row["setting"], row["quantity"]) for row in kept["printed"]} & {
        (r["setting"], r["quantity"]) for r in kept["measured"]
    }
    assert all(row["value"] == row["value"] for row in kept["measured"])


@pytest.mark.slow
@pytest.mark.torch
def test_vision_sees_images_unless_told_otherwise(tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    done = run("poetry/table3", tmp_path, "--repeats", "1", "--queries", "1")
    assert done.exit_code == 0
    assert "pocket-vision; task pseudo_names" in done.output
    kept = json.loads((tmp_path / "poetry/table3.json").read_text())
    assert {row["setting"] for row in kept["printed"]} <= {
        row["setting"] for row in kept["measured"]
    }


@pytest.mark.torch
@pytest.mark.slow
def test_a_recipe_that_compares_models_has_two_of_its_own(tmp_path: Path) -> None:
    done = run("tight/fig11", tmp_path, "--quick", "--pairs", "2")
    assert done.exit_code == 0
    assert "Made with: pocket-half, pocket;" in " ".join(done.output.split())
    assert "give --model twice" not in done.output
    kept = json.loads((tmp_path / "tight/fig11.json").read_text())
    measured = {row["setting"] for row in kept["measured"]}
    assert {"pocket-half, ε = 8, white box", "pocket, ε = 8, white box"} <= measured


@pytest.mark.parametrize(
    ("mechanism", "query", "read"),
    [
        ("report_noisy_max", "membership", {"kind": "report_noisy_max", "prior": "uniform"}),
        ("few_shot", "membership", {"kind": "answer_probabilities"}),
        ({"kind": "prompt_defense", "level": 2}, "membership",
         {"kind": "answer_probabilities", "level": 2}),
        ("judge_defense", "membership", {"kind": "judge_defense"}),
        ("few_shot", "injection", {"kind": "few_shot"}),
    ],
)  # fmt: skip
def test_answers_about_membership_are_read_by_probability_in_words_of_the_users(
    mechanism: object, query: str, read: dict[str, object], tmp_path: Path
) -> None:
    asked = "Is {canary} there? Answer no or yes."
    context = RecipeContext(tmp_path, by_probability=True, membership=asked)
    spec = context.spec({"mechanism": mechanism, "query": query}).flat()
    assert spec["mechanism"] == read
    assert spec["query"].get("template") == (asked if query == "membership" else None)


@pytest.mark.torch
@pytest.mark.slow
def test_a_recipe_says_how_its_answers_were_read(tmp_path: Path) -> None:
    asked = "Is {canary} there? Answer no or yes."
    options = ("--quick", "--by-probability", "--membership", asked)
    assert run("contextleak/fig6", tmp_path, *options).exit_code == 0
    made = json.loads((tmp_path / "contextleak/fig6.json").read_text())["made_with"]
    assert f"; answers by probability; asks {asked}; seed 0" in made


def test_the_models_of_a_comparison_are_its_own_unless_others_are_given(tmp_path: Path) -> None:
    recipe = RECIPES["tight/fig11"]
    names = run_names(RecipeContext(tmp_path, models=recipe.models, scale=QUICK_SCALE))
    measured = {fill(setting, names) for setting, _ in cell_names(recipe.cells)}
    assert recipe.models == ("pocket-half", "pocket")
    assert {"pocket-half, ε = 8, white box", "pocket, ε = 8, white box"} <= measured


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(RECIPES) - set(FREE)))
def test_every_recipe_runs_to_its_end(name: str, tmp_path: Path) -> None:
    pytest.importorskip("rouge_score")
    assert run(name, tmp_path, "--quick").exit_code == 0
    kept = json.loads((tmp_path / f"{name}.json").read_text())
    measured = {(row["setting"], row["quantity"]) for row in kept["measured"]}
    names = run_names(RecipeContext(tmp_path, models=RECIPES[name].models, scale=QUICK_SCALE))
    cells = {(fill(setting, names), of) for setting, of in cell_names(RECIPES[name].cells)}
    assert cells <= measured


@pytest.mark.torch
def test_answers_are_collected_once(tmp_path: Path) -> None:
    """Every epsilon of a figure is answered from the same ones."""
    context = RecipeContext(tmp_path, scale=Scale(pairs=2, simulations=100))
    keys = {"mechanism": {"kind": "report_noisy_max", "partitions": 2}, "shots": 4}
    calls = Asked(context.model())
    counted = context.wrapped(lambda model: calls)
    counted.audit(keys, {"epsilon": 1})
    first = calls.asked
    counted.audit(keys, {"epsilon": 8})
    assert first == calls.asked > 0


class Asked:
    """Counts what reaches the model."""

    def __init__(self, model: object) -> None:
        self.model, self.asked = model, 0

    def __getattr__(self, name: str) -> object:
        return getattr(self.model, name)

    def answer(self, requests: list[object]) -> list[object]:
        self.asked += len(requests)
        return self.model.answer(requests)  # type: ignore[attr-defined]


@pytest.mark.torch
def test_utility_of_real_rows(tmp_path: Path, data_file: Path) -> None:
    """Accuracy by hand: the undefended answer of every query against its label."""
    context = RecipeContext(
        tmp_path, source={"data": str(data_file)}, scale=Scale(repeats=2, queries=3)
    )
    (row,) = utility(context, 4, [NoiseGroup.of("no DP", FewShot())])
    right = []
    for repeat in repeats_of(context, 4):
        for aggregate, label in zip(repeat.collect(FewShot(), context), repeat.truth, strict=True):
            right.append((*repeat.task.labels, "none")[aggregate.counts.index(1)] == label)
    assert row.value == pytest.approx(100 * sum(right) / len(right))
    assert row.sample is not None
    assert row.sample.contexts == (0, 0, 0, 1, 1, 1)  # two contexts with three queries each


@pytest.mark.parametrize("sentences", [1, 12])
def test_bundled_free_texts_hold_one_of_so_many_sentences(tmp_path: Path, sentences: int) -> None:
    """A query asks for one of them: of twelve, ten examples miss some."""
    context = RecipeContext(tmp_path, scale=Scale(repeats=3, queries=20))
    for repeat in repeats_of(context, 10, free=True, sentences=sentences):
        held = [{row.input.rpartition(" ")[0] for row in job.context} for job in repeat.jobs]
        assert max(map(len, held)) <= sentences
        there = [
            any(text.endswith(answer) for text in texts)
            for texts, answer in zip(held, repeat.truth, strict=True)
        ]
        assert all(there) if sentences == 1 else not all(there)


def test_bundled_free_texts_have_a_context_for_each_query(tmp_path: Path) -> None:
    context = RecipeContext(tmp_path, scale=Scale(repeats=1, queries=3, tokens=4))
    (repeat,) = repeats_of(context, 4, free=True)
    assert not repeat.shared
    (labelled,) = repeats_of(context, 4)
    assert labelled.shared


def test_a_summary_of_a_note_has_20_to_40_words() -> None:
    for case in notes_to_summarize(20):
        assert case.context.startswith(case.reference)
        assert 20 <= len(case.reference.split()) <= 40


def test_mistakes_get_sentences(tmp_path: Path, data_file: Path) -> None:
    with pytest.raises(UsageError, match=r"must be one of .*Did you mean 'tight/fig5'"):
        run("tight/fig55", tmp_path)
    context = RecipeContext(tmp_path, source={"data": str(data_file)}, scale=Scale(queries=70))
    with pytest.raises(DataError, match="need 74 rows, and the data has 60"):
        next(iter(repeats_of(context, 4)))
    with pytest.raises(DataError, match="texts for answers"):
        next(iter(repeats_of(context, 4, free=True)))
    with pytest.raises(UsageError, match="--all runs every recipe"):
        run("tight/fig5", tmp_path, "--all")
    with pytest.raises(UsageError, match="--html is the page of --all"):
        run("tight/fig5", tmp_path, "--html", str(tmp_path / "x.html"))
    with pytest.raises(StoreError, match="cannot be made"):
        run("poetry/fig4", data_file)
    with pytest.raises(UsageError, match="without --labels and --task"):
        run("influence/fig8", tmp_path, "--task", "subj")
