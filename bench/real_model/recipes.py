"""Recipes of the papers decided on a known model, from stored votes: no model and no rows.

    python bench/real_model/recipes.py            # their tables and outcomes
    python bench/real_model/recipes.py --write    # the same, as a part of docs/measured/outcomes.md
    python bench/real_model/recipes.py --check    # 1 if that part is not what the store shows

`evidence/subj` holds votes of ten partitions about 100 pairs. Private voting at every ε and every
reading of its output is released from them by the recipe's own code, and the recipe's own tests
are run on that.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from leakbound_lab.reproduce import Recipe, RecipeContext, Reproduction, Scale, load_recipes
from leakbound_lab.reproduce.outcomes import OUTCOMES
from subj import ASKED
from subj import HOME as STORE

from leakbound import AuditResult
from leakbound.auditing import make_spec
from leakbound.auditing.audit import pair_accuracies, rates_without_each
from leakbound.auditing.decide.decide import decide
from leakbound.auditing.receipts import _copy, _pass_over, _stand_ins
from leakbound.auditing.result.assemble import assemble
from leakbound.auditing.store.folder import load_manifest

sys.path.append(str(Path(__file__).parents[1]))
from recipe_outcomes import HEADING

PAGE = Path(__file__).parents[2] / "docs" / "measured" / "outcomes.md"
TITLE = "## On a real model\n"
MODEL, PAIRS, SEED = "openai/qwen-1.5b", 100, 12
OWN = ("epsilon", "score", "simulations", "pairs", "threshold")  # what a recipe decides itself
# what differs from the recipe, beside model, rows and wording
RECIPES = {
    "contextleak/fig6": "ε = ∞ shows 5 examples, the others 20.",
    "tight/fig8": "T = 10 of 20 examples in place of 4 of 8, and a hex canary.",
    "tight/fig9": "T = 10 of 20 examples in place of 4 of 8, and a hex canary.",
}


class StoredContext(RecipeContext):
    """A context whose audits are computed from stored trials."""

    def audit(self, *keys: Any) -> AuditResult:
        asked = self.spec(*keys).flat()
        folder = self._run(asked)
        manifest = load_manifest(folder)
        known = manifest["spec"] | {key: asked[key] for key in OWN}
        if calibration := asked["mechanism"].get("calibration"):
            known["mechanism"] = {**known["mechanism"], "calibration": calibration}
        with TemporaryDirectory() as space:
            copy, rows = _copy(folder, Path(space)), _stand_ins(folder, manifest)
            seen = _pass_over(make_spec(known), copy, manifest, rows)
            result = assemble(seen, decide(seen))
            simulated = seen.tally.simulated()
        scores = simulated.member, simulated.nonmember
        result.know_pairs(pair_accuracies(*scores), rates_without_each(*scores))
        return result

    def _run(self, asked: Mapping[str, Any]) -> Path:
        """The stored run of the same model, query and mechanism; its sizes are its own."""
        for folder in sorted(STORE.glob("*/manifest.json")):
            spec = load_manifest(folder.parent)["spec"]
            kinds = spec["mechanism"].keys() & {"kind", "prior", "level"}
            same = all(spec["mechanism"].get(one) == asked["mechanism"].get(one) for one in kinds)
            if same and all(spec[key] == asked[key] for key in ("model", "query", "seed")):
                return folder.parent
        raise SystemExit(f"{STORE} holds no run of {asked['mechanism']}.")


def reproduced(recipe: Recipe) -> Reproduction:
    scale = replace(Scale(), pairs=PAIRS)
    wording = ASKED.partition("template=")[2]
    context = StoredContext(
        Path(), (MODEL,), scale=scale, seed=SEED, by_probability=True, membership=wording
    )
    made = f"{MODEL.removeprefix('openai/')}; subj rows; {PAIRS} pairs; seed {SEED}"
    names = {"pairs": str(PAIRS), **{f"pairs/{n}": str(PAIRS // n) for n in (2, 4, 8)}}
    return Reproduction(recipe, tuple(recipe.run(context)), made, names, (MODEL,))


def section(found: list[Reproduction]) -> Iterator[str]:
    counts = [sum(one.outcome.status == status for one in found if one.outcome)
              for status in OUTCOMES]  # fmt: skip
    yield TITLE
    yield (
        f"Qwen2.5-Coder-1.5B-Instruct (Q4_K_M) on SUBJ: the {PAIRS} pairs of README's table, fixed "
        "before the first call, but\nchosen for that table. The votes are by the probability of "
        "the first token, and the query has that table's wording.\n"
        "`python bench/real_model/recipes.py --write` computes this section from `evidence/subj`, "
        "without the model and the rows.\n"
    )
    yield f"| rests on | {' | '.join(OUTCOMES.values())} |\n" + "| --- " * (1 + len(OUTCOMES)) + "|"
    yield f"| a real model | {' | '.join(map(str, counts))} |\n"
    yield "| recipe | outcome | what differs | why |\n| --- | --- | --- | --- |"
    for one in found:
        outcome = one.outcome
        assert outcome is not None
        why = " ".join(outcome.reason.replace("|", "\\|").split())
        yield f"| `{one.recipe.name}` | {outcome.words} | {RECIPES[one.recipe.name]} | {why} |"


def main() -> int:
    found = [reproduced(load_recipes()[name]) for name in RECIPES]
    page, text = PAGE.read_text(encoding="utf-8"), "\n".join(section(found))
    if "--check" in sys.argv[1:]:
        return 0 if text in page else 1
    for one in found:
        print(one.markdown())
    if "--write" in sys.argv[1:]:
        before, _, pocket = page.partition(HEADING)
        kept = f"{before.partition(TITLE)[0].rstrip()}\n\n{text}\n\n{HEADING}{pocket}"
        PAGE.write_text(kept, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
