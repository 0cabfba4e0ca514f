"""Notes that are deleted, and a cache of answers that remembers them.

Audit it with `leakbound audit --deleted --system python:examples/deleted_notes.py:Notes
--disposable-store`; with `--system-option forget=true`, a deletion empties the cache.
"""

from __future__ import annotations

import uuid

from leakbound import Example


def likeness(one: str, other: str) -> float:
    first, second = set(one.lower().split()), set(other.lower().split())
    return len(first & second) / max(1, len(first | second))


class Notes:
    def __init__(self, forget: bool = False) -> None:
        self.forget = forget
        self.notes: dict[str, str] = {}
        self.cache: dict[str, str] = {}  # answers by question

    def plant(self, record: Example) -> str:
        """Add a note, as a user does."""
        note_id = str(uuid.uuid4())
        self.notes[note_id] = str(record.input)
        return note_id

    def remove(self, note_id: str) -> None:
        """Delete it, as a user does."""
        del self.notes[note_id]
        if self.forget:
            self.cache.clear()

    def ask(self, question: str) -> str:
        """Answer with the nearest note."""
        if question not in self.cache:
            best = max(self.notes.values(), key=lambda note: likeness(note, question), default="")
            nothing = "Nothing is known about that."
            self.cache[question] = best if likeness(best, question) > 0.4 else nothing
        return self.cache[question]
