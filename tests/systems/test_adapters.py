"""Adapters that need no framework: a plain memory, and the search for a store in an application."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from leakbound_hosts.adapters import adapted
from leakbound_hosts.adapters.index_store import IndexStore
from leakbound_hosts.adapters.search import find_inside, require_one_store
from stores import DISPOSABLE, documents

import leakbound
from leakbound.auditing.result.sentences import attacks_sentence
from leakbound.errors import TargetError, UsageError
from leakbound.systems import as_system
from leakbound.tasks import Example


class Memory:
    """Notes by number, found by the words that they share with a question."""

    def __init__(self) -> None:
        self.notes: dict[int, str] = {}
        self.next = 0

    def remember(self, text: str) -> int:
        self.next += 1
        self.notes[self.next] = text
        return self.next

    def forget(self, number: int) -> None:
        del self.notes[number]

    def recall(self, question: str) -> list[str]:
        words = set(question.split())
        return sorted(self.notes.values(), key=lambda note: -len(words & set(note.split())))[:2]


def test_a_plain_memory_is_a_store(tmp_path: Path) -> None:
    """The first release refuses it: it must be called as (context, query)."""
    memory = Memory()
    memory.remember("what was there before")
    result = leakbound.audit(
        documents(150), system=memory, design="one_run", canaries=60, epsilon=2, out=tmp_path,
        calls=DISPOSABLE, settings={"claim_for": "run"},
    )  # fmt: skip
    assert (result.verdict, result.counts["builds"]) == ("violation", 1)
    assert list(memory.notes.values()) == ["what was there before"]
    assert "what replies say beside their answer" in attacks_sentence(result).partition("Not")[2]


def test_a_store_is_found_in_steps_closures_and_globals() -> None:
    memory = Memory()

    def inner(query: str) -> object:
        return memory.recall(query)

    class Step:
        __slots__ = ("after",)

        def __init__(self, after: object) -> None:
            self.after = after

    def is_it(one: object) -> bool:
        return isinstance(one, Memory)

    for application in (memory, inner, [{"x": inner}], Step([inner]), partial(inner, "x")):
        assert find_inside(application, is_it) is memory
    assert find_inside(Step(Step(None)), is_it) is None


def test_an_application_with_two_stores_does_not_say_which_one_it_answers_from() -> None:
    """Canaries were added to the one that the code named first, and deleted from it."""
    log, index = Memory(), Memory()

    def answer(query: str) -> object:
        log.remember(query)
        return index.recall(query)

    def is_it(one: object) -> bool:
        return isinstance(one, Memory)

    with pytest.raises(UsageError, match=r"'mine' holds 2 stores \(Memory, Memory\).* Name the"):
        require_one_store(answer, is_it, "mine")
    require_one_store([index, {"again": index.recall}], is_it, "mine")
    index.__dict__["within"] = log
    require_one_store(partial(print, index), is_it, "mine")
    require_one_store([], is_it, "mine")


@pytest.mark.parametrize(
    "thing", [set(), [], {}, lambda context, query: "no", Memory, object(), leakbound.FewShot()]
)
def test_other_objects_are_no_adapters_business(thing: object) -> None:
    assert adapted(thing, "mine") is None


def test_an_index_that_returns_no_ids_is_refused() -> None:
    store = IndexStore("mine", lambda records: [], lambda ids: None, lambda query: "")
    with pytest.raises(TargetError, match="0 ids for 1 records"):
        store.plant(Example("a", ""))


def test_a_session_of_an_index_takes_its_records_away_once() -> None:
    memory = Memory()
    system = as_system(memory, "mine")
    assert isinstance(system, IndexStore)
    session = system.called(DISPOSABLE).open((Example("a b", "c"),))
    assert session.ask("a").text == "a b\nc"
    session.close()
    session.close()
    assert not memory.notes
