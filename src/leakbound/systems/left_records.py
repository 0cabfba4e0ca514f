"""What is said of records that could not be taken out of a store."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from leakbound.errors import LeakboundError, TargetError
from leakbound.models.content import readable
from leakbound.tasks import Example

__all__ = ["PlantedRecord", "left_in_store"]

PLAIN = re.compile(r"[\w.:/-]{1,80}", re.ASCII)  # an id of a store; anything else may be a text
SHOWN = 20  # ids in a message


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
        """Its id, unless that is made of words of the record, or may be a text; "" then."""
        text, plain = readable(self.record.input), str(self.id)
        private = plain in text or text in plain
        return "" if private or not PLAIN.fullmatch(plain) else plain


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


def _told(error: BaseException) -> str:
    """The sentence of an error of this package; of others the type, as messages may be private."""
    return str(error) if isinstance(error, LeakboundError) else f"{type(error).__name__}."
