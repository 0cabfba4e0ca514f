"""Measures without trials: signal texts, exact results and the bootstrap of XL, theorems."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import scipy

from leakbound.attacks import Attack, DistanceGap, Natural, SignalPair
from leakbound.auditing.design.pairs import design
from leakbound.auditing.prepare.prepared import Prepared
from leakbound.auditing.store.run_store import EvidenceRow
from leakbound.mechanisms import EmbeddingMean, ReportNoisyMax
from leakbound.models import Embed
from leakbound.privacy import calibrate_gaussian, gdp_epsilon
from leakbound.stats import exact_privacy_loss, gdp, roc
from leakbound.stats.arrays import Floats
from leakbound.tasks import GaussianLaw, Mechanism
from leakbound_lab.reproduce.context import AuditKeys, RecipeContext
from leakbound_lab.reproduce.measures.tight import DELTA, EPSILONS, PARTITIONS, PER_PARTITION, views
from leakbound_lab.reproduce.metrics import epsilon_sample, exact_epsilon
from leakbound_lab.reproduce.values import MeasuredValue, PaperTable, Quantity, Sample


def signal_distances(
    context: RecipeContext, table: PaperTable, signals: Sequence[Sequence[str]]
) -> Iterator[MeasuredValue]:
    """Distances of pairs of signal texts, and what a perfect attack shows at a claim of 8.

    table: The paper's distances. signals: As many pairs of texts, from most distant to closest.
    Yields: Distance and exact ε of each pair.
    """
    for (one, other), cell in zip(signals, table.cells(), strict=True):
        found = context.model().answer([Embed(one), Embed(other)])
        a, b = (np.asarray(vector, float) / np.linalg.norm(vector) for vector in found)
        far = float(np.linalg.norm(a - b))
        yield MeasuredValue(cell.row, Quantity.DISTANCE, far, f"{far:.4f}", exact=True)
        ours, paper = _perfect_exact(far), _perfect_exact(cell.values["distance"])
        shown = f"{ours:.2f}, at our distance; {paper:.2f} at the paper's"
        yield MeasuredValue(cell.row, Quantity.PERFECT_EXACT, ours, shown, exact=True)


def _perfect_exact(distance: float) -> float:
    """ε if one of T answers moves by `distance`, under noise that covers a move of 2."""
    return gdp_epsilon(distance / calibrate_gaussian(8, DELTA, 2.0, "classical"), DELTA)


def signal_losses(
    context: RecipeContext, table: PaperTable, signals: Sequence[Sequence[str]]
) -> Iterator[MeasuredValue]:
    """Distances of signal texts, then the exact privacy loss of paired trials with them.

    table: The paper's distances. signals: As many pairs of texts, from most distant to closest.
    Yields: Distances and exact ε of a perfect attack, then the mean exact ε of the paired trials.
    """
    yield from signal_distances(context, table, signals)
    for pair, cell in zip(signals, table.cells(), strict=True):
        losses = _exact_losses(context, SignalPair(*pair))
        mean = float(np.mean(losses))
        shown = f"{mean:.2f}, largest {max(losses):.2f}"
        sample = Sample(tuple(losses), "paired trial", f"pairs of seed {context.seed}")
        yield MeasuredValue(cell.row, Quantity.MEAN_EXACT, mean, shown, sample)


def _exact_losses(context: RecipeContext, query: SignalPair) -> list[float]:
    """The exact privacy loss of each paired trial, white box, claim 8."""
    rows, task = context.rows()
    mechanism: Mechanism = EmbeddingMean.calibrated(8, DELTA, PARTITIONS, "classical")
    attack, shots = Attack(Natural(), query, DistanceGap()), PARTITIONS * PER_PARTITION
    pairs = list(design(rows, task, attack, context.scale.pairs, shots, context.seed))
    jobs = [job for pair in pairs for job in (pair.member, pair.nonmember)]
    draws = [pair.draw for pair in pairs for _ in range(2)]
    aggregates = mechanism.collect(task, jobs, draws, context.model())
    neighbors = zip(aggregates[::2], aggregates[1::2], strict=True)
    return [exact_epsilon(mechanism, one, other, DELTA) for one, other in neighbors]


def voting_noise(
    context: RecipeContext, claims: Sequence[Sequence[float]]
) -> Iterator[MeasuredValue]:
    """Noise of private voting by the classical formula, and its true ε; exact.

    claims: Pairs of ε and δ.
    Yields: σ and ε of each.
    """
    for epsilon, delta in claims:
        made = ReportNoisyMax.calibrated(epsilon, delta, 10, "classical")
        setting, exact = f"ε = {epsilon:g}, δ = {delta:g}", made.guarantee.epsilon(delta)
        yield MeasuredValue(setting, Quantity.SIGMA, made.sigma, f"{made.sigma:.4f}")
        yield MeasuredValue(setting, Quantity.EXACT_OF_NOISE, exact, f"{exact:.3f}")


def vote_places(context: RecipeContext, votes: Sequence[Sequence[int]]) -> Iterator[MeasuredValue]:
    """μ and the ratio of rates if one vote moves; exact, at ε = 1.

    votes: Pairs of k votes for the first answer and T votes in all.
    Yields: μ and ln(TPR/FPR) of each.
    """
    sigma = ReportNoisyMax.calibrated(1, DELTA, 10, "classical").sigma
    for k, parts in votes:
        setting = f"[{k}, {parts - k}] against [{k - 1}, {parts - k + 1}]"
        one, other = (GaussianLaw(np.array([v, parts - v], float), sigma) for v in (k, k - 1))
        mu = exact_privacy_loss(one, other, DELTA).mu or 0.0
        tpr, fpr = (
            float(scipy.special.ndtr((2 * v - parts) / (math.sqrt(2) * sigma))) for v in (k, k - 1)
        )
        yield MeasuredValue(setting, Quantity.MU, mu, f"{mu:.4f}")
        ratio = math.log(tpr / fpr)
        yield MeasuredValue(setting, Quantity.RATE_RATIO, ratio, f"{ratio:.4f}")


def mean_sensitivity(context: RecipeContext, partitions: Sequence[int]) -> Iterator[MeasuredValue]:
    """Sensitivity of the mean embedding; exact.

    partitions: Numbers of partitions T.
    Yields: The sensitivity at each T.
    """
    for parts in partitions:
        found = EmbeddingMean.calibrated(1, DELTA, parts).guarantee.sensitivity
        yield MeasuredValue(f"T = {parts}", Quantity.SENSITIVITY, found, f"{found:g}")


REPEATS = 5  # the paper's


def bootstrap_audits(
    context: RecipeContext, audit: AuditKeys, black_box: AuditKeys | None = None
) -> Iterator[MeasuredValue]:
    """Algorithm 1 with both kinds of access at each ε, over the outputs of one audit.

    Yields: The mean estimate of five repeats. Its ceiling is the mechanism's guarantee. Claims
    about it are tested by what each paired trial adds to such an estimate: repeats draw from the
    same few aggregates, so they are no trials.
    """
    sized = {"mechanism": {"partitions": PARTITIONS}, "shots": PARTITIONS * PER_PARTITION}
    for epsilon in EPSILONS:
        for access, view in views(black_box).items():
            prepared, rows = context.evidence(audit, view, sized, {"epsilon": epsilon})
            found = tuple(
                bootstrap_epsilon(prepared, rows, context.scale.simulations, seed)
                for seed in range(REPEATS)
            )
            shown = f"{np.mean(found):.2f}, sd {np.std(found):.2f} of {REPEATS} repeats"
            result = context.audit(audit, view, sized, {"epsilon": epsilon})
            guaranteed = prepared.trial_design.guarantee.epsilon(prepared.spec.decision.delta)
            yield MeasuredValue(
                f"ε = {epsilon}, {access}", Quantity.BOOTSTRAP, float(np.mean(found)), shown,
                epsilon_sample(result), guaranteed,
            )  # fmt: skip


def bootstrap_epsilon(
    prepared: Prepared, rows: Sequence[EvidenceRow], trials: int, seed: int
) -> float:
    """One repeat: aggregates drawn with replacement, noise, the best threshold, ε through μ."""
    rng, n = np.random.default_rng([seed, 17]), max(1, trials // 2)
    member, nonmember = (_resample(prepared, rows, of, n, rng) for of in (0, 1))
    fpr, tpr, _ = roc(member, nonmember)
    at = int((tpr - fpr).argmax())
    tp, fp = round(float(tpr[at]) * n), round(float(fpr[at]) * n)
    found = gdp(tp, n - tp, fp, n - fp, prepared.spec.decision.delta)
    return float(found.details["implied_epsilon"])


def _resample(
    prepared: Prepared, rows: Sequence[EvidenceRow], of: int, n: int, rng: np.random.Generator
) -> Floats:
    """(n,) scores of outputs whose aggregates are drawn with replacement."""
    drawn = rng.multinomial(n, np.full(len(rows), 1 / len(rows)))
    score, task, scores = prepared.attack.score, prepared.task, []
    for index, (row, count) in enumerate(zip(rows, drawn, strict=True)):
        asked = prepared.pairs[index].asked
        outputs = prepared.mechanism.release(row.both[of], int(count), rng)
        scores.append(score.score(outputs, asked, task.answers(asked.query)))
    return np.concatenate(scores)


DRAWS = 400  # draws of the examples: a standard error below 0.02
EXPECTED = np.array([0.3, 0.2, 0.0, -0.5])  # mean contribution of an example to each answer
RESIDUAL = np.array([-1.0, 1.0, 0.0, 0.0])  # bounded by 1, as Assumption 3.2 allows
CONTEXTS = 1000  # worked pairs of contexts for each λ
VOCABULARY = 50


def convergence_of_experts(
    context: RecipeContext, examples: Sequence[int]
) -> Iterator[MeasuredValue]:
    """Distance of a product of experts from the distribution over all examples together.

    Contributions of examples are independent and bounded. The interaction of examples is one
    bounded residual, the same for any number of them, as in Assumption 3.2.

    examples: Numbers of examples n.
    Yields: Total variation with the n-th root of Theorem 3.4 (against its limit), and without it
    (against the product of experts), as a model answers.
    """
    for n in examples:
        noise = np.random.default_rng([n, 34]).uniform(-1, 1, (DRAWS, n, EXPECTED.size))
        sums = (EXPECTED + noise).sum(1)  # of contributions within 1 of their mean
        rooted = scipy.special.softmax((sums + RESIDUAL) / n, axis=1)
        away = _total_variation(rooted, scipy.special.softmax(EXPECTED))
        yield _exact(f"n = {n}, n-th root, as in the theorem", Quantity.TOTAL_VARIATION, away)
        apart = _total_variation(
            scipy.special.softmax(sums + RESIDUAL, axis=1), scipy.special.softmax(sums, axis=1)
        )
        yield _exact(f"n = {n}, as a model answers", Quantity.TOTAL_VARIATION, apart)


def _total_variation(one: Floats, other: Floats) -> float:
    return float(abs(one - other).sum(1).mean() / 2)


def influence_and_pmi(context: RecipeContext, lams: Sequence[float]) -> Iterator[MeasuredValue]:
    """Influence of a part of a context on a token, divided by λ times the difference of its PMIs.

    Theorem 3.1 says that the two are proportional. The influence is exactly |λ ΔPMI - Δ ln Z|,
    where Z normalizes the mixed probabilities. Z is 1 only at λ = 0 and λ = 1.

    lams: Values of λ above 0.
    Yields: The largest ratio, and the largest fraction of 2 λ max |ΔPMI| that an influence reaches.
    """
    for lam in lams:
        ratio, share = _work_out(lam)
        largest = float(ratio.max())
        shown = f"{largest:.3f} at most, from {ratio.min():.3f}; mean {ratio.mean():.3f}"
        yield MeasuredValue(f"λ = {lam:g}", Quantity.INFLUENCE_RATIO, largest, shown, exact=True)
        yield _exact(f"λ = {lam:g}", Quantity.INFLUENCE_OF_BOUND, float(share.max()))


def _work_out(lam: float) -> tuple[Floats, Floats]:
    """(contexts,) ratios of influence and λ ΔPMI, and fractions of the bound."""
    logits = np.random.default_rng([31]).normal(0, 2, (3, CONTEXTS, VOCABULARY))
    prior, whole, without = (scipy.special.log_softmax(each, axis=1) for each in logits)
    mixed = [
        scipy.special.log_softmax(lam * one + (1 - lam) * prior, axis=1) for one in (whole, without)
    ]
    token = whole.argmax(1)[:, None]
    moved = np.take_along_axis(mixed[0] - mixed[1], token, 1)[:, 0]
    pmi = whole - without  # the difference of both PMIs; the prior cancels
    here = lam * abs(np.take_along_axis(pmi, token, 1)[:, 0])
    return abs(moved) / here, abs(moved) / (2 * lam * abs(pmi).max(1))


def _exact(setting: str, quantity: Quantity, value: float) -> MeasuredValue:
    return MeasuredValue(setting, quantity, value, f"{value:.3f}", exact=True)
