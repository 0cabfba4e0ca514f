"""All recipes in one command: a page after each, failures beside the others, and what is kept."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from leakbound_lab.reproduce import (
    MeasuredValue,
    Recipe,
    RecipeContext,
    Reproduction,
    Sample,
    Scale,
    every_json,
    every_page,
    load_measured,
    load_recipes,
    run_every,
    save_measured,
    values_file,
    what_decides,
)
from leakbound_lab.reproduce.recipe_files import load_file, recipes_of

from leakbound.cli.main import group
from leakbound.errors import UsageError
from leakbound.models import Scripted

RECIPES = load_recipes()
EXACT = ("tight/lemmaA.1", "poetry/theorem3.1")
MEASURED = (
    MeasuredValue("a", "q", math.inf, "∞", Sample((1.0, 2.5), "query", "x", ids=(0, 3)), 9.0),
    MeasuredValue("b", "μ", 0.1 + 0.2, "0.3", exact=True),
)


def reproduce(out: Path, *args: str) -> Result:
    given = ["reproduce", "--out", str(out), *args]
    return CliRunner().invoke(group, given, catch_exceptions=False, standalone_mode=False)


def outcomes(out: Path) -> dict[str, dict[str, str]]:
    return {one["recipe"]: one for one in json.loads((out / "all.json").read_text())["recipes"]}


def test_a_page_is_there_after_each_recipe() -> None:
    """The first release wrote its page at the end: an interrupted run of all left nothing."""
    pages: list[str] = []
    records: list[dict[str, int]] = []

    def run(recipe: Recipe) -> Reproduction:
        return Reproduction(recipe, tuple(recipe.run(RecipeContext(Path()))), "no model: exact")

    run_every(
        [RECIPES[name] for name in EXACT],
        run,
        after_each=lambda found: (
            pages.append(every_page(found, len(EXACT))),
            records.append(json.loads(every_json(found, len(EXACT)))),
        ),
    )
    assert ["1 of 2 recipes have run" in page for page in pages] == [True, False]
    assert [EXACT[1] in page for page in pages] == [False, True]
    assert [(one["of"], len(one["recipes"])) for one in records] == [(2, 1), (2, 2)]


def test_a_refused_recipe_is_on_the_page_and_in_the_exit_code(tmp_path: Path) -> None:
    names = (EXACT[0], "contextleak/fig6", EXACT[1])
    done = reproduce(tmp_path, *names, "--model", "no-such-scheme/x")
    assert done.return_value == UsageError.exit_code
    found = outcomes(tmp_path)
    assert list(found) == list(names), "the others ran, before and after it"
    assert [one["outcome"] for one in found.values()] == ["shown", "failed", "reversed"]
    assert "no-such-scheme" in found["contextleak/fig6"]["reason"]
    assert "did not run to its end" in (tmp_path / "all.html").read_text()
    assert done.output.count("Page: ") == 1


def test_what_was_measured_is_not_measured_again(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert reproduce(tmp_path, *EXACT, "--html", str(page)).return_value == 0
    kept = values_file(tmp_path, RECIPES[EXACT[0]])
    assert kept.stat().st_mode & 0o077 == 0
    stored = json.loads(kept.read_text())
    stored["measured"][0]["shown"] = "from the store"
    kept.write_text(json.dumps(stored))
    assert reproduce(tmp_path, *EXACT, "--html", str(page)).return_value == 0
    assert "from the store" in page.read_text()
    kept.write_text("damaged")
    assert reproduce(tmp_path, *EXACT, "--html", str(page)).return_value == 0
    assert "from the store" not in page.read_text()
    assert outcomes(tmp_path)[EXACT[0]]["made_with"] == "no model: exact"


def test_measured_values_are_kept_as_they_were(tmp_path: Path) -> None:
    file = tmp_path / "x" / "y.json"
    save_measured(file, "key", MEASURED)
    assert load_measured(file, "key") == MEASURED
    assert load_measured(file, "another key") is None
    assert load_measured(tmp_path / "none.json", "key") is None


def test_what_decides_a_recipe(tmp_path: Path) -> None:
    """Another model at the same address, other rows in the same file, another size."""
    rows, recipe = tmp_path / "rows.jsonl", RECIPES["contextleak/fig6"]
    rows.write_text("1")
    names = {"name": "one"}
    context = RecipeContext(
        tmp_path, source={"data": str(rows)}, opener=lambda spec: Scripted(name=names["name"])
    )
    keys = [what_decides(recipe, context)]
    assert keys == [what_decides(recipe, context)]
    keys.append(what_decides(recipe, replace(context, scale=Scale(pairs=5))))
    keys.append(what_decides(recipe, replace(context, judge_model="pocket")))
    keys.append(what_decides(recipe, replace(context, by_probability=True)))
    keys.append(what_decides(recipe, replace(context, membership="{canary}?")))
    keys.append(what_decides(replace(recipe, options={}), context))
    names["name"] = "two"
    keys.append(what_decides(recipe, replace(context, _opened={})))
    names["name"] = "one"
    rows.write_text("2")
    keys.append(what_decides(recipe, replace(context, _opened={})))
    assert len(set(keys)) == len(keys)
    exact = RECIPES[EXACT[0]]
    assert what_decides(exact, context) == what_decides(exact, RecipeContext(tmp_path))


SIZED = """
recipes:
- {{name: x/fig1, title: t, finding: s., measure: mean_sensitivity, options: {{partitions: [1]}},
   printed: [], differences: d., usual: {{{usual}}}}}
"""


def test_a_recipe_may_have_sizes_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(SIZED.format(usual="pairs: 48, queries: 60"))
    (recipe,) = recipes_of(load_file(tmp_path / "x.yaml"))
    assert recipe.scale == replace(Scale(), pairs=48, queries=60)
    (tmp_path / "x.yaml").write_text(SIZED.format(usual="pears: 48"))
    with pytest.raises(UsageError, match="pears"):
        list(recipes_of(load_file(tmp_path / "x.yaml")))
