"""No claim about what a model reads of its examples is shown by a model that reads none of them."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
from leakbound_lab.reproduce import load_recipes

pytest.importorskip("torch")

pytestmark = pytest.mark.torch
RECIPES = load_recipes()
ASKING = sorted(name for name, one in RECIPES.items() if one.needs == "model")
MOST = 1 / 20  # of the seeds: a claim that does not hold is shown by at most so many
# Sizes that the law needs, where the usual ones take minutes; kept outcomes have the usual ones.
LONG = ("contextleak/fig14",)


@pytest.fixture(scope="module")
def deaf() -> ModuleType:
    place = Path(__file__).parents[2] / "bench" / "deaf.py"
    spec = importlib.util.spec_from_file_location("deaf", place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ASKING)
def test_no_claim_is_shown_by_a_model_that_reads_nothing(deaf: ModuleType, name: str) -> None:
    """Of 20 seeds each, kept by bench/deaf.py; eight such claims were shown before."""
    row = deaf.load().get(name)
    assert row is not None, "run bench/deaf.py: nothing is kept of the claim that stands now"
    for kind in deaf.DEAF:
        letters = row.get(kind, "")
        assert letters, kind
        assert letters.count("S") <= max(1, MOST * len(letters)), (kind, letters)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["silent", "coin"])
@pytest.mark.parametrize("name", [name for name in ASKING if name not in LONG])
def test_what_is_kept_is_what_becomes_of_it(
    deaf: ModuleType, name: str, kind: str, tmp_path: Path
) -> None:
    found = deaf.outcome(RECIPES[name], kind, 0, tmp_path)
    assert deaf.LETTERS.get(found, "x") == deaf.load()[name][kind][0]
    assert found != "shown"


def test_recipes_that_need_no_answer_are_few_and_counted_apart() -> None:
    others = {name: one.needs for name, one in RECIPES.items() if name not in ASKING}
    assert [name for name, needs in others.items() if needs == "no_answer"] == [
        "tight/table3", "poetry/table9",
    ]  # fmt: skip
    kinds = {one.evidence(("openai/other",)) for name, one in RECIPES.items() if name in ASKING}
    assert kinds == {"real_model"}
    assert RECIPES["influence/fig3"].evidence(("pocket",)) == "trained_in"
    assert RECIPES["tight/fig7"].evidence(("pocket",)) == "pocket"
    assert RECIPES["tight/fig7"].evidence(("pocket", "openai/other")) == "pocket"
    assert RECIPES["poetry/table9"].evidence(("openai/other",)) == "no_answer"
    assert RECIPES["tight/lemmaA.1"].evidence(()) == "arithmetic"
