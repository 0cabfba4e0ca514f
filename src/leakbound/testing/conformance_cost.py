"""Invariant of cost: what one answer spends, against what is really released for it."""

from __future__ import annotations

from collections.abc import Sequence

from leakbound.models import Request
from leakbound.privacy import Guarantee, Subsampled, leaves
from leakbound.tasks import Job, Mechanism, Query, Task
from leakbound.testing.conformance_parts import TWO, Bench, Broken, Puppet, Watched
from leakbound.testing.conformance_reuse import NOISY

DELTAS = (0.0, 1e-9, 1e-6, 1e-3)  # where guarantees are compared: pure DP and orders of magnitude
SLACK = 1 - 1e-9  # for rounding
DRAWS = 8  # runs over one context; a round that is the same in all of them saw no noise before it

Round = frozenset[Request[object]]


def cost(bench: Bench) -> str:
    """`cost` has one part for each release of an answer, and never spends less than a release."""
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
    return f"every answer pays for what it releases ({most} noisy choices at most)"


def _require_cost(found: Guarantee, guarantee: Guarantee, releases: int) -> None:
    if releases > 1:
        if _is_finite(found) and part_count(found) < releases:
            raise Broken(
                f"an answer makes {releases} releases that depend on an example, and its cost is "
                f"{found.describe()}; it must be compose of one part for each release"
            )
        return
    for delta in DELTAS:
        if found.epsilon(delta) < guarantee.epsilon(delta) * SLACK:
            raise Broken(
                f"one answer costs {found.epsilon(delta):.6g} at δ={delta:g}, and the guarantee of "
                f"one release is {guarantee.epsilon(delta):.6g}"
            )


def _is_finite(guarantee: Guarantee) -> bool:
    """Neither nothing is guaranteed, nor that nothing is lost."""
    return any(0 < guarantee.epsilon(delta) < float("inf") for delta in DELTAS)


def part_count(guarantee: Guarantee) -> int:
    """Number of releases that a guarantee composes.

    Examples:
        >>> from leakbound.privacy import PureDP, compose
        >>> part_count(compose([PureDP(0.5)] * 3))
        3
    """
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
            counts.append(_most(runs))
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


def _most(runs: Sequence[frozenset[Round]]) -> int:
    common = frozenset.intersection(*runs)
    return max(len(run - common) for run in runs) + bool(common)
