"""The error tree. A message says what is wrong, what was got, what it must be, what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = [
    "BudgetExhausted",
    "IgnoredEntryPoint",
    "LeakboundError",
    "DataError",
    "Interrupted",
    "LimitReached",
    "Refused",
    "StoreError",
    "TargetError",
    "UsageError",
    "unknown_name",
]


class LeakboundError(Exception):
    """Anything this package refuses to do. `exit_code` is what the command line ends with."""

    exit_code = 2


class UsageError(LeakboundError, ValueError):
    """An argument, option or configuration value that cannot be used."""


class DataError(UsageError):
    """A data file or data set that cannot be used."""


class StoreError(UsageError):
    """A run folder that cannot be used."""


class TargetError(LeakboundError):
    """The model or system under audit cannot be reached, or lacks what an audit needs."""

    exit_code = 4


class Refused(TargetError):
    """An endpoint answered, and will not do what was asked; trying again is of no use.

    `status` is the HTTP status.
    """

    def __init__(self, sentence: str, status: int = 0) -> None:
        super().__init__(sentence)
        self.status = status


class BudgetExhausted(LeakboundError):
    """The privacy budget of a data set does not allow another answer; nothing was released."""

    exit_code = 5


class Interrupted(LeakboundError):
    """Stopped by the user; the same command resumes."""

    exit_code = 130


class LimitReached(Interrupted):
    """A limit on money or time that the user has set stopped the run; the same command
    resumes.
    """


class IgnoredEntryPoint(UserWarning):
    """An installed package registers a component under a name that this package has."""


def unknown_name(what: str, got: str, known: Iterable[str]) -> UsageError:
    """The sentence for a name that is not in a catalogue, with the nearest ones."""
    names = sorted(known)
    near = difflib.get_close_matches(got, names, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return UsageError(f"{what} {got!r} is not known; it must be one of {', '.join(names)}.{hint}")
