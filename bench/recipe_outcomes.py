"""What became of every claim on the pocket model, for docs/reproduce.md.

    leakbound reproduce --all --out reproduced
    python bench/recipe_outcomes.py reproduced --keep
    python bench/recipe_outcomes.py --write docs/reproduce.md

Reads the tables in the folders of `leakbound reproduce`, later folders first, and says of a claim
with too few trials how many times as many would show it: what was measured is drawn again, so many
times, unit by unit, and the claim's own tests are run on it. That is a guess from few units, and
no promise; nothing is said where the measured difference has the other sign. Where only a table is
left, the p-values of its tests are taken as those of normal means. What ran at the usual size is
not replaced by what ran with --quick.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtri

from leakbound.models.pocket import FOLDER
from leakbound.reproduce import MeasuredValue, Recipe, Sample, judge, kept_file, load_recipes
from leakbound.reproduce.context import QUICK, Scale
from leakbound.reproduce.kept import read_measured
from leakbound.reproduce.outcomes import LEVEL, OUTCOMES

RESULTS = Path(__file__).parent / "results" / "recipe-outcomes.json"
TIMES, DRAWN, ENOUGH = (1, 2, 4, 8, 16), 10, 8  # power of 80 %, coarsely
SIZES = re.compile(r"(\d+) pairs, (\d+) repeats, (\d+) queries, (\d+) contexts, (\d+) tokens")
EARLIER = ", earlier weights"
HEADING = "## What becomes of them on the pocket model"


def redrawn(measured: Sequence[MeasuredValue], times: int, seed: int) -> list[MeasuredValue]:
    """As many units, times so many, drawn with replacement; cells of equal units stay paired."""
    ids: dict[tuple[str, str], set[int]] = {}
    for sample in (one.sample for one in measured if one.sample is not None):
        ids.setdefault((sample.unit, sample.drawn), set()).update(sample.ids or range(sample.n))
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


def picked(sample: Sample, picks: Sequence[int]) -> Sample:
    values = dict(zip(sample.ids or range(sample.n), sample.values, strict=True))
    there = [(at, values[pick]) for at, pick in enumerate(picks) if pick in values]
    return replace(sample, values=tuple(v for _, v in there), ids=tuple(at for at, _ in there))


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


def roughly(p_values: Sequence[float]) -> float | None:
    """The same from the p-values alone, as if each test were one of a normal mean."""
    z = min(float(ndtri(1 - p)) for p in p_values)
    return round(((ndtri(1 - LEVEL) + ndtri(0.8)) / z) ** 2, 1) if z > 0 else None


def p_values(claim: dict[str, Any]) -> list[float]:
    found = [one["p_value"] for one in claim["inequalities"] if one["outcome"] == "too_few_trials"]
    return [max(1e-6, p) for p in found]


def names_of(made_with: str) -> dict[str, str]:
    """What the names in settings stand for, from the line about model and sizes."""
    found = SIZES.search(made_with)
    if found is None:
        return {}
    pairs = int(found[1])
    parts = {f"pairs/{part}": str(max(2, pairs // part)) for part in (2, 4, 8)}
    models = made_with.split(";")[0].split(", ")
    return {"pairs": str(pairs), **parts, **dict(zip(("model", "model 2"), models, strict=False))}


def rows(folders: Sequence[Path]) -> dict[str, Any]:
    found = {}
    for name, recipe in load_recipes().items():
        files = [file for folder in folders if (file := folder / f"{name}.json").exists()]
        if not files:
            continue
        table = json.loads(files[-1].read_text())
        claim, out = table["claim"], files[-1].parents[name.count("/")]
        found[name] = row = {"made_with": table["made_with"], "outcome": "no_claim", "reason": ""}
        row["weights"] = weights()
        if claim is None:
            continue
        row |= {"outcome": claim["outcome"], "reason": claim["reason"]}
        if claim["outcome"] != "too_few_trials":
            continue
        if kept_file(out, recipe).exists():
            measured = read_measured(kept_file(out, recipe))
            row["times"] = times_to_show(recipe, measured, names_of(table["made_with"]))
        else:
            row["times"] = roughly(p_values(claim))
        print(f"{name}: shown with {row['times']} times as many", flush=True)
    return found


def weights() -> str:
    """What names the pocket model's weights."""
    return hashlib.sha256((FOLDER / "model.safetensors").read_bytes()).hexdigest()[:8]


def size(row: dict[str, Any], recipe: Recipe) -> str:
    found = SIZES.search(row["made_with"])
    if found is None:
        return "exact"
    known = {sizes(QUICK): "--quick", sizes(recipe.scale): "usual"}
    same = "pocket-vision" in row["made_with"] or row.get("weights") == weights()
    return known.get(tuple(map(int, found.groups())), found[0]) + ("" if same else EARLIER)


def quick(row: dict[str, Any]) -> bool:
    found = SIZES.search(row["made_with"])
    return found is not None and tuple(map(int, found.groups())) == sizes(QUICK)


def sizes(scale: Scale) -> tuple[int, ...]:
    return (scale.pairs, scale.repeats, scale.queries, scale.contexts, scale.tokens)


def section(kept: dict[str, Any]) -> str:
    recipes = load_recipes()
    counts = {status: sum(row["outcome"] == status for row in kept.values()) for status in OUTCOMES}
    told = ", ".join(f"{counts[status]} {words}" for status, words in OUTCOMES.items())
    missing = [name for name in recipes if name not in kept]
    lines = [
        HEADING, "",
        f"Of {len(recipes)} recipes {len(kept)} have run: {told}. The column *size* says with what;"
        " the usual size is what `leakbound reproduce` does by default, and *earlier weights* are"
        " those that the pocket model had before its last training. *Times*"
        " is how many times as many units would show such a claim with a power of 80 %, by its own"
        " tests (on what was measured drawn again, or from their p-values): a guess from few units."
        " A dash is a difference on the other side."
        + (f" Not run: {', '.join(missing)}." if missing else "")
        + " This section is written by `python bench/recipe_outcomes.py`.",
        "",
        "| recipe | size | outcome | times | why |", "| --- | --- | --- | --- | --- |",
    ]  # fmt: skip
    for name, row in kept.items():
        words = OUTCOMES.get(row["outcome"], "no claim")
        claim = recipes[name].claim
        explained = claim.explained if claim and row["outcome"] == "reversed" else ""
        why = explained or short(row["reason"])
        times = row.get("times") or "–"
        cells = (f"`{name}`", size(row, recipes[name]), words, str(times), why)
        lines.append(f"| {' | '.join(' '.join(cell.split()) for cell in cells)} |")
    return "\n".join(lines) + "\n\n"


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
        before, _, after = text.partition(HEADING)
        rest = after[after.index("\n## ") + 1 :]
        a.write.write_text(before + section(kept) + rest)


if __name__ == "__main__":
    main()
