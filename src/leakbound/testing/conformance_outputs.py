"""Invariants of what users receive: it follows the declared distribution, and is drawn afresh.

LEVEL is the false-alarm rate of each of these tests for a correct mechanism. They are exact, and
one run of the battery makes fewer than 200 of them, so it accuses a correct mechanism by chance
less than once in 5 million runs.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from leakbound.stats import GaussianLaw
from leakbound.tasks import Aggregate, Outputs
from leakbound.testing.conformance_parts import GIVEN, TWO, Bench, Broken, Puppet, Skipped
from leakbound.testing.goodness_of_fit import (
    argmax_chances,
    categories_p_value,
    columns_of,
    independent_p_value,
    misfit,
    same_categories_p_value,
    two_sample_p_value,
)

LEVEL = 1e-9
SINGLES = 2000  # calls for one output each: a tenth of the noise less shows
DRAWS = 100_000  # outputs at once: a tail that is cut at 4 standard deviations shows
SLOW_DRAWS = 1000  # of mechanisms that choose k words one after the other

Floats = npt.NDArray[np.float64]


def draws_of(bench: Bench, outputs: Outputs) -> int:
    """How many outputs of a mechanism are drawn at once."""
    slow = outputs.picked is not None and outputs.noisy is None
    return bench.scaled(SLOW_DRAWS if slow else DRAWS)


def _single_calls(bench: Bench, aggregate: Aggregate) -> list[Outputs]:
    """As a service makes them: one output for each call, from a generator of its own."""
    made = (np.random.default_rng([bench.seed, 1, i]) for i in range(bench.scaled(SINGLES)))
    return [bench.mechanism.release(aggregate, 1, rng) for rng in made]


def many_draws(bench: Bench) -> str:
    """n draws at once are distributed like n single draws."""
    aggregate, count = _random(bench), bench.scaled(SINGLES)
    many = bench.mechanism.release(aggregate, count, np.random.default_rng([bench.seed, 2]))
    if len(many.answers) != count:
        raise Broken(f"{count} draws were requested, {len(many.answers)} came")
    if (p := two_sample_p_value(many, _single_calls(bench, aggregate))) < LEVEL:
        raise Broken(f"many draws at once are distributed unlike many single draws (p = {p:.2g})")
    return f"{count} draws at once are like single ones (p = {p:.2g})"


def _random(bench: Bench) -> Aggregate:
    (found,) = bench.mechanism.collect(
        GIVEN[0], [bench.job(GIVEN[1])], [bench.seed], Puppet("random", bench.seed)
    )
    return found


def fresh_noise(bench: Bench) -> str:
    """An output does not depend on the one before it."""
    single = _single_calls(bench, _random(bench))
    columns = [np.concatenate(rows) for rows in zip(*map(columns_of, single), strict=True)]
    shifted = [column[start:] for column in columns for start in (0, 1)]
    p = min(1.0, len(shifted) * min(map(independent_p_value, shifted)))
    if p < LEVEL:
        raise Broken(f"an output depends on the output before it (p = {p:.2g}): noise is kept")
    return f"each of {len(single)} outputs is drawn afresh (p = {p:.2g})"


def outputs(bench: Bench) -> str:
    """Outputs follow the declared distribution, and an answer its noisy aggregate.

    Over contexts with a clear majority, near ties and none at all. Where votes are counted, the
    distribution of the answer comes by integration. Elsewhere the answer must follow from the
    released noise alone: among outputs of two contexts that are drawn so that their noisy
    aggregates have one distribution, the answers have one, too.
    """
    found = [(aggregate, _drawn(bench, aggregate)) for aggregate in _aggregates(bench)]
    least = min(p for aggregate, drawn in found for p in _against_declared(bench, aggregate, drawn))
    if least < LEVEL:
        raise Broken(f"outputs do not follow the declared distribution (p = {least:.2g})")
    for (one, drawn), (other, more) in itertools.pairwise(found[:-1]):  # of one model
        if (p := _given_the_noise(bench, (one, other), (drawn, more))) < LEVEL:
            raise Broken(
                f"answers depend on more than the noisy aggregate that they come with (p = {p:.2g})"
            )
    return f"outputs of {len(found)} contexts follow the output distribution (p = {least:.2g})"


def _aggregates(bench: Bench) -> Iterator[Aggregate]:
    """Near ties one after the other, then a context that is read at random; one query."""
    task, query = TWO
    jobs = bench.near_ties()
    for pattern, some in ("agree", jobs), ("random", jobs[:1]):
        puppet = Puppet(pattern, bench.seed, query.labels)
        for aggregate in bench.mechanism.collect(task, some, [bench.seed] * len(some), puppet):
            if bench.mechanism.output_distribution(aggregate) is None:
                raise Skipped("no output distribution")
            yield aggregate


def _drawn(bench: Bench, aggregate: Aggregate) -> Outputs:
    rng = np.random.default_rng([bench.seed, 3])
    few = bench.mechanism.release(aggregate, 2, rng)
    return bench.mechanism.release(aggregate, draws_of(bench, few), rng)


def _against_declared(bench: Bench, aggregate: Aggregate, drawn: Outputs) -> Iterator[float]:
    declared = bench.mechanism.output_distribution(aggregate)
    if declared is None:
        return
    yield misfit(drawn, declared)
    if bench.mechanism.vote_noise is not None and isinstance(declared, GaussianLaw):
        yield categories_p_value(drawn.answers, argmax_chances(declared))


def _given_the_noise(
    bench: Bench, aggregates: tuple[Aggregate, Aggregate], drawn: tuple[Outputs, Outputs]
) -> float:
    """p-value that the answer is the same function of the noisy aggregate in both contexts."""
    laws = [bench.mechanism.output_distribution(aggregate) for aggregate in aggregates]
    one, other = laws
    if not (isinstance(one, GaussianLaw) and isinstance(other, GaussianLaw)):
        return 1.0
    if one.mean.shape != other.mean.shape or one.sigma != other.sigma:
        return 1.0
    rng = np.random.default_rng([bench.seed, 4])
    kept = [
        np.asarray(out.answers)[_thinned(out, law, against, rng)]
        for out, law, against in zip(drawn, (one, other), (other, one), strict=True)
    ]
    return same_categories_p_value(*kept) if min(map(len, kept)) else 1.0


def _thinned(
    out: Outputs, law: GaussianLaw, against: GaussianLaw, rng: np.random.Generator
) -> npt.NDArray[np.bool_]:
    """Keeps an output with probability min(1, q/p), so that what is kept has density min(p, q)."""
    if out.noisy is None:
        return np.zeros(len(out.answers), bool)
    noisy = np.asarray(out.noisy, float)
    nearer = ((noisy - law.mean) ** 2).sum(1) - ((noisy - against.mean) ** 2).sum(1)
    ratio = np.exp(np.minimum(nearer / (2 * law.sigma**2), 0.0))
    return np.asarray(rng.random(len(noisy)) < ratio)
