"""Measures of tight auditing (XL): private voting, embedding aggregation, exact results."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar, cast

import scipy

from leakbound.mechanisms import FewShot, ReportNoisyMax, ZeroShot
from leakbound.models import Complete, Model, Request
from leakbound.models.model import Wrapper
from leakbound.stats import gdp
from leakbound_lab.reproduce.context import AuditKeys, RecipeContext
from leakbound_lab.reproduce.metrics import gaussian_leak
from leakbound_lab.reproduce.utility import Metric, NoiseGroup, utility
from leakbound_lab.reproduce.values import MeasuredValue, Quantity

R = TypeVar("R")
EPSILONS, DELTA = (1, 2, 4, 8), 1e-5
PARTITIONS, PER_PARTITION = 4, 2  # if a figure varies something else; the paper takes the best
TRIALS = 200_000  # per context: half of the paper's 400,000


class _AtTemperature(Wrapper):
    """A model that samples all completions at one temperature."""

    def __init__(self, model: Model, temperature: float) -> None:
        super().__init__(model)
        self.temperature = temperature

    @property
    def fingerprint(self) -> str:
        return f"{self.model.fingerprint}@{self.temperature:g}"

    def answer(self, requests: Sequence[Request[R]], /) -> list[R]:
        warmed = [
            cast("Request[R]", replace(one, temperature=self.temperature))
            if isinstance(one, Complete)
            else one
            for one in requests
        ]
        return self.model.answer(warmed)


def _size(parts: int = PARTITIONS, per_partition: int = PER_PARTITION) -> AuditKeys:
    return {"mechanism": {"partitions": parts}, "shots": parts * per_partition}


def views(black_box: AuditKeys | None) -> Mapping[str, AuditKeys]:
    """Audit keys for both kinds of access."""
    return {"black box": black_box or {"score": "predicted_member"}, "white box": {}}


def _both_views(
    context: RecipeContext,
    setting: str,
    audit: AuditKeys,
    black_box: AuditKeys | None,
    *keys: AuditKeys,
) -> Iterator[MeasuredValue]:
    """Black-box and white-box access at one setting."""
    for access, view in views(black_box).items():
        result = context.audit(audit, view, _size(), *keys)
        yield from gaussian_leak(f"{setting}, {access}", result)


def attacks_and_baselines(
    context: RecipeContext,
    audit: AuditKeys,
    baselines: Mapping[str, AuditKeys],
    black_box: AuditKeys | None = None,
) -> Iterator[MeasuredValue]:
    """Both kinds of access and other attacks at each ε.

    baselines: Keys of the other attacks by name. black_box: Keys for black-box access; None to
    score the released label.
    Yields: Leakage for each.
    """
    for epsilon in EPSILONS:
        claim = {"epsilon": epsilon}
        yield from _both_views(context, f"ε = {epsilon}", audit, black_box, claim)
        for name, other in baselines.items():
            result = context.audit(audit, other, _size(), claim)
            yield from gaussian_leak(f"ε = {epsilon}, {name}", result)


def partitions(
    context: RecipeContext,
    audit: AuditKeys,
    perfect_attack: bool = False,
    black_box: AuditKeys | None = None,
) -> Iterator[MeasuredValue]:
    """Leakage for several numbers of partitions at each ε.

    perfect_attack: Whether to show what a perfect attack on a released label would find. black_box:
    Keys for black-box access; None to score the released label.
    Yields: Leakage for each.
    """
    for parts in (2, 4, 8, 16):
        for epsilon in EPSILONS:
            setting = f"T = {parts}, ε = {epsilon}"
            keys = {**_size(parts), "epsilon": epsilon}
            yield from _both_views(context, setting, audit, black_box, keys)
            if perfect_attack:
                found, label = perfect_attack_epsilon(parts, epsilon), f"{setting}, black box"
                yield MeasuredValue(
                    label, Quantity.PERFECT_RESAMPLED, found, f"{found:.2f}", exact=True
                )


def perfect_attack_epsilon(parts: int, epsilon: float) -> float:
    """What a released label reveals about votes (1, T - 1) against (0, T)."""
    sigma = ReportNoisyMax.calibrated(epsilon, DELTA, parts, "classical").sigma
    tp, fp = (
        round(TRIALS * float(scipy.special.ndtr((2 * k - parts) / (math.sqrt(2) * sigma))))
        for k in (1, 0)
    )
    return gdp(tp, TRIALS - tp, fp, TRIALS - fp, DELTA).details["implied_epsilon"]


def examples_per_partition(
    context: RecipeContext, audit: AuditKeys, black_box: AuditKeys | None = None
) -> Iterator[MeasuredValue]:
    """Leakage for several numbers of examples per partition at each ε.

    Yields: Leakage for each.
    """
    for per in (1, 2, 4):
        for epsilon in EPSILONS:
            keys = {**_size(per_partition=per), "epsilon": epsilon}
            setting = f"{per} a partition, ε = {epsilon}"
            yield from _both_views(context, setting, audit, black_box, keys)


def simulated_trials(
    context: RecipeContext, audit: AuditKeys, black_box: AuditKeys | None = None
) -> Iterator[MeasuredValue]:
    """Leakage for several numbers of simulated outputs at ε = 4.

    Yields: Leakage for each.
    """
    for trials in (100, 1000, 10_000, 100_000, 400_000):
        keys = {"epsilon": 4, "simulations": trials}
        yield from _both_views(context, f"{trials} trials", audit, black_box, keys)


def numbers_of_pairs(
    context: RecipeContext, audit: AuditKeys, black_box: AuditKeys | None = None
) -> Iterator[MeasuredValue]:
    """Leakage for several numbers of paired trials at ε = 4, up to that of the scale.

    Yields: Leakage for each.
    """
    most = context.scale.pairs
    for pairs in dict.fromkeys(max(2, most // part) for part in (8, 4, 2, 1)):
        keys = {"epsilon": 4, "pairs": pairs}
        yield from _both_views(context, f"{pairs} pairs", audit, black_box, keys)


def temperatures(
    context: RecipeContext, audit: AuditKeys, values: Sequence[float],
    black_box: AuditKeys | None = None,
) -> Iterator[MeasuredValue]:  # fmt: skip
    """Leakage for several sampling temperatures at ε = 4.

    values: Temperatures; 0 is greedy. black_box: Keys for black-box access; None to score the
    released label.
    Yields: Leakage for each.
    """
    for heat in values:
        warm = context.wrapped(lambda model, heat=heat: _AtTemperature(model, heat))  # type: ignore[misc]
        yield from _both_views(warm, f"temperature {heat:g}", audit, black_box, {"epsilon": 4})


def models(
    context: RecipeContext, audit: AuditKeys, black_box: AuditKeys | None = None
) -> Iterator[MeasuredValue]:
    """Leakage for each model at each ε.

    black_box: Keys for black-box access; None to score the released label.
    Yields: Leakage for each.
    """
    for address in context.models:
        for epsilon in EPSILONS:
            keys = {"epsilon": epsilon, "model": address}
            yield from _both_views(context, f"{address}, ε = {epsilon}", audit, black_box, keys)


def utility_by_partitions(
    context: RecipeContext, audit: AuditKeys, metric: Metric
) -> Iterator[MeasuredValue]:
    """Utility for several numbers of partitions.

    metric: The kind of utility.
    Yields: Utility at each ε, without examples and without privacy.
    """
    for parts in (2, 4, 8):
        keys = _size(parts)
        made = {f"ε = {e}": context.mechanism(audit, keys, {"epsilon": e}) for e in EPSILONS}
        groups = [
            NoiseGroup(made["ε = 1"], made), NoiseGroup.of("0-shot", ZeroShot()),
            NoiseGroup.of("no privacy", FewShot()),
        ]  # fmt: skip
        for row in utility(context, parts * PER_PARTITION, groups, metric):
            yield replace(row, setting=f"T = {parts}, {row.setting}")
