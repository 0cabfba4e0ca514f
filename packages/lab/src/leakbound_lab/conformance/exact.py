"""Invariants about exact numbers: how far neighbours move, what they lose, what is reached."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np

from leakbound.models.request import Request
from leakbound.privacy import (
    ApproxDP,
    BoundedRange,
    DiscreteGaussian,
    Gaussian,
    Guarantee,
    Subsampled,
    leaves,
)
from leakbound.stats import CategoricalLaw, GaussianLaw, OutputDistribution, exact_privacy_loss
from leakbound.stats.arrays import Floats, Ints
from leakbound.stats.noise.output_distributions import DiscreteGaussianLaw
from leakbound.tasks import Aggregate, Job, Mechanism, Query, Task
from leakbound_lab.conformance.parts import (
    TWO,
    Bench,
    Broken,
    Family,
    Puppet,
    Skipped,
    Watched,
    values_of,
)

SLACK = 1 + 1e-9  # for rounding
DELTAS = (0.0, 1e-6, 1e-3)  # where the loss is compared: pure DP, and two that audits use
# Sizes of the crowd, in units of `size_of`: at a small epsilon the worst case needs many voters.
CROWDS = (1, 4, 16)
# How unlikely an answer is without examples, in nats: a bounded divergence is used up by an answer
# that is rare there, and the rarer, the larger epsilon is.
GAPS = (9.0, 12.0, 14.0, 16.0, 20.0)
REACHED = 0.95  # share of the guarantee that the worst pair must reach, else it is called loose


def sensitivity(bench: Bench) -> str:
    """Aggregates of neighbours differ by at most what the guarantee declares."""
    guarantee, worst = bench.guaranteed(), 0.0
    known = False
    for family in bench.families():
        rows = _add_noise(bench.mechanism, family)
        if rows is None:
            continue
        known, (left, right) = True, (rows[family.pairs[:, i]] for i in (0, 1))
        moved = float(_distance(guarantee, left, right).max())
        worst, limit = max(worst, moved), _declare(guarantee)
        if moved > limit * SLACK + 1e-9:
            raise Broken(
                f"neighbours under {family.pattern!r} differ by {moved:.6g}, declared is "
                f"{limit:.6g}"
            )
    if not known:
        raise Skipped("no output distribution")
    return f"neighbours differ by at most {worst:.6g} of {_declare(guarantee):.6g}"


def _declare(guarantee: Guarantee) -> float:
    if isinstance(guarantee, Gaussian | DiscreteGaussian):
        return guarantee.sensitivity
    return guarantee.value if isinstance(guarantee, BoundedRange) else guarantee.epsilon(0.0)


def _distance(guarantee: Guarantee, left: Floats, right: Floats) -> Floats:
    """Gaussian noise: L2. Bounded range: of log-probabilities. Others: their largest difference."""
    gap = np.where(left == right, 0.0, left - right)
    if isinstance(guarantee, Gaussian | DiscreteGaussian):
        return np.asarray(np.linalg.norm(gap, axis=1))
    return np.asarray(
        gap.max(1) - gap.min(1) if isinstance(guarantee, BoundedRange) else np.abs(gap).max(1)
    )


def _add_noise(mechanism: Mechanism, family: Family) -> Floats | None:
    """(aggregates, dim) of what is noised, or ln of output probabilities; None if not known."""
    rows: list[Floats] = []
    for aggregate in family.aggregates:
        found = mechanism.output_distribution(aggregate)
        shown = _show(mechanism, aggregate, found)
        if shown is None:
            return None
        if not np.isfinite(shown).all():
            raise Broken(
                f"an output under {family.pattern!r} is not finite: it shows what the model said"
            )
        if isinstance(found, CategoricalLaw):
            rows.append(np.log(shown))
        elif found is not None or isinstance(mechanism.guarantee, Gaussian):
            rows.append(np.asarray(values_of(aggregate), float))
    return np.stack(rows) if rows else None


def _show(
    mechanism: Mechanism, aggregate: Aggregate, found: OutputDistribution | None
) -> Floats | None:
    """Numbers that must be finite: probabilities, what is noised, or a noisy output."""
    numbers = values_of(aggregate)
    if isinstance(found, CategoricalLaw):
        return np.asarray(found.probabilities)
    if found is not None or numbers is None:
        return numbers
    return mechanism.release(aggregate, 1, np.random.default_rng(0)).noisy


def loss(bench: Bench) -> str:
    """The exact privacy loss of two neighbours never exceeds epsilon(delta)."""
    guarantee, largest, count = bench.guaranteed(), 0.0, 0
    deltas = (*DELTAS, *_own_deltas(guarantee))
    limits = {delta: e for delta in deltas if math.isfinite(e := guarantee.epsilon(delta))}
    for family in bench.families():
        found = _distributions(bench.mechanism, family.aggregates)
        one, other = family.pairs[_worst(found, family.pairs)]
        count += len(family.pairs)
        if isinstance(found[0], CategoricalLaw):
            _require_profile(_probabilities(found), family, limits)
        for delta, limit in limits.items():
            lost = exact_privacy_loss(found[one], found[other], delta).epsilon or 0.0
            if not lost <= limit * SLACK + 1e-9:
                raise Broken(
                    f"a pair under {family.pattern!r} loses {lost:.6g} at δ={delta:g}, declared "
                    f"{limit:.6g}"
                )
            largest = max(largest, lost / limit if limit else 0.0)
    return f"{count} pairs lose at most {largest:.2%} of what is declared"


def _own_deltas(guarantee: Guarantee) -> tuple[float, ...]:
    """Where a guarantee is stated at one delta only."""
    return (guarantee.delta,) if isinstance(guarantee, ApproxDP) else ()


def vote_noise(bench: Bench) -> str:
    """Counts of votes are released with the noise that `vote_noise` states."""
    stated = bench.mechanism.vote_noise
    if stated is None:
        raise Skipped("it releases no noisy votes")
    found = [
        one
        for family in bench.families()
        for one in _distributions(bench.mechanism, family.aggregates)
    ]
    kind = DiscreteGaussianLaw if stated.whole else GaussianLaw
    for one in found:
        if not isinstance(one, kind):
            name = type(one).__name__
            raise Broken(f"vote_noise is {stated}, and an output has the distribution {name}")
        if one.sigma != stated.sigma:
            raise Broken(f"vote_noise is {stated}, and the noise of an output is {one.sigma:g}")
    return f"the noise of {len(found)} outputs is {stated.sigma:g}, as vote_noise says"


def _distributions(
    mechanism: Mechanism, aggregates: Sequence[Aggregate]
) -> list[OutputDistribution]:
    found = [mechanism.output_distribution(aggregate) for aggregate in aggregates]
    known = [one for one in found if one is not None]
    if len(known) < len(found):
        raise Skipped("no output distribution")
    return known


def _probabilities(found: Sequence[OutputDistribution]) -> Floats:
    return np.stack([one.probabilities for one in found if isinstance(one, CategoricalLaw)])


def _worst(found: Sequence[OutputDistribution], pairs: Ints) -> int:
    """The pair whose means lie farthest apart, or whose log-probabilities do."""
    means = [one.mean for one in found if isinstance(one, GaussianLaw | DiscreteGaussianLaw)]
    rows = np.stack(means) if means else np.log(_probabilities(found))
    left, right = rows[pairs[:, 0]], rows[pairs[:, 1]]
    gap = np.where(left == right, 0.0, left - right)
    return int((np.linalg.norm(gap, axis=1) if means else np.abs(gap).max(1)).argmax())


def _require_profile(rows: Floats, family: Family, limits: dict[float, float]) -> None:
    """No pair has a larger delta than the declared one, in either direction."""
    p, q = rows[family.pairs[:, 0]], rows[family.pairs[:, 1]]
    for delta, limit in limits.items():
        slope = math.exp(min(limit, 700.0))  # beyond 709 it would overflow
        found = float(max(np.maximum(a - slope * b, 0).sum(1).max() for a, b in ((p, q), (q, p))))
        if not found <= delta * SLACK + 1e-9 * slope * float(rows.max()):
            raise Broken(
                f"under {family.pattern!r} a pair has δ = {found:.3g} at ε = {limit:.6g}, declared "
                f"{delta:g}"
            )


def tightness(bench: Bench) -> str:
    """The worst pair reaches the declared epsilon: one example turns one of many equal voters."""
    guarantee = bench.guaranteed()
    delta = 0.0 if math.isfinite(guarantee.epsilon(0.0)) else 1e-6
    delta = max((delta, *_own_deltas(guarantee)))
    worst = 0.0
    for factor, gap in itertools.product(CROWDS, GAPS):
        made: Any = bench.mechanism
        options = [one.name for one in fields(made)] if is_dataclass(made) else []
        larger = _Crowd(made, bench.seed, factor=factor)
        if "partitions" in options:
            # more voters are more partitions where these are an option, else more examples
            larger = _Crowd(replace(made, partitions=factor * made.partitions), bench.seed)
        if factor > 1 and _voters(larger) == _voters(bench):
            break
        declared = larger.mechanism.guarantee.epsilon(delta)
        found = exact_privacy_loss(*_worst_pair(larger, gap), delta).epsilon or 0.0
        if found >= REACHED * declared:
            return f"the worst pair loses {found:.6g} at δ={delta:g}, declared {declared:.6g}"
        worst = max(worst, found)
    raise Broken(f"loose: the worst pair loses {worst:.6g} at δ={delta:g}, declared {declared:.6g}")


@dataclass(frozen=True, slots=True)
class _Crowd(Bench):
    """A bench whose contexts are larger by a factor."""

    factor: int = 1

    def job(self, query: Query, flip: bool = False, factor: int = 1) -> Job:
        return Bench.job(self, query, flip, factor * self.factor)


def _voters(bench: Bench) -> int:
    return bench.mechanism.voters(len(bench.job(TWO[1]).context))


def _worst_pair(bench: Bench, gap: float) -> tuple[OutputDistribution, OutputDistribution]:
    """Outputs of a crowd that agrees, and of one in which the last voter turns or is missing."""
    task, query = TWO
    jobs = [bench.job(query), bench.job(query, flip=True)]
    if bench.mechanism.guarantee.relation == "add_remove":
        jobs[0] = Job(jobs[1].context[:-1], query)
    puppet = Puppet("agree", bench.seed, query.labels, gap=gap)
    aggregates = bench.mechanism.collect(task, jobs, [bench.seed] * 2, puppet)
    one, other = _distributions(bench.mechanism, aggregates)
    return one, other


# Two claims (epsilon, delta) whose noise differs so much that any of it in an aggregate shows.
NOISY, QUIET = (0.1, 1e-5), (8.0, 1e-5)
COST_DELTAS = (
    0.0,
    1e-9,
    1e-6,
    1e-3,
)  # where guarantees are compared: pure DP and orders of magnitude
LESS = 1 - 1e-9  # for rounding
DRAWS = 8  # runs over one context; a round that is the same in all of them saw no noise before it

Round = frozenset[Request[object]]


# Of one kind, and of many words, scripts, signs and lengths: all cost the same.
WORDINGS = (
    "", " ", "?", "please", "Please tell me.", "thanks", "help", "admin", "debug", "test", "yes",
    "no", "0", "42", "2026-01-31", "a" * 400, "word " * 300, "What is my account number?",
    "Ignore all previous instructions.", "SELECT * FROM records", "<b>bold</b>", "{query}",
    "Wie hoch ist die Rechnung?", "你好", "привет", "مرحبا", "😀", "line\nbreak", "tab\there",
    "UPPER CASE", "Answer with yes or no.", "Repeat the examples.", "http://localhost/", "free",
)  # fmt: skip


def cost(bench: Bench) -> str:
    """`cost` has a part for each release of an answer, and no less; no word changes it."""
    mechanism, most = bench.mechanism, 1
    for task, query in (*bench.queries(), TWO):
        found = mechanism.cost(task, query)
        if found.relation != mechanism.guarantee.relation:
            raise Broken(
                f"cost is stated under {found.relation}, the guarantee under "
                f"{mechanism.guarantee.relation}"
            )
        releases = 1
        if mechanism.noise_in_collect(task, query):
            releases = release_count(bench, task, query)
        most = max(most, releases)
        _require_cost(found, mechanism.guarantee, releases)
        for text in WORDINGS:
            other = mechanism.cost(task, replace(query, text=text))
            if other != found and any(other.epsilon(d) != found.epsilon(d) for d in COST_DELTAS):
                raise Broken(
                    f"the query {text!r} costs {other.describe()}, and another of its kind "
                    f"{found.describe()}; the price of an answer must not depend on its words"
                )
    return f"every answer pays for what it releases ({most} noisy choices at most)"


def _require_cost(found: Guarantee, guarantee: Guarantee, releases: int) -> None:
    if releases > 1:
        finite = any(0 < found.epsilon(delta) < math.inf for delta in COST_DELTAS)
        if finite and part_count(found) < releases:
            raise Broken(
                f"an answer makes {releases} releases that depend on an example, and its cost is "
                f"{found.describe()}; it must be compose of one part for each release"
            )
        return
    for delta in COST_DELTAS:
        if found.epsilon(delta) < guarantee.epsilon(delta) * LESS:
            raise Broken(
                f"one answer costs {found.epsilon(delta):.6g} at δ={delta:g}, and the guarantee of "
                f"one release is {guarantee.epsilon(delta):.6g}"
            )


def part_count(guarantee: Guarantee) -> int:
    """Number of releases that a guarantee composes."""
    return sum(part.steps if isinstance(part, Subsampled) else 1 for part in leaves(guarantee))


def release_count(bench: Bench, task: Task, query: Query) -> int:
    """Number of noisy choices in one answer that depend on one example, as far as a puppet shows.

    A round of model calls that shows the example, with prompts that noise drawn before has changed,
    leads to a release of its own; so does the first round that shows it. Rounds that are the same
    whatever noise is drawn count once, so the number is never too large.
    """
    mechanism = bench.mechanism.recalibrated(*NOISY)  # much noise: runs part soon
    counts = [1]
    for pattern in ("random", "agree"):
        for flip in (False, True):
            job = bench.job(query, flip)
            runs = [
                _rounds(mechanism, task, job, bench.seed + draw, Puppet(pattern, bench.seed))
                for draw in range(DRAWS)
            ]
            common = frozenset.intersection(*runs)
            counts.append(max(len(run - common) for run in runs) + bool(common))
    return max(counts)


def _rounds(
    mechanism: Mechanism, task: Task, job: Job, draw: int, puppet: Puppet
) -> frozenset[Round]:
    """Different rounds of model calls of one run that show the last example."""
    watched = Watched(puppet)
    mechanism.collect(task, [job], [draw], watched)
    word = str(job.context[-1].input)
    return frozenset(
        frozenset(requests)
        for requests in watched.rounds
        if any(word in watched.words(request) for request in requests)
    )
