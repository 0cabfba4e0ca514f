"""Stores whose calls fail, whose ids are odd, and which hold records of their owner."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from leakbound_hosts.adapters.index_store import IndexStore
from leakbound_hosts.adapters.memory import memory_store
from limits import PATIENCE
from stores import DISPOSABLE, NearestStore, documents

import leakbound
from leakbound.errors import TargetError, UsageError
from leakbound.systems import SharedStore, fill_store
from leakbound.systems.planted import PlantedRecord
from leakbound.systems.threads import ThreadedSystem
from leakbound.tasks import Context, Example, as_context

ROWS = documents(60)
CONTEXT = as_context(ROWS[:6])


@pytest.fixture(autouse=True)
def no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leakbound.systems.calls.backoff", lambda tries: 0.0)


class Memory:
    """Texts by number; the call of a number fails, once or whenever it is made."""

    def __init__(self, fail: tuple[str, int] = ("", 0), error: BaseException | None = None) -> None:
        self.notes: dict[object, str] = {}
        self.calls: list[str] = []
        self.fail, self.error = fail, error or ConnectionError("private text")

    def add(self, text: str) -> object:
        self._called("add")
        name = f"{len(self.calls)}"
        self.notes[name] = text
        return name

    def forget(self, name: object) -> None:
        self._called("forget")
        del self.notes[name]

    def recall(self, question: str) -> list[str]:
        words = set(question.split())
        return sorted(self.notes.values(), key=lambda note: -len(words & set(note.split())))[:2]

    def _called(self, what: str) -> None:
        self.calls.append(what)
        if (what, self.calls.count(what)) == self.fail:
            raise self.error


class ByContent(Memory):
    """Names a text by its content, as many indexes do: adding what is there changes nothing."""

    def add(self, text: str) -> object:
        self.notes[f"h{hash(text)}"] = text
        return f"h{hash(text)}"


def store_of(memory: Memory) -> IndexStore:
    found = memory_store(memory, "notes")
    assert found is not None
    return found.called(DISPOSABLE)


REFUSED = r"the audit cannot see that.* say so with calls=CallOptions\(disposable=True\)"


@pytest.mark.parametrize("documents_", [None, 0])
@pytest.mark.parametrize("design", ["paired", "session", "one_run"])
def test_nothing_is_added_to_a_store_that_its_owner_has_not_given_up(
    tmp_path: Path, design: Any, documents_: int | None
) -> None:
    """What a store does with a record like its own cannot be found out by trying: stores that name
    records by a sentence, merge what is near, or replace equal texts lost up to 156 of 160."""
    memory = ByContent()
    for text, _ in ROWS:
        memory.add(text)
    before = dict(memory.notes)
    size: dict[str, Any] = {"canaries": 10} if design == "one_run" else {"pairs": 6}
    told = {} if documents_ is None or design == "paired" else {"documents": documents_}
    rows = [(text, "ab"[at % 2]) for at, (text, _) in enumerate(ROWS)]
    with pytest.raises(UsageError, match=REFUSED):
        leakbound.audit(
            rows, system=memory, design=design, epsilon=1, out=tmp_path, settings=told, **size
        )
    assert (memory.notes, memory.calls) == (before, [])
    kept = NearestStore()
    if design != "paired":
        with pytest.raises(UsageError, match=REFUSED):
            leakbound.audit(rows, system=kept, design=design, epsilon=1, out=tmp_path, **size)
        assert not kept.planted


class Rewriting(Memory):
    """Answers as mem0 does: a near repeat changes the memory that is there."""

    def add(self, text: str) -> object:
        near = [name for name, note in self.notes.items() if note.split()[:3] == text.split()[:3]]
        if near:
            return {"results": [{"id": near[0], "event": "UPDATE"}]}
        return {"results": [{"id": super().add(text), "event": "ADD"}]}


def test_a_memory_that_changes_its_own_records_is_refused() -> None:
    memory = Rewriting()
    with pytest.raises(TargetError, match="the event 'UPDATE'"):
        store_of(memory).open(as_context([("one two three four", ""), ("one two three five", "")]))
    assert not memory.notes


def test_what_a_memory_added_beside_a_change_is_taken_out() -> None:
    """It stayed: the change was refused before the new id was read."""

    class Both(Memory):
        def add(self, text: str) -> object:
            new = {"id": super().add(text), "event": "ADD"}
            return {"results": [new, {"id": "old", "event": "UPDATE"}]}

    memory = Both()
    with pytest.raises(TargetError, match="the event 'UPDATE'"):
        store_of(memory).open(CONTEXT)
    assert not memory.notes


def test_a_deletion_that_says_false_is_none() -> None:
    """Canaries stayed in the store, and nothing was said."""

    class Deaf(Memory):
        def forget(self, name: object) -> Any:
            return False

    session = store_of(Deaf()).open(CONTEXT[:2])
    with pytest.raises(TargetError, match=r"2 of 2 records.*returned False"):
        session.close()


def test_ids_with_words_of_the_record_are_not_shown() -> None:
    """An id made of its first words stood in the message."""

    class Slugs(Memory):
        def add(self, text: str) -> object:
            return "-".join(text.split()[:2]).upper()

        def forget(self, name: object) -> None:
            raise OSError

    session = store_of(Slugs()).open(as_context([("Bob Roe was seen for flu", "")]))
    with pytest.raises(TargetError, match="1 with ids that may hold text") as told:
        session.close()
    assert "ROE" not in str(told.value)


@pytest.mark.parametrize(
    ("made", "shown"),
    [("AnnSmithHasDiabetes", False), ("annsmith-1", False), ("note_smiths", False),
     ("ann7", False), ("pat123456789", False), ("u4155550123", False), ("d19840312-1", False),
     ("diabetes-17", False), ("4111111111111111", False), ("u5550123", False),
     ("416e6e20536d69746820686173206469", False), ("0cff77443edd8057adedc84acaf5a0c1", False),
     ("0cff7744-3edd-3057-8ded-c84acaf5a0c1", False), ("added-beef-faced-decade", False),
     ("sick:1", False), ("AS:120384", False), ("m12", False), ("leakbound-4712", False),
     ("١٢٣٤", False), ("12345678", False), ("6789", False), ("4155", False), ("12", True),
     ("7777777", True), ("0b7e9c4a-5d21-4a7e-9f0c-1d2e3f4a5b6c", True),
     ("0b7e9c4a-5d21-4a7e-9f0c-123456789b6c", False),
     ("leakbound-0b7e9c4a-5d21-4a7e-9f0c-123456789b6c", True)],
)  # fmt: skip
def test_an_id_that_may_be_made_of_the_record_is_not_shown(made: str, shown: bool) -> None:
    """Its hexadecimal digits, its MD5 and codes of it were."""
    text = "Ann Smith, SSN 123-45-6789, call 415-555-0123, card 4111 1111 1111 1111"
    one = PlantedRecord(made, Example(text, "diabetes"))
    assert one.shown == (made if shown else "")


def test_a_store_of_the_user_that_does_not_remove_is_told() -> None:
    """23 canaries stayed without a word."""

    class Keeps(NearestStore):
        def remove(self, record_id: str) -> Any:
            return False

    told = pytest.raises(TargetError, match="6 of 6 records")
    with told, fill_store(Keeps(), CONTEXT, (), DISPOSABLE):
        pass


@pytest.mark.parametrize("shared", [True, False])
def test_a_store_whose_methods_are_coroutines_is_emptied(shared: bool) -> None:
    """A coroutine of `remove` was never awaited: every canary stayed, and nothing was said."""

    class Later(NearestStore):
        async def plant(self, record: Example) -> str:  # type: ignore[override]
            return super().plant(record)

        async def remove(self, record_id: str) -> None:  # type: ignore[override]
            super().remove(record_id)

    store: Any = Later()
    if shared:
        visit = SharedStore(store, (), calls=DISPOSABLE).open(CONTEXT)
        assert len(store.records) == len(CONTEXT)
        visit.close()
    else:
        with fill_store(store, CONTEXT, (), DISPOSABLE):
            assert len(store.records) == len(CONTEXT)
    assert not store.records


def test_a_removal_whose_reply_was_lost_may_find_nothing_the_second_time() -> None:
    """A store that was empty was said to hold the record still."""

    class Lossy(NearestStore):
        def remove(self, record_id: str) -> Any:
            gone = self.records.pop(record_id, None) is not None
            if gone and record_id == "3":
                raise TimeoutError
            return gone

    store = Lossy()
    with fill_store(store, CONTEXT, (), DISPOSABLE):
        pass
    assert not store.records


class Settling(Memory):
    """Takes a while to add, so that the wait after it is long enough to be interrupted in."""

    def add(self, text: str) -> object:
        time.sleep(0.02)
        return super().add(text)


def test_an_interrupt_while_a_store_settles_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every document stayed in the index, without a word."""

    def interrupted(seconds: float) -> None:
        raise KeyboardInterrupt

    memory = Memory()
    monkeypatch.setattr("leakbound_hosts.adapters.index_store.settle", interrupted)
    with pytest.raises(KeyboardInterrupt):
        store_of(memory).open(CONTEXT)
    assert not memory.notes


