"""A store made of three functions of a framework: add records, delete them, ask."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial

from leakbound.errors import TargetError
from leakbound.models.content import text_only
from leakbound.systems.calls import Caller, CallOptions
from leakbound.systems.planted import PlantedRecord, orphan_error, settle, warn_of_copy
from leakbound.systems.protocol import FunctionSession, PreparedStore, Session
from leakbound.systems.replies import as_reply
from leakbound.tasks import Context, Example

BLOCK = 256  # records that are added at once: an embedder takes them together
PLANTED = "planted"  # who adds single records


@dataclass(frozen=True, slots=True, repr=False)
class IndexRecord:
    """What a framework is to hold of an example (PRIVATE)."""

    text: str
    label: str

    @classmethod
    def of(cls, example: Example, name: str) -> IndexRecord:
        return cls(text_only(example.input, name), example.label)


@dataclass(frozen=True, slots=True)
class IndexStore(PreparedStore):
    """A store of a framework. What it holds beside the records of an audit stays as it is."""

    name: str
    add: Callable[[Sequence[IndexRecord]], Iterable[str]] = field(repr=False)
    delete: Callable[[list[str]], None] = field(repr=False)
    ask: Callable[[str], object] = field(repr=False)
    stateful: bool = True
    calls: CallOptions = field(default=CallOptions(), repr=False, compare=False)
    # who put a record there, by its id: an index may know equal records by one id
    _uses: dict[str, set[object]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def called(self, calls: CallOptions) -> IndexStore:
        return replace(self, calls=calls)

    def plant(self, record: Example) -> str:
        return self.add_all((record,))[0].id

    def remove(self, record_id: str) -> None:
        """Delete a record, unless a document of the session has the same id."""
        self._release([record_id], PLANTED)

    def add_all(self, context: Sequence[Example], owner: object = PLANTED) -> list[PlantedRecord]:
        """Add records, a few hundred at once; all of them or none."""
        records, added = [IndexRecord.of(one, self.name) for one in context], list[PlantedRecord]()
        try:
            for at in range(0, len(records), BLOCK):
                block = slice(at, at + BLOCK)
                self._add_block(context[block], records[block], owner, added)
        except BaseException as error:
            warn_of_copy(error)
            self.take_out(added, owner, error)
            raise
        return added

    def _add_block(
        self, block: Sequence[Example], records: Sequence[IndexRecord], owner: object,
        added: list[PlantedRecord],
    ) -> None:  # fmt: skip
        number = 0
        for number, one in enumerate(self.add(records), 1):
            added.append(PlantedRecord(str(one), block[min(number, len(block)) - 1]))
            self._uses.setdefault(str(one), set()).add(owner)
        if number != len(block):
            raise TargetError(
                f"the store {self.name!r} returned {number} ids for {len(block)} records; it must "
                "return one for each, so that they can be removed."
            )

    def take_out(
        self, added: list[PlantedRecord], owner: object, because: BaseException | None = None
    ) -> None:
        """Delete records, all at once or, where that fails, one by one."""
        caller, number = Caller(self.calls), len(added)
        cause = self._failed([one.id for one in added], owner, caller)
        if cause is not None:
            added[:] = [one for one in reversed(added) if self._failed([one.id], owner, caller)]
            if added:
                raise orphan_error(added, number, cause, because) from None
        added.clear()
        if isinstance(cause, KeyboardInterrupt):
            raise cause

    def _failed(self, ids: list[str], owner: object, caller: Caller) -> BaseException | None:
        try:
            caller.call(partial(self._release, ids, owner))
        except BaseException as error:  # whatever it is, the other records are taken out
            return error
        return None

    def _release(self, ids: Sequence[str], owner: object) -> None:
        """Delete those that nobody else has added."""
        gone = [one for one in dict.fromkeys(ids) if self._uses.get(one, set()) <= {owner}]
        if gone:
            self.delete(gone)
        for one in ids:
            self._uses.get(one, set()).discard(owner)
            if not self._uses.get(one):
                self._uses.pop(one, None)

    def open(self, context: Context) -> Session:
        if context:
            self.calls.require_disposable(self.name)
        owner, began = object(), time.monotonic()
        added = self.add_all(context, owner)
        try:
            settle(1.5 * (time.monotonic() - began))
        except BaseException as error:
            self.take_out(added, owner, error)
            raise
        return FunctionSession(
            lambda query: as_reply(self.ask(query), self.name), lambda: self.take_out(added, owner)
        )


@contextmanager
def undone(delete: Callable[[list[str]], object], ids: Iterable[str]) -> Iterator[None]:
    """Delete what a framework may have added in part, where it fails while it adds."""
    try:
        yield
    except BaseException:
        for one in ids:
            with suppress(Exception):
                delete([one])
        raise


def texts_of(found: object, read: Callable[[object], object]) -> object:
    """What a list of retrieved documents says; anything else is the answer itself."""
    if not isinstance(found, list | tuple):
        return found
    return "\n".join(str(read(one) or "") for one in found)
