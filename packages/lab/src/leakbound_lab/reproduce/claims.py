"""A paper's claims as data: inequalities between cells of the table that a recipe measures."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from leakbound.errors import DataError, unknown_name
from leakbound_lab.reproduce.context import RecipeContext
from leakbound_lab.reproduce.values import FileEntry, Quantity

SideKind = Literal["measured", "ceiling", "printed", "number"]
PREFIXES: Mapping[str, SideKind] = {"ceiling of ": "ceiling", "printed ": "printed"}
RUN_NAMES = ("pairs", "pairs/2", "pairs/4", "pairs/8", "model", "model 2")  # known only in a run
GAP = re.compile(r"\{([^{}|]+)\}")
CHOICE = re.compile(r"\{([^{}]*\|[^{}]*)\}")
CellPatterns = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class Side:
    setting: str
    quantity: str
    kind: SideKind = "measured"
    number: float = 0.0

    def __str__(self) -> str:
        if self.kind == "number":
            return f"{self.number:g}"
        before = next((text for text, kind in PREFIXES.items() if kind == self.kind), "")
        return before + self.setting


@dataclass(frozen=True, slots=True)
class Inequality:
    """One side is larger than another by more than a margin."""

    larger: Side
    smaller: Side
    by: float = 0.0
    because: str = ""

    def __str__(self) -> str:
        sign = "+" if self.by > 0 else "−"
        margin = f" {sign} {abs(self.by):g}" if self.by else ""
        return f"{self.larger} > {self.smaller}{margin}"


@dataclass(frozen=True, slots=True)
class PaperClaim:
    """A statement that a paper derives from a table or figure."""

    says: str
    holds: tuple[Inequality, ...]
    needs: tuple[Inequality, ...] = ()
    explained: str = ""
    caveat: str = ""


class _InequalityEntry(FileEntry):
    """Inequalities as written in a recipe file.

    A setting may name several settings with `{a|b}`. Sides with several settings are compared pair
    by pair.
    """

    larger: str | float = ""
    smaller: str | float = ""
    increasing: str | tuple[str, ...] = ()
    near: tuple[str | float, ...] = ()
    within: float = 0.0
    by: float = 0.0
    quantity: str
    than: str = ""
    because: str = ""


class ClaimEntry(FileEntry):
    """A claim as written in a recipe file."""

    says: str = ""
    holds: tuple[_InequalityEntry, ...] = ()
    needs: tuple[_InequalityEntry, ...] = ()
    explained: str = ""
    caveat: str = ""


def expand_settings(pattern: str) -> list[str]:
    """Expand a pattern with `{a|b}` into all texts that it stands for.

    Examples:
        >>> expand_settings("ε = {1|2}, {black|white} box")[:2]
        ['ε = 1, black box', 'ε = 1, white box']
    """
    parts = CHOICE.split(pattern)
    choices = [part.split("|") if at % 2 else [part] for at, part in enumerate(parts)]
    return ["".join(one) for one in itertools.product(*choices)]


def cell_names(cells: CellPatterns) -> set[tuple[str, str]]:
    """The cells that a recipe has."""
    return {
        (setting, _quantity(name))
        for pattern, names in cells.items()
        for setting in expand_settings(pattern)
        for name in names
    }


def claim_of(recipe: str, finding: str, entry: ClaimEntry, cells: CellPatterns) -> PaperClaim:
    """The claim of a recipe, after checks."""
    claim = PaperClaim(
        says=entry.says or finding,
        holds=tuple(one for each in entry.holds for one in _inequalities(each)),
        needs=tuple(one for each in entry.needs for one in _inequalities(each)),
        explained=entry.explained,
        caveat=entry.caveat,
    )
    if not claim.holds:
        raise DataError(f"the claim of {recipe} holds no inequality; add one under `holds`.")
    known = cell_names(cells)
    for side in (s for one in (*claim.holds, *claim.needs) for s in (one.larger, one.smaller)):
        _check_side(recipe, side, known)
    return claim


def _check_side(recipe: str, side: Side, known: set[tuple[str, str]]) -> None:
    if side.kind == "number" or (side.setting, side.quantity) in known:
        return
    for name in GAP.findall(side.setting):
        if name not in RUN_NAMES:
            raise unknown_name(f"a name in the claim of {recipe}", name, RUN_NAMES)
    settings = [setting for setting, quantity in known if quantity == side.quantity]
    raise DataError(
        f"the claim of {recipe} names the cell {side.setting!r}, {side.quantity}, which the recipe "
        f"does not list under `cells`; it must be one of: {'; '.join(sorted(settings)) or 'none'}."
    )


def _inequalities(entry: _InequalityEntry) -> Iterator[Inequality]:
    if entry.increasing:
        listed = (entry.increasing,) if isinstance(entry.increasing, str) else entry.increasing
        chain = [side for one in listed for side in _sides(one, entry.quantity)]
        for smaller, larger in itertools.pairwise(chain):
            yield Inequality(larger, smaller, entry.by, entry.because)
    elif entry.near:
        first, second = entry.near
        for one, other in _match_all(first, second, entry):
            yield Inequality(one, other, -entry.within, entry.because)
            yield Inequality(other, one, -entry.within, entry.because)
    else:
        for larger, smaller in _match_all(entry.larger, entry.smaller, entry):
            yield Inequality(larger, smaller, entry.by, entry.because)


def _match_all(
    one: str | float, other: str | float, entry: _InequalityEntry
) -> Iterator[tuple[Side, Side]]:
    """Pair up both sides. A single setting is paired with each of several."""
    first, second = _sides(one, entry.quantity), _sides(other, entry.than or entry.quantity)
    many = max(len(first), len(second))
    if {len(first), len(second)} - {1, many}:
        raise DataError(f"{one!r} and {other!r} name {len(first)} and {len(second)} settings.")
    yield from itertools.islice(zip(itertools.cycle(first), itertools.cycle(second)), many)


def _sides(text: str | float, quantity: str) -> list[Side]:
    if not isinstance(text, str):
        return [Side("", _quantity(quantity), "number", float(text))]
    for before, kind in PREFIXES.items():
        if text.startswith(before):
            rest = expand_settings(text.removeprefix(before))
            return [Side(setting, _quantity(quantity), kind) for setting in rest]
    return [Side(setting, _quantity(quantity)) for setting in expand_settings(text)]


def _quantity(name: str) -> str:
    """The quantity with this name; any other text is itself a quantity."""
    known = Quantity.__members__.get(name.upper())
    return name if known is None else str(known)


def run_names(context: RecipeContext) -> dict[str, str]:
    """The values of names in settings, for one run."""
    pairs = {f"pairs/{part}": max(2, context.scale.pairs // part) for part in (2, 4, 8)}
    found = {"pairs": str(context.scale.pairs), **{name: str(n) for name, n in pairs.items()}}
    if len(context.models) > 1:
        found |= dict(zip(("model", "model 2"), context.models, strict=False))
    return found


def fill(setting: str, names: Mapping[str, str]) -> str:
    """A setting with its names replaced."""
    return GAP.sub(lambda found: names.get(found[1], found[0]), setting)