def test_a_session_that_is_given_up_while_it_opens_is_closed() -> None:
    """With --timeout, Ctrl-C left the records that a thread had added, or was adding."""
    memory = Settling()
    system = ThreadedSystem(store_of(memory), "notes", timeout=PATIENCE)

    async def interrupted() -> None:
        opening = asyncio.create_task(system.open_async(CONTEXT))
        while not memory.notes:
            await asyncio.sleep(0.001)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening

    asyncio.run(interrupted())
    assert not memory.notes


class Late(NearestStore):
    """Shows a record 20 ms after it was planted, which takes 4 ms."""

    def __init__(self) -> None:
        super().__init__()
        self.since: dict[str, float] = {}

    def plant(self, record: Example) -> str:
        time.sleep(0.004)
        name = super().plant(record)
        self.since[name] = time.monotonic()
        return name

    def said(self, rows: Any, query: str) -> str:
        old = time.monotonic() - 0.02
        hidden = [self.records[name] for name, at in self.since.items()
                  if at > old and name in self.records]  # fmt: skip
        seen = [row for row in rows if not any(row is one for one in hidden)]
        return super().said(seen, query) if seen else "nothing"


@pytest.mark.slow
def test_a_store_that_shows_new_records_late_is_not_called_clean(tmp_path: Path) -> None:
    """The first of eight copies was there when a control was asked about; no canary was."""
    result = leakbound.audit(
        ROWS, system=Late(), design="session", pairs=16, epsilon=0.2, state_check=0, out=tmp_path,
        calls=DISPOSABLE, settings={"documents": 10},
    )  # fmt: skip
    assert result.verdict == "violation"


