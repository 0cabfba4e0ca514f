"""What a recipe measured with several seeds, as one measurement."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

from leakbound_lab.reproduce.values import MeasuredValue, Quantity, Sample

SAFE = (Quantity.BOUND, Quantity.FROM_MU)  # lower bounds: the least of several is one, too


def together(found: Sequence[Sequence[MeasuredValue]]) -> tuple[MeasuredValue, ...]:
    """The measured values of several seeds as one: units of all of them, in the order of the seeds.

    Examples:
        >>> one, other = (
        ...     MeasuredValue("a", "q", v, f"{v:g}", Sample((v, v), "pair", f"seed {v:g}"))
        ...     for v in (1.0, 2.0)
        ... )
        >>> [both] = together([[one], [other]])
        >>> both.sample.values, both.value, both.shown
        ((1.0, 1.0, 2.0, 2.0), 1.5, '1.5 (1; 2)')
    """
    if len(found) == 1:
        return tuple(found[0])
    return tuple(map(_one, zip(*found, strict=True)))


def _one(each: tuple[MeasuredValue, ...]) -> MeasuredValue:
    first, values = each[0], [one.value for one in each]
    names = {(one.setting, str(one.quantity)) for one in each}
    if len(names) > 1:
        raise ValueError(f"the seeds measured different cells: {sorted(names)}.")
    if len(set(values)) == 1 and first.exact:
        return first
    value = min(values) if first.quantity in SAFE else statistics.fmean(values)
    samples = [one.sample for one in each if one.sample is not None]
    ceilings = [one.ceiling for one in each if one.ceiling is not None]
    return replace(
        first, value=value, shown=f"{value:.4g} ({'; '.join(one.shown for one in each)})",
        sample=_sample(samples) if len(samples) == len(each) else None,
        ceiling=statistics.fmean(ceilings) if len(ceilings) == len(each) else None,
    )  # fmt: skip


def _sample(each: Sequence[Sample]) -> Sample:
    """All units; those of one seed have no number of another one's."""
    ceilings = [one.ceiling for one in each if one.ceiling is not None]
    ids = [one.ids or tuple(range(one.n)) for one in each]
    contexts = [one.contexts for one in each]
    return replace(
        each[0], values=tuple(value for one in each for value in one.values),
        drawn=", ".join(one.drawn for one in each), ids=_apart(ids),
        contexts=_apart(contexts) if all(contexts) else (),
        ceiling=statistics.fmean(ceilings) if len(ceilings) == len(each) else None,
    )  # fmt: skip


def _apart(numbers: Sequence[Sequence[int]]) -> tuple[int, ...]:
    most = max(number for one in numbers for number in one) + 1
    starts = accumulate((most for _ in numbers[1:]), initial=0)
    return tuple(
        start + number for start, one in zip(starts, numbers, strict=True) for number in one
    )
