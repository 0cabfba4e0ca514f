"""The kept outcomes of all recipes: of the weights, options and sizes that stand now."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

from leakbound.reproduce import load_recipes

pytest.importorskip("torch")
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
    assert outcomes.section(kept) in (ROOT / "docs" / "reproduce.md").read_text()


@pytest.mark.parametrize("what", ["key", "claim"])
def test_a_row_of_other_weights_or_claims_is_marked_and_not_counted(
    outcomes: ModuleType, what: str
) -> None:
    kept = json.loads(outcomes.RESULTS.read_text())
    before = outcomes.section(kept)
    name, row = next((name, row) for name, row in kept.items() if row["outcome"] == "shown")
    after = outcomes.section(kept | {name: row | {what: "another"}})
    assert f"| `{name}` | earlier | shown |" in after
    assert "1 are marked *earlier*" in after
    shown = [int(text.split(" shown,")[0].rpartition(" ")[2]) for text in (before, after)]
    assert shown[1] == shown[0] - 1
