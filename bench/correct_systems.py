"""How often is a system that keeps its claim accused? Whole audits with default options.

Every system leaks as much as its claim allows and no more, so nothing weaker than a valid test
passes: the two contexts lie on the boundary of the claim. Five kinds, at claims 0, .25, 1, 4 and 8
(an audit takes no claim of 0, and is given 1e-9):

- randomised response: the right answer, or with probability 1/(1 + e^epsilon) the other one
- rare yes: yes with small probabilities e^epsilon q (canary in) and q (canary out)
- turning: rare yes or rare no, by a tally of its own earlier answers
- letters: free text with metadata; one channel of the reply leaks, which turns with the seed
- voting: report noisy max calibrated to the claim, a model that finds every canary; every other
  audit sees answers alone, in contexts on edge
- functions: ten Python functions that say nothing of their context and take a time that depends on
  it; the machine is idle, or has one or four busy processes beside them in turn
"""

from __future__ import annotations

import hashlib
import math
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from leakbound_lab.planted.channels import CHANNELS, ChannelSystem
from leakbound_lab.planted.whole_audits import leaks

import leakbound
from leakbound.auditing import AuditResult
from leakbound.models import Scripted
from leakbound.tasks import Context
from leakbound.tasks.synthetic import HELP_DESK, help_desk

LEAST = 1e-9  # an audit takes no claim of 0
CLAIMS = (0.0, 0.25, 1.0, 4.0, 8.0)
DELTA = 1e-5
RARE = 0.3  # of the probability with which randomised response answers wrongly
Rng = np.random.Generator
System = Callable[[Context, str], str]


@dataclass(frozen=True)
class Accused:
    """What one audit of a correct system said."""

    verdict: str
    reason: str | None
    stateful: bool

    @classmethod
    def of(cls, result: AuditResult) -> Accused:
        found = {finding.code for finding in result.findings}
        return cls(result.verdict, result.reason, "stateful_system" in found)


def rates(claim: float, part: float = 1.0) -> tuple[float, float]:
    """P(yes) with and without the canary, on the boundary of (claim, 0)-DP."""
    wrong = part / (1 + math.exp(claim))
    return wrong * math.exp(claim), wrong


def answering(claim: float, part: float, rng: Rng) -> System:
    """Says yes with fixed probabilities."""
    found, chances = leaks(), rates(claim, part)

    def answer(context: Context, query: str) -> str:
        there = found(context, query) == "yes"
        return "yes" if rng.random() < chances[0 if there else 1] else "no"

    return answer


class Turning:
    """On the boundary at every call: yes is rare while most of its answers were no, else no is.

    It changes sides as its own answers come, so it is the same system at no two calls.
    """

    def __init__(self, claim: float, rng: Rng) -> None:
        self._found, self._rates, self._rng = leaks(), rates(claim, RARE), rng
        self._lean = 0  # answers yes less answers no

    def answer(self, context: Context, query: str) -> str:
        more, less = self._rates
        with_canary, without = (more, less) if self._lean <= 0 else (1 - less, 1 - more)
        there = self._found(context, query) == "yes"
        said = self._rng.random() < (with_canary if there else without)
        self._lean += 1 if said else -1
        return "yes" if said else "no"


def finds(prompt: str) -> str:
    """A model that finds every canary, and labels everything else alike."""
    if '"' not in prompt:
        return "red"
    quoted = prompt.rsplit('"', 2)[1]
    return "yes" if prompt.count(quoted) > 1 else "no"


MODEL = Scripted(complete=finds, name="finds")


