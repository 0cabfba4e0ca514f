"""What every recipe of the papers asks of a model, counted without asking one.

    python bench/recipe_calls.py --write docs/measured/real-models.md
    python bench/recipe_calls.py --tokens-per-second 20000 --new-tokens-per-second 2000
    python bench/recipe_calls.py --task subj --data-dir data contextleak/fig6
    python bench/recipe_calls.py --check contextleak/fig6 tight/fig9

The recipes themselves run, with a model that counts and answers at once. Calls are linear in paired
trials, in queries and in contexts, so each recipe is counted at two or three small sizes, and its
calls at the size of the papers follow. `--check` counts small runs with all their audits as well,
and compares. `--measure` times a model with random weights for the page.
"""

from __future__ import annotations

import argparse
import inspect
import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import numpy as np
from leakbound_lab.reproduce import Recipe, RecipeContext, Scale, load_recipes
from leakbound_lab.reproduce.context import AuditKeys
from recipe_models import REAL, Asked, Counting, Tally

from leakbound.auditing import AuditResult
from leakbound.auditing.collect.collect import CollectionPlan
from leakbound.auditing.prepare.prepared import Prepared
from leakbound.auditing.store.run_store import EvidenceRow
from leakbound.models import Model, open_model

RESULTS = Path(__file__).parent / "results" / "recipe-calls.json"
SMALL = Scale(pairs=8, repeats=2, queries=4, contexts=1, tokens=REAL.tokens, simulations=200)
PAIRS, QUERIES, CONTEXTS = (
    replace(SMALL, pairs=16), replace(SMALL, queries=6), replace(SMALL, contexts=2),
)  # fmt: skip
MODELS = ("first", "second")
BOTH = {"privacy_and_utility", "privacy_and_utility_by_model", "examples_and_partitions"}
UTILITY = {"utility_by_partitions", "text_classification", "accuracy_by_examples", "vision",
           "clipping_bounds", "expert_likelihoods", "answer_cost"}  # fmt: skip


@dataclass
class CountingContext(RecipeContext):
    """Collects what audits ask and computes nothing from it: one small audit stands for all."""

    batches: set[tuple[str, int, int]] = field(default_factory=set)
    stand_in: list[AuditResult] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)

    def audit(self, *keys: AuditKeys) -> AuditResult:
        self._collect(self.prepared(self.spec(*keys)))
        if not self.stand_in:
            with self.tally.paused():
                few = {"pairs": 4, "simulations": 100}
                self.stand_in.append(super().audit(*keys, few))
        return self.stand_in[0]

    def evidence(self, *keys: AuditKeys) -> tuple[Prepared, list[EvidenceRow]]:
        prepared = self.prepared(self.spec(*keys))
        self._collect(prepared)
        with self.tally.paused():
            plan = CollectionPlan.of(prepared)
            rows = [row for first in plan.batches() for row in plan.ask(first, prepared.model).rows]
        return prepared, [row for row in rows if row.pair >= 0]

    def _collect(self, prepared: Prepared) -> None:
        """Ask what no audit has asked before: audits of the same questions share the answers."""
        plan, questions = CollectionPlan.of(prepared), prepared.questions
        for first in (*plan.batches(), *plan.late_batches()):
            batch = questions, first, len(plan.pairs_of(first))
            if batch not in self.batches:
                plan.ask(first, prepared.model)
                self.batches.add(batch)


def counted(recipe: Recipe, scale: Scale, source: Mapping[str, str], whole: bool = False) -> Asked:
    """What a recipe asks at one size; `whole` with every audit to its end."""
    tally, tokens = Tally(), tokenizer()
    own = {} if {"data", "task"} & source.keys() or recipe.task is None else {"task": recipe.task}
    with tempfile.TemporaryDirectory() as folder:
        kind = RecipeContext if whole else CountingContext
        context = kind(
            Path(folder), MODELS if takes_two(recipe) else MODELS[:1], {**source, **own},
            scale=scale, opener=lambda spec: Counting(tokens, tally, spec.system.model),
            **({} if whole else {"tally": tally, "stand_in": STAND_IN}),
        )  # fmt: skip
        for _ in recipe.run(context):
            pass
    return tally.asked


STAND_IN: list[AuditResult] = []


@cache
def tokenizer() -> Model:
    return open_model("pocket")


def takes_two(recipe: Recipe) -> bool:
    """Whether the recipe compares models."""
    return any("{model 2}" in setting for setting in recipe.cells)


