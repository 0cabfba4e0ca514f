"""Invariants about exact numbers: how far neighbours move, what they lose, what is reached."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from scipy.special import softmax

from leakbound.models import Model
from leakbound.privacy import (
    RDP,
    ApproxDP,
    BoundedRange,
    DiscreteGaussian,
    Gaussian,
    Guarantee,
    leaves,
    renyi_divergence,
    trade_off,
)
from leakbound.stats import CategoricalLaw, GaussianLaw, OutputDistribution, exact_privacy_loss
from leakbound.stats.arrays import Floats, Ints
from leakbound.stats.noise.output_distributions import DiscreteGaussianLaw
from leakbound.tasks import Aggregate, Job, Mechanism, Query
from leakbound_lab.conformance.outputs import FIRST, argmax_chances, events, excess, samples
from leakbound_lab.conformance.parts import (
    FAR,
    UNKNOWN,
    Bench,
    Broken,
    Coins,
    Family,
    NoiseCall,
    Skipped,
    Underived,
    takes,
    values_of,
)
from leakbound_lab.conformance.puppets import (
    DOWN,
    FLIP,
    FREE,
    MUTE,
    STRAY,
    TWO,
    WORDINGS,
    Puppet,
    Tokens,
)

T = TypeVar("T")
Script = tuple[int, float, tuple[str, ...], tuple[str, ...], int]

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


REACH, WIDTH = 1000.0, 1e-6  # of exponents that are told apart, and how exactly
ROUNDING = 1e-5  # of the ratio of two derived probabilities, above what WIDTH makes of it
RARE = 1e-8  # chance of a token that a search over a uniform number may miss
TRIALS = 4  # draws of the noise that a derived distribution must explain
SHORT = 16  # tokens of an answer up to which every one of them is tried
ROWS, CROWD = 4, 12  # examples of a context, and how many times `Bench.size` there are at most
# Size of the vocabulary, how much likelier its second token is without examples, and what the crowd
# and the last example show. Two tokens reach the largest loss; of many, some are no candidates.
SCRIPTS: tuple[Script, ...] = (
    (2, 0.0, ("",), (FLIP, DOWN, "", MUTE), ROWS), (2, 9.0, ("",), (FLIP, DOWN), ROWS),
    (2, 0.0, (DOWN,), (FLIP, DOWN), 8 * CROWD), (2, 0.0, (FLIP, DOWN), (FLIP, DOWN), ROWS),
    (104, 0.0, ("",), (FLIP, STRAY), ROWS),
)  # fmt: skip


def tokens(bench: Bench) -> str:
    """The exact privacy loss of each token of a free answer is within the charge for it."""
    bench.guaranteed()
    if FREE not in bench.queries() or not bench.mechanism.noise_in_collect(*FREE):
        raise Skipped("no tokens are drawn while collecting")
    charges = sorted(leaves(bench.mechanism.cost(*FREE)), key=lambda one: one.epsilon(1e-6))
    try:
        return _require_charges(bench, charges)
    except Underived:
        return _require_samples(bench, charges[-1])


def _require_charges(bench: Bench, charges: Sequence[Guarantee]) -> str:
    # Tokens are not matched with charges: those that exceed one must be covered by larger ones.
    length = len(Coins().run(bench, FREE, jobs_of(bench, SCRIPTS[0])[0], Tokens(2, 0.0)))
    ends = {1, length // 2, length - 2, length - 1}
    later = sorted({*range(length)} if length <= SHORT else ends)
    exceeded, count, largest = [set[int]() for _ in charges], 0, 0.0
    hints = defaultdict[Job, list[float]](list)
    for at, script in [
        *((0, one) for one in SCRIPTS),
        *((at, SCRIPTS[1]) for at in later if at > 0),
    ]:
        found = [
            _chances(bench, job, Tokens(*script[:2]), at, hints[job])
            for job in jobs_of(bench, script)
        ]
        if not any(name for law in found for name in law):
            raise Underived  # all answers end before
        for p, q in _pairs(bench, found):
            names = [name for name in {**p, **q} if p[name] or q[name]]
            rows = np.log([[one[name] for name in names] for one in (p, q)])
            gap, count = rows[0] - rows[1], count + 1
            largest = max(largest, float(gap.max()))
            for i, charge in enumerate(charges):
                exceeded[i] |= set() if _covers(charge, *rows) else {at}
                if len(exceeded[i]) >= len(charges) - i:
                    raise Broken(
                        f"token {at + 1} of an answer loses {gap.max():.6g}, over a range of "
                        f"{np.ptp(gap):.6g}, and is charged {charge.describe()}"
                    )
    _require_candidates(bench)
    return f"{count} pairs of exact distributions of a token lose at most {largest:.6g}"


def _require_candidates(bench: Bench) -> None:
    """Every token of an answer is chosen among the same ones in neighbouring contexts."""
    model, jobs = Tokens(*SCRIPTS[-1][:2]), jobs_of(bench, SCRIPTS[-1])
    for place in range(len(model.level)):
        coins = [Coins(first=place) for _ in jobs]
        texts = {_text(bench, job, model, one) for job, one in zip(jobs, coins, strict=True)}
        if len(texts) > 1:
            raise Broken(f"the candidates of a token, or the end, depend on an example: {texts}")
        if all(place >= one.calls[0][1] for one in coins):
            return


def _text(bench: Bench, job: Job, model: Model, coins: Coins) -> str:
    text = coins.run(bench, FREE, job, model)
    if UNKNOWN in coins.calls or len(coins.calls) - len(text) not in (0, 1):
        raise Underived  # not one call for each token
    return text


def jobs_of(bench: Bench, script: Script) -> list[Job]:
    many = [rows for rows in (ROWS, script[4]) if takes(bench.mechanism, rows)]
    base = bench.job(FREE[1], factor=CROWD).context[: max(many, default=bench.size)]
    *rows, last = base
    marks = itertools.cycle(script[2])
    crowd = [replace(row, input=f"{row.input} {next(marks)}") for row in rows]
    contexts = [(*crowd, replace(last, input=f"{last.input} {mark}")) for mark in script[3]]
    if bench.removing:
        contexts.insert(0, tuple(crowd))
    query = replace(FREE[1], text=WORDINGS[SCRIPTS.index(script)])
    return [Job(context, query) for context in contexts]


def _pairs(bench: Bench, found: Sequence[T]) -> Iterator[tuple[T, T]]:
    for i, j in itertools.permutations(range(len(found)), 2):
        if not bench.removing or 0 in (i, j):
            yield found[i], found[j]


def _covers(charge: Guarantee, p: Floats, q: Floats) -> bool:
    """Whether a guarantee allows two distributions, given as logarithms."""
    if isinstance(charge, BoundedRange):
        return float(np.ptp(p - q)) <= charge.value + ROUNDING
    if isinstance(charge, RDP):
        return renyi_divergence(p, q, charge.order) <= charge.value + ROUNDING
    best = np.argsort(q - p)
    power, errors = (np.minimum(np.exp(one[best]).cumsum(), 1.0) for one in (p, q))
    return bool((power <= trade_off(charge, errors) * (1 + ROUNDING)).all())


def _chances(
    bench: Bench, job: Job, model: Model, at: int, hints: list[float]
) -> defaultdict[str, float]:
    """Probabilities of a token, where all before it are the first choice; "" ends the answer.

    Exponents that were found at other tokens are tried first.
    """
    drawn: list[NoiseCall] = []

    def choose(noise: npt.ArrayLike | None = None) -> str:
        coins = Coins(at, noise)
        text = _text(bench, job, model, coins)
        drawn.extend(coins.calls[at : at + 1])
        return text[at : at + 1]

    choose()
    if not drawn:
        return defaultdict(float, {"": 1.0})  # the answer ends before
    kind, size, p = drawn[0]
    if kind == "uniform":
        return _intervals(choose)
    if p is None:
        names, p = _exponents(kind, size, choose, hints)
    else:
        names = [*map(choose, range(size))]
    found = defaultdict[str, float](float)
    for name, chance in zip(names, p, strict=True):
        found[name] += chance
    return found


def _exponents(
    kind: str, size: int, choose: Callable[[npt.ArrayLike], str], hints: list[float]
) -> tuple[list[str], Floats]:
    """The choice with the largest sum of exponent and noise: when each overtakes the first one."""
    places = np.arange(size)

    def lift(i: int, noise: float) -> str:
        return choose(np.where(places == i, noise, np.where(places, -FAR, 0.0)))

    def search(i: int) -> float:
        edges = sorted(
            {-REACH, -9.0, 9.0, REACH}
            | {x + d for x in {*least[1:], *hints} for d in (-WIDTH, WIDTH)}
        )
        while len(edges) > 2 or edges[1] - edges[0] > 2.1 * WIDTH:
            if len(edges) == 2:
                edges.insert(1, sum(edges) / 2)
            half = len(edges) // 2
            edges = edges[half:] if lift(i, edges[half]) == names[0] else edges[: half + 1]
        return sum(edges) / 2

    names, least = [lift(0, REACH)], [0.0]  # noise at which a choice overtakes
    for i in range(1, size):
        names.append(lift(i, least[-1] + WIDTH))
        least.append(least[-1])
        if names[i] == names[0]:
            names[i] = lift(i, REACH)
            least[i] = search(i) if names[i] != names[0] else FAR  # impossible
    below = np.array(least) - 2 * WIDTH * (places > 0)
    while (i := names.index(choose(np.where(below > REACH, -FAR, below)))) > 0:
        if (found := search(i)) == least[i]:
            raise Underived  # too far apart
        least[i], below[i] = found, found - 2 * WIDTH
    hints += least[1:]
    rng, shift = np.random.default_rng(0), -np.array(least)
    for noise in (rng.gumbel if kind == "gumbel" else rng.normal)(size=(TRIALS, size)):
        if choose(noise) != names[int((shift + noise).argmax())]:
            raise Underived  # the largest sum does not decide
    return names, softmax(shift) if kind == "gumbel" else argmax_chances(GaussianLaw(shift, 1.0))


def _intervals(choose: Callable[[npt.ArrayLike], str]) -> defaultdict[str, float]:
    """Probabilities where a uniform number chooses, each token in one interval."""
    found = defaultdict[str, float](lambda: RARE)
    edges = np.linspace(0.0, 1 - 2**-53, 33).tolist()
    names = [choose(edge) for edge in edges]
    parts = list(zip(edges, edges[1:], names, names[1:], strict=False))
    while parts:
        low, high, first, last = parts.pop()
        if first == last or high - low < RARE * WIDTH:
            found[first] += high - low
        else:
            name = choose(middle := (low + high) / 2)
            parts += [(low, middle, first, name), (middle, high, name, last)]
    return found


def _require_samples(bench: Bench, charge: Guarantee) -> str:
    whole = bench.mechanism.cost(*FREE)
    for script in SCRIPTS[::4]:
        jobs, model = jobs_of(bench, script), Tokens(*script[:2])
        found = [samples(bench, FREE[0], job, model, FIRST) for job in jobs]
        for one, other in _pairs(bench, found):
            for what, guarantee, end in ("first tokens", charge, 1), ("answers", whole, None):
                cut = [replace(out, choices=tuple(text[:end] for text in out.choices))
                       for out in (one, other)]  # fmt: skip
                if any(excess(guarantee, *event[1:]) for event in events(*FREE, *cut)):
                    name = guarantee.describe()
                    raise Broken(f"sampled {what} of neighbours lose more than is charged: {name}")
    return "sampled first tokens are within the charge; no exact distribution can be derived"
