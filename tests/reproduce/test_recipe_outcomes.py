"""The kept outcomes of all recipes: of the weights, options and sizes that stand now."""

from __future__ import annotations

import importlib.util
import json
import re
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
from leakbound_lab.reproduce import MeasuredValue, Sample, load_recipes
from leakbound_lab.reproduce.recipe import EVIDENCE

pytest.importorskip("torch")

pytestmark = pytest.mark.torch
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def outcomes() -> ModuleType:
    place = ROOT / "bench" / "recipe_outcomes.py"
    spec = importlib.util.spec_from_file_location("recipe_outcomes", place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_recipe_has_run_as_it_stands_and_the_page_says_what_came_of_it(
    outcomes: ModuleType,
) -> None:
    kept = json.loads(outcomes.RESULTS.read_text())
    recipes = load_recipes()
    assert list(kept) == list(recipes)
    sizes = {name: outcomes.size(row, recipes[name]) for name, row in kept.items()}
    assert set(sizes.values()) <= {"exact", "usual"}, sizes
    assert outcomes.section(kept) in (ROOT / "docs" / "measured" / "outcomes.md").read_text()


def test_what_is_drawn_again_stays_paired_and_whole(outcomes: ModuleType) -> None:
    """Cells of equal units get the same ones; of queries that ask one context, all or none."""
    one = Sample((1.0, 2.0, 3.0, 4.0, 5.0), "query", "q", contexts=(0, 0, 1, 1, 1))
    other = replace(one, values=tuple(v + 10 for v in one.values))
    cells = [MeasuredValue(name, "q", 0.0, "", it) for name, it in (("a", one), ("b", other))]
    a, b = (cell.sample for cell in outcomes.redrawn(cells, 8, 0))
    assert tuple(v + 10 for v in a.values) == b.values
    assert a.ids == b.ids
    assert len(set(a.ids)) == a.n
    wholes = {(1.0, 2.0), (3.0, 4.0, 5.0)}
    drawn = [tuple(v for v, c in zip(a.values, a.contexts, strict=True) if c == at)
             for at in sorted(set(a.contexts))]  # fmt: skip
    assert len(drawn) == 16
    assert set(drawn) == wholes
    alone = MeasuredValue("c", "q", 0.0, "", Sample((1.0, 2.0), "pair", "p"))
    (again,) = outcomes.redrawn([alone], 4, 0)
    assert again.sample.n == 8
    assert again.sample.contexts == ()


@pytest.mark.parametrize("what", ["key", "claim"])
def test_a_row_of_other_weights_or_claims_is_marked_and_not_counted(
    outcomes: ModuleType, what: str
) -> None:
    kept = json.loads(outcomes.RESULTS.read_text())
    before = outcomes.section(kept)
    name, row = next((name, row) for name, row in kept.items() if row["outcome"] == "shown")
    after = outcomes.section(kept | {name: row | {what: "another"}})
    recipe = load_recipes()[name]
    kind = EVIDENCE[recipe.evidence(recipe.models)]
    assert f"| `{name}` | {kind} | earlier | shown |" in after
    assert "1 are marked *earlier*" in after
    shown = [re.search(rf"^\| {kind} \| (\d+) ", text, re.M) for text in (before, after)]
    was, now = (int(one[1]) for one in shown if one is not None)
    assert now == was - 1
