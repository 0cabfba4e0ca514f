"""Quoted codes: false alarms exactly, and what a whole audit says of a few of them."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from leakbound import audit
from leakbound.attacks.canaries import Coded
from leakbound.attacks.protocols import RenderedQuery
from leakbound.attacks.queries import Recall, Repeat
from leakbound.attacks.scores import ContainsCanary
from leakbound.auditing import make_spec, prepare
from leakbound.auditing.design.pairs import Copies
from leakbound.auditing.prepare.build import Handed
from leakbound.auditing.prepare.prepared import trial_design
from leakbound.privacy import ApproxDP, Gaussian, PureDP
from leakbound.stats.e_values.bets import CodeBet
from leakbound.systems import SystemMechanism
from leakbound.tasks import Example, Task, as_context

CODED: dict[str, Any] = {"query": "recall", "canary": "coded", "seed": 3, "pairs": 100}


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def ever_rejected(bet: CodeBet, rate: float, pairs: int) -> float:
    """The probability that the e-value reaches 20 with any of so many replies, by all counts."""
    alive = np.ones(1)
    rejected = 0.0
    for n in range(1, pairs + 1):
        grown = np.zeros(n + 1)
        grown[:-1] += alive * (1 - rate)
        grown[1:] += alive * rate
        for hits in range(n + 1):
            if grown[hits] and _log_e(bet, n, hits) >= math.log(20):
                rejected += grown[hits]
                grown[hits] = 0.0
        alive = grown
    return rejected


def _log_e(bet: CodeBet, n: int, hits: int) -> float:
    """The e-value depends on the counts alone."""
    bet._quoted = [True] * hits + [False] * (n - hits)
    return float(bet.log_e_values[-1])


@pytest.mark.parametrize(
    ("epsilon", "delta", "chance"),
    [(0.0, 0.0, 1e-3), (1.0, 1e-5, 1e-9), (1.0, 0.02, 1e-9), (4.0, 1e-5, 1e-3), (8.0, 0.0, 1e-4)],
)
def test_a_system_at_its_claim_is_rejected_rarely_enough(
    epsilon: float, delta: float, chance: float
) -> None:
    rate = min(1.0, math.exp(epsilon) * chance + delta)
    bet = CodeBet(ApproxDP(epsilon, delta), chance, deltas=(delta,))
    assert ever_rejected(bet, rate, 60) <= 0.05 + 1e-12


def test_bounds_grow_with_what_is_quoted_and_hold_in_gaussian_terms() -> None:
    found = []
    for hits in (1, 3, 10, 50):
        bet = CodeBet(PureDP(1.0), 1e-9)
        bet.extend([True] * hits + [False] * (50 - hits))
        epsilon = bet.epsilon_lower_bound(1e-5).epsilon or 0.0
        mu = bet.mu_lower_bound(1e-5).mu or 0.0
        assert math.exp(epsilon) * 1e-9 + 1e-5 <= 1
        assert mu > 0
        found.append(epsilon)
    assert found == sorted(found)
    assert found[0] > 8
    within = CodeBet(Gaussian(8.0, 1.0), 1e-9)  # its replies may quote a code in 97 %
    within.extend([True] + [False] * 49)
    assert not within.rejected
    with pytest.raises(ValueError, match="it must be above 0"):
        CodeBet(PureDP(1.0), 0.0)


@pytest.mark.parametrize(
    ("query", "canary", "score", "digits"),
    [
        ("recall", "coded", None, 12),
        ("repeat", "hex", "contains_canary", 8),  # half of it stands in the question
        ("repeat", "hex", None, None),  # the score reads parts of it
        ("membership", "hex", None, None),
        ("recall", {"kind": "coded", "digits": 5}, None, None),  # a million letters hold them all
        ("recall", "natural", None, None),
    ],
)
def test_a_code_counts_as_far_as_nothing_tells_it(
    query: str, canary: Any, score: str | None, digits: int | None
) -> None:
    system = f"python:{Path(__file__)}:silent"
    spec = {"system": system, "query": query, "canary": canary, "score": score}
    found = prepare(make_spec(spec)).trial_design.code_chance
    assert found == (None if digits is None else 1e6 / 16**digits)


def silent(context: Sequence[Any], query: str) -> str:
    return "I cannot tell."


class Quoting:
    """Quotes the document that fits best in some replies, and says nothing in the others."""

    def __init__(self, rate: float) -> None:
        self.rate, self.draws = rate, random.Random(7)

    def __call__(self, context: Sequence[Any], query: str) -> str:
        if self.draws.random() >= self.rate:
            return "I cannot tell."
        asked = set(query.split())
        return str(max(context, key=lambda row: len(asked & set(row.text.split()))))


def first(context: Sequence[Any], query: str) -> str:
    return f"Our best note is: {context[0]}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("system", "epsilon"),
    [(Quoting(0.05), 1.0), (Quoting(0.05), 8.0), (first, 1.0), (Quoting(1.0), 12.0)],
    ids=["rare", "rare_large_claim", "always_the_first", "always_larger_claim"],
)
def test_few_quoted_codes_reject_any_claim(
    system: Callable[[Sequence[Any], str], str], epsilon: float
) -> None:
    result = audit(system=system, epsilon=epsilon, **CODED)
    assert result.verdict == "violation"
    assert result.reading.of == "codes"
    assert "which nobody could guess" in str(result)
    assert (result.bound.epsilon or 0.0) > epsilon


def chatter(context: Sequence[Any], query: str) -> str:
    """Codes of its own, and the question again."""
    return f"{query} {' '.join(f'{random.Random(n).getrandbits(48):012x}' for n in range(40))}"


@pytest.mark.slow
def test_codes_of_its_own_and_the_question_again_accuse_nobody() -> None:
    result = audit(system=chatter, epsilon=0.25, **CODED)
    assert (result.verdict, result.bound.epsilon) == ("inconclusive", 0.0)


@dataclass(frozen=True, slots=True)
class Footed(Coded):
    """Its last letters are the same in every pair, and it says that they are drawn."""

    of_rows: ClassVar[bool] = True
    code_digits: ClassVar[int] = 12  # type: ignore[assignment, misc]

    def make(self, held_out: Example, label: str, rng: np.random.Generator) -> Example:
        return Example(f"{Coded.make(self, held_out, label, rng).input} 0123456789ab", label)


@dataclass(frozen=True, slots=True)
class Shown(Recall):
    """Shows the whole canary, in capitals and with blanks between."""

    def render(self, canary: Example, task: Task, rare: str, common: str) -> RenderedQuery:
        found = Recall.render(self, canary, task, rare, common)
        shown = " ".join(str(canary.input).upper())
        return replace(found, query=replace(found.query, text=shown))


LONG = [" ".join(f"w{n}x{k}" for k in range(60)) for n in range(60)]
UNEVEN = [("a b" if n % 5 == 0 else text, "") for n, text in enumerate(LONG)]


@pytest.mark.parametrize(
    ("query", "canary", "guessable"),
    [
        (Repeat(share=0.93), Coded(), True),  # of short rows nearly the whole code is shown
        (Repeat(share=0.5), Coded(), False),
        (Recall(), Footed(), True),
        (Shown(), Coded(), True),
        (Recall(), Coded(digits=300), False),
    ],
    ids=["shown_in_short_rows", "half_is_shown", "no_code_at_the_end", "spelled", "very_long"],
)
def test_what_can_be_guessed_in_any_pair_is_no_code(
    query: Any, canary: Coded, guessable: bool
) -> None:
    handed = Handed(
        rows=as_context(UNEVEN), mechanism=SystemMechanism(silent, "silent"), query=query,
        canary=canary, score=ContainsCanary(),
    )  # fmt: skip
    given = {"task": "generation", "pairs": 60, "shots": 6}
    parts = prepare(make_spec(given), handed=handed)
    assert (parts.trial_design.code_chance is None) == guessable
    copied = replace(parts, pairs=parts.pairs.with_copies(Copies(1, ((0, 1, 2), (3, 4, 5)))))
    assert trial_design(copied).code_chance is None  # the other context holds the canary, too
