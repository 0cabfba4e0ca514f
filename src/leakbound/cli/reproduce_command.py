"""leakbound reproduce: tables and figures of the four papers by name."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import click

from leakbound.auditing.prepare import open_models
from leakbound.auditing.store import write_private
from leakbound.cli.endpoint_options import endpoint_options
from leakbound.cli.help_pages import cli_command
from leakbound.cli.influence_options import addresses
from leakbound.cli.screen import say
from leakbound.errors import StoreError, unknown_name
from leakbound.models import Endpoint
from leakbound.reproduce import (
    FORMATS,
    QUICK,
    Recipe,
    RecipeContext,
    Reproduction,
    Scale,
    load_recipes,
    print_table,
)

__all__ = ["command"]

T = TypeVar("T")
SIZES = ("pairs", "repeats", "queries", "contexts", "tokens")
USUAL = Scale()


@cli_command("--list", "contextleak/fig6 --quick")
@click.argument("name", required=False, metavar="[PAPER/FIGURE]")
@click.option(
    "--list", "listed", is_flag=True, help="name every recipe, with what it takes to run it"
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
    models: tuple[str, ...],
    data: str | None,
    task: str | None,
    data_dir: str | None,
    embedder: str | None,
    quick: bool,
    endpoint: Endpoint,
    out: Path,
    **sizes: int | None,
) -> int:
    """Run one table or figure of a paper: what the paper prints beside what is measured here, and
    what differs.

    The usual scale is small, for the pocket model on a laptop; raise it and give your own model and
    data for real runs. The outputs of audits are kept, and the same command resumes from there.
    """
    recipes = load_recipes()
    if listed or name is None:
        return _list()
    if name not in recipes:
        raise unknown_name("the recipe", name, recipes)
    recipe = recipes[name]
    context = RecipeContext(
        out,
        tuple(addresses(models or (recipe.model,))),
        _given(data=data, task=task or (None if data else recipe.task), data_dir=data_dir),
        embedder,
        replace(QUICK if quick else USUAL, **_given(**sizes)),
        partial(open_models, endpoint=endpoint),
        lambda line: say(f"  {line}", err=True),
    )
    _folder((out / name).parent)
    found = Reproduction(recipe, tuple(recipe.run(context)), _made_with(recipe, context))
    for suffix, written in FORMATS.items():
        write_private(out / f"{name}.{suffix}", written(found))
    print_table(found)
    click.echo(f"Tables: {out / name}.md, .csv, .json, .html")
    return 0


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
