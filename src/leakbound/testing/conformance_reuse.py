"""Invariant of reuse: aggregates that hold for one claim only are never offered for another."""

from __future__ import annotations

import math

from leakbound.privacy import Guarantee
from leakbound.tasks import Aggregate, Mechanism, Query, Task
from leakbound.testing.conformance_parts import TWO, Bench, Broken, Puppet, Skipped

# Two claims (epsilon, delta) whose noise differs so much that any of it in an aggregate shows.
NOISY, QUIET = (0.1, 1e-5), (8.0, 1e-5)
# Different draws. An aggregate that holds noise takes one of at least two values, nearly evenly
# under NOISY, so that all of them agree by chance with probability 2^-15 at most.
DRAWS = 16
PATTERNS = ("agree", "random")


def reuse(bench: Bench) -> str:
    """Aggregates are those of every claim, unless `noise_in_collect`; then each draw is fresh."""
    mechanism = bench.mechanism
    if not mechanism.needs:
        raise Skipped("it asks no model, so its aggregates are never reused")
    noisy, quiet = mechanism.recalibrated(*NOISY), mechanism.recalibrated(*QUIET)
    if _has_noise(mechanism.guarantee) and noisy.guarantee == quiet.guarantee:
        raise Broken(
            f"recalibrated gives the same guarantee ({noisy.guarantee.describe()}) for epsilon "
            f"{NOISY[0]:g} and {QUIET[0]:g}"
        )
    for task, query in (*bench.queries(), TWO):
        if mechanism.noise_in_collect(task, query):
            _require_fresh(bench, noisy, task, query)
        else:
            _require_equal(bench, noisy, quiet, task, query)
    return "aggregates of one claim are those of another, where this is said"


def _has_noise(guarantee: Guarantee) -> bool:
    return 0 < guarantee.epsilon(1e-3) < math.inf


def _aggregates(
    bench: Bench, mechanism: Mechanism, task: Task, query: Query, pattern: str
) -> list[Aggregate]:
    """One for each draw, over contexts that a puppet reads in many ways."""
    jobs = [bench.job(query, flip=bool(i % 2)) for i in range(DRAWS)]
    draws = [bench.seed + i // 2 for i in range(DRAWS)]
    return mechanism.collect(task, jobs, draws, _puppet(bench, pattern, query))


def _puppet(bench: Bench, pattern: str, query: Query) -> Puppet:
    return (
        Puppet(pattern, bench.seed, query.labels) if query.labels else Puppet(pattern, bench.seed)
    )


def _require_equal(
    bench: Bench, noisy: Mechanism, quiet: Mechanism, task: Task, query: Query
) -> None:
    for pattern in PATTERNS:
        one, other = (_aggregates(bench, m, task, query, pattern) for m in (noisy, quiet))
        if one != other:
            differing = sum(a != b for a, b in zip(one, other, strict=True))
            raise Broken(
                f"noise_in_collect is False, and {differing} of {DRAWS} aggregates under "
                f"{pattern!r} differ between epsilon {NOISY[0]:g} and {QUIET[0]:g}: outputs of one "
                "claim would be reused for the other"
            )


def _require_fresh(bench: Bench, noisy: Mechanism, task: Task, query: Query) -> None:
    job, draws = bench.job(query), range(bench.seed, bench.seed + DRAWS)
    puppet = _puppet(bench, "random", query)
    one, again = (noisy.collect(task, [job] * DRAWS, list(draws), puppet) for _ in range(2))
    if one != again:
        raise Broken("equal draws give different aggregates")
    if all(aggregate == one[0] for aggregate in one):
        raise Broken(
            f"noise_in_collect is True, and {DRAWS} different draws give one and the same aggregate"
        )
