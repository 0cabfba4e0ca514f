"""What became of every claim on the pocket model, for docs/measured/outcomes.md.

    leakbound reproduce --all --out reproduced
    python bench/recipe_outcomes.py reproduced --keep
    python bench/recipe_outcomes.py --write docs/measured/outcomes.md

bench/results/pocket-seed-1.tgz holds the values of all recipes at seed 1, for FOLDER/measured:
`leakbound reproduce --all --seed 1 --out FOLDER` writes their page from there. Of seed 2,
pocket-seed-2.tgz holds the first ones; the same command with `--seed 2` goes on.

Reads the tables in the folders of `leakbound reproduce`, later folders first, and says of a claim
with too few trials how many times as many would show it: what was measured is drawn again, so many
times, unit by unit (or context by context, where several units ask one), and the claim's own tests
are run on it. That is a guess from few units, and no promise; nothing is said where no multiple up
to 16 would do. What ran at the usual size is not replaced by what ran with --quick. Each row keeps
the key of what it was measured with (version, weights, options, sizes) and of the inequalities that
were tested, and is counted only while both are the recipe's own.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from leakbound_lab.reproduce import (
    MeasuredValue,
    Recipe,
    RecipeContext,
    Reproduction,
    Sample,
    judge,
    load_recipes,
    together,
    values_file,
    what_decides,
)
from leakbound_lab.reproduce.context import QUICK, Scale
from leakbound_lab.reproduce.kept import SCHEMA_VERSION, load_values
from leakbound_lab.reproduce.outcomes import OUTCOMES
from leakbound_lab.reproduce.recipe import EVIDENCE

from leakbound.models import Model, open_model

RESULTS = Path(__file__).parent / "results" / "recipe-outcomes.json"
TIMES, DRAWN, ENOUGH = (1, 2, 4, 8, 16), 10, 8  # power of 80 %, coarsely
SIZES = re.compile(r"(\d+) pairs, (\d+) repeats, (\d+) queries, (\d+) contexts, (\d+) tokens")
SEEDS = re.compile(r"; seeds? ([\d, ]+)$")
EARLIER = "earlier"
HEADING = "## What becomes of them on the pocket model"


def redrawn(measured: Sequence[MeasuredValue], times: int, seed: int) -> list[MeasuredValue]:
    """As many units, times so many, drawn with replacement; cells of equal units stay paired."""
    ids: dict[tuple[str, str], set[int]] = {}
    for sample in (one.sample for one in measured if one.sample is not None):
        ids.setdefault((sample.unit, sample.drawn), set()).update(independent(sample))
    rng = np.random.default_rng([seed, times])
    picks = {
        group: rng.choice(sorted(those), times * len(those)).tolist()
        for group, those in ids.items()
    }
    return [
        one if one.sample is None
        else replace(one, sample=picked(one.sample, picks[one.sample.unit, one.sample.drawn]))
        for one in measured
    ]  # fmt: skip


def independent(sample: Sample) -> Sequence[int]:
    """The number of each unit, or of its context where several units ask one."""
    return sample.contexts or sample.ids or range(sample.n)


def picked(sample: Sample, picks: Sequence[int]) -> Sample:
    values: dict[int, list[float]] = {}
    for number, value in zip(independent(sample), sample.values, strict=True):
        values.setdefault(number, []).append(value)
    most = max(map(len, values.values()))
    there = [
        (at, i, v) for at, pick in enumerate(picks) for i, v in enumerate(values.get(pick, ()))
    ]
    ids, contexts = [most * at + i for at, i, _ in there], tuple(at for at, _, _ in there)
    drawn = replace(sample, values=tuple(v for _, _, v in there), ids=tuple(ids))
    return replace(drawn, contexts=contexts) if sample.contexts else drawn


def times_to_show(
    recipe: Recipe, measured: Sequence[MeasuredValue], names: dict[str, str]
) -> int | None:
    """The least of TIMES at which the claim is shown in most redrawn samples."""
    assert recipe.claim is not None
    for times in TIMES:
        failed = 0
        for seed in range(DRAWN):
            found = judge(recipe.claim, redrawn(measured, times, seed), recipe.printed, names)
            failed += found.status != "shown"
            if failed > DRAWN - ENOUGH:
                break
        else:
            return times
    return None


def measured_with(made_with: str, out: Path, recipe: Recipe) -> tuple[MeasuredValue, ...]:
    """What was measured with the seeds that the line about model and sizes names."""
    found = SEEDS.search(made_with)
    seeds = [0] if found is None else [int(one) for one in found[1].split(", ")]
    return together([load_values(values_file(out, recipe, seed)) for seed in seeds])


def names_of(made_with: str) -> dict[str, str]:
    """What the names in settings stand for, from the line about model and sizes."""
    found = SIZES.search(made_with)
    if found is None:
        return {}
    pairs = int(found[1])
    parts = {f"pairs/{part}": str(max(2, pairs // part)) for part in (2, 4, 8)}
    models = models_of(made_with)
    return {"pairs": str(pairs), **parts, **dict(zip(("model", "model 2"), models, strict=False))}


def rows(folders: Sequence[Path]) -> dict[str, Any]:
    found = {}
    for name, recipe in load_recipes().items():
        files = [file for folder in folders if (file := folder / f"{name}.json").exists()]
        if not files:
            continue
        made_with, out = json.loads(files[-1].read_text())["made_with"], files[-1].parents[1]
        if not values_file(out, recipe).exists():
            print(f"{name}: not measured to its end", flush=True)
            continue
        found[name] = row = {"made_with": made_with, "outcome": "no_claim", "reason": ""}
        row["key"] = json.loads(values_file(out, recipe).read_text())["key"]
        row["claim"] = claim_key(recipe)
        measured, names = measured_with(made_with, out, recipe), names_of(made_with)
        claim = Reproduction(recipe, measured, made_with, names).outcome
        if claim is None:
            continue
        row |= {"outcome": claim.status, "reason": claim.reason}
        if claim.status == "too_few_trials":
            row["times"] = times_to_show(recipe, measured, names)
            print(f"{name}: shown with {row['times']} times as many", flush=True)
    return found


def key(recipe: Recipe, scale: Scale) -> str:
    """What a row was measured with if it was measured as the recipe stands now."""
    source = {} if recipe.task is None else {"task": recipe.task}
    return what_decides(
        recipe,
        RecipeContext(
            Path(),
            recipe.models,
            source,
            scale=scale,
            opener=lambda spec: opened(spec.system.model),
        ),
    )


@cache
def opened(address: str) -> Model:
    """A model for the keys of all recipes."""
    return open_model(address)


def claim_key(recipe: Recipe) -> str:
    """What is tested: the inequalities of the claim, what it needs, the paper's numbers, and the
    kind of samples.
    """
    claim = recipe.claim
    tested = () if claim is None else (*claim.holds, *claim.needs)
    told = f"{SCHEMA_VERSION} {[replace(one, because='') for one in tested]}"
    if any("printed" in (one.larger.kind, one.smaller.kind) for one in tested):
        told += repr([(p.setting, str(p.quantity), p.value) for p in recipe.printed])
    return hashlib.sha256(told.encode()).hexdigest()[:16]


def size(row: dict[str, Any], recipe: Recipe) -> str:
    """With what a row was measured, in words."""
    known = {key(recipe, QUICK): "--quick", key(recipe, recipe.scale): "usual"}
    if row.get("key") not in known or row.get("claim") != claim_key(recipe):
        return EARLIER
    return "exact" if recipe.needs == "nothing" else known[row["key"]]


def quick(row: dict[str, Any]) -> bool:
    found = SIZES.search(row["made_with"])
    return found is not None and tuple(map(int, found.groups())) == sizes(QUICK)


def sizes(scale: Scale) -> tuple[int, ...]:
    return (scale.pairs, scale.repeats, scale.queries, scale.contexts, scale.tokens)


def section(kept: dict[str, Any]) -> str:
    recipes = load_recipes()
    sizes_of = {name: size(row, recipes[name]) for name, row in kept.items()}
    now = {name: row for name, row in kept.items() if sizes_of[name] != EARLIER}
    kinds = {name: recipes[name].evidence(models_of(row["made_with"])) for name, row in now.items()}
    missing = [name for name in recipes if name not in kept]
    lines = [
        HEADING, "",
        f"Of {len(recipes)} recipes {len(now)} have run with the weights, options, sizes and"
        " inequalities that stand now. What an outcome rests on:",
        "",
        f"| rests on | {' | '.join(OUTCOMES.values())} |", "| --- " * (1 + len(OUTCOMES)) + "|",
        *(f"| {words} | {' | '.join(told([now[n] for n, k in kinds.items() if k == kind]))} |"
          for kind, words in EVIDENCE.items() if kind in {*kinds.values()}),
        "",
        "These are not added up, and say nothing of other models. The column *size*"
        " says with what; the usual size is what `leakbound reproduce` does by default."
        + (f" {len(kept) - len(now)} are marked *{EARLIER}*: they ran with other ones, and are not"
           " counted." if len(now) < len(kept) else "")
        + " *Times*, of a claim with too few trials, is how many times as many units would show it"
        " with a power of 80 %, by its own tests on what was measured drawn again: a guess from few"
        " units. A dash there says that no multiple up to 16 would."
        + (f" Not run: {', '.join(missing)}." if missing else "")
        + " This section is written by `python bench/recipe_outcomes.py`.",
        "",
        "| recipe | rests on | size | outcome | times | why |", "| --- " * 6 + "|",
    ]  # fmt: skip
    for name, row in kept.items():
        words = OUTCOMES.get(row["outcome"], "no claim")
        claim = recipes[name].claim
        notes = {} if claim is None else {"reversed": claim.explained, "shown": claim.caveat}
        explained = notes.get(row["outcome"], "")
        why = explained or short(row["reason"])
        times = row.get("times") or "–"
        kind = EVIDENCE[recipes[name].evidence(models_of(row["made_with"]))]
        cells = (f"`{name}`", kind, sizes_of[name], words, str(times), why)
        lines.append(f"| {' | '.join(' '.join(cell.split()) for cell in cells)} |")
    return "\n".join(lines) + "\n"


def told(rows: Sequence[dict[str, Any]]) -> list[str]:
    """How many have each outcome."""
    return [str(sum(row["outcome"] == status for row in rows)) for status in OUTCOMES]


def models_of(made_with: str) -> list[str]:
    return made_with.split(";")[0].split(", ")


def short(reason: str) -> str:
    """Its first sentence, which has no claim of its own behind it."""
    first = f"{reason.replace('|', chr(92) + '|').split('. ')[0].rstrip('.')}." if reason else ""
    return first if len(first) < 200 else first[:197] + "..."


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--keep", action="store_true", help=f"write {RESULTS.name}")
    parser.add_argument("--write", type=Path, help="the page whose section is written")
    a = parser.parse_args(argv)
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    if a.folders:
        fresh = kept | {
            name: row
            for name, row in rows(a.folders).items()
            if not quick(row) or name not in kept or quick(kept[name])
        }
        kept = {name: fresh[name] for name in load_recipes() if name in fresh}
    if a.keep:
        RESULTS.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")
    if a.write:
        text = a.write.read_text()
        a.write.write_text(text.partition(HEADING)[0] + section(kept))


if __name__ == "__main__":
    main()
