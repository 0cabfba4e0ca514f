"""Stores whose calls fail, whose ids are odd, and which hold records of their owner."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from stores import NearestStore, documents

import leakbound
from leakbound.errors import TargetError, UsageError
from leakbound.systems import SharedStore, filled_store
from leakbound.systems.adapters.index_store import IndexStore
from leakbound.systems.adapters.memory import memory_store
from leakbound.tasks import Context, Example, as_context

ROWS = documents(60)
CONTEXT = as_context(ROWS[:6])


@pytest.fixture(autouse=True)
def no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leakbound.systems.calls.backoff", lambda tries: 0.0)


class Memory:
    """Texts by number; the call of a number fails, once or whenever it is made."""

    def __init__(self, fail: tuple[str, int] = ("", 0), error: Exception | None = None) -> None:
        self.notes: dict[object, str] = {}
        self.calls: list[str] = []
        self.fail, self.error = fail, error or ConnectionError("private text")

    def add(self, text: str) -> object:
        self._called("add")
        name = f"m{len(self.calls)}"
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
    return found


@pytest.mark.parametrize("canary", ["coded", "natural"])
@pytest.mark.parametrize("design", ["session", "one_run"])
def test_rows_that_a_store_holds_already_are_refused(
    tmp_path: Path, design: Any, canary: str
) -> None:
    """Before, 92 of 120 records of the owner were deleted, without a word."""
    memory = ByContent()
    for text, _ in ROWS:
        memory.add(text)
    size = {"canaries": 10} if design == "one_run" else {"pairs": 6}
    told: dict[str, object] = {"documents": 0} if canary == "natural" else {}
    with pytest.raises(UsageError, match="--documents 0") as error:
        leakbound.audit(
            ROWS, system=memory, design=design, canary=canary, epsilon=1, out=tmp_path,
            settings=told, **size,
        )  # fmt: skip
    assert set(memory.notes.values()) == {text for text, _ in ROWS}
    assert not any(text in str(error.value) for text, _ in ROWS)


class Stumbling(ByContent):
    """Its search fails at the first tries, as a service does that is started."""

    def recall(self, question: str) -> list[str]:
        self.calls.append("recall")
        if self.calls.count("recall") <= self.fail[1]:
            raise TimeoutError("private text")
        return super().recall(question)


@pytest.mark.parametrize("design", ["session", "one_run"])
def test_a_search_that_fails_once_does_not_count_as_one_that_cannot_look(
    tmp_path: Path, design: Any
) -> None:
    memory = Stumbling(("recall", 1))
    memory.notes = {f"h{hash(text)}": text for text, _ in ROWS}
    size = {"canaries": 10} if design == "one_run" else {"pairs": 6}
    with pytest.raises(UsageError, match="--documents 0"):
        leakbound.audit(ROWS, system=memory, design=design, epsilon=1, out=tmp_path, **size)
    assert set(memory.notes.values()) == {text for text, _ in ROWS}


def test_other_canaries_leave_a_filled_store_as_it_was(tmp_path: Path) -> None:
    memory = ByContent()
    for text, _ in ROWS:
        memory.add(text)
    before = dict(memory.notes)
    leakbound.audit(
        ROWS, system=memory, design="one_run", canaries=10, epsilon=1, out=tmp_path,
        settings={"documents": 0},
    )  # fmt: skip
    assert memory.notes == before


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
    with filled_store(store_of(memory), records, documents_):
        assert len(memory.notes) == len(documents_) + len(records)
    assert not memory.notes


@pytest.mark.parametrize("fail", [("add", 3), ("add", 7), ("forget", 2), ("forget", 5)])
def test_a_shared_store_is_left_empty_by_one_failing_call(fail: tuple[str, int]) -> None:
    """Before, the store was filled again beside what stayed of the first try."""
    memory = Memory(fail)
    shared = SharedStore(store_of(memory), CONTEXT)
    for _ in range(2):  # the first try may fail; whoever opens it tries again
        try:
            shared.open(as_context(ROWS[10:12])).close()
        except ConnectionError:
            continue
    assert len(memory.notes) == len(CONTEXT)
    shared.close()
    assert not memory.notes


def test_what_stays_is_counted_named_and_kept() -> None:
    class Stuck(Memory):
        def forget(self, name: object) -> None:
            if name in ("m2", "m5"):
                raise ValueError("private text")
            super().forget(name)

    memory = Stuck()
    session = store_of(memory).open(CONTEXT)
    with pytest.raises(TargetError, match="2 of 6 records") as error:
        session.close()
    assert str(error.value).endswith("by hand: m5, m2.")
    assert set(memory.notes) == {"m2", "m5"}
    assert [one.id for one in session.added] == ["m5", "m2"]


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
    with filled_store(store_of(memory), as_context(ROWS[10:14]), CONTEXT) as session:
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
    with told, filled_store(store, CONTEXT, ()):
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
            settings={"documents": 0},
        )  # fmt: skip
    assert (result.counts["builds"], store.builds, store.records) == (1, 1, {})
    assert "a copy stays in it" in caplog.text


@pytest.mark.parametrize("unused", ["pairs", "shots"])
def test_one_run_refuses_keys_that_it_does_not_read(tmp_path: Path, unused: str) -> None:
    """Before, they were ignored, and `compare` listed them as differences."""
    given: dict[str, Any] = {unused: 7}
    with pytest.raises(UsageError, match=f"{unused} means nothing in a one_run design"):
        leakbound.audit(ROWS, system=NearestStore(), design="one_run", out=tmp_path, **given)
