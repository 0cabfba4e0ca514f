"""Recipes from the YAML files of this package, one file per paper."""

from __future__ import annotations

import functools
import importlib.resources
import inspect
from collections.abc import Iterator, Mapping
from importlib.resources.abc import Traversable

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from leakbound.errors import DataError
from leakbound_lab.reproduce.claims import ClaimEntry, claim_of
from leakbound_lab.reproduce.measures import MEASURES
from leakbound_lab.reproduce.recipe import Needs, Recipe
from leakbound_lab.reproduce.values import NO_NUMBERS, PaperTable, PrintedValue, Quantity

try:
    from yaml import CSafeLoader as Loader  # eight times as fast
except ImportError:
    from yaml import SafeLoader as Loader  # type: ignore[assignment]

PAPERS = ("contextleak", "influence", "tight", "poetry")  # the order in which recipes are listed


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Printed(_Strict):
    """One printed value for one or more settings, or the cells of a table in the file."""

    setting: str = ""
    settings: tuple[str, ...] = ()
    quantity: str = ""
    value: int | float | str | None = None
    expected: str = ""
    where: str
    table: str = ""
    rows: tuple[str, ...] = ()
    quantities: dict[str, str] = {}


class _Sizes(_Strict):
    """Sizes of a Scale; None keeps the default."""

    pairs: int | None = None
    repeats: int | None = None
    queries: int | None = None
    contexts: int | None = None
    tokens: int | None = None


class _Recipe(_Strict):
    name: str
    title: str
    finding: str
    needs: Needs = "model"
    models: tuple[str, ...] = ("pocket",)
    task: str | None = None
    measure: str
    options: dict[str, object] = {}
    printed: tuple[_Printed, ...]
    differences: str
    cells: dict[str, tuple[str, ...]] = {}
    claims: ClaimEntry | None = None
    usual: _Sizes = _Sizes()
    trained_in: bool = False


class _RecipeFile(_Strict):
    notes: dict[str, str] = {}
    tables: dict[str, PaperTable] = {}
    audits: dict[str, dict[str, object]] = {}
    signals: tuple[tuple[str, str], ...] = ()
    recipes: tuple[_Recipe, ...]


@functools.cache
def load_recipes() -> Mapping[str, Recipe]:
    return {one.name: one for paper in PAPERS for one in recipes_of(_load(paper))}


def recipes_of(file: _RecipeFile) -> Iterator[Recipe]:
    """The recipes of a file. Claims may only name cells that the recipe has."""
    for one in file.recipes:
        yield _recipe(one, file)


def paper_tables(paper: str) -> Mapping[str, PaperTable]:
    return _load(paper).tables


@functools.cache
def _load(paper: str) -> _RecipeFile:
    file = importlib.resources.files("leakbound_lab.reproduce") / "recipes" / f"{paper}.yaml"
    return load_file(file)


def load_file(file: Traversable) -> _RecipeFile:
    try:
        return _RecipeFile.model_validate(
            Loader(file.read_text(encoding="utf-8")).get_single_data()
        )
    except (yaml.YAMLError, ValidationError) as error:
        reason = " ".join(str(error).split())
        raise DataError(f"the recipes in {file.name} cannot be read: {reason}.") from None


def _recipe(one: _Recipe, file: _RecipeFile) -> Recipe:
    options = {  # `table` names a table in the file
        key: file.tables[str(value)] if key == "table" else value
        for key, value in one.options.items()
    }
    _check_measure(one.name, one.measure, options)
    claims, name, finding = one.claims, one.name, one.finding
    return Recipe(
        name=name, title=one.title, finding=finding, needs=one.needs, models=one.models,
        task=one.task, measure=one.measure, options=options,
        printed=tuple(row for entry in one.printed for row in _print_all(entry, file)),
        differences=one.differences.format_map(file.notes), cells=one.cells,
        claim=None if claims is None else claim_of(name, finding, claims, one.cells),
        usual=one.usual.model_dump(exclude_none=True), trained_in=one.trained_in,
    )  # fmt: skip


def _check_measure(name: str, measure: str, options: Mapping[str, object]) -> None:
    if measure not in MEASURES:
        raise DataError(f"{name} names the measure {measure!r}; it must be one of MEASURES.")
    try:
        inspect.signature(MEASURES[measure]).bind(None, **options)
    except TypeError as error:
        raise DataError(f"the options of {name} do not fit its measure: {error}.") from None


def _print_all(entry: _Printed, file: _RecipeFile) -> Iterator[PrintedValue]:
    if entry.table:
        yield from _cells(entry, file.tables[entry.table])
        return
    quantity = Quantity[entry.quantity.upper()]
    value = entry.expected if entry.value is None else entry.value
    where = entry.where if entry.value is not None else f"{NO_NUMBERS}; {entry.where}"
    for setting in entry.settings or (entry.setting,):
        yield PrintedValue(setting, quantity, value, where)


def _cells(entry: _Printed, table: PaperTable) -> Iterator[PrintedValue]:
    for cell in table.cells(entry.rows):
        names = {"row": cell.row, "column": cell.column, **cell.values}
        setting, where = entry.setting.format_map(names), entry.where.format_map(names)
        for field, quantity in entry.quantities.items():
            yield PrintedValue(setting, Quantity[quantity.upper()], cell.values[field], where)
