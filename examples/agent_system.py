"""An agent over private documents: a planner, a retriever, a writer and a memory, in plain Python.

    leakbound audit --system python:examples/agent_system.py:AgentSystem --canary coded \
        --query recall --channels all --system-option leak=logs

The agent is told to quote no document, and no answer does. But its work leaves texts in other
places, and whoever reads one of them reads the documents that went through it. `leak` plants a
leak in one place alone; with `leak=none` no place tells anything about the documents.
"""

from __future__ import annotations

import json
import logging
import random
import tempfile
import time
from pathlib import Path

from leakbound import Example
from leakbound.systems import traced

LEAKS = ("answer", "messages", "tool_inputs", "tool_outputs", "memory", "logs", "files", "seconds")
OPENINGS = ("Thank you for your question.", "Hello,", "Good morning.", "Here is what I found.")
ADVICE = ("The handbook answers it.", "Please see the handbook.", "Our handbook has a page on it.")
WITHHELD = "[withheld]"
EMBEDDING, REST, JITTER = 0.08, 0.20, 0.01  # simulated seconds
KEYWORDS, CHUNK = 6, 5  # words of a search, and of what is embedded of a text
log = logging.getLogger("agent")
log.setLevel(logging.DEBUG)
log.propagate = False  # a server would have a file handler here


class AgentSystem:
    """The agent.

    Args:
        leak: Where documents leak: one of `LEAKS`, or "none".
        rate: How often they do.
        seed: Seed of the wording and of the leak.
        real_time: Whether embeddings take real time, which the audit then measures; otherwise the
            agent reports simulated seconds.
    """

    stateful = True  # its random numbers follow each other, so calls are made one by one

    def __init__(
        self, leak: str = "none", rate: float = 0.8, seed: int = 0, real_time: bool = False
    ) -> None:
        if leak not in ("none", *LEAKS):
            raise ValueError(f"leak is {leak!r}; it must be none, {', '.join(LEAKS)}.")
        self.leak, self.rate, self.real_time = leak, rate, real_time
        self.rng = random.Random(seed)

    def open(self, context: tuple[Example, ...]) -> Agent:
        """An agent with the documents of a context in its index."""
        return Agent(self, context)

    def leaks(self, where: str) -> bool:
        """Does a document leak there, this time?"""
        return where == self.leak and self.rng.random() < self.rate


class Agent:
    """A session: its index, its memory and the folder of its files last as long as it."""

    def __init__(self, system: AgentSystem, context: tuple[Example, ...]) -> None:
        self.system, self.documents = system, context
        self.memory: list[str] = []
        self.folder = tempfile.TemporaryDirectory(prefix="agent-")
        kept = context if system.leak == "seconds" else ()
        self.embedded = {chunk(one.text) for one in kept}
        self.seconds = 0.0

    def ask(self, query: str) -> dict[str, object]:
        """Plan, search, write, remember."""
        self.seconds = REST + self.system.rng.gauss(0, JITTER)
        messages: list[str] = []
        calls: list[tuple[str, str]] = []
        with traced("agent", self.folder.name) as trace:
            search = self.plan(query, messages)
            found = self.search(search, query, calls)
            text = self.write(found, messages, calls)
            self.remember(search, found)
        told: dict[str, object] = {"text": text, "channels": {
            **trace.channels, "messages": messages, "memory": self.memory,
            "tool_inputs": [given for given, _ in calls], "tool_outputs": [out for _, out in calls],
        }}  # fmt: skip
        return told if self.system.real_time else {**told, "seconds": max(0.0, self.seconds)}

    def plan(self, query: str, messages: list[str]) -> str:
        """The planner: the first words of the query make the search."""
        search = " ".join(query.split()[:KEYWORDS])
        messages.append(f"planner to retriever: search for '{search}'")
        log.info("planned a search of %d words", len(search.split()))
        return search

    def search(self, search: str, query: str, calls: list[tuple[str, str]]) -> str:
        """The retriever: the document that shares most words with the query."""
        self.embed(query)
        words = set(query.lower().split())
        nearest = max(self.documents, key=lambda one: len(words & set(one.text.lower().split())))
        log.debug("retrieved %s", self.shown("logs", nearest.text))
        calls.append((
            json.dumps({"tool": "search", "query": search}),
            json.dumps({"documents": [self.shown("tool_outputs", nearest.text)]}),
        ))  # fmt: skip
        return nearest.text

    def write(self, found: str, messages: list[str], calls: list[tuple[str, str]]) -> str:
        """The writer: advice from the handbook, and a draft on disk."""
        messages.append(f"retriever to writer: use {self.shown('messages', found)}")
        given = {"tool": "spell_check", "text": self.shown("tool_inputs", found)}
        calls.append((json.dumps(given), json.dumps({"errors": 0})))
        opening, advice = self.system.rng.choice(OPENINGS), self.system.rng.choice(ADVICE)
        text = f"{opening} {advice}"
        draft = f"{text}\nsource: {self.shown('files', found)}\n"
        Path(self.folder.name, "draft.txt").write_text(draft, encoding="utf-8")
        return f"{text} {found}" if self.system.leaks("answer") else text

    def remember(self, search: str, found: str) -> None:
        """The memory: a note for the next turn."""
        self.memory.append(f"asked about '{search}', answered from {self.shown('memory', found)}")

    def shown(self, where: str, document: str) -> str:
        """A document as a place may show it."""
        return document if self.system.leaks(where) else WITHHELD

    def embed(self, text: str) -> None:
        """Embed the first words of a text; what was embedded before is in a cache."""
        if chunk(text) in self.embedded and self.system.leaks("seconds"):
            return
        self.seconds += EMBEDDING
        if self.system.real_time:
            time.sleep(5 * EMBEDDING)  # as a remote service takes

    def close(self) -> None:
        """Delete the index and the files."""
        self.folder.cleanup()


def chunk(text: str) -> str:
    """What is embedded of a text."""
    return " ".join(text.lower().split()[:CHUNK])
