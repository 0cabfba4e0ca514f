"""Does the attack see one canary, as it stands in a pair, or only contexts that are full of it?"""

from __future__ import annotations

import hashlib
import math
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import leakbound
from leakbound.auditing import AuditResult, load_result, make_spec, prepare
from leakbound.auditing.plan import plan
from leakbound.auditing.prepare.build import Handed
from leakbound.systems import SystemMechanism
from leakbound.tasks import Context, Example

TOPICS = [
    "refund",
    "invoice",
    "delivery",
    "password",
    "warranty",
    "exchange",
    "account",
    "parcel",
    "voucher",
    "battery",
]
TOWNS = ["Leeds", "Turin", "Lyon", "Graz"]
CASES = tuple(
    Example(
        f"Case {i}: {TOPICS[i % 10]} of a customer from {TOWNS[i % 4]} about "
        f"{TOPICS[(7 * i + 3) % 10]}, agreed on day {i}",
        ("open", "closed")[i % 2],
    )
    for i in range(120)
)
Answer = Callable[[Context, str], str]


def audited(system: Answer, out: Path, **values: Any) -> AuditResult:
    given: dict[str, Any] = {"pairs": 60, "shots": 6, "epsilon": 1.0, "simulations": 0, **values}
    return leakbound.audit(CASES, system=system, out=out, state_check=0.0, **given)


def words(text: str) -> Counter[str]:
    return Counter(word.strip(".,:;?!\"'").casefold() for word in text.split())


def top_two(context: Context, query: str) -> list[str]:
    """The two documents that are nearest by TF-IDF, whatever their similarity is."""
    texts = [str(row.input) for row in context]
    held = Counter(word for text in texts for word in words(text))
    idf = {word: 1 + math.log((1 + len(texts)) / (1 + many)) for word, many in held.items()}
    asked = words(query)

    def similarity(text: str) -> float:
        of = {word: many * idf[word] for word, many in words(text).items()}
        size = math.sqrt(sum(weight**2 for weight in of.values()))
        return sum(weight * asked[word] * idf[word] for word, weight in of.items()) / size

    return sorted(texts, key=similarity)[:-3:-1]


def quoting(context: Context, query: str) -> str:
    return "\n".join(top_two(context, query))


def counting(context: Context, query: str) -> str:
    return f"Found {len(top_two(context, query))} documents; please ask the desk."


OLD = {"query": "repeat", "canary": "hex", "shots": 20}
FITTING = {"query": "recall", "canary": "coded", "shots": 20}


def test_a_retriever_that_quotes_documents_is_not_clean_by_a_query_that_finds_none(
    tmp_path: Path,
) -> None:
    """`no_violation` and a passed gate: a control that is full of canaries cannot fail there."""
    missed = audited(quoting, tmp_path, **OLD)
    assert (missed.verdict, missed.reason) == ("inconclusive", "seen_only_in_bulk")
    assert missed.controls is not None
    assert (missed.controls.seen, missed.controls.seen_once) == (True, False)
    assert "--query recall --canary coded" in missed.sentences[0]
    assert load_result(tmp_path / missed.name) == missed
    assert audited(quoting, tmp_path, **FITTING).verdict == "violation"


@pytest.mark.parametrize("attack", [OLD, FITTING])
def test_a_retriever_that_quotes_nothing_is_accused_by_neither_query(
    tmp_path: Path, attack: dict[str, Any]
) -> None:
    assert audited(counting, tmp_path, **attack).reason == "attack_blind"


def test_controls_with_one_canary_are_planned_counted_and_laid_out_as_pairs(tmp_path: Path) -> None:
    handed = Handed(mechanism=SystemMechanism(quoting))
    settings = {"pairs": 8, "shots": 6, "controls": 5}
    spec = make_spec({**settings, "state_check": 0.0})
    prepared = prepare(spec, rows=CASES, handed=handed)
    copies = [sum(row == pair.canary for row in pair.member.context) for pair in prepared.controls]
    assert copies == [1] * 5 + [6] * 5
    assert len({pair.position for pair in prepared.controls[:5]}) > 1
    result = audited(quoting, tmp_path, **settings)
    assert plan(prepared).model_calls == result.counts["model_calls"] == 2 * (2 * 5 + 8 + 5)


def silent(context: Context, query: str) -> str:
    """Finds the document, works on it for a while, and refuses."""
    for row in context:
        if str(row.input)[:9] in query:
            hashlib.pbkdf2_hmac("sha256", str(row.input).encode(), b"", 2000)
    return "I cannot help with that."


def test_ten_functions_that_say_nothing_are_not_accused_by_the_clock(tmp_path: Path) -> None:
    """Ten of ten were. Their replies are equal, so no e-value can move: at a false-alarm rate of
    5 % each, ten audits would be accused by chance now and then, and these never are."""
    for seed in range(10):
        result = audited(
            silent, tmp_path, pairs=40, epsilon=0.25, seed=seed, query="recall", canary="coded"
        )
        assert (result.verdict, result.reason) == ("inconclusive", "attack_blind")
        assert result.bound.epsilon == 0


class Weak:
    """Notices a canary in 6 of 16 contexts, as a small instruct model, however often it stands
    there; says so of 2 of 16 without one."""

    stateful = True

    def __init__(self) -> None:
        self._left: dict[bool, list[str]] = {True: [], False: []}
        self._rng = random.Random(0)

    def __call__(self, context: Context, query: str) -> str:
        there = any(str(row.input) in query for row in context)
        if not self._left[there]:
            yes = 6 if there else 2
            self._left[there] = ["yes"] * yes + ["no"] * (16 - yes)
            self._rng.shuffle(self._left[there])
        return self._left[there].pop()


def test_an_attack_with_a_bound_above_0_is_not_called_blind(tmp_path: Path) -> None:
    """It was `attack_blind`, "nothing shows that this attack sees the canary", beside a bound."""
    result = audited(Weak(), tmp_path, pairs=160)
    assert result.controls is not None
    assert not result.controls.seen
    assert result.bound.epsilon is not None
    assert result.bound.epsilon > 0
    assert (result.verdict, result.reason) == ("inconclusive", "too_few_trials")
    assert "nothing shows" not in " ".join(result.sentences)
