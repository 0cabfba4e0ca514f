"""Do the bounds hold, and how tight are they? Simulated audits of votes with known truth.

Votes of T = 4 partitions under Gaussian noise, 200 paired trials: the canary's partition says yes
with probability a (member)
or b (non-member), every other one with probability b, and is the same in both contexts of a pair
(--independent: it is not). A
bound holds in a cell if a one-sided binomial test at 1 % does not reject a coverage of 95 %; where
nothing leaks (a = b),
a positive bound is an error. Mean bounds at (.9, .02) are held against the stated ones, less two
standard errors.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
from scipy.special import bdtr, ndtr, ndtri
from vote_audits import default_audit, design, observed

from leakbound.privacy import Gaussian
from leakbound.stats import (
    EProcess,
    Estimate,
    accuracy_bound,
    bonferroni,
    clopper_pearson,
    gdp,
    vote_band,
)

PARTITIONS, PAIRS, DELTA = 4, 200, 1e-5
SCENES = ((1.0, 0.0), (0.9, 0.02), (0.6, 0.1), (0.1, 0.1))
NOISE = (0.3, 0.6, 1.2, 1.7)  # mu of one vote
TARGETS = {
    "vote_band mu": (0.206, 0.412, 0.816, 1.123),
    "e_process mu": (0.244, 0.484, 0.930, 1.26),
    "e_process eps": (0.81, 1.37, 1.75, 1.80),
}
WITHIN = 0.92  # of the truth, for deterministic votes, by the e-process


@dataclass(frozen=True)
class Truth:
    """The largest mu, and epsilon at DELTA, that any threshold on the noisy count shows."""

    mu: float
    epsilon: float


@dataclass(frozen=True, eq=False)
class Audit:
    """Votes and one noisy output of every context."""

    member: np.ndarray
    nonmember: np.ndarray
    noisy_member: np.ndarray
    noisy_nonmember: np.ndarray
    mu: float
    seed: int

    def cells(self, tau: float = 0.5) -> tuple[int, int, int, int]:
        tp, fp = int((self.noisy_member >= tau).sum()), int((self.noisy_nonmember >= tau).sum())
        return tp, PAIRS - tp, fp, PAIRS - fp


def truth(a: float, b: float, mu: float) -> Truth:
    others = np.array([1.0])
    for _ in range(PARTITIONS - 1):
        others = np.convolve(others, [1 - b, b])
    tau = np.linspace(-6 / mu, PARTITIONS + 6 / mu, 40_001)
    above = ndtr((np.arange(PARTITIONS + 1)[:, None] - tau) * mu)
    tpr, fpr = (np.convolve(others, [1 - p, p]) @ above for p in (a, b))
    ratios = [
        np.log(np.maximum(h - DELTA, 1e-300) / low) for h, low in ((tpr, fpr), (1 - fpr, 1 - tpr))
    ]
    inside = (fpr > 1e-12) & (tpr < 1 - 1e-12)
    return Truth(
        float((ndtri(tpr) - ndtri(fpr))[inside].max()),
        max(0.0, *(float(r[inside].max()) for r in ratios)),
    )


def draw(a: float, b: float, mu: float, shared: bool, rng: np.random.Generator) -> Audit:
    crowd = rng.binomial(PARTITIONS - 1, b, (2, PAIRS))
    member = crowd[0] + (rng.random(PAIRS) < a)
    nonmember = crowd[0 if shared else 1] + (rng.random(PAIRS) < b)
    noise = rng.normal(0, 1 / mu, (2, PAIRS))
    return Audit(
        member, nonmember, member + noise[0], nonmember + noise[1], mu, int(rng.integers(1 << 31))
    )


@lru_cache(maxsize=4)
def e_process(audit: Audit, shared: bool) -> tuple[Estimate, Estimate]:
    """The default estimator: bounds on epsilon and on mu."""
    known = design(PARTITIONS, audit.mu, PAIRS, DELTA, shared=shared)
    margins = 2 * audit.member - PARTITIONS, 2 * audit.nonmember - PARTITIONS
    observer = default_audit(known)
    observer.observe(observed(known, 0, *margins, np.random.default_rng(audit.seed)))
    return observer.bounds()


def outputs_only(audit: Audit) -> Estimate:
    """The e-process on one output of each context: no votes, no output distribution."""
    tau = 0.5 + np.array([-1.0, 0.0, 1.0]) / audit.mu
    process = EProcess(Gaussian(audit.mu, 1.0), horizon=PAIRS)
    process.extend(audit.noisy_member[:, None] >= tau, audit.noisy_nonmember[:, None] >= tau)
    return process.mu_lower_bound(DELTA)


def bounds(shared: bool) -> dict[str, Callable[[Audit], float]]:
    def band(audit: Audit) -> Estimate:
        return vote_band(audit.member, audit.nonmember, PARTITIONS, 1 / audit.mu, DELTA)

    def tried(audit: Audit) -> Estimate:
        return bonferroni(gdp, audit.noisy_member, audit.noisy_nonmember, (-0.5, 0.5, 1.5), DELTA)

    return {
        "clopper_pearson eps": lambda audit: clopper_pearson(*audit.cells(), DELTA).epsilon or 0.0,
        "accuracy_bound eps": lambda audit: (
            accuracy_bound(right(audit), 2 * PAIRS, DELTA).epsilon or 0.0
        ),
        "gdp mu": lambda audit: gdp(*audit.cells(), DELTA).mu or 0.0,
        "gdp, bonferroni mu": lambda audit: tried(audit).mu or 0.0,
        "e_process, outputs mu": lambda audit: outputs_only(audit).mu or 0.0,
        "vote_band eps": lambda audit: band(audit).epsilon or 0.0,
        "vote_band mu": lambda audit: band(audit).mu or 0.0,
        "e_process eps": lambda audit: e_process(audit, shared)[0].epsilon or 0.0,
        "e_process mu": lambda audit: e_process(audit, shared)[1].mu or 0.0,
    }


def right(audit: Audit) -> int:
    tp, _, _, tn = audit.cells()
    return tp + tn


@dataclass(frozen=True)
class Cell:
    name: str
    a: float
    b: float
    mu: float
    truth: float
    found: np.ndarray
    target: float | None

    @property
    def coverage(self) -> float:
        return float((self.found <= self.truth * (1 + 1e-9) + 1e-12).mean())

    @property
    def error(self) -> float:
        return float(self.found.std(ddof=1) / np.sqrt(self.found.size))

    @property
    def holds(self) -> bool:
        n = self.found.size
        covers = float(bdtr(round(self.coverage * n), n, 0.95)) >= 0.01
        return covers and (
            self.target is None or bool(self.found.mean() >= self.target - 2 * self.error)
        )

    @property
    def share(self) -> str:
        """Of the truth; where nothing leaks, of audits with a positive bound."""
        if self.truth > 1e-9:
            return f"{self.found.mean() / self.truth:.1%}"
        return f"{(self.found > 0).mean():.1%}+"

    def markdown(self) -> str:
        target = "" if self.target is None else f"{self.target:.3f}"
        return (
            f"| {self.name} | {self.a:g} | {self.b:g} | {self.mu:g} | {self.truth:.3f} | "
            f"{self.found.mean():.3f} | {self.error:.3f} | "
            f"{self.share} | {self.coverage:.1%} | {target} | "
            f"{'holds' if self.holds else '**fails**'} |\n"
        )

    def __str__(self) -> str:
        target = "" if self.target is None else f"{self.target:.3f}"
        return (
            f"{self.name:<23} {self.a:4.2f} {self.b:4.2f} {self.mu:4.1f} {self.truth:8.3f} "
            f"{self.found.mean():8.3f} "
            f"±{self.error:.3f} {self.share:>7} {self.coverage:9.1%} {target:>7}  "
            f"{'holds' if self.holds else 'FAILS'}"
        )


def target(name: str, a: float, b: float, mu: float, true: float) -> float | None:
    if (a, b) == (0.9, 0.02) and name in TARGETS:
        return TARGETS[name][NOISE.index(mu)]
    return WITHIN * true if (a, b) == (1.0, 0.0) and name == "e_process mu" else None


def cells(audits: int, shared: bool, seed: int) -> list[Cell]:
    print(
        f"{audits} audits in each cell, {PAIRS} pairs each, T = {PARTITIONS}, delta = {DELTA:g}, "
        "95 % "
        "confidence"
    )
    print(
        "'share': mean bound over truth; where nothing leaks, share of audits with a positive "
        "bound (marked +)"
    )
    print(f"{'estimator':<23}    a    b   mu    truth     mean  error   share  coverage  target")
    out = []
    estimators = bounds(shared)
    for at, (a, b) in enumerate(SCENES):
        for mu in NOISE:
            true = truth(a, b, mu)
            rng = np.random.default_rng([seed, at, NOISE.index(mu)])
            runs = (draw(a, b, mu, shared, rng) for _ in range(audits))
            rows = np.array([[estimator(run) for estimator in estimators.values()] for run in runs])
            for name, found in zip(estimators, rows.T, strict=True):
                value = true.mu if name.endswith("mu") else true.epsilon
                out.append(Cell(name, a, b, mu, value, found, target(name, a, b, mu, value)))
                print(out[-1], flush=True)
    return out


def markdown(found: list[Cell], audits: int, held: int) -> str:
    """The table as a page of the docs."""
    head = (
        f"# Coverage and tightness\n\nWritten by `make coverage`: {audits} simulated audits "
        f"in each cell, {PAIRS} paired trials each, T = {PARTITIONS} "
        f"partitions, δ = {DELTA:g}, 95 % confidence. The canary's partition says yes with "
        "probability a (canary in) or b (canary "
        "out), every other one with probability b; μ is that of one vote. A bound holds in a cell "
        "if a one-sided binomial test at "
        "1 % does not reject a coverage of 95 %, and its mean is not below the target by more "
        "than two standard errors. Where "
        "nothing leaks (a = b), “share” is the share of audits with a positive bound.\n\n"
        f"**{held} of {len(found)} cells hold.**\n\n"
        "| estimator | a | b | μ | truth | mean bound | ± | share of truth | coverage | target | "
        "|\n" + "| --- " * 11 + "|\n"
    )
    return head + "".join(cell.markdown() for cell in found)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = partial(parser.add_argument, type=int)
    add("--audits", default=1000, help="simulated audits in each cell")
    add("--seed", default=0)
    parser.add_argument("--write", help="also write the table to this Markdown file")
    parser.add_argument("--quick", action="store_true", help="100 audits in each cell")
    parser.add_argument(
        "--independent", action="store_true", help="the two contexts of a pair share no partition"
    )
    given = parser.parse_args()
    start = time.perf_counter()
    audits = 100 if given.quick else given.audits
    if audits < 2:
        parser.error("at least 2 audits in each cell are needed for a standard error")
    found = cells(audits, not given.independent, given.seed)
    held = sum(cell.holds for cell in found)
    print(f"{held} of {len(found)} cells hold ({time.perf_counter() - start:.0f} s)")
    if given.write:
        Path(given.write).write_text(markdown(found, audits, held), encoding="utf-8")
    return 0 if held == len(found) else 1


if __name__ == "__main__":
    sys.exit(main())
