"""What is planted in a store, in a file: a process that is killed removes nothing, and the next one
does.
"""

from __future__ import annotations

import copy
import json
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from leakbound._files import write_private
from leakbound.errors import LeakboundError, StoreError, kind_of, reason_of

LOG = logging.getLogger("leakbound.systems")
FILE = "planted.jsonl"  # in a run folder
PlantedId = tuple[
    str, str | int
]  # tenant, or "", and id (PRIVATE: a store may make it of the text)


class Journal:
    """Ids of records that may be in a store, in a file of its owner alone, written before they are
    sent; while there are some, no other process plants for the same run."""

    def __init__(self, file: Path) -> None:
        self.file, self._tenant = file, ""
        self._left, self._there = dict[PlantedId, None](), dict[PlantedId, None]()
        self._locks = list[PathLock]()  # one while a record is in the store
        self._read, self._tried = list[bool](), list[bool]()  # one element once that was done

    def of(self, tenant: str) -> Journal:
        found = copy.copy(self)
        found._tenant = tenant
        return found

    def note(self, name: str | int, removed: bool = False) -> None:
        place = self._tenant, name
        if removed != (place in self._there):
            return
        if removed:
            del self._there[place]
        else:
            self._lock()
            self._there[place] = None
        if not self._there:
            self.file.unlink(missing_ok=True)
            self._locks.clear()
            return
        descriptor = os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(_line(removed, place))

    def left(self) -> tuple[PlantedId, ...]:
        """What earlier processes planted and did not remove."""
        if not self._read:
            self._read.append(True)
            self._left.update(_places(self.file))
            self._there.update(self._left)
            if self._left:
                self._lock()
                lines = (_line(False, place) for place in self._left)
                write_private(self.file, "".join(lines))  # a cut line would spoil the next one
        return tuple(place for place in self._left if place in self._there)

    def remove_left(self, name: str, remover: Callable[[str], Callable[[str], object]]) -> None:
        """Remove what earlier processes left in a store, once, and say what was done."""
        left, why = self.left(), ""
        if self._tried:
            return
        self._tried.append(True)
        for tenant, record in left:
            try:
                remover(tenant)(record)  # type: ignore[arg-type]  # or a number
            except Exception as error:  # of a store; its message may be private
                why = str(error) if isinstance(error, LeakboundError) else kind_of(error)
            else:
                self.of(tenant).note(record, removed=True)
        stay = sum(place in self._there for place in left)
        advice = (
            f" {stay} could not be removed ({why.rstrip('.')}): their ids are in "
            f"{str(self.file)!r}; delete that file where they are gone, as from a store in memory."
        )
        if left:
            LOG.warning(
                "a process was killed while records that it had planted were in the store %r; %d "
                "of %d are removed now.%s One whose id no reply had told yet may be there, too.",
                name, len(left) - stay, len(left), advice if stay else "",
            )  # fmt: skip

    def _lock(self) -> None:
        if not self._locks:
            self._locks.append(PathLock(
                self.file.parent,
                f"another process plants records for the run {str(self.file.parent)!r}; wait "
                "until it ends, or use another --out.",
            ))  # fmt: skip


class PathLock:
    """A file or folder that no other lock is on until this object is gone, or its process."""

    def __init__(self, path: Path, otherwise: str) -> None:
        self._descriptor = -1
        if os.name != "posix":  # which alone has such locks
            return
        import fcntl

        self._descriptor = os.open(path, os.O_RDONLY)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise StoreError(otherwise) from None

    def __del__(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)


def _line(removed: bool, place: PlantedId) -> str:
    return json.dumps([removed, *place]) + "\n"


def _places(file: Path) -> dict[PlantedId, None]:
    found = dict[PlantedId, None]()
    try:
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    except (OSError, ValueError) as error:
        raise StoreError(
            f"{str(file)!r}, which names records that are in a store still, cannot be read "
            f"({reason_of(error)}); mend it, or remove the records by hand and delete it."
        ) from None
    for line in lines:
        with suppress(ValueError, TypeError):  # the last line may be cut
            removed, tenant, name = json.loads(line)
            found[str(tenant), name] = None
            if removed:
                del found[str(tenant), name]
    return found