@pytest.mark.slow
def test_a_memory_that_shows_new_records_late_is_not_called_clean(tmp_path: Path) -> None:
    """In a paired design, a control has its copies from the first place on."""

    class Slow(Memory):
        def __init__(self) -> None:
            super().__init__()
            self.since: dict[str, float] = {}

        def add(self, text: str) -> object:
            time.sleep(0.002)
            self.since[text] = self.since.get(text, time.monotonic())
            return super().add(text)

        def forget(self, name: object) -> None:
            self.since.pop(self.notes[name], None)
            super().forget(name)

        def recall(self, question: str) -> list[str]:
            old = time.monotonic() - 0.008
            seen = [text for text, at in self.since.items() if at <= old]
            return ["yes" if any(text.split("\n")[0] in question for text in seen) else "no"]

    rows = [(text, "ab"[at % 2]) for at, (text, _) in enumerate(ROWS)]
    result = leakbound.audit(
        rows, system=Slow(), pairs=16, shots=6, epsilon=0.2, state_check=0, out=tmp_path,
        calls=DISPOSABLE,
    )  # fmt: skip
    assert result.verdict == "violation"


def test_a_store_that_keeps_the_newest_records_is_not_called_clean(tmp_path: Path) -> None:
    """Controls were planted last, and stayed where canaries were gone."""

    class Capped(NearestStore):
        def plant(self, record: Example) -> str:
            name = super().plant(record)
            for old in [*self.records][:-16]:
                self.records.pop(old)
            return name

        def remove(self, record_id: str) -> None:
            self.records.pop(record_id, None)

    result = leakbound.audit(
        documents(200), system=Capped(), design="one_run", canaries=100, epsilon=2, out=tmp_path,
        calls=DISPOSABLE, settings={"claim_for": "run", "documents": 10},
    )  # fmt: skip
    assert result.verdict == "inconclusive"


