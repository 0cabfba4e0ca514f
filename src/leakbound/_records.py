"""What all records are: values that never change, stable text, a card in notebooks, tables."""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Iterable, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict

from leakbound._files import write_private
from leakbound._install import install_hint
from leakbound.errors import StoreError, UsageError, reason_of

F = TypeVar("F", bound="Frozen")


class Card:
    """What a notebook shows: what a package makes that registers for it as `leakbound.cards`."""

    __slots__ = ()

    def _repr_html_(self) -> str | None:
        entries = entry_points(group="leakbound.cards", name=type(self).__name__)
        return next((entry.load()(self) for entry in entries), None)


class Frozen(BaseModel):
    """A part of a record, which never changes."""

    model_config = ConfigDict(frozen=True, ser_json_inf_nan="strings")

    def __dir__(self) -> list[str]:
        """Its own names, without those of the library that checks it."""
        inherited = {*dir(BaseModel)}
        return sorted(name for name in super().__dir__() if name not in inherited)


class JsonRecord(Frozen, Card):
    """What a file holds as JSON."""

    def to_json(self) -> str:
        """Stable text: equal values give equal bytes."""
        return self.model_dump_json(indent=2) + "\n"


def load_json(file: Path, kind: type[F], what: str, again: str) -> F:
    """A record of a kind. Raises StoreError where the file is not `what`, with what to do."""
    try:
        return kind.model_validate_json(json.dumps(json.loads(file.read_text(encoding="utf-8"))))
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise StoreError(f"{str(file)!r} is not {what}: {reason_of(error)}. {again}") from None


def write_record(path: str | Path, text: str) -> Path:
    try:
        write_private(Path(path), text)
    except OSError as error:
        raise UsageError(
            f"path is {str(path)!r}, which cannot be written ({reason_of(error)}); name a file in "
            "a folder that exists."
        ) from None
    return Path(path)


def bounds_plot(estimates: Iterable[Any], claim: float | None, axes: Any) -> Any:
    """Lower bounds on epsilon, as bars beside the claim; an infinite one ends the axis."""
    from matplotlib import pyplot

    bounds = {
        one.method: one.epsilon
        for one in estimates
        if one.kind == "lower_bound" and one.epsilon is not None
    }
    if axes is None:
        size = 6.4, 1.2 + 0.4 * len(bounds)  # inches
        axes = pyplot.subplots(figsize=size, layout="constrained")[1]
    known = [one for one in (*bounds.values(), claim or 0.0, 1.0) if math.isfinite(one)]
    bars = axes.barh(list(bounds), [min(one, 1.2 * max(known)) for one in bounds.values()], 0.6)
    cut = [math.floor(100 * one) / 100 if math.isfinite(one) else one for one in bounds.values()]
    axes.bar_label(bars, ["∞" if math.isinf(one) else f"{one:.2f}" for one in cut], padding=3)
    axes.margins(x=0.12)
    if claim is not None:
        axes.axvline(claim, color="black", ls="--", label=f"claim: ε = {claim:g}")
        axes.legend(loc="lower right", bbox_to_anchor=(1, 1), frameon=False)
    axes.set_xlabel("ε at least")
    axes.invert_yaxis()
    return axes


def data_frame(rows: Iterable[Mapping[str, object]]) -> Any:
    """A pandas DataFrame."""
    try:
        pandas = importlib.import_module("pandas")
    except ImportError:
        raise UsageError(
            f"to_pandas needs pandas; install it with: {install_hint('notebook')}."
        ) from None
    return pandas.DataFrame(list(rows))
