"""Functions of the context: what recurs when a context is asked again, and differs between
neighbours, as a checksum does, its parity, or a mean with too little noise. Whoever knows the other
records can look up which one is there.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from math import comb
from operator import itemgetter

import numpy as np
import numpy.typing as npt
import scipy

from leakbound.auditing.collect.quotes import FIRST, LAST
from leakbound.auditing.design.pairs import Pair
from leakbound.auditing.observe.controls import StoredBatch
from leakbound.auditing.observe.learned import (
    LEARNED,
    Bets,
    Words,
    bets_on,
    differences,
    word_table,
)
from leakbound.auditing.store.run_store import EvidenceRow
from leakbound.estimators import Claim
from leakbound.stats.arrays import Floats
from leakbound.stats.e_values.bets import product_paths
from leakbound.tasks import reply_of
from leakbound.witness.features import SCALARS, ReplyFeatures, as_features
from leakbound.witness.numerals import NUMBERS
from leakbound.witness.stored import FORMS_AT, OF_ALL, SAID_AT

LEVEL = 0.001  # of all readings together
HINT = 0.0125  # of one reading, in the pairs that choose which are tested in others
HINT_WORD, HINT_TOGETHER = 0.05, 0.1  # of what is learned, and of all numbers together
MOST_TESTED = 8  # readings: each takes a part of the level
COINS = 15  # seed of guesses
MOST_CLAIMED = 700.0  # e^ε is no float above
HIGHEST = 2.0  # larger claims are tested at this one: they would take too many calls
DIGEST = "of which a digest is stored"
PLACES = (
    tuple(f"word {at}, {DIGEST}" for at in range(1, FIRST + 1)),
    tuple(f"word {at} from the end, {DIGEST}" for at in range(1, LAST + 1)),
)
DIGESTED = (f"the text, {DIGEST}", f"the numbers, {DIGEST}")
TOGETHER = "its numbers together"
SOME_WORD, SAID = "one of its words", f"its words, {DIGEST}"
SOME_FORM, FORMS = "how one of its words, numbers or codes is formed", f"their forms, {DIGEST}"
ONE_OF = {SOME_WORD: SAID, SOME_FORM: FORMS}
POOLED = f"its words in all replies, {DIGEST}"
# digests that differ between pairs, or of which a pair says too little
WORDS = frozenset([SAID, FORMS, POOLED, *chain.from_iterable(PLACES)])
COUNTS = tuple(name.replace("_", " ") for name in NUMBERS)
Readings = Mapping[str, Hashable]
Repeated = Sequence[Sequence[Sequence[Readings]]]  # of each pair, both contexts, each time


def most_apart(epsilon: float, delta: float, times: int) -> float:
    """Upper bound on the probability that all values of one context lie on one side of the other's,
    each of randomised response at (ε, δ), processed by one of two channels."""
    p = 1 / (1 + math.exp(-epsilon))
    ways = range(times + 1)
    heads = [comb(times, a) * p**a * (1 - p) ** (times - a) for a in ways]
    by_bits = math.fsum(
        heads[a] * heads[times - b]
        * min(1.0, 2 / (comb(a + b, a) * comb(2 * times - a - b, times - a)))
        for a in ways for b in ways
    )  # fmt: skip
    by_order = 2 / comb(2 * times, times) * math.exp(min(times * epsilon, 700.0))
    return min(1.0, min(by_bits, by_order) + 2 * times * delta)


def readings_apart(pairs: Sequence[StoredBatch], values: int) -> tuple[str, ...]:
    """Readings with values that recur and differ in more pairs than by chance, clearest first."""
    each = _asked(pairs)
    names = dict.fromkeys(name for sides in each for side in sides for one in side for name in one)
    found: dict[tuple[bool, ...], tuple[float, str]] = {}  # one reading of those that are alike
    for name in names:
        # how many values a word has over all pairs cannot be told
        many = values == 2 if name in WORDS else len(_values(each, name)) >= values
        if many and (p := _chance(each, name)) <= HINT:
            found.setdefault(tuple(_apart(one, name) for one in each), (p, name))
    told = [*found.values()]
    for some, of in ONE_OF.items() if values == 2 else ():
        x, y = _with_best_word(each, of)
        p = _more_often(x - y)
        if (q := _chance_of_words(each, of)) <= HINT or p <= HINT_WORD:
            told.append((min(p, q), some))
    if (p := _more_often(_ahead_by_numbers(each, each))) <= HINT_TOGETHER:
        told.append((p, TOGETHER))
    ahead = differences(*word_table(_words_of_all(each))) if values == 2 else {}
    told += [(p, name) for name, some in ahead.items() if (p := _more_often(some)) <= HINT_WORD]
    return tuple(name for _, name in sorted(told, key=itemgetter(0))[:MOST_TESTED])


@dataclass(frozen=True, slots=True)
class ContextDigest:
    """A reading that tells contexts apart in more pairs than the claim allows."""

    reading: str
    apart: int
    number: int
    of: str  # "pairs", "comparisons" of an answer from each context of a pair, or "answers"
    times: int  # that each context was asked
    most: float  # largest probability that one of them is told apart, at `epsilon`
    epsilon: float  # the claim; of pairs `HIGHEST` if that is smaller
    seldom: int = 0  # answers from the other context that have the words, too


def context_digest(
    first: Sequence[StoredBatch], pairs: Sequence[StoredBatch], names: Sequence[str], claim: Claim
) -> ContextDigest | None:
    """Of some readings the one that tells most contexts apart, if the claim does not allow it; they
    were chosen by the `first` pairs, so that the error is at most `LEVEL`."""
    each, times, epsilon = _asked(pairs), len(pairs[0]), min(claim.epsilon, HIGHEST)
    most = most_apart(epsilon, claim.delta, times)
    once = min(1.0, 1 / (1 + math.exp(-claim.epsilon)) + claim.delta)
    of_pairs = len(each), "pairs", times, most, epsilon
    found = [
        ContextDigest(name, sum(_apart(one, name) for one in each), *of_pairs)
        for name in names if name not in (TOGETHER, *ONE_OF, *LEARNED)
    ]  # fmt: skip
    half = most_apart(epsilon, claim.delta, times - times // 2)
    for name in (one for one in ONE_OF if one in names):
        told = sum(_by_a_word(one, ONE_OF[name]) for one in each)
        found.append(ContextDigest(name, told, len(each), "pairs", times, half, epsilon))
    if TOGETHER in names:
        right = _guesses(_ahead_by_numbers(_asked(first), each))
        for some in (right, right[: len(each) // 2]):  # what most records change, or few
            told, size = int(some.sum()), some.size
            found.append(
                ContextDigest(TOGETHER, told, size, "comparisons", times, once, claim.epsilon)
            )
    chances = [_tail(one.apart, one.number, one.most) for one in found]
    for name, (x, y) in _bets(_asked(first), each, names) if claim.epsilon < MOST_CLAIMED else ():
        levels = np.array([[claim.epsilon]]), np.array([[claim.delta]])
        log_e = product_paths(x, y, *levels, False)[:, 0]
        together = scipy.special.logsumexp(log_e, axis=0) - math.log(len(x))
        chances.append(math.exp(-max(0.0, float(together.max()))))  # Ville's inequality
        best = int(log_e.max(axis=1).argmax())
        often, seldom, size = int(x[best].sum()), int(y[best].sum()), x.shape[1]
        most = min(1.0, math.exp(claim.epsilon) * seldom / size + claim.delta)
        rates = often, size, "answers", times, most, claim.epsilon
        found.append(ContextDigest(name, *rates, seldom))
    least = min(chances)
    return found[chances.index(least)] if least * len(found) <= LEVEL else None


def _bets(first: Repeated, each: Repeated, names: Sequence[str]) -> Iterator[tuple[str, Bets]]:
    for name in sorted({*names} & {*ONE_OF}):
        yield name, _with_best_word(each, ONE_OF[name])
    if learned := sorted({*names} & {*LEARNED}):
        bets = bets_on(*word_table(_words_of_all(first), _words_of_all(each)))
        yield from ((name, bets[name]) for name in learned)


def _words_of_all(each: Repeated) -> Words:
    return [[[_words(one, POOLED) for one in side] for side in sides] for sides in each]


def _chance(each: Repeated, name: str) -> float:
    times = len(each[0][0])
    numbers = all(isinstance(one, float) for one in _values(each, name) - {None})
    if numbers and len(_values(each, name)) > 2:
        most = most_apart(0.0, 0.0, times)
    else:  # values without an order are told apart where both recur, as they do between pairs
        first = Counter(sides[0][0].get(name) for sides in each)
        alike = sum(comb(n, 2) for n in first.values()) / comb(len(each), 2)
        alike = 1.0 if name in WORDS else max(alike, 1 / len(each))
        most = min(2 / 4**times, alike**times)  # and differ: as often as two values do at most
    return _tail(sum(_apart(one, name) for one in each), len(each), most)


def _chance_of_words(each: Repeated, of: str) -> float:
    """p-value of pairs that a word tells apart, against other halves of the same replies."""
    law, told = np.ones(1), 0
    for sides in each:
        replies = [_words(one, of) for side in sides for one in side]
        whole, own = (1 << len(replies)) - 1, (1 << len(sides[0])) - 1
        bits = (sum((word in one) << at for at, one in enumerate(replies))
                for word in set[str]().union(*replies))  # fmt: skip
        halves = {min(one, whole - one) for one in bits if one.bit_count() == len(sides[0])}
        told += own in halves
        share = 2 * len(halves) / comb(len(replies), len(sides[0]))
        law = np.convolve(law, [1 - share, share])
    return float(law[told:].sum())


def _by_a_word(sides: Sequence[Sequence[Readings]], of: str) -> bool:
    """Does the word that tells the first half of the replies apart best do so in the others?"""
    half = len(sides[0]) // 2
    (member, nonmember), (rest, others) = (
        [[_words(one, of) for one in side[part]] for side in sides]
        for part in (slice(half), slice(half, None))
    )
    counts = Counter(word for one in member for word in one)
    counts.subtract(word for one in nonmember for word in one)
    best = max(counts, key=lambda word: (abs(counts[word]), word), default="")
    there, elsewhere = ({best in one for one in side} for side in (rest, others))
    return len(there) == len(elsewhere) == 1 and there != elsewhere


def _with_best_word(each: Repeated, of: str = SAID) -> tuple[Floats, Floats]:
    """Which answers have the word that told all earlier ones apart best, of each context."""
    found: list[list[tuple[bool, bool]]] = []
    for sides in each:
        counts: Counter[str] = Counter()
        found.append([])
        each_side = ([_words(one, of) for one in side] for side in sides)
        for member, nonmember in zip(*each_side, strict=True):
            best = max(counts, key=lambda word: (abs(counts[word]), word), default="")
            both = best in member, best in nonmember
            found[-1].append(both if counts[best] > 0 else both[::-1])
            counts.update(member)
            counts.subtract(nonmember)
    x, y = np.array(found, float)[:, 1:].transpose(2, 1, 0).reshape(2, 1, -1)
    return x, y


def _guesses(ahead: Floats) -> npt.NDArray[np.bool_]:
    # right ones, by a coin where nothing differs
    return np.where(ahead == 0, np.random.default_rng(COINS).random(ahead.shape) < 1 / 2, ahead > 0)


def _words(one: Readings, of: str = SAID) -> frozenset[str]:
    found = one.get(of)
    return found if isinstance(found, frozenset) else frozenset()


def _ahead_by_numbers(first: Repeated, each: Repeated) -> Floats:
    # How far the second halves of the answers from the contexts of each pair, one from either,
    # differ in the direction of the first halves; pairs whose first halves differ most come first.
    # Each number counts by its spread in answers from one context, of the `first` pairs. Under
    # (ε, δ) one difference is above 0 with a probability of at most e^ε/(1+e^ε) + δ, whatever the
    # direction.
    noise = _counts(first)
    spread = ((noise[..., 1::2, :] - noise[..., :-1:2, :]) ** 2).mean(axis=(0, 1, 2))
    values = _counts(each)
    half = values.shape[2] // 2  # of an odd number of times, the last is left out
    scale = np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > 0)
    apart = values[:, 0, :half].mean(1) - values[:, 1, :half].mean(1)
    clearest = np.argsort(-(apart**2 @ scale), kind="stable")
    differ = values[clearest, 0, half : 2 * half] - values[clearest, 1, half : 2 * half]
    ahead: Floats = (differ * (apart[clearest] * scale)[:, None]).sum(axis=2)
    return ahead


def _counts(each: Repeated) -> Floats:
    """Numbers of replies, in the shape (pair, context, time, number); 0 for one that is missing."""
    return np.array([
        [[[one.get(name) or 0.0 for name in COUNTS] for one in side] for side in sides]
        for sides in each
    ], np.float64)  # fmt: skip


def _more_often(ahead: Floats) -> float:
    # p-value of as many above 0 where that is as likely as below it
    return _tail(int((ahead > 0).sum()), int((ahead != 0).sum()), 1 / 2)


def _tail(least: int, number: int, rate: float) -> float:
    return float(scipy.special.bdtrc(least - 1, number, rate)) if least > 0 else 1.0


def _apart(sides: Sequence[Sequence[Readings]], name: str) -> bool:
    """Do all values in one context lie on one side of those in the other, or recur and differ?"""
    member, nonmember = ([one.get(name) for one in side] for side in sides)
    numbers = [one for one in (*member, *nonmember) if isinstance(one, float)]
    if len(numbers) == len(member) + len(nonmember):
        high, low = numbers[: len(member)], numbers[len(member) :]
        return min(high) > max(low) or min(low) > max(high)
    return len({*member}) == len({*nonmember}) == 1 and member != nonmember


def _values(each: Repeated, name: str) -> set[Hashable]:
    return {one.get(name) for sides in each for side in sides for one in side}


def _asked(pairs: Sequence[StoredBatch]) -> Repeated:
    return [
        [[*map(_readings, side)] for side in zip(*map(_replies, one), strict=True)] for one in pairs
    ]


def _replies(asked: tuple[Pair, EvidenceRow]) -> Iterator[ReplyFeatures | None]:
    pair, row = asked
    for reply in map(reply_of, row.both):
        yield None if reply is None else as_features(reply, pair.asked.target)


def _readings(reply: ReplyFeatures | None) -> Readings:
    """Numbers of a reply, and its strings by kind; all of them together last."""
    if reply is None:
        return {}
    numbers = {
        name.replace("_", " "): None if math.isnan(value) else value
        for name, value in zip(SCALARS, reply.scalars.tolist(), strict=True)
        if not name.startswith("seconds")
    }
    kinds = groupby(sorted(reply.strings), lambda text: text.partition(":")[0])
    strings = {f"each {kind}": tuple(texts) for kind, texts in kinds}
    whole = (*numbers.values(), *strings.values(), *sorted(reply.scores.items()))
    digests = dict(zip(DIGESTED, reply.digests, strict=False))
    words = {
        name: digest
        for names, each in zip(PLACES, reply.digests[len(DIGESTED) :], strict=False)
        for name, digest in zip(names, each.split(), strict=False)
    }
    sets = {
        name: frozenset(" ".join(reply.digests[at : at + 1]).split())
        for name, at in ((SAID, SAID_AT), (POOLED, OF_ALL), (FORMS, FORMS_AT))
    }
    return {**numbers, **strings, **digests, **words, **sets, "the reply as a whole": whole}
