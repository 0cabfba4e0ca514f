"""Exact samples of the discrete Gaussian, from random bits and integers only.

Floating-point Gaussian noise has gaps and repeated last bits, which can tell counts apart. Here a
sample is the outcome whose interval of cumulative probabilities contains a uniform number of
unlimited precision. Only as many of its bits are drawn as are needed: 64, and more in one of 10^15
draws.
"""

from __future__ import annotations

import hashlib
import math
from bisect import bisect_left
from collections.abc import Callable
from decimal import Decimal, localcontext
from functools import lru_cache, partial

import numpy as np
import numpy.typing as npt

from leakbound._check import positive
from leakbound.errors import UsageError
from leakbound.stats.arrays import Ints

WORD = 64  # bits of a uniform number at first, and that are added as long as they do not decide
KEY = 32  # bytes from the generator that are the key of the stream of bits
# Digits in addition to those of the uniform number. A boundary is then known to 1e-20 of its last
# bit.
GUARD = 25
UNSURE = Decimal("1e-10")  # a boundary this close to the edge of a cell may lie in either cell


def require_analytic(calibration: str) -> None:
    """Refuse to calibrate discrete noise with a formula for continuous noise."""
    if calibration != "analytic":
        raise UsageError(
            f"calibration is {calibration!r}; it must be analytic for discrete_gaussian noise."
        )


def discrete_gaussian(sigma: float, shape: tuple[int, ...], rng: np.random.Generator) -> Ints:
    """Independent samples of P(x) proportional to exp(-x^2/(2 sigma^2)) over the integers.

    The generator provides the key of a SHAKE-256 stream, from which all bits come. Equal generators
    therefore give equal samples. With a generator that is seeded from the operating system's
    randomness, nobody can predict or reconstruct the noise.

    Guarantee: The distribution is exact for ideal random bits: no probability is rounded. Counts
    that change by Delta in L2 then satisfy Delta^2/(2 sigma^2)-zCDP, to the last bit of the output.
    Reference: Canonne, Kamath and Steinke, "The discrete Gaussian for differential privacy"
    (NeurIPS 2020); Mironov, "On significance of the least significant bits for differential
    privacy" (CCS 2012).
    """
    positive("sigma", sigma)
    key, count = rng.bytes(KEY), math.prod(shape)
    words = np.frombuffer(hashlib.shake_256(key).digest(count * WORD // 8), "<u8")

    def more(at: int, word: int) -> int:
        """More bits of one uniform number."""
        name = key + b"%d/%d" % (at, word)
        return int.from_bytes(hashlib.shake_256(name).digest(WORD // 8), "little")

    return _invert(sigma, words, WORD, more).reshape(shape)


def _invert(
    sigma: float, words: npt.NDArray[np.uint64], bits: int, more: Callable[[int, int], int]
) -> Ints:
    """Outcomes of uniform numbers, given by their first bits; `more` returns more words."""
    edges, unsure = (np.asarray(found, np.uint64) for found in _edges(sigma, bits))
    ranks = np.searchsorted(edges, words).astype(np.int64)
    # sorted, as the other way overflows for such words in NumPy 2.0
    for at in np.flatnonzero(np.isin(words, unsure, kind="sort")).tolist():
        ranks[at] = _refine(sigma, int(words[at]), bits, partial(more, at))
    return np.where(ranks % 2, (ranks + 1) // 2, -(ranks // 2))


def _refine(sigma: float, start: int, bits: int, more: Callable[[int], int]) -> int:
    """The rank of a uniform number, with as many bits as it takes to decide it."""
    value, word = start, 0
    while True:
        value, bits, word = value << WORD | more(word), bits + WORD, word + 1
        edges, unsure = _edges(sigma, bits)
        if value not in unsure:
            return bisect_left(edges, value)


@lru_cache(maxsize=32)  # a mechanism always draws with the same sigma
def _edges(sigma: float, bits: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The cell of width 2^-bits that contains each cumulative probability of 0, 1, -1, 2, -2, ...;
    and all cells that may contain one."""
    whole = 1 << bits
    with localcontext() as context:
        context.prec = math.ceil(bits * math.log10(2)) + GUARD + 10
        scaled = [share * whole for share in _cumulative(Decimal(sigma), bits)]
        cells = [
            tuple(min(whole - 1, int(share + slip)) for slip in (-UNSURE, UNSURE))
            for share in scaled
        ]
    return tuple(low for low, _ in cells), tuple(sorted({cell for pair in cells for cell in pair}))


def _cumulative(sigma: Decimal, bits: int) -> list[Decimal]:
    """Cumulative probabilities until less than 2^-bits is left; the last one is 1 up to that."""
    weights, least = [Decimal(1)], Decimal(2) ** (-bits - 8 * GUARD // 2)
    while weights[-1] > least:
        weights.append((-(Decimal(len(weights)) ** 2) / (2 * sigma * sigma)).exp())
    total, sums = 2 * sum(weights[1:]) + 1, [weights[0]]
    for weight in weights[1:]:
        sums += [sums[-1] + weight, sums[-1] + 2 * weight]
    return [one / total for one in sums]
