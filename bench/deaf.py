"""What becomes of the papers' claims on models that read no examples: none may be shown.

    python bench/deaf.py FOLDER [--seeds 20] [--models silent,coin] [NAME...]

Every recipe that asks a model runs through the code of `leakbound reproduce`, with each model of
tests/deaf_models.py and each seed. FOLDER keeps what was measured, and bench/results/deaf.json a
letter for each seed: S shown, r reversed, f too few trials, c cannot show here, x refused. The same
command goes on; an outcome of another claim than the recipe's is dropped.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "bench")]

from deaf_models import DEAF  # noqa: E402
from leakbound_lab.reproduce import (  # noqa: E402
    Recipe,
    RecipeContext,
    Reproduction,
    load_measured,
    load_recipes,
    run_names,
    save_measured,
    values_file,
    what_decides,
)
from recipe_outcomes import claim_key  # noqa: E402

from leakbound.errors import LeakboundError  # noqa: E402
from leakbound.models import Model, open_model  # noqa: E402

RESULTS = Path(__file__).parent / "results" / "deaf.json"
LETTERS = {"shown": "S", "reversed": "r", "too_few_trials": "f", "cannot_show": "c"}  # a seed each


@cache
def deaf(kind: str, address: str) -> Model:
    return DEAF[kind](open_model(address))


def outcome(recipe: Recipe, kind: str, seed: int, out: Path) -> str:
    """What becomes of its claim."""
    context = RecipeContext(
        out / kind, recipe.models, {"task": recipe.task} if recipe.task else {},
        scale=recipe.scale, seed=seed,
        opener=lambda spec: deaf(kind, spec.system.model),
    )  # fmt: skip
    file, key = values_file(out / kind, recipe, seed), what_decides(recipe, context)
    measured = load_measured(file, key) if file.exists() else None
    if measured is None:
        try:
            measured = tuple(recipe.run(context))
        except LeakboundError as error:
            return f"refused: {error}"  # of such a model, which is no outcome
        save_measured(file, key, measured)
    found = Reproduction(recipe, measured, "", run_names(context)).outcome
    return "no claim" if found is None else found.status


def asking() -> list[Recipe]:
    return [one for one in load_recipes().values() if one.needs == "model"]


def load() -> dict[str, Any]:
    """Outcomes by recipe, kind of model, and seed; of the claims that stand now."""
    found: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    recipes = {one.name: claim_key(one) for one in asking()}
    return {name: row for name, row in found.items() if recipes.get(name) == row["claim"]}


def run(a: argparse.Namespace) -> None:
    """Seed by seed, so that what is there is of all recipes."""
    chosen = [one for one in asking() if not a.names or one.name in a.names]
    for seed, kind, recipe in product(range(a.seeds), a.models.split(","), chosen):
        known = load().get(recipe.name, {}).get(kind, "")
        if len(known) > seed:
            continue
        begin = time.process_time()
        found = outcome(recipe, kind, seed, a.folder)
        print(f"{recipe.name:<28} {kind:<10} seed {seed:<2} {time.process_time() - begin:6.1f} s "
              f"{found}", flush=True)  # fmt: skip
        keep(recipe, kind, found)


def keep(recipe: Recipe, kind: str, found: str) -> None:
    kept = load()
    row = kept.setdefault(recipe.name, {"claim": claim_key(recipe)})
    row[kind] = row.get(kind, "") + LETTERS.get(found, "x")
    ordered = {one.name: kept[one.name] for one in asking() if one.name in kept}
    RESULTS.write_text(json.dumps(ordered, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--models", default=",".join(DEAF))
    run(parser.parse_args())


if __name__ == "__main__":
    main()
