"""Exact samples of the discrete Gaussian, from random bits and integers alone.

Floating-point Gaussian noise has holes and repeated last bits, which tell counts apart. Here a
sample is the outcome whose interval of cumulative probabilities holds a uniform number of
unlimited length, of which only as many bits are drawn as decide: 64, and more in one of 10^15
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

__all__ = ["discrete_gaussian", "require_analytic"]

Integers = npt.NDArray[np.int64]
WORD = 64  # bits of a uniform number to begin with, and that are added while they do not decide
KEY = 32  # bytes of the generator that key the stream of bits
# Digits beyond those of the uniform number, so that a boundary is known to 1e-20 of its last bit.
GUARD = 25
UNSURE = Decimal("1e-10")  # a boundary this near to a cell's edge may lie in either cell


def require_analytic(calibration: str) -> None:
    """Refuse to calibrate discrete noise by a formula for continuous noise.

    Args:
        calibration: What was asked for.

    Raises:
        UsageError: If it is not "analytic".

    Guarantee:
        None of its own: discrete noise is calibrated to its exact loss.

    Reference:
        See `discrete_gaussian`.
    """
    if calibration != "analytic":
        raise UsageError(
            f"calibration is {calibration!r}; it must be analytic for discrete_gaussian noise."
        )


def discrete_gaussian(sigma: float, shape: tuple[int, ...], rng: np.random.Generator) -> Integers:
    """Independent samples of P(x) proportional to exp(-x^2/(2 sigma^2)) over the integers.

    The generator keys a stream of SHAKE-256, from which all bits come. So equal generators give
    equal samples, and whoever serves answers with a generator from the operating system's
    randomness releases noise that nobody can predict or reconstruct.

    Args:
        sigma: Parameter of the distribution, above 0; its binary value is taken as exact.
        shape: Shape of the samples.
        rng: Gives the key.

    Returns:
        Integers of that shape.

    Raises:
        UsageError: If sigma is not positive.

    Guarantee:
        The distribution is exact for ideal random bits: no probability is rounded. With it, counts
        that move by Delta in L2 satisfy Delta^2/(2 sigma^2)-zCDP, to the last bit of what is
        released.

    Reference:
        Canonne, Kamath and Steinke, "The discrete Gaussian for differential privacy" (NeurIPS
        2020); Mironov, "On significance of the least significant bits for differential privacy"
        (CCS 2012).

    Examples:
        >>> discrete_gaussian(2.0, (2, 3), np.random.default_rng(0)).shape
        (2, 3)
    """
    positive("sigma", sigma)
    key, count = rng.bytes(KEY), math.prod(shape)
    words = np.frombuffer(hashlib.shake_256(key).digest(count * WORD // 8), "<u8")

    def more(at: int, word: int) -> int:
        """Further bits of one uniform number."""
        name = key + b"%d/%d" % (at, word)
        return int.from_bytes(hashlib.shake_256(name).digest(WORD // 8), "little")

    return _invert(sigma, words, WORD, more).reshape(shape)


def _invert(
    sigma: float, words: npt.NDArray[np.uint64], bits: int, more: Callable[[int, int], int]
) -> Integers:
    """Outcomes of uniform numbers, given by their first bits; `more` gives further words."""
    edges, unsure = (np.asarray(found, np.uint64) for found in _edges(sigma, bits))
    ranks = np.searchsorted(edges, words).astype(np.int64)
    for at in np.flatnonzero(np.isin(words, unsure)).tolist():
        ranks[at] = _refined(sigma, int(words[at]), bits, partial(more, at))
    return np.where(ranks % 2, (ranks + 1) // 2, -(ranks // 2))


def _refined(sigma: float, start: int, bits: int, more: Callable[[int], int]) -> int:
    """The rank that a uniform number decides once enough bits are known."""
    value, word = start, 0
    while True:
        value, bits, word = value << WORD | more(word), bits + WORD, word + 1
        edges, unsure = _edges(sigma, bits)
        if value not in unsure:
            return bisect_left(edges, value)


@lru_cache(maxsize=32)  # a mechanism draws with one sigma, again and again
def _edges(sigma: float, bits: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The cell of 2^-bits that holds each cumulative probability of 0, 1, -1, 2, -2, ...;
    all cells that may hold one.
    """
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
    """Cumulative probabilities, until less than 2^-bits is left; the last one is 1 so far."""
    weights, least = [Decimal(1)], Decimal(2) ** (-bits - 8 * GUARD // 2)
    while weights[-1] > least:
        weights.append((-(Decimal(len(weights)) ** 2) / (2 * sigma * sigma)).exp())
    total, sums = 2 * sum(weights[1:]) + 1, [weights[0]]
    for weight in weights[1:]:
        sums += [sums[-1] + weight, sums[-1] + 2 * weight]
    return [one / total for one in sums]
