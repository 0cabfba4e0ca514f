"""Whole systems with a known fault: state, turns, caches, and answers that no attack can read."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from leakbound.api.parameters import CanaryName, QueryName
from leakbound.tasks import Context, Example

Planted = Callable[[Context, str], str]
QUOTED = re.compile(r'"([^"]*)"')
YES, NO = "yes", "no"


@dataclass(frozen=True, slots=True)
class PlantedSystem:
    """A system with a known fault, and what an audit of it may say."""

    id: str
    what: str
    make: Callable[[], Planted]
    allowed: frozenset[
        Literal["violation", "no_violation", "attack_blind", "stateful_system",
                "unreadable_answers"]
    ]  # fmt: skip
    query: QueryName = "membership"
    canary: CanaryName = "hex"


def _asked_about(query: str) -> str:
    """The text that a query quotes."""
    found = QUOTED.search(query)
    return found.group(1) if found else query


def _holds(context: Context, query: str) -> bool:
    return any(_asked_about(query) == row.input for row in context)


def round_robin(replicas: int = 2) -> Planted:
    """Replicas take turns, and each always gives its own answer: the context plays no part."""
    calls = 0

    def answer(context: Context, query: str) -> str:
        nonlocal calls
        calls += 1
        return YES if calls % replicas else NO

    return answer


def memory() -> Planted:
    """Keeps every context that it was ever shown, and answers from all of them."""
    known: list[Example] = []

    def answer(context: Context, query: str) -> str:
        known.extend(context)
        return YES if _holds(tuple(known), query) else NO

    return answer


def semantic_cache() -> Planted:
    """Answers a query that it has seen before without a look at the context."""
    cache: dict[str, str] = {}

    def answer(context: Context, query: str) -> str:
        if query not in cache:
            cache[query] = YES if _holds(context, query) else NO
        return cache[query]

    return answer


def drift(calls: int = 120) -> Planted:
    """Ignores its context, and changes its answer for good after some calls."""
    seen = 0

    def answer(context: Context, query: str) -> str:
        nonlocal seen
        seen += 1
        return YES if seen > calls else NO

    return answer


def warm_up(calls: int = 10) -> Planted:
    """Ignores its context; its first answers differ from all later ones."""
    seen = 0

    def answer(context: Context, query: str) -> str:
        nonlocal seen
        seen += 1
        return YES if seen <= calls else NO

    return answer


def label_only() -> Planted:
    """Classifies whatever it is asked, by the nearest example: it cannot say yes or no."""

    def answer(context: Context, query: str) -> str:
        text = query.rsplit("Input: ", 1)[-1].split("\n")[0]
        exact = [row.label for row in context if row.input == text]
        return exact[-1] if exact else context[0].label

    return answer


def constant() -> Planted:
    """Answers no to everything."""
    return lambda context, query: NO


def refusal() -> Planted:
    """Refuses everything."""
    return lambda context, query: "I cannot help with that."


def leaks() -> Planted:
    """Says whether it holds what it is asked about."""
    return lambda context, query: YES if _holds(context, query) else NO


PLANTED: tuple[PlantedSystem, ...] = (
    PlantedSystem(
        "order-round-robin",
        "Two replicas take turns, and the context plays no part.",
        round_robin,
        frozenset({"attack_blind", "stateful_system"}),
    ),
    PlantedSystem(
        "order-three-replicas",
        "Three replicas take turns, and the context plays no part.",
        lambda: round_robin(3),
        frozenset({"attack_blind", "stateful_system"}),
    ),
    PlantedSystem(
        "memory-of-uploads",
        "Every context that was ever uploaded is kept, and answers come from all of them.",
        memory,
        frozenset({"violation", "stateful_system"}),
    ),
    PlantedSystem(
        "semantic-cache",
        "A cached answer to the same query hides the context.",
        semantic_cache,
        frozenset({"violation", "stateful_system"}),
    ),
    PlantedSystem(
        "drift",
        "The answers change during the audit, whatever the context.",
        drift,
        frozenset({"attack_blind", "stateful_system"}),
    ),
    PlantedSystem(
        "warm-up",
        "The first answers differ from all later ones, whatever the context.",
        warm_up,
        frozenset({"attack_blind", "stateful_system"}),
    ),
    PlantedSystem(
        "blind-classifier",
        "It answers a label whatever it is asked.",
        label_only,
        frozenset({"unreadable_answers", "attack_blind"}),
    ),
    PlantedSystem(
        "blind-classifier (fitting attack)",
        "The same, asked for the label of the canary.",
        label_only,
        frozenset({"violation"}),
        "input_output",
        "mislabeled",
    ),
    PlantedSystem(
        "constant", "It answers no to everything.", constant, frozenset({"attack_blind"})
    ),
    PlantedSystem(
        "refusal", "It refuses everything.", refusal,
        frozenset({"unreadable_answers", "attack_blind"}),
    ),
    PlantedSystem(
        "leak", "It says whether it holds what it is asked about.", leaks,
        frozenset({"violation"}),
    ),
)  # fmt: skip
