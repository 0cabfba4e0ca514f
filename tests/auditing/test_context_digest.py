"""A reply that holds a function of the context gives a record away, and no rate shows it."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from leakbound import audit, plan
from leakbound.auditing import make_spec, prepare

FREE: dict[str, Any] = {
    "query": "recall", "canary": "coded", "pairs": 24, "settings": {"detect_change": 0.9},
}  # fmt: skip
SAID = "I cannot tell."


def checksum(context: Any) -> str:
    return hashlib.sha256("\n".join(row.text for row in context).encode()).hexdigest()[:12]


def tagged(context: Any, query: str) -> str:
    return f"{SAID} ({checksum(context)})"


def numbered(context: Any, query: str) -> str:
    return f"{SAID} Your ticket is no. {int(checksum(context), 16) % 997}."


class Noisy:
    """The time of day, as it were: another reply each time, whatever is asked."""

    def __init__(self, of: Callable[[Any], str]) -> None:
        self.of, self.draws = of, random.Random(4)

    def __call__(self, context: Any, query: str) -> str:
        return f"{SAID} {self.draws.randrange(10**6)} {self.of(context)}"


def cached(context: Any, query: str) -> str:
    """Equal requests get equal replies, and no other context or question shares one."""
    return f"{SAID} ({hashlib.sha256((query + checksum(context)).encode()).hexdigest()[:12]})"


@pytest.mark.parametrize("stored", ["canary_only", "all"])
@pytest.mark.parametrize(
    "system", [tagged, numbered, Noisy(checksum)], ids=["checksum", "number", "beside_others"]
)
def test_a_function_of_the_context_never_passes(system: Any, stored: str) -> None:
    result = audit(system=system, epsilon=1.0, seed=3, store_text=stored, **FREE)
    assert (result.verdict, result.reason) == ("inconclusive", "context_digest")
    assert "Whoever knows the other records" in result.sentences[0]


@pytest.mark.parametrize("system", [cached, Noisy(lambda context: "")], ids=["cache", "noise"])
def test_a_cache_or_a_clock_is_none(system: Any) -> None:
    """The repeated queries differ in a number, so no cache has seen them."""
    result = audit(system=system, epsilon=1.0, seed=3, store_text="all", **FREE)
    assert result.verdict == "no_violation"


def test_repeated_queries_differ_and_their_contexts_do_not() -> None:
    given = {"system": f"python:{Path(__file__)}:tagged", "query": "recall", "canary": "coded"}
    prepared = prepare(make_spec(given))
    repeats = prepared.repeats
    assert repeats is not None
    for first, again in zip(repeats[::2], repeats[1::2], strict=True):
        assert first.member.context == again.member.context
        assert first.nonmember.context == again.nonmember.context
        assert first.member.query == first.nonmember.query != again.member.query
    others = plan(system=tagged, query="recall", canary="coded").others
    assert others is not None
    assert others.pairs == sum(len(one.pairs) for one in prepared.others) + len(repeats)
