"""Measures of tight auditing (XL) without trials: signal texts and exact results."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from scipy.special import ndtr

from leakbound.attacks import Attack, DistanceGap, Natural, SignalPair
from leakbound.auditing.design.pairs import design
from leakbound.mechanisms import EmbeddingMean, ReportNoisyMax
from leakbound.models import Embed, Model
from leakbound.privacy import calibrate_gaussian, gdp_epsilon
from leakbound.stats import exact_privacy_loss
from leakbound.tasks import GaussianLaw, Mechanism
from leakbound_lab.reproduce.context import RecipeContext
from leakbound_lab.reproduce.measures.tight import DELTA, PARTITIONS, PER_PARTITION
from leakbound_lab.reproduce.metrics import exact_epsilon
from leakbound_lab.reproduce.tables import PaperTable
from leakbound_lab.reproduce.values import MeasuredValue, Quantity, Sample


def signal_distances(
    context: RecipeContext, table: PaperTable, signals: Sequence[Sequence[str]]
) -> Iterator[MeasuredValue]:
    """Distances of pairs of signal texts, and what a perfect attack shows at a claim of 8.

    Args:
        context: The context whose first model embeds the texts.
        table: The paper's distances.
        signals: As many pairs of texts, from most distant to closest.

    Yields:
        Distance and exact ε of each pair.
    """
    for (one, other), cell in zip(signals, table.cells(), strict=True):
        far = _distance(context.model(), one, other)
        yield MeasuredValue(cell.row, Quantity.DISTANCE, far, f"{far:.4f}", exact=True)
        ours, paper = _perfect_exact(far), _perfect_exact(cell.values["distance"])
        shown = f"{ours:.2f}, at our distance; {paper:.2f} at the paper's"
        yield MeasuredValue(cell.row, Quantity.PERFECT_EXACT, ours, shown, exact=True)


def _distance(model: Model, one: str, other: str) -> float:
    """L2 distance of embeddings normalized to 1."""
    a, b = (np.asarray(found, float) for found in model.answer([Embed(one), Embed(other)]))
    return float(np.linalg.norm(a / np.linalg.norm(a) - b / np.linalg.norm(b)))


def _perfect_exact(distance: float) -> float:
    """ε if one of T answers moves by `distance`, under noise that covers a move of 2."""
    return gdp_epsilon(distance / calibrate_gaussian(8, DELTA, 2.0, "classical"), DELTA)


def signal_losses(
    context: RecipeContext, table: PaperTable, signals: Sequence[Sequence[str]]
) -> Iterator[MeasuredValue]:
    """Distances of signal texts, then the exact privacy loss of paired trials with them.

    Args:
        context: Model, rows and scale.
        table: The paper's distances.
        signals: As many pairs of texts, from most distant to closest.

    Yields:
        Distances and exact ε of a perfect attack, then the mean exact ε of the paired trials.
    """
    yield from signal_distances(context, table, signals)
    for pair, cell in zip(signals, table.cells(), strict=True):
        losses = _exact_losses(context, SignalPair(*pair))
        mean = float(np.mean(losses))
        shown = f"{mean:.2f}, largest {max(losses):.2f}"
        sample = Sample(tuple(losses), "paired trial", "pairs of seed 0")
        yield MeasuredValue(cell.row, Quantity.MEAN_EXACT, mean, shown, sample)


def _exact_losses(context: RecipeContext, query: SignalPair) -> list[float]:
    """The exact privacy loss of each paired trial, white box, claim 8."""
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
    """μ and the ratio of rates if one vote moves; exact, at ε = 1.

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
