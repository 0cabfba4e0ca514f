"""A help desk of several tenants: each has its own records, and one cache has all answers.

Audit it with `leakbound audit --between tenants --system python:examples/tenant_desk.py:Desk
--disposable-store`; with `--system-option shared=false`, each tenant has a cache of its own.
"""

from __future__ import annotations

import uuid

from leakbound import Example


def likeness(one: str, other: str) -> float:
    """Share of words in common; a real cache compares embeddings."""
    first, second = set(one.lower().split()), set(other.lower().split())
    return len(first & second) / max(1, len(first | second))


class Desk:
    """What all tenants share."""

    def __init__(self, shared: bool = True) -> None:
        self.shared = shared
        self.records: dict[str, tuple[str, str]] = {}  # tenant and text, by id
        self.cache: list[tuple[str, str, str]] = []  # tenant, question and answer

    def open_tenant(self, tenant: str) -> Session:
        """A session of one tenant."""
        return Session(self, tenant)


class Session:
    """What one tenant does."""

    def __init__(self, desk: Desk, tenant: str) -> None:
        self.desk, self.tenant = desk, tenant

    def plant(self, record: Example) -> str:
        """Keep a record of this tenant."""
        record_id = str(uuid.uuid4())
        self.desk.records[record_id] = (self.tenant, str(record.input))
        return record_id

    def remove(self, record_id: str) -> None:
        """Forget a record."""
        del self.desk.records[record_id]

    def ask(self, question: str) -> str:
        """The tenant's record that is most like the question, or an answer of the cache."""
        for tenant, asked, answer in self.desk.cache:
            if (self.desk.shared or tenant == self.tenant) and likeness(asked, question) > 0.9:
                return answer
        mine = [text for tenant, text in self.desk.records.values() if tenant == self.tenant]
        best = max(mine, key=lambda text: likeness(text, question), default="")
        answer = best if likeness(best, question) > 0.4 else "Nothing is known about that."
        self.desk.cache.append((self.tenant, question, answer))
        return answer
