"""Every recipe runs with another local model: tiny ones with random weights, at the least size."""

from __future__ import annotations

from pathlib import Path

import pytest
from leakbound_lab.reproduce import RecipeContext, Reproduction, Scale, load_recipes, run_names
from tiny_models import save_tiny_text_model, save_tiny_vision_model

from leakbound.auditing import AuditSpec
from leakbound.auditing.prepare.build import open_models
from leakbound.models import Model

pytest.importorskip("torch")
pytest.importorskip("rouge_score")

pytestmark = pytest.mark.torch
RECIPES = {name: one for name, one in load_recipes().items() if one.needs == "model"}
SMALLEST = Scale(pairs=3, repeats=1, queries=2, contexts=1, tokens=3, simulations=200)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Model]]:
    folder = tmp_path_factory.mktemp("models")
    save_tiny_text_model(folder / "tiny")
    save_tiny_text_model(folder / "other", seed=1)
    return folder, {}


@pytest.mark.slow
@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_runs_with_another_model(
    name: str, models: tuple[Path, dict[str, Model]], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    folder, opened = models
    monkeypatch.chdir(folder)
    recipe = RECIPES[name]
    addresses = ["hf/./tiny"]
    if "pocket-vision" in recipe.models:
        addresses = ["hf/./seeing"]
        if not Path("seeing").exists():
            save_tiny_vision_model(Path("seeing"))
    if "{model 2}" in str(recipe.cells):
        addresses.append("hf/./other" if "pocket" in recipe.models else "hf/./seeing")

    def opener(spec: AuditSpec) -> Model:
        if spec.system.model not in opened:
            opened[spec.system.model] = open_models(spec)
        return opened[spec.system.model]

    source = {"task": recipe.task} if recipe.task else {}
    context = RecipeContext(tmp_path, tuple(addresses), source, scale=SMALLEST, opener=opener)
    measured = tuple(recipe.run(context))
    assert measured
    assert all(one.value == one.value for one in measured), "no value is missing"
    made = Reproduction(recipe, measured, "", run_names(context))
    assert recipe.claim is None or made.outcome is not None
