"""Readings that are learned from replies to all contexts: words that no other context gets, of
which each reply may hold another one, and groups of words that stand in replies to the same
contexts, as ways to say one thing do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from leakbound.stats.arrays import Floats, Ints

OWN = "words that no other context gets"
GROUPS = "groups of words that stand in replies to the same contexts"
LEARNED = (OWN, GROUPS)
FIRST_GROUPS, MOST_GROUPS = 3, 10  # of the first pairs, where nothing tells which say something
FORGOTTEN = 0.8  # of what a group has told, which may be another one later, each time
TOLD = 2.0  # standard errors by which a group told contexts apart before, to count
SURE = (0.3, 0.6, 0.85)  # shares of the scores below the least that counts: one process each
MOST_WORDS = 500  # that groups are made of, the most frequent ones
SHRUNK = 0.3  # of the covariance of words within contexts, towards none
NOTHING = 1e9  # a score that none reaches
Bets = tuple[Floats, Floats]  # (processes, n) each, as of a product bet
Stood = npt.NDArray[np.float32]  # (pair, context, time, word) 1 if it stood in that reply
Words = Sequence[Sequence[Sequence[frozenset[str]]]]  # of each pair, both contexts, each time


def word_table(*each: Words) -> list[Stood]:
    """Which words stood in which replies, with the same words in the same places."""
    found = {word for one in each for sides in one for side in sides for said in side
             for word in said}  # fmt: skip
    places = {word: at for at, word in enumerate(sorted(found))}
    stood = [np.zeros((len(one), 2, len(one[0][0]), len(places)), np.float32) for one in each]
    for rows, one in zip(stood, each, strict=True):
        for at in np.ndindex(rows.shape[:3]):
            pair, side, time = at
            rows[at][[places[word] for word in one[pair][side][time]]] = 1
    return stood


def differences(stood: Stood) -> dict[str, Floats]:
    """How much further each reply lies on the side of its own context than that to the other, by
    all replies but these; of each reading."""
    found: dict[str, list[Floats]] = {name: [] for name in LEARNED}
    times = stood.shape[2]
    for time in range(times):
        rest = stood[:, :, [at for at in range(times) if at != time]]
        own, groups = _scores([rest], stood[:, :, time])
        for name, some in zip(LEARNED, (own, groups[..., :FIRST_GROUPS].sum(-1)), strict=True):
            found[name].append(some[:, 0] - some[:, 1])
    return {name: np.concatenate(some) for name, some in found.items()}


def bets_on(first: Stood, each: Stood) -> dict[str, Bets]:
    """Which replies are scored as one context's, of those to it and of those to its neighbour, in
    time: by all earlier replies. The first pairs are others; of every second comparison the other
    context is the one that is looked for."""
    told, spread = np.zeros(MOST_GROUPS), np.zeros(MOST_GROUPS)
    bets: dict[str, list[Floats]] = {name: [] for name in LEARNED}
    before = np.full(1, NOTHING)
    for time in range(1, each.shape[2]):
        own, groups = _scores([first, each[:, :, :time]], each[:, :, time])
        clear = told > TOLD * np.sqrt(spread)
        weights = np.divide(told, spread, out=np.zeros(MOST_GROUPS), where=clear)
        size = groups.shape[-1]
        score = groups @ weights[:size]
        score /= max(float(np.abs(score).mean()), 1e-9)
        least = [0.0, *np.maximum(np.quantile(before, SURE), 0)]
        bets[OWN].append(np.stack([*_beyond(own, time, least[:1])], 1))
        bets[GROUPS].append(np.stack([*_beyond(score, time, least[1:])], 1))
        before = np.abs(score) if clear.any() else before
        ahead = groups[:, 0] - groups[:, 1]
        told[:size] = FORGOTTEN * told[:size] + ahead.sum(0)
        spread[:size] = FORGOTTEN * spread[:size] + (ahead**2).sum(0)
    in_time = {name: np.concatenate(some, axis=-1) for name, some in bets.items()}
    return {name: (x, y) for name, (x, y) in in_time.items()}


def _beyond(score: Floats, time: int, least: Sequence[float]) -> Iterator[Floats]:
    """(2, pairs) whether each score says the context that is looked for, of its reply and of the
    other one's, by more than each of some values."""
    at = np.arange(len(score))
    wanted = (at + time) % 2
    sign = 1 - 2 * wanted[:, None]
    for one in least:
        says = (sign * score > one + 1e-9).astype(float)
        yield np.stack([says[at, wanted], says[at, 1 - wanted]])


def _scores(known: Sequence[Stood], replies: Stood) -> tuple[Floats, Floats]:
    """(pairs, 2) and (pairs, 2, groups) how far each reply lies on the first side of its pair. The
    last of the `known` are earlier replies to the same contexts."""
    pairs_with = np.sum([(one.sum(axis=(1, 2)) > 0).sum(axis=0) for one in known], axis=0)
    means = [one.mean(axis=2, dtype=float) for one in known]
    apart = means[-1][:, 0] - means[-1][:, 1]
    own = np.einsum("pw,psw->ps", apart * (pairs_with == 1), replies)
    some = _distinct(known)
    white = _whitener([one[..., some] for one in known])
    contexts = np.concatenate([one[..., some].reshape(-1, some.size) for one in means])
    each = (contexts - contexts.mean(axis=0)) @ white
    axes = white @ np.linalg.svd(each, full_matrices=False)[2][:MOST_GROUPS].T
    said = (replies[..., some] - contexts.mean(axis=0)) @ axes
    return own, (apart[:, some] @ axes)[:, None] * said


def _whitener(known: Sequence[Stood]) -> Floats:
    """(words, words) what makes replies to one context, drawn words as they are, alike in all
    directions."""
    beside = [(one - one.mean(axis=2, keepdims=True)).reshape(-1, one.shape[-1]) for one in known]
    within, whole = np.concatenate(beside).astype(float), _replies(known)
    covariance = (1 - SHRUNK) * within.T @ within / len(within)
    covariance[np.diag_indices(len(covariance))] += SHRUNK * whole.var(axis=0) + 1e-9
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray(vectors / np.sqrt(values))


def _distinct(known: Sequence[Stood]) -> Ints:
    """Words that stood in several replies; of those in the same, as of a sentence, the first."""
    rows = _replies(known)
    stood = rows.sum(axis=0)
    several = np.flatnonzero(stood > min(1, stood.max() - 1))
    rows = rows[:, several]
    packed = np.ascontiguousarray(np.packbits(rows, axis=0).T)
    _, first = np.unique(packed.view(f"V{packed.shape[1]}").ravel(), return_index=True)
    number = rows[:, first].sum(axis=0)
    rarer = np.minimum(number, len(rows) - number)
    return np.asarray(several[first[np.argsort(-rarer, kind="stable")[:MOST_WORDS]]])


def _replies(known: Sequence[Stood]) -> npt.NDArray[np.bool_]:
    return np.concatenate([one.reshape(-1, one.shape[-1]) > 0 for one in known])
