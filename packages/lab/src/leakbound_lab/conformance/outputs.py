"""Invariants of what users receive: it follows the declared distribution, and is drawn afresh.

LEVEL is the false-alarm rate of each of these tests for a correct mechanism. They are exact, and
one run of the battery makes fewer than 200 of them, so it accuses a correct mechanism by chance
less than once in 5 million runs.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt
from scipy import special, stats

from leakbound.models import Model, Request
from leakbound.models.model import Wrapper
from leakbound.privacy import Guarantee, Subsampled, trade_off
from leakbound.stats import CategoricalLaw, GaussianLaw, OutputDistribution
from leakbound.stats.arrays import Bools, Floats, Ints
from leakbound.tasks import Aggregate, AnyRequest, Job, Outputs, Query, Task
from leakbound_lab.conformance.parts import Bench, Broken, Skipped, context_of, strangers
from leakbound_lab.conformance.puppets import GIVEN, MANY, TWO, Puppet

Column = Ints | Floats
TAILS = (2.0, 3.0, 4.0)  # standard deviations beyond which noise is counted
CORES = 20_000  # outputs of a test of Kolmogorov; its exact p-value is slow for more
LOUD, FARTHEST = 3.0, 6.0  # factor of noise, and where 5 % of it lie; a cut there loses 4e-9
STEPS = 2001  # of an integral over 20 standard deviations: exact to 1e-12 for normal densities


def columns_of(outputs: Outputs) -> list[Column]:
    """What is random, one array for each."""
    picked = (
        []
        if outputs.picked is None
        else [outputs.picked @ (1000 ** np.arange(outputs.picked.shape[1]))]
    )
    noisy = [] if outputs.noisy is None else list(np.asarray(outputs.noisy, float).T)
    return [np.asarray(outputs.answers, np.int64), *picked, *noisy]


def two_sample_p_value(one: Outputs, other: Sequence[Outputs]) -> float:
    """p-value that many draws at once and many single draws have one distribution."""
    singles = [np.concatenate(rows) for rows in zip(*map(columns_of, other), strict=True)]
    many = columns_of(one)
    found = [
        float(stats.ks_2samp(x, y).pvalue) if x.dtype.kind == "f" else same_categories_p_value(x, y)
        for x, y in zip(many, singles, strict=True)
    ]
    return min(1.0, len(found) * min(found))


def same_categories_p_value(x: Column, y: Column) -> float:
    """p-value that two samples of categories have one distribution."""
    kinds, at = np.unique(np.concatenate([x, y]), return_inverse=True)
    if len(kinds) < 2:
        return 1.0
    one, other = (np.bincount(p, minlength=len(kinds)) for p in (at[: len(x)], at[len(x) :]))
    drawn = stats.hypergeom(len(at), one + other, len(x))
    tails = np.minimum(drawn.cdf(one), drawn.sf(one - 1))
    return float(min(1.0, 2 * len(kinds) * tails.min()))


def independent_p_value(column: Column) -> float:
    """p-value that each draw is independent of the one before it."""
    first, second = column[: len(column) // 2 * 2 : 2], column[1::2]
    if column.dtype.kind == "f" and np.ptp(column) > 0 and (first == second).all():
        return 0.0
    cut = np.median(column)
    high, after = first > cut, second > cut
    both = int((high & after).sum())
    drawn = stats.hypergeom(len(first), int(high.sum()), int(after.sum()))
    return float(min(1.0, 2 * min(drawn.cdf(both), drawn.sf(both - 1))))


def misfit(outputs: Outputs, declared: OutputDistribution) -> float:
    """p-value that outputs follow the distribution that is declared for them."""
    if isinstance(declared, CategoricalLaw):
        chosen = outputs.answers if outputs.picked is None else outputs.picked[:, 0]
        return categories_p_value(np.asarray(chosen), np.asarray(declared.probabilities, float))
    if outputs.noisy is None:
        return 0.0
    noise = (np.asarray(outputs.noisy, float) - declared.mean) / declared.sigma
    if isinstance(declared, GaussianLaw):
        found = [float(stats.kstest(column[:CORES], "norm").pvalue) for column in noise.T]
        found += [_tail(noise, tail) for tail in TAILS]
    else:
        found = [_whole_noise(column, declared.sigma) for column in noise.T]
    half = len(noise) // 2 * 2
    found += [
        _unlink(noise[at : half - at : 2, i], noise[at + 1 : half : 2, i])
        for i in range(noise.shape[1])
        for at in (0, 1)
    ]
    found += [
        _unlink(noise[:, i], noise[:, j])
        for i, j in itertools.combinations(range(noise.shape[1]), 2)
    ]
    return min(1.0, len(found) * min(found))


def _tail(noise: Floats, tail: float) -> float:
    """Two-sided binomial p-value of the number of values beyond some standard deviations."""
    beyond = int((np.abs(noise) > tail).sum())
    drawn = stats.binom(noise.size, 2 * stats.norm.sf(tail))
    return float(min(1.0, 2 * min(drawn.cdf(beyond), drawn.sf(beyond - 1))))


def _whole_noise(column: Floats, sigma: float) -> float:
    """Discrete Gaussian noise in units of sigma, as categories."""
    steps = np.rint(column * sigma).astype(np.int64)
    if np.abs(steps - column * sigma).max() > 1e-6:
        return 0.0
    reach = int(10 * sigma) + 10
    weights = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * sigma**2))
    return categories_p_value(np.clip(steps + reach, 0, 2 * reach), weights / weights.sum())


def _unlink(x: Floats, y: Floats) -> float:
    """Two-sided p-value that normal x and y are independent: given x, the score is normal."""
    return 2 * float(stats.norm.sf(abs(float(x @ y)) / max(float(np.linalg.norm(x)), 1e-300)))


def categories_p_value(answers: npt.ArrayLike, p: Floats) -> float:
    """p-value that categories have given probabilities."""
    seen = np.bincount(np.asarray(answers, np.int64), minlength=len(p))
    chances = np.clip(p / p.sum(), 0.0, 1.0)
    if len(seen) > len(p) or (seen[chances == 0] > 0).any():
        return 0.0
    drawn = stats.binom(int(seen.sum()), chances)
    tails = np.minimum(drawn.cdf(seen), drawn.sf(seen - 1))
    return float(min(1.0, 2 * len(p) * tails.min()))


def argmax_chances(declared: GaussianLaw) -> Floats:
    """Probability that each entry of a noisy aggregate is the largest, by integration."""
    mean, x = np.asarray(declared.mean) / declared.sigma, np.linspace(-10, 10, STEPS)
    gaps = x[:, None, None] + mean[None, :, None] - mean[None, None, :]
    below = special.log_ndtr(gaps)
    below[:, np.arange(len(mean)), np.arange(len(mean))] = 0.0
    density = np.exp(-0.5 * x**2)[:, None] * np.exp(below.sum(2))
    chances = density.sum(0)
    return np.asarray(chances / chances.sum())


LEVEL = 1e-9
SINGLES = 2000  # calls for one output each: a tenth of the noise less shows
DRAWS = 100_000  # outputs at once: a tail that is cut at 4 standard deviations shows
SLOW_DRAWS = 1000  # of mechanisms that choose k words one after the other


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

    Over near ties, and over many answers with replies that cannot be read. The answer must follow
    from the released noise alone: among outputs of two contexts that are drawn so that their noisy
    aggregates have one distribution, the answers have one, too.
    """
    cases = list(_aggregates(bench))
    found = [(law, _draw(bench, aggregate, law)) for aggregate, law in cases]
    least = min(misfit(drawn, law) for law, drawn in found)
    if least < LEVEL:
        raise Broken(f"outputs do not follow the declared distribution (p = {least:.2g})")
    for pair in itertools.pairwise(found[:-1]):  # of one model
        if (p := _noise_p_value(bench, *pair)) < LEVEL:
            raise Broken(
                f"answers depend on more than the noisy aggregate that they come with (p = {p:.2g})"
            )
    _require_tails(bench, *cases[0])
    return f"outputs of {len(found)} contexts follow the output distribution (p = {least:.2g})"


