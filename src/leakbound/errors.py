"""The error tree. A message says what is wrong, what was got, what it must be, what to do."""

from __future__ import annotations

import difflib
import errno
import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic_core import ValidationError

__all__ = [
    "BudgetExhausted", "IgnoredEntryPoint", "LeakboundError", "DataError", "Interrupted",
    "LimitReached", "Refused", "StoreError", "TargetError", "UsageError", "findable", "kind_of",
    "reason_of", "unknown_name", "why_no_file",
]  # fmt: skip


SHOWN = 40  # characters of a path that is too long
MOST_NAMES, FEW = 40, 8  # of a longer list, an error shows only the first few


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
    """An endpoint answered with an HTTP status, and trying again is of no use."""

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
    """A limit on money or time that the user has set; the same command resumes."""


class IgnoredEntryPoint(UserWarning):
    """An installed package registers a component under a name that this package has."""


def reason_of(error: Exception) -> str:
    """Why a file cannot be used, without the numbers and paths that Python adds."""
    from pydantic_core import ValidationError  # where nothing fails, it need not be loaded

    if isinstance(error, ValidationError):
        return _first_problem(error)
    if isinstance(error, UnicodeDecodeError):
        return "it is not UTF-8 text"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, json.JSONDecodeError):
        if "utf-8-sig" in error.msg:
            return "it begins with a byte order mark"
        what = error.msg.lower().removesuffix(" starting at")
        found = f"no JSON at line {error.lineno}: {what}"
        return found if error.doc else "it is empty"
    if isinstance(error, KeyError):
        return f"it lacks {error}"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror[0].lower() + error.strerror[1:]
    if "integer string conversion" in str(error):
        return "it holds a number of thousands of digits"
    return " ".join(str(error).split()).rstrip(".")


def _first_problem(error: ValidationError) -> str:
    first = error.errors(include_input=False, include_url=False)[0]
    where = ".".join(map(str, first["loc"]))
    said = first["msg"].removeprefix("Value error, ").rstrip(".")
    if not where:
        return "it is not a JSON object"
    if first["type"] == "missing":
        return f"it lacks {where!r}"
    plain = said.partition(", unable to")[0].partition(", got ")[0]
    must = plain.removeprefix("Input should be ").replace("a valid ", "a ")
    must = must.replace("a integer", "a whole number").replace("a array", "a list")
    return f"{where}: {plain}" if must == plain else f"{where} must be {must}"


def why_no_file(path: Path) -> str:
    """Why a path that is no regular file cannot be read as one."""
    if path.exists():
        return "is a pipe or a device; save what it holds as a file"
    if path.is_symlink():
        return "is a symbolic link that leads to no file"
    return "does not exist"


def kind_of(error: BaseException) -> str:
    """The class of an exception of other people's code, unless its name may be private text."""
    name = type(error).__name__
    return name if name.isidentifier() and len(name) <= SHOWN else "an exception"


def findable(path: str | Path) -> Path:
    """A path that somebody gave, before anything looks for it."""
    try:
        Path(path).lstat()
    except ValueError:
        raise UsageError(
            f"the path {str(path)!r} holds a null character; name one without."
        ) from None
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise UsageError(
                f"the path that begins with {str(path)[:SHOWN]!r} has {len(str(path))} characters, "
                "more than the file system allows; name a shorter one."
            ) from None
    return Path(path)


def unknown_name(what: str, got: str, known: Iterable[str]) -> UsageError:
    """The error for a name that is not in a catalogue, with the most similar one."""
    names = sorted(known)
    plain = got.strip().lower().replace("-", "_")
    near = difflib.get_close_matches(plain, names, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    more = [f"{len(names) - FEW} more"] if len(names) > MOST_NAMES else []
    listed = ", ".join(names[:FEW] + more if more else names)
    return UsageError(f"{what} {got!r} is not known; it must be one of {listed}.{hint}")
