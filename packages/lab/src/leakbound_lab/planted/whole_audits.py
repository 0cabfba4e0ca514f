"""Whole systems with known faults, and their audits from end to end as a user runs them."""

from __future__ import annotations

import math
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

from leakbound.api import audit
from leakbound.api.parameters import CanaryName, QueryName
from leakbound.auditing import AuditResult
from leakbound.privacy import Gaussian
from leakbound.tasks import Context, Example
from leakbound.tasks.synthetic import HELP_DESK, help_desk
from leakbound_lab.planted.auditor import AuditorFinding, Rng
from leakbound_lab.planted.channels import ChannelSystem

Planted = Callable[[Context, str], str]
QUOTED = re.compile(r'"([^"]*)"')
YES, NO = "yes", "no"
AllowedVerdicts = frozenset[
    Literal["violation", "no_violation", "attack_blind", "stateful_system", "unreadable_answers"]
]
LEAK: AllowedVerdicts = frozenset({"violation"})
KEPT: AllowedVerdicts = frozenset({"violation", "stateful_system"})
CHANGING: AllowedVerdicts = frozenset({"no_violation", "attack_blind", "stateful_system"})
MUTE: AllowedVerdicts = frozenset({"unreadable_answers", "attack_blind"})


@dataclass(frozen=True, slots=True)
class PlantedSystem:
    """A system with a known fault, and what an audit of it may say."""

    id: str
    what: str
    make: Callable[[], Planted]
    allowed: AllowedVerdicts
    query: QueryName = "membership"
    canary: CanaryName = "hex"


def _holds(context: Context, query: str) -> bool:
    quoted = QUOTED.search(query)
    about = quoted.group(1) if quoted else query
    return any(about == row.input for row in context)


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
    return _change(calls, NO, YES)


def warm_up(calls: int = 10) -> Planted:
    """Ignores its context; its first answers differ from all later ones."""
    return _change(calls, YES, NO)


def _change(calls: int, first: str, then: str) -> Planted:
    seen = 0

    def answer(context: Context, query: str) -> str:
        nonlocal seen
        seen += 1
        return first if seen <= calls else then

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
        CHANGING,
    ),
    PlantedSystem(
        "order-three-replicas",
        "Three replicas take turns, and the context plays no part.",
        lambda: round_robin(3),
        CHANGING,
    ),
    PlantedSystem(
        "memory-of-uploads",
        "Every context that was ever uploaded is kept, and answers come from all of them.",
        memory,
        KEPT,
    ),
    PlantedSystem(
        "semantic-cache",
        "A cached answer to the same query hides the context.",
        semantic_cache,
        KEPT,
    ),
    PlantedSystem(
        "drift", "The answers change during the audit, whatever the context.", drift, CHANGING
    ),
    PlantedSystem(
        "warm-up",
        "The first answers differ from all later ones, whatever the context.",
        warm_up,
        CHANGING,
    ),
    PlantedSystem("blind-classifier", "It answers a label whatever it is asked.", label_only, MUTE),
    PlantedSystem(
        "blind-classifier (fitting attack)",
        "The same, asked for the label of the canary.",
        label_only,
        LEAK,
        "input_output",
        "mislabeled",
    ),
    PlantedSystem(
        "constant", "It answers no to everything.", constant, frozenset({"no_violation"})
    ),
    PlantedSystem("refusal", "It refuses everything.", refusal, MUTE),
    PlantedSystem("leak", "It says whether it holds what it is asked about.", leaks, LEAK),
)


PAIRS, SHOTS, CLAIM = 60, 8, 1.0
CHANNEL_PAIRS = 110
TRUE = 0.5  # epsilon of the correct reference: below the claim
WEAK = Gaussian(1.0, 1 / 8)  # a declared guarantee far above the claim


def response(epsilon: float, rng: Rng) -> Planted:
    """Randomised response: the right answer, flipped with probability 1/(1 + e^epsilon)."""
    honest, flipped = leaks(), 1 / (1 + math.exp(epsilon))

    def answer(context: Context, query: str) -> str:
        said = honest(context, query)
        return said if rng.random() >= flipped else {"yes": "no", "no": "yes"}[said]

    return answer


def planted(which: PlantedSystem, broken: bool, rng: Rng) -> AuditorFinding:
    """Audit a planted system, or the correct reference by the same attack."""
    system = which.make() if broken else response(TRUE, rng)
    result = _audit(system, rng, which if broken else None)
    said = result.reason or result.verdict
    accused = said in ("violation", "stateful_system")
    right = not which.allowed.isdisjoint({result.verdict, result.reason})
    return AuditorFinding(right if broken else accused, PAIRS, said)


def claim_not_tested(broken: bool, rng: Rng) -> AuditorFinding:
    """A system of true epsilon 5 declares a weaker guarantee than it claims."""
    result = _audit(response(5.0 if broken else TRUE, rng), rng, None, WEAK if broken else None)
    return AuditorFinding.of(result, PAIRS)


def free_text(broken: bool, rng: Rng) -> AuditorFinding:
    """Refusals are more frequent where the canary is, and nothing else gives it away."""
    rates = (0.7, 0.1) if broken else (0.2, 0.2)  # true epsilon 1.9: no self-test misses it
    system = ChannelSystem("refusal", int(rng.integers(1 << 31)), rates)
    rows, seed = help_desk(120, rng), int(rng.integers(1 << 31))
    with tempfile.TemporaryDirectory() as out:
        result = audit(
            rows, system=system, query="repeat", pairs=CHANNEL_PAIRS, shots=SHOTS, epsilon=0.25,
            stop_when_rejected=True, state_check=0.0, seed=seed, simulations=0, batch_pairs=20,
            out=out,
        )  # fmt: skip
    return AuditorFinding.of(result, result.counts["pairs"])


def _audit(
    system: Planted, rng: Rng, attack: PlantedSystem | None, guarantee: Gaussian | None = None
) -> AuditResult:
    rows, seed = help_desk(120, rng), int(rng.integers(1 << 31))
    with tempfile.TemporaryDirectory() as out:
        return audit(
            rows, system=system, task=HELP_DESK, pairs=PAIRS, shots=SHOTS, epsilon=CLAIM,
            guarantee=guarantee, query=attack.query if attack else None,
            canary=attack.canary if attack else None, seed=seed, simulations=0,
            batch_pairs=PAIRS, out=out,
        )  # fmt: skip


# The correct reference is the same for all planted systems, so the first stands for all of them.
WHOLE = tuple(
    (one.id, one.what, partial(planted, one), 1 if one is PLANTED[0] else 0) for one in PLANTED
)
