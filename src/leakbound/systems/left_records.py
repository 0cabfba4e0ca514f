"""What is said of records that could not be taken out of a store."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass

from leakbound.errors import LeakboundError, TargetError
from leakbound.models.content import readable
from leakbound.systems.failures import failure_of
from leakbound.tasks import Example

__all__ = ["PlantedRecord", "Records", "left_in_store", "warn_of_copy"]

LOG = logging.getLogger("leakbound.systems")
HEXADECIMAL = re.compile(r"(?:leakbound-)?[0-9a-fA-F-]{16,40}")  # 8-4-4-4-12, or a digest
NUMBERED = re.compile(r"(?:leakbound-)?[A-Za-z]{0,8}[-_:/.]?\d{1,7}")
NO_LETTER = re.compile(r"[\W_]+")
OURS = "leakbound-"  # how ids begin that leakbound makes
SHOWN = 200  # ids in a message


@dataclass(frozen=True, slots=True, repr=False)
class PlantedRecord:
    """A record in a store.

    Attributes:
        id: What the store removes it by.
        record: The record (PRIVATE).
    """

    id: str
    record: Example

    @property
    def shown(self) -> str:
        """Its id where that is a hexadecimal name, or a number behind a few letters, and has no
        piece of the record; else ""."""
        plain = str(self.id)
        own = f"{readable(self.record.input)} {self.record.label}".lower()
        text = NO_LETTER.sub("", own)
        if HEXADECIMAL.fullmatch(plain):
            pieces = re.findall(r"\d{5,}", NO_LETTER.sub("", plain))
        elif NUMBERED.fullmatch(plain):
            pieces = re.findall(r"[a-z]{2,}|\d{4,}", plain.removeprefix(OURS).lower())
        else:
            return ""
        return "" if any(piece in text for piece in pieces) else plain


# by id, in their order: a store may know equal records by one id, and removes them once
Records = dict[str, PlantedRecord]


def left_in_store(
    stay: Sequence[PlantedRecord], of: int, cause: BaseException, because: BaseException | None
) -> TargetError:
    """The error to raise where planted records stay in a store.

    Args:
        stay: Those that stay, at least one.
        of: Records that were planted.
        cause: The first error of a removal.
        because: What ended the use of the store, if that was an error, too.

    Returns:
        A sentence with their ids. It has no text of a record: ids that may hold one are counted.
    """
    ids = [one.shown for one in stay if one.shown]
    named = ", ".join(ids[:SHOWN]) + (f" and {len(ids) - SHOWN} more" if len(ids) > SHOWN else "")
    hidden = len(stay) - len(ids)
    if hidden:
        named += f"{'; ' if ids else ''}{hidden} with ids that may hold text of the record"
    before = "" if because is None else f"{_told(because)} "
    return TargetError(
        f"{before}{len(stay)} of {of} records that were planted in the store could not be removed "
        f"({_told(cause).rstrip('.')}); they are in it still. Remove them by hand: {named}."
    )


def warn_of_copy(error: BaseException) -> None:
    """Say that a record whose call was lost may have been added; it is planted again.

    Args:
        error: What ended the call; of others than a lost call, nothing is said.
    """
    failure = failure_of(error) if isinstance(error, Exception) else None
    if failure is not None and failure.passes and not failure.kind.startswith("status "):
        LOG.warning(
            "plant ended with %s, and is tried again: if the store had added the record, a copy "
            "stays in it under an id that nobody was told.",
            failure.kind,
        )


def _told(error: BaseException) -> str:
    """The sentence of an error of this package; of others the type, as messages may be private."""
    return str(error) if isinstance(error, LeakboundError) else f"{type(error).__name__}."