def test_one_run_gives_controls_and_canaries_the_same_ages(tmp_path: Path) -> None:
    """Controls were the oldest records when they were asked about, and a late store passed."""

    class Slow(Late):
        def said(self, rows: Any, query: str) -> str:
            time.sleep(0.001)
            old = time.monotonic() - 0.15
            hidden = [self.records[n] for n, at in self.since.items() if at > old]
            seen = [row for row in rows if not any(row is one for one in hidden)]
            return NearestStore.said(self, seen, query) if seen else "nothing"

        def remove(self, record_id: str) -> None:
            del self.since[record_id]
            super().remove(record_id)

    result = leakbound.audit(
        documents(120), system=Slow(), design="one_run", canaries=60, epsilon=2, out=tmp_path,
        calls=DISPOSABLE, settings={"claim_for": "run", "documents": 10},
    )  # fmt: skip
    assert result.verdict != "no_violation"


def test_a_document_whose_call_was_lost_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """A private row could stay in a memory without a word."""
    memory = Memory(("add", 2), TimeoutError())
    with caplog.at_level(logging.WARNING, "leakbound.systems"), pytest.raises(TimeoutError):
        store_of(memory).open(CONTEXT)
    assert "a copy stays in it" in caplog.text


def test_an_interrupt_while_records_are_taken_out_ends_the_audit_after_that() -> None:
    """It was swallowed, and the audit went on."""
    memory = Memory(("forget", 1), KeyboardInterrupt())
    session = store_of(memory).open(CONTEXT)
    with pytest.raises(KeyboardInterrupt):
        session.close()
    assert not memory.notes
    tries = iter([KeyboardInterrupt])

    class Hasty(NearestStore):
        def remove(self, record_id: str) -> None:
            if self.planted == 6 and (error := next(tries, None)) is not None:
                raise error
            super().remove(record_id)

    store = Hasty()
    with pytest.raises(KeyboardInterrupt), fill_store(store, CONTEXT, (), DISPOSABLE):
        pass
    assert not store.records


def test_a_copy_may_lose_records_where_its_owner_says_so(tmp_path: Path) -> None:
    memory = ByContent()
    result = leakbound.audit(
        ROWS, system=memory, design="one_run", canaries=10, epsilon=1, out=tmp_path,
        calls=DISPOSABLE,
    )  # fmt: skip
    assert result.counts["documents"] > 0
    assert not memory.notes


def test_an_id_that_is_returned_twice_is_removed_by_the_last_one() -> None:
    """A canary that is a document, too: taking it out must leave the document."""
    memory = ByContent()
    store = store_of(memory)
    session = store.open(CONTEXT)
    store.remove(store.plant(CONTEXT[0]))
    assert len(memory.notes) == len(CONTEXT)
    planted = store.plant(CONTEXT[0])
    session.close()
    assert list(memory.notes.values()) == [CONTEXT[0].input]
    store.remove(planted)
    assert not memory.notes


@pytest.mark.parametrize("fail", [("add", 4), ("add", 12), ("forget", 1), ("forget", 9)])
def test_one_failing_call_leaves_nothing_behind(fail: tuple[str, int]) -> None:
    """Before, one failing call left 48 to 92 records in the store."""
    memory = Memory(fail)
    documents_, records = CONTEXT, as_context(ROWS[10:20])
    with fill_store(store_of(memory), records, documents_, DISPOSABLE):
        assert len(memory.notes) == len(documents_) + len(records)
    assert not memory.notes


@pytest.mark.parametrize("fail", [("add", 3), ("add", 7), ("forget", 2), ("forget", 5)])
def test_a_shared_store_is_left_empty_by_one_failing_call(fail: tuple[str, int]) -> None:
    """Before, the store was filled again beside what stayed of the first try."""
    memory = Memory(fail)
    shared = SharedStore(store_of(memory), CONTEXT, calls=DISPOSABLE)
    for _ in range(2):  # the first try may fail; whoever opens it tries again
        try:
            shared.open(as_context(ROWS[10:12])).close()
        except ConnectionError:
            continue
    assert len(memory.notes) == len(CONTEXT)
    shared.close()
    assert not memory.notes


