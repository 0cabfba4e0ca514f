"""leakbound reproduce: tables and figures of the four papers by name."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

import click

from leakbound.auditing import AuditSpec
from leakbound.auditing.prepare import open_models
from leakbound.auditing.store import write_private
from leakbound.cli.endpoint_options import endpoint_options
from leakbound.cli.help_pages import cli_command
from leakbound.cli.influence_options import addresses
from leakbound.cli.output import emit, json_option
from leakbound.cli.screen import say
from leakbound.errors import StoreError, UsageError, unknown_name
from leakbound.models import Endpoint, Model
from leakbound.reproduce import (
    FORMATS,
    QUICK,
    Recipe,
    RecipeContext,
    Reproduction,
    Scale,
    every_json,
    every_page,
    exit_code,
    load_recipes,
    print_table,
    run_every,
    run_names,
)

__all__ = ["command"]

T = TypeVar("T")
SIZES = ("pairs", "repeats", "queries", "contexts", "tokens")
USUAL = Scale()


@cli_command("--list", "contextleak/fig6 --quick", "--all --html papers.html --quick")
@click.argument("name", required=False, metavar="[PAPER/FIGURE]")
@click.option(
    "--list", "listed", is_flag=True, help="name every recipe, with what it takes to run it"
)
@click.option("--all", "every", is_flag=True, help="run every recipe, and write one page of all")
@click.option(
    "--html",
    type=click.Path(path_type=Path, dir_okay=False),
    help="the page of --all [default: all.html in --out]",
)
@click.option(
    "--model",
    "models",
    multiple=True,
    help="model address; recipes that compare models take several (the option again, or commas) "
    "[default: the pocket model of --list]",
)
@click.option(
    "--data",
    default=None,
    help="private rows, or the contexts of an influence recipe [default: bundled ones]",
)
@click.option("--task", default=None, help="a task by name (leakbound list tasks)")
@click.option("--data-dir", default=None, help="folder of the rows of named tasks")
@click.option("--embedder", default=None, help="sentence-transformers id or folder for embeddings")
@click.option(
    "--judge-model", default=None, help="model that judges answers [default: the first --model]"
)
@click.option(
    "--pairs", type=click.IntRange(2), help=f"paired trials of an audit [default: {USUAL.pairs}]"
)
@click.option(
    "--repeats", type=click.IntRange(1), help=f"contexts of a utility [default: {USUAL.repeats}]"
)
@click.option(
    "--queries", type=click.IntRange(1), help=f"of each of these [default: {USUAL.queries}]"
)
@click.option(
    "--contexts", type=click.IntRange(1), help=f"of an influence recipe [default: {USUAL.contexts}]"
)
@click.option(
    "--tokens",
    type=click.IntRange(1),
    help=f"of a response whose influence is measured [default: {USUAL.tokens}]",
)
@click.option(
    "--quick", is_flag=True, help="the least that shows the table: its numbers say little"
)
@endpoint_options
@json_option
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("reproduced"),
    show_default=True,
    help="folder of the tables (.md, .csv, .json, .html) and of the outputs, which all recipes "
    "share",
)
def command(
    name: str | None,
    listed: bool,
    every: bool,
    html: Path | None,
    models: tuple[str, ...],
    data: str | None,
    task: str | None,
    data_dir: str | None,
    embedder: str | None,
    judge_model: str | None,
    quick: bool,
    endpoint: Endpoint,
    out: Path,
    **sizes: int | None,
) -> int:
    """Run one table or figure of a paper, or all of them: what the paper prints beside what is
    measured here, what differs, and whether the paper's claim is shown.

    The usual scale is small, for the pocket model on a laptop; raise it and give your own model and
    data for real runs. The outputs of audits are kept, and the same command resumes from there.

    The exit code is 0 whatever becomes of a claim: a reproduction is no gate. With --all it is 70
    if a recipe crashed, else that of a recipe that was refused (2 or 4); the page shows both as
    such.
    """
    recipes = load_recipes()
    _check_choice(name, every, html, recipes)
    scale = replace(QUICK if quick else USUAL, **_given(**sizes))
    source = _given(data=data, task=task, data_dir=data_dir)
    run = _Run(out, models, source, embedder, judge_model, scale, endpoint)
    if every:
        return _all(run, recipes.values(), html or out / "all.html")
    if listed or name is None:
        return _list()
    found = run(recipes[name])
    emit(json.loads(found.json()))
    print_table(found)
    click.echo(f"Tables: {out / name}.md, .csv, .json, .html")
    return 0


def _check_choice(
    name: str | None, every: bool, html: Path | None, recipes: Mapping[str, Recipe]
) -> None:
    if name is not None and every:
        raise UsageError(f"--all runs every recipe, and {name!r} is one; leave one of them out.")
    if html is not None and not every:
        raise UsageError(
            "--html is the page of --all; a single recipe writes its page to --out. Add --all, or "
            "leave --html out."
        )
    if name is not None and name not in recipes:
        raise unknown_name("the recipe", name, recipes)


def _all(run: _Run, recipes: Iterable[Recipe], page: Path) -> int:
    """Every recipe, then one page and one record of all."""
    for folder in (run.out, page.parent):
        _folder(folder)
    found = run_every(recipes, run, lambda line: say(line, err=True))
    record = every_json(found)
    write_private(page, every_page(found))
    write_private(run.out / "all.json", record)
    emit(json.loads(record))
    for one in json.loads(record)["recipes"]:
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
    scale: Scale
    endpoint: Endpoint
    opened: dict[str, Model] = field(default_factory=dict)

    def __call__(self, recipe: Recipe) -> Reproduction:
        """Run a recipe and write its tables."""
        context = self._context(recipe)
        _folder((self.out / recipe.name).parent)
        measured = tuple(recipe.run(context))
        found = Reproduction(recipe, measured, _made_with(recipe, context), run_names(context))
        for suffix, written in FORMATS.items():
            write_private(self.out / f"{recipe.name}.{suffix}", written(found))
        return found

    def _context(self, recipe: Recipe) -> RecipeContext:
        own = {} if {"data", "task"} & self.source.keys() else _given(task=recipe.task)
        return RecipeContext(
            self.out,
            tuple(addresses(self.models or (recipe.model,))),
            {**self.source, **own},
            self.embedder,
            judge_model=self.judge_model,
            scale=self.scale,
            opener=self._open,
            report=lambda line: say(f"  {line}", err=True),
        )

    def _open(self, spec: AuditSpec) -> Model:
        address = spec.system.model
        if address not in self.opened:
            self.opened[address] = open_models(spec, endpoint=self.endpoint)
        return self.opened[address]


def _given(**options: T | None) -> dict[str, T]:
    """The options that were given."""
    return {name: value for name, value in options.items() if value is not None}


def _list() -> int:
    """Every recipe in the order of the papers."""
    for recipe in load_recipes().values():
        click.echo(f"{recipe.name:<22} {recipe.requirement:<32} {recipe.title}")
    return 0


def _made_with(recipe: Recipe, context: RecipeContext) -> str:
    """What the numbers rest on; no private text."""
    if recipe.needs == "nothing":
        return "no model: exact"
    rows = ", ".join(f"{key} {value}" for key, value in context.source.items()) or "bundled rows"
    sizes = ", ".join(f"{getattr(context.scale, name)} {name}" for name in SIZES)
    return f"{', '.join(context.models)}; {rows}; {sizes}"


def _folder(folder: Path) -> None:
    """Made before anything is asked."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise StoreError(
            f"the folder {str(folder)!r} cannot be made ({error}); choose another with --out."
        ) from None
