"""Whether every recipe runs with models of other people: tiny ones with random weights.

    python bench/recipe_tries.py              # all recipes with hf/... and with an endpoint
    python bench/recipe_tries.py --endpoint contextleak/fig6

Each recipe runs at its smallest size, through the code that `leakbound reproduce` runs. The
endpoint is the suite's server over the same tiny model: completions with log-probabilities, chat,
embeddings. Outcomes are kept for docs/measured/real-models.md.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from leakbound_lab.reproduce import (  # noqa: E402
    Recipe,
    RecipeContext,
    Reproduction,
    Scale,
    load_recipes,
    run_names,
)
from loopback.running import running  # noqa: E402
from loopback.speaking import speaking  # noqa: E402
from tiny_models import save_tiny_text_model, save_tiny_vision_model  # noqa: E402

from leakbound.auditing import AuditSpec  # noqa: E402
from leakbound.auditing.prepare.build import open_models  # noqa: E402
from leakbound.errors import LeakboundError  # noqa: E402
from leakbound.models import Endpoint, Model, open_model  # noqa: E402

RESULTS = Path(__file__).parent / "results" / "recipe-tries.json"
SMALLEST = Scale(pairs=3, repeats=1, queries=2, contexts=1, tokens=3, simulations=200)
LOCAL, SERVED = "hf", "endpoint"


def attempt(recipe: Recipe, out: Path, base_url: str | None, opened: dict[str, Model]) -> Any:
    """Run it once: what it measured, or the sentence that refused it."""
    endpoint = Endpoint(base_url=base_url) if base_url else Endpoint()
    sees = "pocket-vision" in recipe.models
    first = "openai/tiny" if base_url else "hf/./seeing" if sees else "hf/./tiny"

    def opener(spec: AuditSpec) -> Model:
        address = spec.system.model
        if address not in opened:
            opened[address] = open_models(spec, endpoint=endpoint)
        return opened[address]

    other = "hf/./seeing" if sees else "hf/./other"
    second = [other] if "{model 2}" in str(recipe.cells) else []
    context = RecipeContext(out, (first, *second), {"task": recipe.task} if recipe.task else {},
                            scale=SMALLEST, opener=opener)  # fmt: skip
    try:
        found = tuple(recipe.run(context))
    except LeakboundError as error:
        return {"outcome": "refused", "why": str(error)}
    except Exception as error:
        return {"outcome": "crashed", "why": f"{type(error).__name__}: {error}"}
    made = Reproduction(recipe, found, "", run_names(context))
    finite = sum(math.isfinite(one.value) for one in found)
    return {"outcome": "runs", "values": len(found), "finite": finite,
            "claim": made.outcome.status if made.outcome else "none"}  # fmt: skip


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", help="recipes; none for all")
    parser.add_argument("--local", action="store_true", help="hf/... only")
    parser.add_argument("--endpoint", action="store_true", help="an endpoint only")
    a = parser.parse_args(argv)
    recipes = [one for one in load_recipes().values() if one.needs == "model"]
    chosen = [one for one in recipes if not a.names or one.name in a.names]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        save_tiny_text_model(Path("tiny"))
        save_tiny_text_model(Path("other"), seed=1)
        save_tiny_vision_model(Path("seeing"))
        if not a.endpoint:
            tried(chosen, LOCAL, None)
        if not a.local:
            with running(speaking(open_model("hf/./tiny"), name="tiny")) as url:
                tried(chosen, SERVED, url)


def tried(recipes: Sequence[Recipe], kind: str, url: str | None) -> None:
    opened: dict[str, Model] = {}
    for recipe in recipes:
        begin = time.process_time()
        found = attempt(recipe, Path(kind), url, opened)
        kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        kept.setdefault(recipe.name, {})[kind] = found
        RESULTS.write_text(json.dumps(kept, indent=1, ensure_ascii=False, sort_keys=True) + "\n")
        print(f"{recipe.name:<28} {kind:<9} {time.process_time() - begin:6.1f} s {found}",
              flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