@pytest.mark.parametrize("error", [ValueError, asyncio.CancelledError, KeyboardInterrupt])
def test_what_stays_is_counted_named_and_kept(error: type[BaseException]) -> None:
    """Before, a cancelled call left all others in the store, without their ids."""

    class Stuck(Memory):
        def forget(self, name: object) -> None:
            if name in ("2", "5"):
                raise error("private text")
            super().forget(name)

    memory = Stuck()
    session = store_of(memory).open(CONTEXT)
    with pytest.raises(TargetError, match="2 of 6 records") as told:
        session.close()
    assert str(told.value).endswith("by hand: 5, 2.")
    assert set(memory.notes) == {"2", "5"}
    with pytest.raises(TargetError, match="2 of 2 records"):
        session.close()


@pytest.mark.parametrize(
    "made",
    [
        lambda name: {"id": name, "memory": "x"},
        lambda name: {"results": [{"id": name, "event": "ADD"}]},
        lambda name: [name],
    ],
    ids=["dict", "results", "list"],
)
def test_ids_may_stand_in_what_add_returns(made: Callable[[object], object]) -> None:
    """Before, the dict itself was the id, and 92 records stayed."""

    class Wrapped(Memory):
        def add(self, text: str) -> object:
            return made(super().add(text))

    memory = Wrapped()
    with fill_store(store_of(memory), as_context(ROWS[10:14]), CONTEXT, DISPOSABLE) as session:
        assert ROWS[0][0] in session.ask(ROWS[0][0]).text
    assert not memory.notes


@pytest.mark.parametrize("found", [True, False])
def test_add_without_an_id_is_refused_at_the_first_record(found: bool) -> None:
    """Before, all were added, and none could be removed."""

    class Silent(Memory):
        def add(self, text: str) -> object:
            if found:
                super().add(text)
            return None

    memory = Silent()
    where = "is in the memory" if found else "was not found"
    with pytest.raises(TargetError, match=f"add of the memory returned NoneType.*{where}"):
        store_of(memory).open(CONTEXT)
    assert len(memory.notes) == found


def test_plant_without_an_id_is_refused_at_the_first_record() -> None:
    class Silent(NearestStore):
        def plant(self, record: Example) -> str:
            super().plant(record)
            return None  # type: ignore[return-value]

    store = Silent()
    told = pytest.raises(TargetError, match="plant returned NoneType")
    with told, fill_store(store, CONTEXT, (), DISPOSABLE):
        pass
    assert store.planted == 1


class Shaky(NearestStore):
    """Its first calls of each method are lost."""

    def __init__(self) -> None:
        super().__init__()
        self.lost: set[str] = set()

    def plant(self, record: Example) -> str:
        self._lose("plant")
        return super().plant(record)

    def remove(self, record_id: str) -> None:
        self._lose("remove")
        super().remove(record_id)

    def open(self, context: Context) -> Any:
        self._lose("open")
        return super().open(context)

    def _lose(self, call: str) -> None:
        if call not in self.lost:
            self.lost.add(call)
            raise TimeoutError


def test_a_lost_call_does_not_end_one_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Before, one time-out of plant, open or remove ended the run."""
    store = Shaky()
    with caplog.at_level(logging.WARNING, "leakbound.systems"):
        result = leakbound.audit(
            ROWS, system=store, design="one_run", canaries=20, epsilon=1, out=tmp_path,
            calls=DISPOSABLE, settings={"documents": 0},
        )  # fmt: skip
    assert (result.counts["builds"], store.builds, store.records) == (1, 1, {})
    assert "a copy stays in it" in caplog.text


@pytest.mark.parametrize("unused", ["pairs", "shots"])
def test_one_run_refuses_keys_that_it_does_not_read(tmp_path: Path, unused: str) -> None:
    """Before, they were ignored, and `compare` listed them as differences."""
    given: dict[str, Any] = {unused: 7}
    with pytest.raises(UsageError, match=f"{unused} means nothing in a one_run design"):
        leakbound.audit(ROWS, system=NearestStore(), design="one_run", out=tmp_path, **given)
