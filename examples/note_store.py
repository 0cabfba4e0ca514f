"""A store of notes that answers with the note nearest to the question: a smallest RAG application.

leakbound audit --system python:examples/note_store.py:NoteStore --design one_run --disposable-store

A store keeps records (`plant`, `remove`) beside the context of a session (`open`). An index of
LangChain or LlamaIndex needs none of this: name the object.
"""

from __future__ import annotations

from itertools import count

from leakbound import Example
from leakbound.systems import Reply


class NoteStore:
    """Notes by number, found by the words that they share with the question."""

    def __init__(self) -> None:
        self.notes: dict[str, Example] = {}
        self.numbers = count()

    def plant(self, record: Example) -> str:
        """Keep a note; its number removes it again."""
        number = str(next(self.numbers))
        self.notes[number] = record
        return number

    def remove(self, record_id: str) -> None:
        """Forget a note."""
        del self.notes[record_id]

    def open(self, context: tuple[Example, ...]) -> NoteSession:
        """Answer from the notes and these documents."""
        return NoteSession(self, context)


class NoteSession:
    """Documents in place."""

    def __init__(self, store: NoteStore, context: tuple[Example, ...]) -> None:
        self.store, self.context = store, context

    def ask(self, query: str) -> Reply:
        """The note or document that shares most words with the query."""
        words = set(query.split())
        rows = [*self.store.notes.values(), *self.context]
        return Reply(max(rows, key=lambda row: len(words & set(row.text.split()))).text)

    def close(self) -> None:
        """Nothing to take away: the documents belong to this session."""
