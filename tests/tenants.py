"""Applications of two tenants that tests audit: each has a defect, or is its isolated twin."""

from __future__ import annotations

import base64
import itertools
import random
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from leakbound.tasks import Example

NOTHING = "I found nothing about that."


def words_of(text: str) -> frozenset[str]:
    return frozenset(word.strip(".,:;!?\"'()").lower() for word in text.split())


def share(one: str, other: str) -> float:
    """Of the words of both, those that they share: stands in for an embedding."""
    first, second = words_of(one), words_of(other)
    return len(first & second) / max(1, len(first | second))


def nearest(texts: list[str], query: str, least: float = 0.4) -> str:
    best = max(texts, key=lambda text: share(text, query), default="")
    return best if share(best, query) >= least else ""


@dataclass
class Desk:
    """A help desk that finds records by their words.

    Args:
        defect: Name of a method of `DeskSession`: what is answered, and how.
        isolated: Whether this is the twin without the defect, which does the same work.
        rate: How often the defect shows.
    """

    defect: str = "no_filter"
    isolated: bool = False
    rate: float = 1.0
    seed: int = 0
    records: dict[str, tuple[str, str]] = field(default_factory=dict)
    kept: dict[str | None, list[Any]] = field(default_factory=lambda: defaultdict(list))
    last: str = ""
    opened: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random, self.ids = random.Random(self.seed), itertools.count()

    def open_tenant(self, tenant: str) -> DeskSession:
        self.last = tenant
        self.opened.append(tenant)
        return DeskSession(self, tenant)


