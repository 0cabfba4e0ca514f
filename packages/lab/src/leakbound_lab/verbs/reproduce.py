"""leakbound reproduce: tables and figures of the four papers by name."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import click

from leakbound._files import make_folder, write_private
from leakbound.auditing import AuditSpec
from leakbound.auditing.prepare.build import open_models
from leakbound.cli.options.endpoint import endpoint_options
from leakbound.cli.options.influence import addresses
from leakbound.cli.screen.help_pages import COUNT, FILE, PATH, cli_command, option
from leakbound.cli.screen.output import emit, say
from leakbound.errors import UsageError, unknown_name
from leakbound.models import Endpoint, Model
from leakbound_lab.reproduce import (
    FORMATS,
    QUICK,
    FailedRecipe,
    MeasuredValue,
    Recipe,
    RecipeContext,
    Reproduction,
    Scale,
    every_json,
    every_page,
    exit_code,
    load_measured,
    load_recipes,
    print_table,
    run_every,
    run_names,
    save_measured,
    together,
    values_file,
    what_decides,
)

T = TypeVar("T")
SIZES = ("pairs", "repeats", "queries", "contexts", "tokens")
USUAL = Scale()


@cli_command("--list", "contextleak/fig6 --quick", "--all --html papers.html --quick")
@click.argument("names", nargs=-1, metavar="[PAPER/FIGURE]...")
@option("--list", "name every recipe, with what it takes to run it", bool, name="listed")
@option("--all", "run every recipe, and write one page of all", bool, name="every")
@option(
    "--html", "HTML page to write, with --all or several recipes [default: all.html in --out]", FILE
)
@option(
    "--model",
    "model address; recipes that compare models take several (the option again, or commas) "
    "[default: the models of --list]",
    name="models",
    multiple=True,
)
@option("--data", "private rows: also the contexts of an influence recipe [default: bundled ones]")
@option("--labels", "public labels, of the rows of --data: work,home")
@option("--task", "task: one by name (leakbound list tasks)")
@option("--data-dir", "folder of the rows of named tasks")
@option("--embedder", "sentence-transformers id or folder for embeddings")
@option("--judge-model", "model that judges answers [default: the first --model]")
@option("--by-probability", "read answers to the query membership by label probabilities", bool)
@option("--membership", "wording of the query membership; {canary} stands for the canary")
@option("--pairs", f"paired trials, of an audit [default: {USUAL.pairs}]", click.IntRange(2))
@option(
    "--repeats",
    f"repetitions: contexts that utility is measured on [default: {USUAL.repeats}]",
    COUNT,
)
@option(
    "--queries",
    f"held-out queries that utility is measured on, for each context [default: {USUAL.queries}]",
    COUNT,
)
@option(
    "--contexts", f"number of contexts: of an influence recipe [default: {USUAL.contexts}]", COUNT
)
@option("--tokens", f"of a response whose influence is measured [default: {USUAL.tokens}]", COUNT)
@option(
    "--seed",
    "seed of random choices; several (the option again) are taken together [default: 0]",
    click.IntRange(0),
    name="seeds",
    multiple=True,
)
@option("--quick", "the least that shows the table: its numbers say little", bool)
@endpoint_options
@option(
    "--out",
    "folder to write into: the tables (.md, .csv, .json, .html), and the outputs, "
    "which all recipes share",
    PATH,
    Path("reproduced"),
)
def command(
    names: tuple[str, ...], listed: bool, every: bool, html: Path | None, models: tuple[str, ...],
    data: str | None, labels: str | None, task: str | None, data_dir: str | None,
    embedder: str | None, judge_model: str | None, by_probability: bool, membership: str | None,
    seeds: tuple[int, ...], quick: bool, endpoint: Endpoint, out: Path, **sizes: int | None,
) -> int:  # fmt: skip
    """Run tables or figures of papers by name, or all of them: what the paper prints beside what is
    measured here, what differs, and whether the paper's claim is shown.

    The usual scale is small, for the pocket model on a laptop; raise it and give your own model and
    data for real runs. The outputs of audits are kept, and the same command resumes from there.
    With --all or several names, one page of them is written after each recipe, and a recipe that
    has run with the same model, rows and sizes is not run again.

    The exit code is 0 whatever becomes of a claim: a reproduction is no gate. With --all or several
    names it is 70 if a recipe crashed, else that of a recipe that was refused (2 or 4); the page
    shows both as such.
    """
    recipes = load_recipes()
    _check_choice(names, every, html, recipes)
    source = _give(data=data, labels=labels, task=task, data_dir=data_dir)
    run = _Run(out, models, source, embedder, judge_model, quick, _give(**sizes), endpoint,
               tuple(dict.fromkeys(seeds)) or (0,), by_probability, membership)  # fmt: skip
    if every or len(names) > 1:
        chosen = [recipes[name] for name in dict.fromkeys(names)] or list(recipes.values())
        return _several(run, chosen, html or out / "all.html")
    if listed or not names:
        return _list()
    found = run(recipes[names[0]])
    emit(json.loads(found.json()))
    print_table(found)
    click.echo(f"Tables: {out / names[0]}.md, .csv, .json, .html")
    return 0


def _check_choice(
    names: Sequence[str], every: bool, html: Path | None, recipes: Mapping[str, Recipe]
) -> None:
    if names and every:
        raise UsageError(
            f"--all runs every recipe, and {names[0]!r} is one; leave one of them out."
        )
    if html is not None and not every and len(names) < 2:
        raise UsageError(
            "--html is the page of --all, or of several recipes; a single one writes its page to "
            "--out. Add --all or another name, or leave --html out."
        )
    for name in names:
        if name not in recipes:
            raise unknown_name("the recipe", name, recipes)


def _several(run: _Run, recipes: Sequence[Recipe], page: Path) -> int:
    """Recipes, and after each of them one page and one record of all so far."""
    for folder in (run.out, page.parent):
        make_folder(folder)

    def write(found: Sequence[Reproduction | FailedRecipe]) -> None:
        write_private(page, every_page(found, len(recipes)))
        write_private(run.out / "all.json", every_json(found, len(recipes)))

    found = run_every(recipes, partial(run, resume=True), lambda line: say(line, err=True), write)
    record = json.loads(every_json(found))
    emit(record)
    for one in record["recipes"]:
        say(f"{one['recipe']:<22} {one['outcome'].replace('_', ' '):<16} {one['says']}")
    say(f"Page: {page}; outcomes: {run.out / 'all.json'}")
    return exit_code(found)


@dataclass
class _Run:
    """Runs recipes with the options of a command; models are opened once."""

    out: Path
    models: tuple[str, ...]
    source: dict[str, str]
    embedder: str | None
    judge_model: str | None
    quick: bool
    sizes: Mapping[str, int]
    endpoint: Endpoint
    seeds: tuple[int, ...]
    by_probability: bool = False
    membership: str | None = None
    opened: dict[str, Model] = field(default_factory=dict)

    def __call__(self, recipe: Recipe, resume: bool = False) -> Reproduction:
        """Run a recipe, keep what it measured, and write its tables.

        With `resume`, take what an earlier run measured where that is there.
        """
        seeds = (0,) if recipe.needs == "nothing" else self.seeds
        measured = [self._measured(recipe, seed, resume) for seed in seeds]
        context = self._context(recipe)
        origin, names = _origin(recipe, context, seeds), run_names(context)
        found = Reproduction(recipe, together(measured), origin, names, context.models)
        make_folder((self.out / recipe.name).parent)
        for suffix, written in FORMATS.items():
            write_private(self.out / f"{recipe.name}.{suffix}", written(found))
        return found

    def _measured(self, recipe: Recipe, seed: int, resume: bool) -> tuple[MeasuredValue, ...]:
        context, kept = self._context(recipe, seed), values_file(self.out, recipe, seed)
        if resume and kept.exists():
            known = load_measured(kept, what_decides(recipe, context))
            if known is not None:
                return known
        make_folder((self.out / recipe.name).parent)
        measured = tuple(recipe.run(context))
        save_measured(kept, what_decides(recipe, context), measured)
        return measured

    def _context(self, recipe: Recipe, seed: int = 0) -> RecipeContext:
        _require_labels(recipe, self.source)
        own = {} if {"data", "task"} & self.source.keys() else _give(task=recipe.task)
        return RecipeContext(
            self.out,
            tuple(addresses(self.models or recipe.models)),
            {**self.source, **own},
            self.embedder,
            judge_model=self.judge_model,
            scale=replace(QUICK if self.quick else recipe.scale, **self.sizes),
            seed=seed,
            by_probability=self.by_probability,
            membership=self.membership,
            opener=self._open,
            report=lambda line: say(f"  {line}", err=True),
        )

    def _open(self, spec: AuditSpec) -> Model:
        address = spec.system.model
        if address not in self.opened:
            self.opened[address] = open_models(spec, endpoint=self.endpoint)
        return self.opened[address]


def _require_labels(recipe: Recipe, source: Mapping[str, str]) -> None:
    """Private voting must not take its labels from private rows, which a recipe finds out late."""
    of_rows = recipe.needs == "model" and not recipe.name.startswith("influence/")
    if of_rows and "data" in source and not {"labels", "task"} & source.keys():
        raise UsageError(
            "--data names rows without their public labels; add --labels work,home, or --task "
            "generation for free text."
        )


def _give(**options: T | None) -> dict[str, T]:
    return {name: value for name, value in options.items() if value is not None}


def _list() -> int:
    """Every recipe in the order of the papers."""
    recipes = load_recipes().values()
    for one in recipes:
        click.echo(f"{one.name:<22} {one.requirement:<32} {one.title}")
    emit([{"name": one.name, "needs": one.requirement, "title": one.title} for one in recipes])
    return 0


def _origin(recipe: Recipe, context: RecipeContext, seeds: Sequence[int]) -> str:
    """What the numbers rest on; no private text."""
    if recipe.needs == "nothing":
        return "no model: exact"
    rows = ", ".join(f"{key} {value}" for key, value in context.source.items()) or "bundled rows"
    sizes = ", ".join(f"{getattr(context.scale, name)} {name}" for name in SIZES)
    told = f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"
    read = "; answers by probability" * context.by_probability
    asks = f"; asks {context.membership}" if context.membership else ""
    return f"{', '.join(context.models)}; {rows}; {sizes}{read}{asks}; {told}"