def _aggregates(bench: Bench) -> Iterator[tuple[Aggregate, OutputDistribution]]:
    """Near ties one after the other, then many answers, of which some cannot be read."""
    for pattern, (task, query), jobs in (
        ("agree", TWO, bench.near_ties()), ("mumble", MANY, [bench.job(MANY[1])])
    ):  # fmt: skip
        puppet = Puppet(pattern, bench.seed, query.labels)
        for aggregate in bench.mechanism.collect(task, jobs, [bench.seed] * len(jobs), puppet):
            law = bench.mechanism.output_distribution(aggregate)
            if law is None:
                raise Skipped("no output distribution")
            yield aggregate, law


def _draw(bench: Bench, aggregate: Aggregate, law: OutputDistribution) -> Outputs:
    rng = np.random.default_rng([bench.seed, 3])
    count = draws_of(bench, bench.mechanism.release(aggregate, 2, rng))
    if not isinstance(law, CategoricalLaw) and len(law.mean) > len(MANY[1].labels):
        count = min(count, bench.scaled(CORES))  # many columns have as many values in all
    return bench.mechanism.release(aggregate, count, rng)


class _Loud(np.random.Generator):
    """Normal noise that is larger by a factor, so that few draws show a tail."""

    def normal(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        return super().normal(loc, LOUD * np.asarray(scale), size)

    def standard_normal(self, size: Any = None, *args: Any, **options: Any) -> Any:
        return LOUD * super().standard_normal(size, *args, **options)


def _require_tails(bench: Bench, aggregate: Aggregate, declared: OutputDistribution) -> None:
    """Noise is cut nowhere: where the generator's is larger, that of an output is, too."""
    if not isinstance(declared, GaussianLaw):
        return
    rng, count = _Loud(np.random.PCG64(bench.seed)), bench.scaled(SINGLES)
    loud = bench.mechanism.release(aggregate, count, rng)
    if loud.noisy is None or misfit(loud, declared) >= LEVEL:
        return  # of another generator, or of other numbers of this one
    far = np.abs(np.asarray(loud.noisy) - declared.mean) / declared.sigma
    if (far < FARTHEST).all():
        raise Broken(f"noise is never larger than {far.max():.3g} standard deviations: it is cut")


def _noise_p_value(bench: Bench, *cases: tuple[OutputDistribution, Outputs]) -> float:
    """p-value that the answer is the same function of the noisy aggregate in both contexts."""
    (one, _), (other, _) = cases
    if not (isinstance(one, GaussianLaw) and isinstance(other, GaussianLaw)):
        return 1.0
    if one.mean.shape != other.mean.shape or one.sigma != other.sigma:
        return 1.0
    rng = np.random.default_rng([bench.seed, 4])
    kept = [
        np.asarray(out.answers)[_thin(out, law, against, rng)]
        for (_, out), law, against in zip(cases, (one, other), (other, one), strict=True)
    ]
    return same_categories_p_value(*kept) if min(map(len, kept)) else 1.0


def _thin(out: Outputs, law: GaussianLaw, against: GaussianLaw, rng: np.random.Generator) -> Bools:
    """Keeps an output with probability min(1, q/p), so that what is kept has density min(p, q)."""
    if out.noisy is None:
        return np.zeros(len(out.answers), bool)
    noisy = np.asarray(out.noisy, float)
    nearer = ((noisy - law.mean) ** 2).sum(1) - ((noisy - against.mean) ** 2).sum(1)
    ratio = np.exp(np.minimum(nearer / (2 * law.sigma**2), 0.0))
    return np.asarray(rng.random(len(noisy)) < ratio)


OF_ONE = 20_000  # outputs of a context: an answer that is certain in one of two shows at mu = 6
TEXTS = 200  # the same where noise is drawn while collecting: shows at epsilon = 2
FIRST = 2000  # where their tokens have no distribution that can be derived
MOST = 40  # events of a kind that are tested: the most frequent ones

KINDS = ("the text", "the order of the chosen words")

R = TypeVar("R")
Rates = tuple[Floats, Floats]


class _Remembered(Wrapper):
    """Answers a request as it did before: a puppet is a function of the prompt."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self._known: dict[AnyRequest, object] = {}

    def answer(self, requests: Sequence[Request[R]], /) -> list[R]:
        new = [one for one in dict.fromkeys(requests) if one not in self._known]
        self._known.update(zip(new, self.model.answer(new), strict=True))
        return [cast(R, self._known[one]) for one in requests]


def returned(bench: Bench) -> str:
    """Whatever is returned for two neighbouring contexts keeps the guarantee.

    Answers, words, texts, their lengths and noisy aggregates, in contexts around a tie, with one
    example of a kind among others, and with one that the model repeats.
    """
    bench.guaranteed()
    count = 0
    for task, query, pattern, one, other in _cases(bench):
        guarantee = bench.mechanism.cost(task, query)
        puppet = bench.puppet(pattern, query)
        drawn = [samples(bench, task, job, puppet, TEXTS) for job in (one, other)]
        for name, rates, sizes in events(task, query, *drawn):
            count += rates[0].size
            if excess(guarantee, rates, sizes):
                raise Broken(
                    f"{name} tells neighbouring contexts apart under {pattern!r} more than the "
                    f"guarantee allows ({guarantee.describe()})"
                )
    return f"{count} events of neighbouring contexts are within the guarantee"


def _cases(bench: Bench) -> Iterator[tuple[Task, Query, str, Job, Job]]:
    """Neighbouring jobs, and the script of the puppet that answers them."""
    for (task, query), jobs in (TWO, bench.near_ties()), (MANY, bench.near_ties(MANY[1])[1:]):
        for one, other in itertools.pairwise(jobs):
            yield task, query, "agree", *_relate(bench, one, other)
    for task, query in bench.queries():
        base = bench.job(query)
        for stranger, pattern in zip(strangers(base.context[-1]), ("agree", "echo"), strict=False):
            changed = Job((*base.context[:-1], stranger), query)
            yield task, query, pattern, *_relate(bench, base, changed)


def _relate(bench: Bench, one: Job, other: Job) -> tuple[Job, Job]:
    """The same two, or the second and what it is without the example that differs."""
    if bench.mechanism.guarantee.relation == "replace_one":
        return one, other
    pairs = enumerate(zip(one.context, other.context, strict=True))
    place = next((i for i, (a, b) in pairs if a != b), 0)
    return Job((*other.context[:place], *other.context[place + 1 :]), other.query), other


def samples(bench: Bench, task: Task, job: Job, model: Model, texts: int) -> Outputs:
    """Outputs of one context, with everything that is drawn on the way drawn afresh."""
    mechanism, puppet = bench.mechanism, _Remembered(model)
    rng = np.random.default_rng([bench.seed, 5])
    if isinstance(mechanism.guarantee, Subsampled) or mechanism.noise_in_collect(task, job.query):
        draws = [bench.seed + i for i in range(bench.scaled(texts))]
        found = mechanism.collect(task, [job] * len(draws), draws, puppet)
        return _join([mechanism.release(aggregate, 1, rng) for aggregate in found])
    (aggregate,) = mechanism.collect(task, [job], [bench.seed], puppet)
    count = min(bench.scaled(OF_ONE), draws_of(bench, mechanism.release(aggregate, 2, rng)))
    return mechanism.release(aggregate, count, rng)


def _join(outputs: Sequence[Outputs]) -> Outputs:
    """Single outputs together; each may have choices of its own."""
    choices = tuple(dict.fromkeys(text for one in outputs for text in one.choices))
    at = {text: i for i, text in enumerate(choices)}

    def index(one: Outputs, answer: int) -> int:
        inside = bool(one.choices) and answer < len(one.choices)
        return at[one.choices[answer]] if inside else len(choices) if one.choices else answer

    answers = [index(one, int(one.answers[0])) for one in outputs]
    noisy = [one.noisy for one in outputs if one.noisy is not None]
    return Outputs(np.array(answers), np.concatenate(noisy) if noisy else None, choices)


def events(
    task: Task, query: Query, one: Outputs, other: Outputs
) -> Iterator[tuple[str, Rates, tuple[int, int]]]:
    """Counts of events in both contexts, and of how many outputs."""
    sizes = (len(one.answers), len(other.answers))
    for name, *counts in zip(
        KINDS, _counters(task, query, one), _counters(task, query, other), strict=True
    ):
        kinds = [kind for kind, _ in sum(counts, Counter[object]()).most_common(MOST)]
        if len(kinds) > 1:
            first, second = (np.array([seen[kind] for kind in kinds], float) for seen in counts)
            yield name, (first, second), sizes
    lengths = [
        np.repeat(*np.array([(len(str(k).split()), n) for k, n in c.items()]).T)
        for c in (_counters(task, query, o)[0] for o in (one, other))
    ]
    levels = np.unique(np.concatenate(lengths))
    yield "the length of the text", _above(lengths[0], lengths[1], levels), sizes
    if one.noisy is not None and other.noisy is not None:
        yield _along(np.asarray(one.noisy, float), np.asarray(other.noisy, float))


def _counters(task: Task, query: Query, outputs: Outputs) -> list[Counter[object]]:
    """How often each text and each row of chosen words came."""
    names = (*(outputs.choices or task.answers(query)), "")
    values, counts = np.unique(np.asarray(outputs.answers), return_counts=True)
    texts: Counter[object] = Counter()
    for value, count in zip(values.tolist(), counts.tolist(), strict=True):
        texts[names[min(value, len(names) - 1)]] += count
    if outputs.picked is None:
        return [texts, Counter({(): len(outputs.answers)})]
    rows, counts = np.unique(outputs.picked, axis=0, return_counts=True)
    chosen: Counter[object] = Counter(
        {tuple(row): n for row, n in zip(rows.tolist(), counts.tolist(), strict=True)}
    )
    return [texts, chosen]


def _above(one: Floats, other: Floats, levels: Floats) -> Rates:
    first, second = ((found[:, None] >= levels).sum(0).astype(float) for found in (one, other))
    return first, second


def _along(one: Floats, other: Floats) -> tuple[str, Rates, tuple[int, int]]:
    """Noisy aggregates above levels on the line between their means; both from the first halves."""
    half, rest = len(one) // 2, len(other) // 2
    line = one[:half].mean(0) - other[:rest].mean(0)
    levels = np.quantile(np.concatenate([one[:half], other[:rest]]) @ line, np.linspace(0, 1, 25))
    rates = _above(one[half:] @ line, other[rest:] @ line, levels)
    return "the noisy aggregate", rates, (len(one) - half, len(other) - rest)


def excess(guarantee: Guarantee, rates: Rates, sizes: tuple[int, int]) -> bool:
    """Whether some rate is larger than the other allows, in either direction."""
    alpha = LEVEL / (4 * rates[0].size)  # two directions, two bounds each
    for a, b, of_a, of_b in ((*rates, *sizes), (*rates[::-1], *sizes[::-1])):
        low = np.where(a > 0, stats.beta.ppf(alpha, np.maximum(a, 1), of_a - a + 1), 0.0)
        high = np.where(b < of_b, stats.beta.isf(alpha, b + 1, np.maximum(of_b - b, 1)), 1.0)
        if (low > trade_off(guarantee, np.clip(high, 0.0, 1.0)) + 1e-12).any():
            return True
    return False


def public_facts(bench: Bench) -> str:
    """What a private row cannot change: choices, sizes, limits, and whether there is an answer."""
    bench.guaranteed()
    rng, count = np.random.default_rng([bench.seed, 97]), 0
    for task, query in bench.queries():
        base = context_of(rng, len(bench.job(query).context))
        rows = [base, *((*base[:-1], row) for row in strangers(base[-1]))]
        for pattern in bench.patterns:
            facts = {_facts(bench, task, Job(row, query), pattern) for row in rows}
            count += len(rows)
            if len(facts) > 1:
                raise Broken(
                    f"the choices, sizes or limits of an answer under {pattern!r} depend on one "
                    "example; they must be fixed by public facts"
                )
    return f"choices, sizes and limits of {count} answers are those of their neighbours"


def _facts(bench: Bench, task: Task, job: Job, pattern: str) -> tuple[object, ...]:
    mechanism, model = bench.mechanism, _Remembered(bench.puppet(pattern, job.query))
    asked = Counter(_shape(request) for request in mechanism.requests(task, job, bench.seed))
    (aggregate,) = mechanism.collect(task, [job], [bench.seed], model)
    if mechanism.noise_in_collect(task, job.query):
        return (frozenset(asked.items()),)
    out = mechanism.release(aggregate, 3, np.random.default_rng(bench.seed))
    sizes = [None if a is None else np.asarray(a).shape for a in (out.noisy, out.picked)]
    points = None if out.points is None else np.asarray(out.points).tobytes()
    return frozenset(asked.items()), out.choices, points, out.scale, *sizes


def _shape(request: AnyRequest) -> tuple[object, ...]:
    """A request without its prompt."""
    if not is_dataclass(request):
        return (type(request),)
    shown = {"prompt", "text", "draw"}
    kept = (getattr(request, one.name) for one in fields(request) if one.name not in shown)
    return type(request), *kept


def state(bench: Bench) -> str:
    """An aggregate depends on its own job alone, and a text on its output, whatever came before."""
    mechanism = bench.mechanism
    for task, query in (*bench.queries(), TWO):
        model = _Remembered(bench.puppet("agree", query))
        job, other = (bench.flipped(query, voters) for voters in (0, bench.crowd))
        first, between, again, last = (
            mechanism.collect(task, [one], [bench.seed], model)[0] for one in (job, other, job, job)
        )
        if not first == again == last:
            raise Broken("an aggregate depends on contexts that were collected before")
        out = mechanism.release(first, 5, np.random.default_rng(bench.seed))
        texts = mechanism.decode(task, query, out, model)
        mechanism.release(between, 5, np.random.default_rng(bench.seed))
        mechanism.collect(task, [other], [bench.seed], model)
        if mechanism.decode(task, query, out, model) != texts:
            raise Broken("a text depends on contexts that were collected before")
        together = mechanism.collect(task, [other, job], [bench.seed] * 2, model)
        if together[1] != first:
            raise Broken("an aggregate depends on other jobs of its batch")
    _require_samples(bench)
    return "aggregates and texts depend on nothing that came before"


def _require_samples(bench: Bench) -> None:
    """Under amplification by subsampling, each answer needs a sample of its own."""
    guarantee = bench.mechanism.guarantee
    if not isinstance(guarantee, Subsampled) or guarantee.rate in (0.0, 1.0):
        return
    task, query = GIVEN
    made = [tuple(bench.mechanism.requests(task, bench.job(query), i)) for i in range(8)]
    if len(set(made)) < len(made):
        raise Broken("different answers share a sample, which amplification does not allow")
