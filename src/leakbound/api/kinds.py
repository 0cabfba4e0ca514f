"""Kinds of the values of a call: files and flags are texts, and a call in Python is not."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real

from leakbound.errors import UsageError

__all__ = ["require_numbers"]

_NUMBERS = {
    **dict.fromkeys(("epsilon", "delta", "confidence", "state_check"), "a number"),
    **dict.fromkeys(("assume_hit", "assume_false_alarm"), "a number"),
    **dict.fromkeys(("pairs", "shots", "answers", "controls", "seed"), "a whole number"),
    **dict.fromkeys(("simulations", "batch_pairs"), "a whole number"),
}


def require_numbers(given: Mapping[str, object]) -> None:
    """Refuse a text or a truth value in place of a number; the spec checks the rest.

    Args:
        given: Parameters of `audit`.

    Raises:
        UsageError: For the first such value.
    """
    for name, must in _NUMBERS.items():
        value = given.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, Real)):
            raise UsageError(f"{name} is {value!r}; it must be {must}.")
