"""What is said of records that could not be taken out of a store."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from leakbound.errors import LeakboundError, TargetError, kind_of
from leakbound.models.content import readable
from leakbound.systems.calls import failure_of
from leakbound.systems.journal import Journal
from leakbound.systems.replies import finish
from leakbound.tasks import Example

LOG = logging.getLogger("leakbound.systems")
# Any other id may be made of the record: a code or slug can be read, and a digest be guessed.
RANDOM = re.compile(  # a UUID of version 4, also as leakbound makes it
    "(leakbound-)?[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}",
    re.ASCII | re.IGNORECASE,
)
NUMBER = re.compile("[0-9]{1,7}")
NO_LETTER = re.compile(r"[\W_]+")
SHOWN = 200  # ids in a message


@dataclass(frozen=True, slots=True, repr=False)
class PlantedRecord:
    id: str
    record: Example

    @property
    def shown(self) -> str:
        """Its id where that is drawn and no run of its digits stands in the record; else ""."""
        plain = str(self.id)
        if (random := RANDOM.fullmatch(plain)) is None and not NUMBER.fullmatch(plain):
            return ""
        if random is not None and random[1]:
            return plain
        text = NO_LETTER.sub("", f"{readable(self.record.input)} {self.record.label}")
        runs = re.findall("[0-9]{4,}" if random is None else "[0-9]{5,}", plain.replace("-", ""))
        return "" if any(run in text for run in runs) else plain


class Records(dict[str, PlantedRecord]):
    """By id, in their order: a store may know equal records by one id, and removes them once."""

    def __init__(self, journal: Journal | None) -> None:
        super().__init__()
        self._journal = journal

    def __setitem__(self, name: str, planted: PlantedRecord) -> None:
        if self._journal is not None:
            self._journal.note(name)
        super().__setitem__(name, planted)

    def __delitem__(self, name: str) -> None:
        super().__delitem__(name)
        if self._journal is not None:
            self._journal.note(name, removed=True)

    def take(self, name: str) -> None:
        """Forget a record that is in the store no more, if it stands here."""
        if name in self:
            del self[name]


class Removing(Protocol):
    def remove(self, record_id: str) -> object: ...


def remove_left(store: Removing, journal: Journal | None, name: str) -> None:
    """Take out what a process that was killed had planted."""
    if journal is not None:
        journal.remove_left(name, lambda tenant: lambda one: finish(store.remove(one)))


def orphan_error(
    stay: Sequence[PlantedRecord], of: int, cause: BaseException, because: BaseException | None
) -> TargetError:
    ids = [one.shown for one in stay if one.shown]
    named = ", ".join(ids[:SHOWN]) + (f" and {len(ids) - SHOWN} more" if len(ids) > SHOWN else "")
    hidden = len(stay) - len(ids)
    if hidden:
        named += f"{'; ' if ids else ''}{hidden} with ids that may hold text of the record"
    before = "" if because is None else f"{_tell(because)} "
    return TargetError(
        f"{before}{len(stay)} of {of} records that were planted in the store could not be removed "
        f"({_tell(cause).rstrip('.')}); they are in it still. Remove them by hand: {named}."
    )


def warn_of_copy(error: BaseException) -> None:
    """Say that a record whose call was lost may have been added; it is planted again."""
    failure = failure_of(error) if isinstance(error, Exception) else None
    if failure is not None and failure.passes and not failure.kind.startswith("status "):
        LOG.warning(
            "plant ended with %s, and is tried again: if the store had added the record, a copy "
            "stays in it under an id that nobody was told.",
            failure.kind,
        )


def _tell(error: BaseException) -> str:
    """The sentence of an error of this package; of others the type, as messages may be private."""
    return str(error) if isinstance(error, LeakboundError) else f"{kind_of(error)}."


LONGEST = 60.0  # seconds, as long as a slow index takes


def settle(seconds: float) -> None:
    """Wait until a record is as old as a control's first copy: stores may show new ones late."""
    time.sleep(min(LONGEST, seconds))
