"""The witnesses of a refit: thresholds on numbers and presence of strings, with their priors.

Thresholds, vocabulary and priors depend on the replies so far, but not on their contexts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from leakbound.stats.arrays import Bools, Floats, Ints
from leakbound.witness.features import SCALARS
from leakbound.witness.pool import KINDS, POOL, Corpus, EncodedReply, PoolModel

FEWEST = 4  # number of replies that must have, and must lack, a string that becomes a witness
MOST_STRINGS = 1500  # strings that become witnesses; bounds the time for long replies
MOST_SCORES = 20  # answers whose own scores become numbers
COMPONENTS = 6  # principal components of the strings: words that co-occur, as in a paraphrase
ROUNDS = 5  # rounds of the subspace iteration that finds them
FEW_VALUES = 8  # up to this many distinct values, every gap between two values is a threshold
LEVELS = np.linspace(0.05, 0.95, 19)  # quantiles that are thresholds for other numbers
INNER = (0.03, 0.97)  # quantiles between which the two widest gaps are also thresholds
CLEAR = (0.02, 2.0)  # range of gaps, in standard deviations, that the prior distinguishes
CLARITY = 6.0  # power of the explained variance: the best split of a normal variable explains .64,
#                two clear groups .9, so this separates them by a factor of 8
# prior of a number, divided among its thresholds: the usual channels first, others DENSE. On the
# simulators of `testing.channels`, the mass that is not stated here is then shared about evenly by
# numbers, words and tools. With ten times the mass on tools, slow replies took 40 more pairs to
# detect.
PRIORS = {
    "chars": 6.0, "words": 1.0, "sentences": 2.0, "refusal": 4.0, "apology": 1.0, "seconds": 1.0,
    "seconds_beyond_tokens": 12.0, "seconds_beyond_chars": 6.0, "seconds_over_past": 3.0,
    "tokens": 1.0,
    "tokens_beyond_words": 3.0, "tokens_per_word": 1.0, "tools": 2.0, "distinct_tools": 1.0,
    "citations": 4.0, "urls": 2.0, "foreign_less_english": 4.0, "non_ascii": 1.0, "hedges": 4.0,
    "certainty": 3.0, "bullets": 3.0, "headings": 1.0, "bold": 1.0, "code": 1.0, "tables": 1.0,
    "order": 3.0, "order_sharp": 12.0, "mean_idf": 4.0, "novelty": 1.0,
}  # fmt: skip
DENSE, COMPONENT, SCORE = 0.2, 2.0, 2.0  # prior of other numbers, of a component, of a score
# joint prior of all strings of some kinds; a channel in the wording mostly shows in single words
STRINGS = {("tool",): 1.0, ("tools", "argument"): 0.3, ("finish",): 1.0, ("word", "mark"): 4.0,
           ("opening", "first", "last"): 0.5, ("bigram",): 0.5,
           ("times", "run"): 0.5, ("token", "whole", "line"): 0.5,
           ("call", "calls"): 0.3, ("skip", "gram"): 0.5,
           ("digest",): 2.0}  # fmt: skip
COMMON = 0.25  # share of replies up to which a more frequent witness is more plausible
# A canary is more likely to add something than to remove it. The directions are X over Y and Y over
# X on the rarer value of a witness, then the same on the more common value, whose ratio can hardly
# exceed a claim.
DIRECTIONS = np.log([1.0, 0.25, 0.05, 0.03])


@dataclass(frozen=True, slots=True, repr=False)
class Panel:
    """J witnesses, each 0 or 1 on a reply, where 1 is the value that was rarer so far."""

    pool: PoolModel
    columns: Ints
    centre: Floats
    loadings: Floats
    answers: tuple[str, ...]
    number: Ints
    threshold: Floats
    present: Ints
    flip: Bools
    log_prior: Floats
    names: tuple[str, ...]

    @staticmethod
    def fit(corpus: Corpus) -> tuple[Panel, Bools]:
        return _fit(corpus)

    def values(self, reply: EncodedReply) -> Bools:
        row = _rows([reply], self.columns, len(self.centre))[0]
        numbers = np.concatenate(
            [reply.scalars, self.pool.features(reply), (row - self.centre) @ self.loadings]
        )
        numbers = np.append(numbers, _scores([reply], self.answers)[0])
        above = numbers[self.number] > self.threshold  # NaN is never above
        return np.asarray(np.concatenate([above, row[self.present]]) ^ self.flip)


def _fit(corpus: Corpus) -> tuple[Panel, Bools]:
    columns, kinds, strings = _vocabulary(corpus)
    rows = _rows(corpus.replies, columns, len(strings))
    present = _distinct(rows, np.argsort(kinds, kind="stable"))
    centre, loadings = _components(rows, present)
    pool, pooled = PoolModel.fit(corpus)
    answers = _answers(corpus.replies)
    parts = [np.stack([r.scalars for r in corpus.replies]), pooled, (rows - centre) @ loadings]
    numbers = np.column_stack([*parts, _scores(corpus.replies, answers)])
    names = (*SCALARS, *POOL, *(f"component:{i}" for i in range(loadings.shape[1])),
             *(f"score:{answer}" for answer in answers))  # fmt: skip
    number, threshold, clear = _thresholds(numbers, names)
    past = np.concatenate([numbers[:, number] > threshold, rows[:, present]], 1)
    flip = past.mean(0) > 0.5
    past ^= flip
    prior = np.concatenate([clear, _string_prior(kinds[present])])
    kept = _distinct(past, np.argsort(-prior, kind="stable"))
    plausible = prior[kept] * np.minimum(past[:, kept].mean(0) + 0.005, COMMON)
    said = [f"{names[j]} > {cut:.4g}" for j, cut in zip(number, threshold, strict=True)]
    said += [strings[j] for j in present]
    cuts, others = kept[kept < number.size], kept[kept >= number.size] - number.size
    panel = Panel(
        pool=pool, columns=columns, centre=centre, loadings=loadings, answers=answers,
        number=number[cuts], threshold=threshold[cuts], present=present[others],
        flip=flip[kept], log_prior=np.log(plausible)[:, None] + DIRECTIONS,
        names=tuple(said[j] for j in kept),
    )  # fmt: skip
    return panel, past[:, kept]


def _vocabulary(corpus: Corpus) -> tuple[Ints, Ints, list[str]]:
    """Column of each string, kind of each column, string of each column."""
    count = corpus.counts()
    rarer = np.minimum(count, len(corpus) - count)
    kept = np.flatnonzero(rarer >= FEWEST)
    many = np.asarray(corpus.kinds)[kept] >= KINDS.index("skip")  # only where there is room
    kept = np.sort(kept[np.lexsort((-rarer[kept], many))][:MOST_STRINGS])
    columns = np.full(len(corpus.names), -1)
    columns[kept] = np.arange(kept.size)
    return columns, np.asarray(corpus.kinds)[kept], [corpus.names[n] for n in kept]


def _rows(replies: Sequence[EncodedReply], columns: Ints, size: int) -> Bools:
    """(replies, size) which columns each reply has; newer strings have no column."""
    every = np.concatenate([reply.strings for reply in replies])
    owner = np.repeat(np.arange(len(replies)), [reply.strings.size for reply in replies])
    at = np.append(columns, -1)[np.minimum(every, columns.size)]
    rows = np.zeros((len(replies), size), bool)
    rows[owner[at >= 0], at[at >= 0]] = True
    return rows


def _distinct(rows: Bools, order: Ints) -> Ints:
    """Sorted indices of distinct columns; of equal columns, the first in `order` is kept."""
    if not rows.shape[1]:
        return np.zeros(0, np.int64)
    packed = np.ascontiguousarray(np.packbits(rows, axis=0).T[order])
    _, first = np.unique(packed.view(f"V{packed.shape[1]}").ravel(), return_index=True)
    return np.sort(order[first])


def _components(rows: Bools, present: Ints) -> tuple[Floats, Floats]:
    """Centre of all columns, and loadings of the principal components of the distinct ones."""
    centre = np.zeros(rows.shape[1])
    some = rows[:, present].astype(float)
    centre[present] = some.mean(0)
    deviation = some.std(0) + 1e-9
    scaled = (some - centre[present]) / deviation
    count = min(COMPONENTS, *scaled.shape)
    loadings = np.zeros((rows.shape[1], count))
    if count:
        basis = np.random.default_rng(0).normal(size=(len(scaled), min(count + 4, len(scaled))))
        for _ in range(ROUNDS):
            basis, _ = np.linalg.qr(scaled @ (scaled.T @ basis))
        found = np.linalg.svd(basis.T @ scaled, full_matrices=False)[2][:count]
        loadings[present, : len(found)] = found.T / deviation[:, None]
    return centre, loadings


def _answers(replies: Sequence[EncodedReply]) -> tuple[str, ...]:
    count: dict[str, int] = {}
    for reply in replies:
        for answer in reply.scores:
            count[answer] = count.get(answer, 0) + 1
    often = [answer for answer, n in count.items() if n >= FEWEST]
    return tuple(sorted(often, key=lambda answer: (-count[answer], answer))[:MOST_SCORES])


def _scores(replies: Sequence[EncodedReply], answers: tuple[str, ...]) -> Floats:
    rows = [[float(r.scores.get(answer, math.nan)) for answer in answers] for r in replies]
    return np.array(rows).reshape(len(rows), len(answers))


def _thresholds(numbers: Floats, names: Sequence[str]) -> tuple[Ints, Floats, Floats]:
    """For each threshold: the number that it applies to, its value and its prior."""
    which, cuts, priors = [np.zeros(0, np.int64)], [np.zeros(0)], [np.zeros(0)]
    for j, name in enumerate(names):
        values = numbers[:, j]
        cut, clear = _cuts(values[np.isfinite(values)])
        if cut.size:
            which.append(np.full(cut.size, j))
            cuts.append(cut)
            kind = {"component": COMPONENT, "score": SCORE}.get(name.partition(":")[0], DENSE)
            priors.append(PRIORS.get(name, kind) * clear / clear.sum() * clear.max())
    return np.concatenate(which), np.concatenate(cuts), np.concatenate(priors)


def _cuts(values: Floats) -> tuple[Floats, Floats]:
    """Thresholds between the values, and how clearly each divides them into two groups."""
    ranked = np.sort(values)
    distinct = ranked[np.append(True, ranked[1:] > ranked[:-1])] if ranked.size else ranked
    if distinct.size < 2:
        return np.zeros(0), np.zeros(0)
    at = np.arange(1, distinct.size)
    if distinct.size > FEW_VALUES:
        at = _choose(ranked, distinct)
    low, high = distinct[at - 1], distinct[at]
    gap = np.clip((high - low) / (values.std() + 1e-12), *CLEAR)
    middle = (low + high) / 2
    middle = np.where(middle < high, middle, low)  # neighbours in floating point
    return middle, gap * np.maximum(_explain(ranked, middle), 0.01) ** CLARITY


def _choose(ranked: Floats, distinct: Floats) -> Ints:
    """Indices of the distinct values that follow the quantiles and the two widest gaps."""
    low, high = _quantiles(ranked, INNER)
    inner = np.flatnonzero((distinct[:-1] >= low) & (distinct[1:] <= high))
    widest = inner[np.argsort(-np.diff(distinct)[inner], kind="stable")[:2]] + 1
    at = np.searchsorted(distinct, _quantiles(ranked, LEVELS), side="right")
    at = np.unique(np.concatenate([at, widest]))
    return np.asarray(at[(at > 0) & (at < distinct.size)])


def _quantiles(ranked: Floats, levels: Sequence[float] | Floats) -> Floats:
    """Quantiles of sorted values; several times faster than NumPy's."""
    places = np.asarray(levels) * (ranked.size - 1)
    return np.asarray(np.interp(places, np.arange(ranked.size), ranked))


def _explain(ranked: Floats, cuts: Floats) -> Floats:
    """Share of the variance that lies between the two sides of each cut; outliers are clipped."""
    below = np.searchsorted(ranked, cuts, side="right")
    ranked = np.clip(ranked, *_quantiles(ranked, (0.01, 0.99)))
    sums = np.concatenate([[0.0], ranked.cumsum()])
    distance = sums[below] / below - sums[-1] / ranked.size
    between = distance**2 * below / (ranked.size - below)
    return np.asarray(np.clip(between / max(float(ranked.var()), 1e-12), 0, 1))


def _string_prior(kinds: Ints) -> Floats:
    prior = np.zeros(kinds.size)
    for names, mass in STRINGS.items():
        some = np.isin(kinds, [KINDS.index(name) for name in names])
        prior[some] = mass / max(int(some.sum()), 1)
    return prior
