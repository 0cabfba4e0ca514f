"""Measures of tight auditing (XL): private voting, embedding aggregation, exact results."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar, cast

import numpy as np
from scipy.special import ndtr

from leakbound.attacks import Attack, DistanceGap, Natural, SignalPair
from leakbound.attacks.templates import SIGNAL_MEMBER, SIGNAL_NONMEMBER
from leakbound.auditing.design import design
from leakbound.mechanisms import EmbeddingMean, FewShot, ReportNoisyMax, ZeroShot
from leakbound.models import Complete, Embed, Model, Request
from leakbound.models.wrappers import Wrapper
from leakbound.privacy import calibrate_gaussian, gdp_epsilon
from leakbound.reproduce.context import AuditKeys, RecipeContext
from leakbound.reproduce.metrics import exact_epsilon, gaussian_leak
from leakbound.reproduce.tables import PaperTable
from leakbound.reproduce.utility import Group, Metric, utility
from leakbound.reproduce.values import MeasuredValue, Quantity
from leakbound.stats import exact_privacy_loss, gdp
from leakbound.tasks import GaussianLaw, Mechanism

__all__ = [
    "attacks_and_baselines", "examples_per_partition", "mean_sensitivity", "models",
    "numbers_of_pairs", "partitions", "perfect_attack_epsilon", "signal_distances",
    "signal_losses", "simulated_trials", "temperatures", "utility_by_partitions", "vote_places",
    "voting_noise",
]  # fmt: skip

R = TypeVar("R")
EPSILONS, DELTA = (1, 2, 4, 8), 1e-5
PARTITIONS, PER_PARTITION = 4, 2  # where a figure varies something else; the paper takes the best
TRIALS = 200_000  # per context: half of the paper's 400,000
ACCESS: Mapping[str, AuditKeys] = {"black box": {"score": "predicted_member"}, "white box": {}}
SIGNALS = (  # our own texts, from far apart to near
    (SIGNAL_MEMBER, SIGNAL_NONMEMBER),
    ('["Found",]', "[]"),
    ("A green tram climbs the hill at noon.", "A white ferry crosses the strait at dusk."),
    ("The home side took the cup with ease.", "The visitors earned the cup in the end."),
    ("The lamp in the hall went out twice.", "The lamp in the hall went out once."),
)


class AtTemperature(Wrapper):
    """A model whose completions are all sampled at one temperature."""

    def __init__(self, model: Model, temperature: float) -> None:
        super().__init__(model)
        self.temperature = temperature

    @property
    def fingerprint(self) -> str:
        return f"{self.model.fingerprint}@{self.temperature:g}"

    def answer(self, requests: Sequence[Request[R]], /) -> list[R]:
        return self.model.answer([self._warmed(request) for request in requests])

    def _warmed(self, request: Request[R]) -> Request[R]:
        if isinstance(request, Complete):
            return cast("Request[R]", replace(request, temperature=self.temperature))
        return request


def _sized(parts: int = PARTITIONS, per_partition: int = PER_PARTITION) -> AuditKeys:
    return {"mechanism": {"partitions": parts}, "shots": parts * per_partition}


def _both_views(
    context: RecipeContext, setting: str, audit: AuditKeys, *keys: AuditKeys
) -> Iterator[MeasuredValue]:
    """Black box and white box at one setting."""
    for access, score in ACCESS.items():
        result = context.audit(audit, score, _sized(), *keys)
        yield from gaussian_leak(f"{setting}, {access}", result)


def attacks_and_baselines(
    context: RecipeContext, audit: AuditKeys, baselines: Mapping[str, AuditKeys]
) -> Iterator[MeasuredValue]:
    """Both views and other attacks at each ε.

    Args:
        context: Model, rows and scale.
        audit: Keys of the audit.
        baselines: Keys of the other attacks by name.

    Yields:
        Leakage of each.
    """
    for epsilon in EPSILONS:
        claim = {"epsilon": epsilon}
        yield from _both_views(context, f"ε = {epsilon}", audit, claim)
        for name, other in baselines.items():
            result = context.audit(audit, other, _sized(), claim)
            yield from gaussian_leak(f"ε = {epsilon}, {name}", result)


def partitions(
    context: RecipeContext, audit: AuditKeys, perfect_attack: bool = False
) -> Iterator[MeasuredValue]:
    """Numbers of partitions at each ε.

    Args:
        context: Model, rows and scale.
        audit: Keys of the audit.
        perfect_attack: Whether to show what a perfect attack on a released label would find.

    Yields:
        Leakage of each.
    """
    for parts in (2, 4, 8, 16):
        for epsilon in EPSILONS:
            setting = f"T = {parts}, ε = {epsilon}"
            yield from _both_views(context, setting, audit, _sized(parts), {"epsilon": epsilon})
            if perfect_attack:
                found, label = perfect_attack_epsilon(parts, epsilon), f"{setting}, black box"
                yield MeasuredValue(label, Quantity.PERFECT_RESAMPLED, found, f"{found:.2f}")


def perfect_attack_epsilon(parts: int, epsilon: float) -> float:
    """What a released label shows of votes (1, T - 1) against (0, T).

    Args:
        parts: Number of partitions T.
        epsilon: What the noise is calibrated to, by the classical formula.

    Returns:
        The paper's point estimate from expected counts of TRIALS trials a context.
    """
    sigma = ReportNoisyMax.calibrated(epsilon, DELTA, parts, "classical").sigma
    tp, fp = (round(TRIALS * float(ndtr((2 * k - parts) / (math.sqrt(2) * sigma)))) for k in (1, 0))
    return gdp(tp, TRIALS - tp, fp, TRIALS - fp, DELTA).details["implied_epsilon"]


def examples_per_partition(context: RecipeContext, audit: AuditKeys) -> Iterator[MeasuredValue]:
    """Numbers of examples a partition at each ε.

    Args:
        context: Model, rows and scale.
        audit: Keys of the audit.

    Yields:
        Leakage of each.
    """
    for per in (1, 2, 4):
        for epsilon in EPSILONS:
            keys = {**_sized(per_partition=per), "epsilon": epsilon}
            yield from _both_views(context, f"{per} a partition, ε = {epsilon}", audit, keys)


def simulated_trials(context: RecipeContext, audit: AuditKeys) -> Iterator[MeasuredValue]:
    """Numbers of simulated outputs at ε = 4.

    Args:
        context: Model, rows and scale.
        audit: Keys of the audit.

    Yields:
        Leakage of each.
    """
    for trials in (100, 1000, 10_000, 100_000, 400_000):
        keys = {"epsilon": 4, "simulations": trials}
        yield from _both_views(context, f"{trials} trials", audit, keys)


def numbers_of_pairs(context: RecipeContext, audit: AuditKeys) -> Iterator[MeasuredValue]:
    """Numbers of paired trials at ε = 4, up to that of the scale.

    Args:
        context: Model, rows and scale.
        audit: Keys of the audit.

    Yields:
        Leakage of each.
    """
    most = context.scale.pairs
    for pairs in dict.fromkeys(max(2, most // part) for part in (8, 4, 2, 1)):
        keys = {"epsilon": 4, "pairs": pairs}
        yield from _both_views(context, f"{pairs} pairs", audit, keys)


def temperatures(context: RecipeContext, audit: AuditKeys) -> Iterator[MeasuredValue]:
    """Sampling temperatures at ε = 4.

    Args:
        context: Model, rows and scale.
        audit: Keys of the audit.

    Yields:
        Leakage at each.
    """
    for heat in (0.2, 0.4, 1.0, 2.0, 3.0):
        warm = context.wrapped(lambda model, heat=heat: AtTemperature(model, heat))  # type: ignore[misc]
        yield from _both_views(warm, f"temperature {heat:g}", audit, {"epsilon": 4})


def models(context: RecipeContext, audit: AuditKeys) -> Iterator[MeasuredValue]:
    """Every model at each ε.

    Args:
        context: Models, rows and scale.
        audit: Keys of the audit.

    Yields:
        Leakage of each.
    """
    for address in context.models:
        for epsilon in EPSILONS:
            keys = {"epsilon": epsilon, "model": address}
            yield from _both_views(context, f"{address}, ε = {epsilon}", audit, keys)


def utility_by_partitions(
    context: RecipeContext, audit: AuditKeys, metric: Metric
) -> Iterator[MeasuredValue]:
    """Utility for several numbers of partitions.

    Args:
        context: Model, rows and scale.
        audit: Keys of the audit whose mechanism is used.
        metric: What utility is.

    Yields:
        Utility at each ε, without examples and without privacy.
    """
    for parts in (2, 4, 8):
        keys = _sized(parts)
        made = {f"ε = {e}": context.mechanism(audit, keys, {"epsilon": e}) for e in EPSILONS}
        groups = [
            Group(made["ε = 1"], made), Group.of("0-shot", ZeroShot()),
            Group.of("no privacy", FewShot()),
        ]  # fmt: skip
        for row in utility(context, parts * PER_PARTITION, groups, metric):
            yield replace(row, setting=f"T = {parts}, {row.setting}")


def signal_distances(context: RecipeContext, table: PaperTable) -> Iterator[MeasuredValue]:
    """Distances of pairs of signal texts, and what a perfect attack shows at a claim of 8.

    Args:
        context: Its first model embeds the texts.
        table: The paper's distances.

    Yields:
        Distance and exact ε of each pair.
    """
    for (one, other), cell in zip(SIGNALS, table.cells(), strict=True):
        far = _distance(context.model(), one, other)
        yield MeasuredValue(cell.row, Quantity.DISTANCE, far, f"{far:.4f}")
        ours, paper = _perfect_exact(far), _perfect_exact(cell.values["distance"])
        shown = f"{ours:.2f}, at our distance; {paper:.2f} at the paper's"
        yield MeasuredValue(cell.row, Quantity.PERFECT_EXACT, ours, shown)


def _distance(model: Model, one: str, other: str) -> float:
    """L2, of embeddings of norm 1."""
    a, b = (np.asarray(found, float) for found in model.answer([Embed(one), Embed(other)]))
    return float(np.linalg.norm(a / np.linalg.norm(a) - b / np.linalg.norm(b)))


def _perfect_exact(distance: float) -> float:
    """ε when one of T answers moves by `distance`, under noise that covers a move of 2."""
    return gdp_epsilon(distance / calibrate_gaussian(8, DELTA, 2.0, "classical"), DELTA)


def signal_losses(context: RecipeContext, table: PaperTable) -> Iterator[MeasuredValue]:
    """Distances of signal texts, then the exact loss that paired trials with them have.

    Args:
        context: Model, rows and scale.
        table: The paper's distances.

    Yields:
        Distances and exact ε of a perfect attack, then the mean exact ε of the paired trials.
    """
    yield from signal_distances(context, table)
    for signals, cell in zip(SIGNALS, table.cells(), strict=True):
        losses = _exact_losses(context, SignalPair(*signals))
        mean = float(np.mean(losses))
        shown = f"{mean:.2f}, largest {max(losses):.2f}"
        yield MeasuredValue(cell.row, Quantity.MEAN_EXACT, mean, shown)


def _exact_losses(context: RecipeContext, query: SignalPair) -> list[float]:
    """The exact loss of every paired trial, white box, claim 8."""
    rows, task = context.rows()
    mechanism: Mechanism = EmbeddingMean.calibrated(8, DELTA, PARTITIONS, "classical")
    attack, shots = Attack(Natural(), query, DistanceGap()), PARTITIONS * PER_PARTITION
    pairs = list(design(rows, task, attack, context.scale.pairs, shots, 0))
    jobs = [job for pair in pairs for job in (pair.member, pair.nonmember)]
    draws = [pair.draw for pair in pairs for _ in range(2)]
    aggregates = mechanism.collect(task, jobs, draws, context.model())
    neighbors = zip(aggregates[::2], aggregates[1::2], strict=True)
    return [exact_epsilon(mechanism, one, other, DELTA) for one, other in neighbors]


def voting_noise(
    context: RecipeContext, claims: Sequence[Sequence[float]]
) -> Iterator[MeasuredValue]:
    """Noise of private voting by the classical formula, and its true ε; exact.

    Args:
        context: Not used.
        claims: Pairs of ε and δ.

    Yields:
        σ and ε of each.
    """
    for epsilon, delta in claims:
        made = ReportNoisyMax.calibrated(epsilon, delta, 10, "classical")
        setting, exact = f"ε = {epsilon:g}, δ = {delta:g}", made.guarantee.epsilon(delta)
        yield MeasuredValue(setting, Quantity.SIGMA, made.sigma, f"{made.sigma:.4f}")
        yield MeasuredValue(setting, Quantity.EXACT_OF_NOISE, exact, f"{exact:.3f}")


def vote_places(context: RecipeContext, votes: Sequence[Sequence[int]]) -> Iterator[MeasuredValue]:
    """μ and the ratio of rates when one vote moves; exact, at ε = 1.

    Args:
        context: Not used.
        votes: Pairs of k votes for the first answer and T votes in all.

    Yields:
        μ and ln(TPR/FPR) of each.
    """
    sigma = ReportNoisyMax.calibrated(1, DELTA, 10, "classical").sigma
    for k, parts in votes:
        setting = f"[{k}, {parts - k}] against [{k - 1}, {parts - k + 1}]"
        one, other = (GaussianLaw(np.array([v, parts - v], float), sigma) for v in (k, k - 1))
        mu = exact_privacy_loss(one, other, DELTA).mu or 0.0
        tpr, fpr = (float(ndtr((2 * v - parts) / (math.sqrt(2) * sigma))) for v in (k, k - 1))
        yield MeasuredValue(setting, Quantity.MU, mu, f"{mu:.4f}")
        ratio = math.log(tpr / fpr)
        yield MeasuredValue(setting, Quantity.RATE_RATIO, ratio, f"{ratio:.4f}")


def mean_sensitivity(context: RecipeContext, partitions: Sequence[int]) -> Iterator[MeasuredValue]:
    """Sensitivity of the mean embedding; exact.

    Args:
        context: Not used.
        partitions: Numbers of partitions T.

    Yields:
        The sensitivity at each T.
    """
    for parts in partitions:
        found = EmbeddingMean.calibrated(1, DELTA, parts).guarantee.sensitivity
        yield MeasuredValue(f"T = {parts}", Quantity.SENSITIVITY, found, f"{found:g}")
