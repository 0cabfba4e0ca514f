"""Checks of numeric input, shared by privacy/ and stats/: one sentence each."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from leakbound.errors import UsageError

Number = TypeVar("Number", bound=npt.ArrayLike)


def _all(name: str, value: npt.ArrayLike, good: npt.NDArray[np.bool_], must: str) -> None:
    if not np.all(good):
        raise UsageError(f"{name} is {np.asarray(value).tolist()!r}; it must be {must}.")


def _floats(name: str, value: npt.ArrayLike, must: str) -> npt.NDArray[np.float64]:
    """Numbers as they are: no text that looks like one, and no truth value."""
    array = np.asarray(value)
    if array.size and array.dtype.kind not in "iuf":
        raise UsageError(f"{name} is {value!r}; it must be {must}.")
    return array.astype(float)


def at_least(name: str, value: Number, low: float) -> Number:
    """Numbers, none of them NaN, none below `low`."""
    must = f"a number of at least {low:g}"
    _all(name, value, _floats(name, value, must) >= low, must)
    return value


def positive(name: str, value: Number) -> Number:
    """Numbers above 0 and finite."""
    array = _floats(name, value, "a finite number above 0")
    _all(name, value, (array > 0) & np.isfinite(array), "a finite number above 0")
    return value


def within(name: str, value: Number, low: float, high: float) -> Number:
    """Numbers in [low, high]."""
    must = f"between {low:g} and {high:g}"
    array = _floats(name, value, must)
    _all(name, value, (array >= low) & (array <= high), must)
    return value


def epsilon_value(value: Number) -> Number:
    """A privacy parameter: at least 0, infinity allowed."""
    return at_least("epsilon", value, 0.0)


def delta_value(value: Number) -> Number:
    """A failure probability in [0, 1)."""
    array = _floats("delta", value, "at least 0 and below 1")
    _all("delta", value, (array >= 0) & (array < 1), "at least 0 and below 1")
    return value


def confidence_level(value: float) -> float:
    """A confidence strictly between 0 and 1."""
    must = "above 0 and below 1, such as 0.95"
    array = _floats("confidence", value, must)
    _all("confidence", value, (array > 0) & (array < 1), must)
    return value


def count(name: str, value: int) -> int:
    """A whole number, at least 0; 4.0 is one."""
    real = isinstance(value, Real) and not isinstance(value, bool)
    if not real or not math.isfinite(value) or int(value) != value or value < 0:
        raise UsageError(f"{name} is {value!r}; it must be a whole number of at least 0.")
    return int(value)


def whole(name: str, value: object, low: int = 1) -> None:
    """A whole number, at least `low`, that indexes and counts as it is."""
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < low:
        raise UsageError(f"{name} is {value!r}; it must be a whole number of at least {low}.")