def linear(recipe: Recipe, source: Mapping[str, str]) -> dict[str, Asked]:
    """What is asked at the size of the papers, and for each paired trial, query or context."""
    base = counted(recipe, SMALL, source)
    larger = {"contexts": CONTEXTS} if recipe.name.startswith("influence/") else {
        **({} if recipe.measure in UTILITY else {"pairs": PAIRS}),
        **({"queries": QUERIES} if recipe.measure in UTILITY | BOTH else {}),
    }  # fmt: skip
    steps = {"contexts": 1, "pairs": 8, "queries": 4}
    found = {
        name: (counted(recipe, size, source) - base) * (1 / steps[name])
        for name, size in larger.items()
    }
    found = {name: asked for name, asked in found.items() if asked.calls}
    more = {"pairs": REAL.pairs - 8, "queries": REAL.repeats * REAL.queries - 8,
            "contexts": REAL.contexts - 1}  # fmt: skip
    total = base
    for name, asked in found.items():
        total = total + asked * more[name]
    return {"total": total, **found}


def checked(recipe: Recipe, source: Mapping[str, str]) -> str:
    """Counted here beside counted in a run of the same small size with its audits."""
    size = replace(SMALL, pairs=8, contexts=1, tokens=4)
    short, whole = (counted(recipe, size, source, full) for full in (False, True))
    same = "equal" if short == whole else "DIFFERENT"
    return f"{recipe.name}: {short.calls:g} and {whole.calls:g} calls, {same}"


def measure() -> dict[str, float | str]:
    """Tokens a CPU second of one thread, of a model with the shape of OPT-125M."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.set_num_threads(1)
    net = AutoModelForCausalLM.from_config(AutoConfig.for_model("opt")).eval()
    rows = torch.randint(4, 50_000, (2, 256))
    name = "cache" if "cache" in inspect.signature(net.forward).parameters else "past_key_values"
    with torch.inference_mode():
        net(input_ids=rows[:, :16])
        begin = time.process_time()
        past = net(input_ids=rows, use_cache=True)[name]
        read = rows.numel() / (time.process_time() - begin)
        begin, steps = time.process_time(), 24
        for _ in range(steps):
            past = net(input_ids=rows[:, :1], **{name: past}, use_cache=True)[name]
        written = steps * len(rows) / (time.process_time() - begin)
    return {"shape": "OPT-125M, random weights, float32, one thread", "read": round(read, 1),
            "written": round(written, 1)}  # fmt: skip


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", help="recipes; none for all")
    parser.add_argument("--data")
    parser.add_argument("--task")
    parser.add_argument("--data-dir")
    parser.add_argument("--tokens-per-second", type=float, default=10_000.0)
    parser.add_argument("--new-tokens-per-second", type=float, default=1_000.0)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--keep", action="store_true", help=f"write {RESULTS.name}")
    parser.add_argument("--write", type=Path, help="write the page from what is kept")
    a = parser.parse_args(argv)
    if a.write:
        from real_models_page import page

        a.write.write_text(page(json.loads(RESULTS.read_text())))
        return
    source = {key: value for key in ("data", "task", "data_dir") if (value := vars(a)[key])}
    kept = json.loads(RESULTS.read_text()) if a.keep and RESULTS.exists() else {}
    if not a.measure:
        count(a, source, kept)
        return
    kept["measured"] = measure()
    print(kept["measured"])
    if a.keep:
        keep(kept)


def count(a: argparse.Namespace, source: Mapping[str, str], kept: dict[str, dict]) -> None:
    recipes = [one for one in load_recipes().values() if one.needs == "model"]
    for recipe in (one for one in recipes if not a.names or one.name in a.names):
        if a.check:
            print(checked(recipe, source), flush=True)
            continue
        found = linear(recipe, source)
        total = found["total"]
        hours = total.seconds(a.tokens_per_second, a.new_tokens_per_second) / 3600
        print(f"{recipe.name:<28} {total.calls:>12,.0f} calls {total.read / 1e6:>9.2f} M read "
              f"{total.written / 1e6:>8.3f} M written {hours:>8.2f} h", flush=True)  # fmt: skip
        kept.setdefault("calls", {})[recipe.name] = {
            name: asked.plain() for name, asked in found.items()
        }
        if a.keep:
            keep(kept)


def keep(kept: Mapping[str, object]) -> None:
    RESULTS.write_text(json.dumps(kept, indent=1, ensure_ascii=False, sort_keys=True) + "\n")


if __name__ == "__main__":
    np.random.seed(0)
    main()
