"""Systems, sessions and replies: what a user may write, and how it is audited."""

from __future__ import annotations

import asyncio
from dataclasses import FrozenInstanceError, fields
from pathlib import Path
from typing import Any

import pytest

from leakbound.errors import TargetError
from leakbound.models import Scripted
from leakbound.systems import (
    AsyncCallableSystem,
    AsyncSystem,
    CallableSystem,
    Reply,
    Store,
    System,
    SystemMechanism,
    as_system,
    load_system,
)
from leakbound.tasks import Context, Example, Job, Query, Task, Vector, Votes

TASK = Task("t", ("a", "b"))
SECRET = "Mr Featherstone"
ROW = Example(SECRET, "a")
JOB = Job((ROW,), Query("q"))


class Index:
    """A store: replies with the label of a planted or given record that the query names."""

    def __init__(self) -> None:
        self.records: dict[str, Example] = {}
        self.log: list[str] = []

    def open(self, context: Context) -> Any:
        self.log.append("open")
        return Opened(self, context)

    def plant(self, record: Example) -> str:
        self.records[str(len(self.records))] = record
        return str(len(self.records) - 1)

    def remove(self, record_id: str) -> None:
        del self.records[record_id]


class Opened:
    def __init__(self, index: Index, context: Context) -> None:
        self.index, self.rows = index, (*context, *index.records.values())

    def ask(self, query: str) -> Reply:
        self.index.log.append(f"ask {query}")
        label = next((row.label for row in self.rows if row.input in query), "none")
        return Reply(label, {"a": 1.0, "b": 0.0})

    def close(self) -> None:
        self.index.log.append("close")


def answers(store: Store, context: Context, query: str) -> str:
    session = store.open(context)
    try:
        return session.ask(query).text
    finally:
        session.close()


def test_a_store_answers_from_what_was_planted_until_it_is_removed() -> None:
    store: Store = Index()
    assert answers(store, (), "where is kite") == "none"
    record_id = store.plant(Example("kite", "b"))
    assert answers(store, (), "where is kite") == "b"
    store.remove(record_id)
    assert answers(store, (), "where is kite") == "none"


def test_a_system_of_a_user_is_audited_in_a_session_for_each_job() -> None:
    index = Index()
    mechanism = SystemMechanism(index, scored=True)
    assert mechanism.system is index
    job = Job((ROW,), Query(f"about {SECRET}"))
    assert (
        mechanism.collect(TASK, [job, job], [0, 0], Scripted())
        == [Vector((1.0, 0.0, 1.0, 0.0, 0.0))] * 2
    )
    assert index.log == ["open", f"ask about {SECRET}", "close"] * 2


def test_a_session_is_closed_when_its_question_fails() -> None:
    class Broken(Opened):
        def ask(self, query: str) -> Reply:
            raise ValueError(f"no answer about {self.rows[0].input}")

    class BrokenIndex(Index):
        def open(self, context: Context) -> Any:
            return Broken(self, context)

    index = BrokenIndex()
    with pytest.raises(TargetError, match="raised ValueError") as error:
        SystemMechanism(index).collect(TASK, [JOB, JOB], [0, 0], Scripted())
    assert index.log == ["close"]
    assert SECRET not in str(error.value)


def test_the_class_of_an_exception_says_nothing_of_a_row() -> None:
    """It was printed whole: code can name a class after what it read."""

    def system(context: Any, query: str) -> str:
        raise type(context[0].text, (ValueError,), {})

    with pytest.raises(TargetError, match="raised an exception") as error:
        SystemMechanism(as_system(system, "s")).collect(TASK, [JOB], [0], Scripted())
    assert SECRET not in str(error.value)


def test_a_class_that_is_a_system_is_loaded_by_its_address(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from leakbound.systems import Reply\n"
        "class Session:\n"
        "    def ask(self, query): return Reply('b')\n"
        "    def close(self): pass\n"
        "class Mine:\n"
        "    def open(self, context): return Session()\n"
    )
    mechanism = load_system(f"python:{tmp_path / 'mine.py'}:Mine")
    assert mechanism.collect(TASK, [JOB], [0], Scripted()) == [Votes((0, 1, 0))]


def test_what_can_be_called_is_called_even_if_it_can_be_opened() -> None:
    class Both(Index):
        def __call__(self, context: Context, query: str) -> str:
            return "a"

    assert isinstance(as_system(Both(), "both"), CallableSystem)


async def later(context: Context, query: str) -> Any:
    await asyncio.sleep(0)
    return {"text": context[0].label, "scores": {"a": 0.5, "b": 0.5}}


def test_every_system_of_this_package_is_a_system() -> None:
    for thing in (lambda context, query: context[0].label, later):
        found = as_system(thing, "mine")
        assert isinstance(found, System)
        session = found.open((ROW,))
        reply = session.ask("q")
        session.close()
        assert reply.text == "a"
        assert reply.seconds is None  # nobody outside this process sees it
        assert SECRET not in repr(session) + repr(found)


@pytest.mark.parametrize("owner", ["object", "method", "function"])
def test_a_stateful_system_is_asked_one_by_one_however_it_says_so(owner: str) -> None:
    class Desk:
        stateful = owner == "object"

        async def answer(self, context: Context, query: str) -> str:
            return "a"

    if owner == "method":
        Desk.answer.stateful = True  # type: ignore[attr-defined]
    desk = Desk()
    thing: Any = desk
    if owner == "function":

        async def thing(context: Context, query: str) -> str:
            return "a"

        thing.stateful = True
    found = as_system(thing, "desk")
    assert isinstance(found, AsyncCallableSystem)
    assert found.concurrency == 1


def test_nothing_is_asked_of_a_stateful_system_once_a_question_has_failed() -> None:
    asked: list[str] = []

    class Desk:
        stateful = True

        async def answer(self, context: Context, query: str) -> str:
            asked.append(query)
            raise ValueError

    with pytest.raises(TargetError, match="raised ValueError"):
        SystemMechanism(Desk()).collect(TASK, [JOB] * 5, [0] * 5, Scripted())
    assert asked == ["q"]


def test_sessions_of_an_asynchronous_system_are_closed_when_another_fails() -> None:
    opened, closed = [], []

    class Waiting:
        def __init__(self, number: int) -> None:
            self.number = number

        async def ask(self, query: str) -> Reply:
            if self.number == 2:
                raise ValueError
            await asyncio.Event().wait()
            raise AssertionError

        async def close(self) -> None:
            closed.append(self.number)

    class Several(AsyncSystem):
        concurrency = 3

        async def open_async(self, context: Context) -> Waiting:
            opened.append(len(opened))
            return Waiting(opened[-1])

    with pytest.raises(TargetError, match="raised ValueError"):
        SystemMechanism(Several()).collect(TASK, [JOB] * 3, [0, 1, 2], Scripted())
    assert sorted(closed) == opened == [0, 1, 2]


def test_a_reply_is_frozen_shows_no_text_and_has_every_field() -> None:
    reply = Reply(SECRET)
    assert SECRET not in repr(reply)
    assert [getattr(reply, field.name) for field in fields(reply)] == [SECRET, *[None] * 6]
    with pytest.raises(FrozenInstanceError):
        reply.text = "b"  # type: ignore[misc]