def _options(kind: str, claim: float, index: int, rng: Rng) -> Mapping[str, object]:
    """What an audit of this kind is given beside rows, claim and seed."""
    if kind == "letters":
        channel = list(CHANNELS)[index % len(CHANNELS)]
        system = ChannelSystem(channel, int(rng.integers(1 << 31)), rates(claim, RARE))
        return {"system": system, "query": "repeat"}
    if kind == "voting":
        access = "black_box" if index % 2 else "white_box"
        return {"mechanism": "report_noisy_max", "model": MODEL, "access": access}
    if kind == "functions":
        made = FUNCTIONS[index % len(FUNCTIONS)]()
        attack = {"query": "repeat"} if index % 2 else {"query": "recall", "canary": "coded"}
        return {"system": made, **attack}
    if kind == "turning":
        return {"system": Turning(claim, rng)}
    return {"system": answering(claim, 1.0 if kind == "randomised response" else RARE, rng)}


FIXED = "Thank you for your question. A colleague will answer it by mail."


def scans_all(context: Context, query: str) -> str:
    return FIXED if sum(row.text in query for row in context) >= 0 else ""


def scans_to_the_first(context: Context, query: str) -> str:
    any(word in row.text for row in context for word in query.split())
    return FIXED


def joins(context: Context, query: str) -> str:
    return FIXED if "\n".join(row.text for row in context) * 50 else ""


def tokenises(context: Context, query: str) -> str:
    return FIXED if [re.findall(r"\w+|\W", row.text) for row in context] else ""


def counts_words(context: Context, query: str) -> str:
    return f"Your question has {len(query.split())} words. {FIXED}" if context else ""


def sorts(context: Context, query: str) -> str:
    return FIXED if sorted(context, key=lambda row: row.text[::-1]) else ""


def hashes(context: Context, query: str) -> str:
    return FIXED if [hashlib.sha256(row.text.encode()).digest() for row in context] else ""


class Embeds:
    """Keeps vectors of texts that it has seen, so a new one takes longer."""

    def __init__(self) -> None:
        self._known: dict[str, Any] = {}

    def __call__(self, context: Context, query: str) -> str:
        for text in {row.text for row in context} - self._known.keys():
            codes = np.frombuffer(text.encode(), np.uint8)
            self._known[text] = np.outer(codes, codes).sum(axis=0)
        return FIXED


def sleeps(context: Context, query: str) -> str:
    time.sleep(0.0005 * (1 + len(context[-1].text) % 3))
    return FIXED


def echoes(context: Context, query: str) -> str:
    return f"You asked: {query[:60]}" if len(context) else ""


FUNCTIONS: tuple[Callable[[], System], ...] = (
    *((lambda one=one: one) for one in (scans_all, scans_to_the_first, joins, tokenises)),
    *((lambda one=one: one) for one in (counts_words, sorts, hashes, sleeps, echoes)),
    Embeds,
)
LOADS = (0, 1, 4)


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """So many processes beside the audit that never rest."""
    command = [sys.executable, "-c", "while True: pass"]
    running = [subprocess.Popen(command) for _ in range(processes)]
    try:
        yield
    finally:
        for one in running:
            one.kill()
            one.wait()


KINDS = ("randomised response", "rare yes", "turning", "letters", "voting", "functions")


def audited(kind: str, claim: float, index: int, early: bool, seed: int) -> Accused:
    """One audit through the public face, with default options.

    Args:
        kind: One of `KINDS`.
        claim: What is claimed, and what the system leaks.
        index: Number of the audit within its kind and claim.
        early: Whether it stops once the claim is rejected.
        seed: Root of all randomness.

    Returns:
        Its verdict.
    """
    rng = np.random.default_rng([seed, KINDS.index(kind), int(100 * claim), index, early])
    rows, root = help_desk(120, rng), int(rng.integers(1 << 31))
    beside = LOADS[index % len(LOADS)] if kind == "functions" else 0
    with busy(beside), tempfile.TemporaryDirectory() as out:
        result = leakbound.audit(
            rows, task=HELP_DESK, epsilon=max(claim, LEAST), delta=DELTA, seed=root, out=out,
            stop_when_rejected=early,
            **_options(kind, claim, index, rng),  # type: ignore[arg-type]
        )  # fmt: skip
    return Accused.of(result)