@dataclass
class DeskSession:
    desk: Desk
    tenant: str

    def plant(self, record: Example) -> str:
        number = str(next(self.desk.ids))
        self.desk.records[number] = (self.tenant, str(record.input))
        return number

    def remove(self, record_id: str) -> None:
        del self.desk.records[record_id]

    def close(self) -> None:
        """Nothing to do."""

    def ask(self, query: str) -> Any:
        return getattr(self, self.desk.defect)(query)

    def seen_as(self) -> str | None:
        """Whose things are read; None for those of all tenants."""
        desk = self.desk
        return None if not desk.isolated and desk.random.random() < desk.rate else self.tenant

    def texts(self, tenant: str | None) -> list[str]:
        return [text for owner, text in self.desk.records.values() if tenant in (None, owner)]

    def keep(self, thing: Any) -> None:
        for tenant in (self.tenant, None):
            self.desk.kept[tenant].append(thing)

    def own(self, query: str) -> str:
        return nearest(self.texts(self.tenant), query) or NOTHING

    def any_match(self, query: str) -> str:
        return nearest(self.texts(self.seen_as()), query)

    # what is answered, by the defect

    def no_filter(self, query: str) -> Any:
        return self.any_match(query) or NOTHING

    def semantic_cache(self, query: str) -> Any:
        """Of the answers to all users."""
        hits = [said for asked, said in self.desk.kept[self.seen_as()] if share(asked, query) > 0.9]
        answer = hits[0] if hits else self.own(query)
        self.keep((query, answer))
        return answer

    def conversation(self, query: str) -> Any:
        """A memory of answers whose key is the id of a conversation, the same for all users."""
        remembered = nearest(self.desk.kept[self.seen_as()][-50:], query)
        answer = self.own(query)
        self.keep(answer)
        return remembered if answer == NOTHING and remembered else answer

    def by_id(self, query: str) -> Any:
        """A record is looked up by its number alone, which anyone may guess."""
        mine = {number for number, (owner, _) in self.desk.records.items() if owner == self.tenant}
        if own := next((self.desk.records[one][1] for one in mine), ""):
            return own
        newest = max(self.desk.records, key=int, default="")
        known = self.seen_as() is None and newest
        return self.desk.records[newest][1] if known else NOTHING

    def cache_header(self, query: str) -> Any:
        hit = query in self.desk.kept[self.seen_as()]
        self.keep(query)
        return {"answer": self.own(query), "headers": {"x-cache": "HIT" if hit else "MISS"}}

    def citations(self, query: str) -> Any:
        sources = ["handbook.pdf"] if self.any_match(query) else []
        return {"answer": self.own(query), "sources": sources}

    def token_count(self, query: str) -> Any:
        """Every record that matches is in the prompt."""
        read = len(query.split()) + len(self.any_match(query).split())
        return {"answer": self.own(query), "usage": {"prompt_tokens": read}}

    def tool_calls(self, query: str) -> Any:
        calls = [{"name": "open_ticket", "arguments": {}}] if self.any_match(query) else []
        return {"answer": self.own(query), "tool_calls": calls}

    def forbidden(self, query: str) -> Any:
        """Another error where there is a record that the user may not see."""
        answer = self.own(query)
        hidden = answer == NOTHING and self.any_match(query)
        return "You are not allowed to see that." if hidden else answer

    def last_session(self, query: str) -> Any:
        """A request is answered as whoever opened a session last."""
        tenant = self.desk.last if self.seen_as() is None else self.tenant
        return nearest(self.texts(tenant), query) or NOTHING

    def score(self, query: str) -> Any:
        """Of the best match of all tenants; its text is not quoted."""
        best = max((share(text, query) for text in self.texts(self.seen_as())), default=0.0)
        return {"answer": self.own(query), "confidence": round(best, 2)}

    def masked(self, query: str) -> Any:
        """Three digits of the code of a record that is somebody else's."""
        answer, match = self.own(query), self.any_match(query)
        hint = f"That record belongs to somebody else ({match[-12:-9]}*********)."
        return hint if answer == NOTHING and match else answer

    def encoded(self, query: str) -> Any:
        debug = base64.b64encode((self.any_match(query) or "nothing found").encode()).decode()
        return {"answer": self.own(query), "debug": debug}

    def one_direction(self, query: str) -> Any:
        """One tenant is the operator, and reads everything."""
        tenant = self.seen_as() if self.tenant == "a" else self.tenant
        return nearest(self.texts(tenant), query) or NOTHING

    def log(self, query: str) -> Any:
        match = self.any_match(query)
        return {"answer": self.own(query), "channels": {"logs": f"retrieved: {match}"}}

    def slow(self, query: str) -> Any:
        seconds = 0.2 + 0.1 * self.desk.random.random() + 0.5 * bool(self.any_match(query))
        return {"answer": self.own(query), "seconds": seconds}

    # what shows to several clients alone

    def popular(self, query: str) -> Any:
        """An answer is everybody's once it was asked for twice."""
        same = [said for asked, said in self.desk.kept[self.seen_as()] if asked == query]
        answer = same[0] if len(same) > 1 else self.own(query)
        self.keep((query, answer))
        return answer

    def mixed_up(self, query: str) -> Any:
        """Whose request it is stands in a variable that all requests share."""
        self.desk.last = self.tenant
        time.sleep(0.005)
        tenant = self.desk.last if self.seen_as() is None else self.tenant
        return nearest(self.texts(tenant), query) or NOTHING

    def mixed_stream(self, query: str) -> Iterator[str]:
        """Pieces of all streams wait in one queue."""
        queue = self.desk.kept[self.seen_as()]
        queue += self.own(query).split()
        while queue:
            yield f"{queue.pop(0)} "
            time.sleep(0.001)

    def pooled(self, query: str) -> Any:
        """A third request at once gets a connection that is in use."""
        connections = self.desk.kept[self.seen_as()]
        taken = connections[-1] if len(connections) > 1 else {}
        connections.append(taken)
        taken["buffer"] = self.own(query)
        time.sleep(0.005)
        connections.pop()
        return taken["buffer"]

    def coalesced(self, query: str) -> Any:
        """A request waits for the same one of anybody that is under way, and says so."""
        under_way = self.desk.kept[self.seen_as()]
        known = query in under_way
        under_way.append(query)
        time.sleep(0.005)
        under_way.remove(query)
        return {"answer": self.own(query), "served": "shared" if known else "alone"}

    def scored(self, query: str) -> Any:
        """The score is of the answer that was found last."""
        found = self.desk.kept[self.seen_as()]
        found.append(self.own(query))
        time.sleep(0.005)
        return {"answer": self.own(query), "scores": {"match": round(share(found[-1], query), 2)}}


CROWDS = ("popular", "mixed_up", "mixed_stream")
LOADED = ("pooled", "coalesced", "scored", "last_session")
DEFECTS = (
    "no_filter", "semantic_cache", "conversation", "by_id", "cache_header", "citations",
    "token_count", "tool_calls", "forbidden", "last_session", "score", "masked", "encoded",
    "one_direction", "log", "slow",
)  # fmt: skip
CHANNELS = {"log": ("logs", "answer"), "slow": ("seconds",)}  # those that an operator names
