"""Checks of numeric input, shared by privacy/ and stats/: one sentence each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral, Real
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from leakbound.errors import UsageError

Number = TypeVar("Number", bound=npt.ArrayLike)
MOST = 10**15  # trials: binomial limits are checked up to here, and every count is an exact float
SMALL, LARGE = 1e-75, 1e75  # numbers in between can be divided by each other and then squared


def _all(name: str, value: npt.ArrayLike, good: npt.NDArray[np.bool_], must: str) -> None:
    if not np.all(good):
        raise UsageError(f"{name} is {np.asarray(value).tolist()!r}; it must be {must}.")


def floats(
    name: str, value: npt.ArrayLike, must: str = "numbers", kinds: str = "iuf"
) -> npt.NDArray[np.float64]:
    """Numbers as they are: no text that looks like one, no truth value, no rows of two lengths."""
    try:
        array = np.asarray(value)
        large = array.dtype == object and all(type(one) is int for one in array.flat)
        if not array.size or array.dtype.kind in kinds or large:
            return array.astype(float)
    except (ValueError, OverflowError):
        pass  # rows of two lengths, or a whole number that no float can hold
    raise UsageError(f"{name} is {value!r}; it must be {must}.")


def numbers(name: str, value: npt.ArrayLike, nan: bool = False) -> npt.NDArray[np.float64]:
    """A list of numbers, of which none is NaN unless that is allowed."""
    array = floats(name, value, kinds="biuf")
    if array.ndim != 1 or (np.isnan(array).any() and not nan):
        raise UsageError(f"{name} is {array.tolist()}; it must be a list of numbers, without NaN.")
    return array


def of_one_shape(broadcast: bool = False, **values: npt.ArrayLike) -> list[npt.NDArray[np.float64]]:
    """Arrays of numbers of the same shape, or of shapes that broadcast."""
    arrays = [floats(name, value) for name, value in values.items()]
    shapes = [array.shape for array in arrays]
    try:
        if broadcast or len(set(shapes)) == 1:
            return list(np.broadcast_arrays(*arrays))
    except ValueError:
        pass
    must = "have shapes that broadcast" if broadcast else "have the same shape"
    named = " and ".join(values)
    raise UsageError(f"{named} have the shapes {', '.join(map(str, shapes))}; they must {must}.")


def at_least(name: str, value: Number, low: float) -> Number:
    """Numbers of at least `low`, infinite or small enough for a square."""
    must = f"a number of at least {low:g}"
    array = floats(name, value, must)
    _all(name, value, array >= low, must)
    _all(name, value, (array <= LARGE**2) | np.isinf(array), f"at most {LARGE**2:g}, or infinity")
    return value


def positive(name: str, value: Number) -> Number:
    """Numbers above 0 and finite, whose ratios have squares."""
    array = floats(name, value, "a finite number above 0")
    _all(name, value, (array > 0) & np.isfinite(array), "a finite number above 0")
    within(name, value, SMALL, LARGE)
    return value


def within(name: str, value: Number, low: float, high: float) -> Number:
    """Numbers in [low, high]."""
    must = f"between {low:g} and {high:g}"
    array = floats(name, value, must)
    _all(name, value, (array >= low) & (array <= high), must)
    return value


def epsilon_value(value: Number) -> Number:
    """A privacy parameter: at least 0, infinity allowed."""
    return at_least("epsilon", value, 0.0)


def delta_value(value: Number) -> Number:
    """A failure probability in [0, 1)."""
    array = floats("delta", value, "at least 0 and below 1")
    _all("delta", value, (array >= 0) & (array < 1), "at least 0 and below 1")
    return value


def confidence_level(value: float) -> float:
    """A confidence strictly between 0 and 1."""
    must = "above 0 and below 1, such as 0.95"
    array = floats("confidence", value, must)
    _all("confidence", value, (array > 0) & (array < 1), must)
    return value


def count(name: str, value: int, low: int = 0, most: float = MOST) -> int:
    """A whole number, at least `low`; 4.0 is one."""
    real = isinstance(value, Real) and not isinstance(value, bool)
    if not real or not -math.inf < value < math.inf or int(value) != value or value < low:
        raise UsageError(f"{name} is {value!r}; it must be a whole number of at least {low}.")
    if value > most:
        raise UsageError(f"{name} is {value!r}; it must be at most {most:g}.")
    return int(value)


def one_of(name: str, value: object, known: Sequence[object]) -> None:
    """One of a few names."""
    if value not in known:
        listed = f"{', '.join(map(str, known[:-1]))} or {known[-1]}"
        raise UsageError(f"{name} is {value!r}; it must be {listed}.")


def whole(name: str, value: object, low: int = 1, most: float = math.inf) -> None:
    """A whole number, at least `low`, that indexes and counts as it is."""
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < low:
        raise UsageError(f"{name} is {value!r}; it must be a whole number of at least {low}.")
    if int(value) > most:
        raise UsageError(f"{name} is {value!r}; it must be at most {most:g}.")
