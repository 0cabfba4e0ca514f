"""The correct auditor that finds known defects: by paired trials or by exact distributions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from leakbound.auditing import AuditResult
from leakbound.auditing.result.sentences import verdict_words
from leakbound.privacy import Guarantee
from leakbound.stats import CategoricalLaw, EProcess, GaussianLaw, exact_privacy_loss
from leakbound.stats.arrays import Floats

CHUNK = 30  # paired trials looked at together; the e-value is read after each of them
Rng = np.random.Generator
Release = Callable[[Floats, int, Rng], Floats]


@dataclass(frozen=True, slots=True)
class AuditorFinding:
    rejected: bool
    pairs: int
    evidence: str

    @classmethod
    def of(cls, result: AuditResult, pairs: int) -> AuditorFinding:
        """Of a whole audit, with the pairs that it needed."""
        said = f"{verdict_words(result)}: {result.sentences[0]}"
        return cls(result.verdict == "violation", pairs, said)


@dataclass(frozen=True, slots=True)
class Fixture:
    """Two neighbouring contexts and what is claimed of their outputs."""

    member: Floats
    nonmember: Floats
    release: Release
    claim: Guarantee
    thresholds: tuple[float, ...]


def by_pairs(
    fixture: Fixture, rng: Rng, budget: int, outputs: int = 100, confidence: float = 0.95
) -> AuditorFinding:
    """Audit a fixture by paired trials, with a test that is valid at any time."""
    process = EProcess(fixture.claim, confidence)
    for done in range(0, budget, CHUNK):
        process.extend(*_chunk(fixture, min(CHUNK, budget - done), outputs, rng))
        if at := process.rejected_at:
            evidence = f"e-process above {1 / (1 - confidence):.0f} after {at} pairs"
            return AuditorFinding(True, at, evidence)
    return AuditorFinding(False, budget, f"not rejected in {budget} pairs")


def _chunk(fixture: Fixture, pairs: int, outputs: int, rng: Rng) -> tuple[Floats, Floats]:
    """(x, y), each (pairs, thresholds), of the next paired trials."""
    levels = np.asarray(fixture.thresholds)
    both = [
        [fixture.release(aggregate, outputs, rng) for aggregate in (fixture.member,
                                                                    fixture.nonmember)]
        for _ in range(pairs)
    ]  # fmt: skip
    shares = (np.asarray(both)[..., None] >= levels).mean(2)
    return shares[:, 0], shares[:, 1]


def by_distribution(
    member: GaussianLaw | CategoricalLaw,
    nonmember: GaussianLaw | CategoricalLaw,
    claim: Guarantee,
    delta: float,
) -> AuditorFinding:
    """Audit two output distributions exactly, without sampling."""
    found, claimed = (
        exact_privacy_loss(member, nonmember, delta).epsilon or 0.0,
        claim.epsilon(delta),
    )
    evidence = f"exact ε(δ={delta:g}) = {found:.4g}, claimed {claimed:.4g}"
    return AuditorFinding(found > claimed * (1 + 1e-6), 0, evidence)  # the factor is for rounding


def spread(low: float, high: float, count: int = 9) -> tuple[float, ...]:
    return tuple(np.linspace(low, high, count).tolist())


def worst(findings: Sequence[AuditorFinding]) -> AuditorFinding:
    """The first finding that rejects, else the last one."""
    return next((f for f in findings if f.rejected), findings[-1])
