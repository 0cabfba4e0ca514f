"""Measures of Private PoEtry (PoE): accuracy, membership attack, cost and exact loss."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from leakbound.attacks import Attack, Gap, Natural, PredictedMember
from leakbound.auditing.design.pairs import design
from leakbound.mechanisms import (
    ContextInfluenceDecoding,
    FewShot,
    ProductOfExperts,
    ReportNoisyMax,
    SubsampleAverage,
    SyntheticShots,
    ZeroShot,
)
from leakbound.mechanisms.parts.exponential import clip_log_probabilities
from leakbound.models import ScoreLabels
from leakbound.models.model import Counted
from leakbound.stats import auroc, auroc_standard_error
from leakbound.stats.arrays import Floats
from leakbound.tasks import CategoricalLaw, Mechanism, Vector
from leakbound_lab.reproduce.context import RecipeContext
from leakbound_lab.reproduce.metrics import exact_epsilon, percent
from leakbound_lab.reproduce.utility import NoiseGroup, Repetition, repeats_of, utility
from leakbound_lab.reproduce.values import MeasuredValue, Quantity, Sample

DELTA, CLIP, SHOTS = 1e-5, 2.0, 20  # the paper's
POE, PUBLISHED, RNM = "PoE", "PoE, published calibration", "RNM"
PBS, SYNTHETIC = "PbS", "synthetic shots"
NO_DP, SOFT, HARD, ZERO = "no DP", "soft, no noise", "hard, no noise", "zero-shot"


def _cheap(epsilon: float, shots: int, group_size: int = 1) -> list[NoiseGroup]:
    """Methods with one call per group of examples, and both ends of every trade-off."""
    votes = ReportNoisyMax.calibrated(epsilon, DELTA, shots // group_size)
    ours = ProductOfExperts(epsilon, group_size=group_size)
    both = {POE: ours, PUBLISHED: replace(ours, calibration="paper")}  # of the same aggregates
    return [
        NoiseGroup(ours, both), NoiseGroup.of(RNM, votes),
        NoiseGroup.of(NO_DP, FewShot()), NoiseGroup.of(ZERO, ZeroShot()),
    ]  # fmt: skip


def _with_examples(
    context: RecipeContext, shots: int, groups: Sequence[NoiseGroup]
) -> Iterator[MeasuredValue]:
    """Accuracy with J examples; the setting states J."""
    for row in utility(context, shots, groups):
        yield replace(row, setting=f"{row.setting}, J = {shots}")


def text_classification(context: RecipeContext) -> Iterator[MeasuredValue]:
    """Accuracy of each method at ε = 4 with 8 and 25 examples.

    Synthetic shots are generated anew for each query, so they get fewer queries and repeats.

    Yields: The accuracy of each method.
    """
    samples = SubsampleAverage.calibrated(4, DELTA)
    for shots in (8, 25):
        yield from _with_examples(context, shots, [*_cheap(4, shots), NoiseGroup.of(PBS, samples)])
        synthetic = NoiseGroup.of(SYNTHETIC, SyntheticShots.calibrated(4, DELTA, shots))
        few = context.limited(queries=4, repeats=2)
        yield from _with_examples(few, shots, [synthetic])


def accuracy_by_examples(
    context: RecipeContext, epsilon: float, examples: Sequence[int], last_model: bool = False
) -> Iterator[MeasuredValue]:
    """Accuracy by number of examples.

    epsilon: The epsilon that mechanisms are calibrated to. examples: Numbers of examples J.
    last_model: Whether to use the second of two models, and to name it.
    Yields: The accuracy of each method; nothing if the second of one model is asked for.
    """
    for one, of in _models(context, last_model):
        for shots in examples:
            found = _with_examples(one, shots, _cheap(epsilon, shots))
            yield from (replace(row, setting=row.setting + of) for row in found)


def _models(context: RecipeContext, last_model: bool) -> Iterator[tuple[RecipeContext, str]]:
    """What is measured, and what is added to its settings."""
    if not last_model:
        yield context, ""
    elif len(context.models) > 1:
        yield context.with_model(context.models[1]), f", {context.models[1]}"


def vision(
    context: RecipeContext, group_sizes: Sequence[int] = (1, 2, 4), last_model: bool = False
) -> Iterator[MeasuredValue]:
    """Accuracy at ε = 1 with groups of two examples, with and without noise.

    group_sizes: Sizes of PoE's groups that are compared at the end. last_model: Whether to use the
    second of two models, and to name it.
    Yields: The accuracy of each method, then that of PoE by group size; nothing if the second of
    one model is asked for.
    """
    for one, of in _models(context, last_model):
        for row in _vision(one, group_sizes):
            yield replace(row, setting=row.setting + of)


def _vision(context: RecipeContext, group_sizes: Sequence[int]) -> Iterator[MeasuredValue]:
    for shots in (4, 8, 20):
        soft, hard = ProductOfExperts(1e9, group_size=2), ReportNoisyMax(1e-9, shots // 2)
        noiseless = [NoiseGroup.of(SOFT, soft), NoiseGroup.of(HARD, hard)]
        yield from _with_examples(context, shots, [*noiseless, *_cheap(1, shots, 2)])
    for size in group_sizes:
        group = NoiseGroup.of(f"{POE}, groups of {size}", ProductOfExperts(1, group_size=size))
        yield from _with_examples(context, 8, [group])


def clipping_bounds(context: RecipeContext) -> Iterator[MeasuredValue]:
    """Accuracy of PoE by clipping bound C, at ε = 4 with 8 examples.

    Yields: The smallest probability that C = 2 keeps, then the accuracy with all examples, without
    any, and at each C.
    """
    yield percent("C = 2", Quantity.LEAST_KEPT, math.exp(-CLIP), exact=True)
    groups = [NoiseGroup.of(NO_DP, FewShot()), NoiseGroup.of(ZERO, ZeroShot())]
    for clip in (0.5, 1.0, 2.0, 4.0, 8.0):
        groups.append(NoiseGroup.of(f"C = {clip:g}", ProductOfExperts(4, clip=clip)))
    yield from utility(context, 8, groups)


def expert_likelihoods(context: RecipeContext) -> Iterator[MeasuredValue]:
    """Likelihoods of an expert with one example, and how hard and soft votes change them.

    Yields: The mean likelihood by rank, then the likelihood of the correct label and the largest
    change, and what a guess would give.
    """
    found = [_one_expert(context, repeat) for repeat in repeats_of(context, 1)]
    p = np.concatenate([probabilities for probabilities, _ in found])
    truth = np.array([label for _, labels in found for label in labels])
    for rank, column in enumerate((-np.sort(-p, axis=1)).T, 1):
        mean, deviation = float(column.mean()), float(column.std())
        shown = f"{mean:.2f}, sd {deviation:.2f}"
        sample = _of_queries(column)
        yield MeasuredValue(f"rank {rank}", Quantity.LIKELIHOOD, mean, shown, sample, 1.0)
    for name, votes in _votes(p).items():
        right, change = votes[np.arange(len(p)), truth], abs(p - votes).max(1)
        for quantity, found_here in (
            (Quantity.LABEL_LIKELIHOOD, right), (Quantity.LARGEST_CHANGE, change),
        ):  # fmt: skip
            yield percent(name, quantity, float(found_here.mean()), _of_queries(100 * found_here))
    yield percent("chance", Quantity.LABEL_LIKELIHOOD, 1 / p.shape[1], exact=True)


def _of_queries(values: Floats) -> Sample:
    return Sample(tuple(values.tolist()), "query", f"{len(values)} queries with one example")


def _one_expert(context: RecipeContext, repeat: Repetition) -> tuple[Floats, list[int]]:
    """Probabilities (queries, labels) of an expert with one example, and the correct labels."""
    task = repeat.task
    prompts = [task.prompt(job.context, job.query) for job in repeat.jobs]
    scores = context.model().answer([ScoreLabels(prompt, task.labels) for prompt in prompts])
    labels = [task.labels.index(label) for label in repeat.truth]
    return np.exp(clip_log_probabilities(np.stack(scores), 1e9)), labels


def _votes(p: Floats) -> dict[str, Floats]:
    """Hard and soft votes of probabilities (queries, labels)."""
    soft = np.exp(np.clip(np.log(p), -CLIP, 0))
    return {"hard": np.eye(p.shape[1])[p.argmax(1)], "soft": soft / soft.sum(1, keepdims=True)}


def membership_attack(context: RecipeContext) -> Iterator[MeasuredValue]:
    """The likelihood of a row's own label, with and without the row among the examples.

    Yields: The AUROC of likelihoods and of one answer, without and with privacy.
    """
    rows, task = context.rows()
    attack = Attack(Natural(), Gap(), PredictedMember())
    pairs = list(design(rows, task, attack, 2 * context.scale.pairs, SHOTS, context.seed))
    jobs = [job for pair in pairs for job in (pair.member, pair.nonmember)]
    own = np.array([task.labels.index(pair.asked.member) for pair in pairs for _ in range(2)])
    systems: Mapping[str, Mechanism] = {
        NO_DP: ContextInfluenceDecoding(lam=1.0), "DP": ProductOfExperts(1.0)
    }  # fmt: skip
    for name, mechanism in systems.items():
        context.report(f"{mechanism.name}, {len(pairs)} paired trials")
        aggregates = mechanism.collect(task, jobs, [0] * len(jobs), context.model())
        outputs = (mechanism.output_distribution(one) for one in aggregates)
        found = [one.probabilities for one in outputs if isinstance(one, CategoricalLaw)]
        p = np.stack(found)[np.arange(len(jobs)), own]
        yield from _areas(name, p[::2], p[1::2])


def _areas(name: str, member: Floats, nonmember: Floats) -> Iterator[MeasuredValue]:
    """AUROC of the likelihoods of a label, and of one answer drawn from them."""
    one_answer = 0.5 + float(np.mean(member[:, None] - nonmember)) / 2
    for view, area in (("likelihoods", auroc(member, nonmember)), ("one answer", one_answer)):
        error = auroc_standard_error(area, len(member), len(nonmember))
        shown = f"{100 * area:.1f} ± {100 * error:.1f}"
        sample = _area_sample(member, nonmember, view)
        yield MeasuredValue(f"{name}, {view}", Quantity.AUROC, 100 * area, shown, sample)


def _area_sample(member: Floats, nonmember: Floats, view: str) -> Sample:
    """What each pair adds to an AUROC in percent (DeLong et al. 1988); the mean is the AUROC."""
    gaps = member[:, None] - nonmember
    above = (1 + gaps) / 2 if view == "one answer" else (gaps > 0) + (gaps == 0) / 2
    parts = 100 * (above.mean(1) + above.mean(0) - above.mean())
    return Sample(tuple(parts.tolist()), "paired trial", f"{len(parts)} pairs")


def answer_cost(context: RecipeContext) -> Iterator[MeasuredValue]:
    """Seconds and model calls per answer, over a context of 25 examples.

    Yields: Both numbers for each method.
    """
    few = context.limited(queries=4, repeats=1)
    methods: Mapping[str, Mechanism] = {
        PBS: SubsampleAverage(1.0, 100), SYNTHETIC: SyntheticShots.calibrated(4, DELTA, 25),
        RNM: ReportNoisyMax(1.0, 25), POE: ProductOfExperts(4),
    }  # fmt: skip
    (repeat,) = repeats_of(few, 25)
    for name, mechanism in methods.items():
        context.report(f"{name}, {len(repeat.jobs)} answers")
        counted = Counted(context.model())
        begin = time.perf_counter()
        repeat.collect(mechanism, context.wrapped(lambda model, counted=counted: counted))  # type: ignore[misc]
        each = (time.perf_counter() - begin) / len(repeat.jobs)
        calls = counted.calls / len(repeat.jobs)
        yield MeasuredValue(name, Quantity.TIME, each, f"{each:.3f} s an answer")
        yield MeasuredValue(name, Quantity.MODEL_CALLS, calls, f"{calls:g}", exact=True)


def exact_loss_of_poe(context: RecipeContext) -> Iterator[MeasuredValue]:
    """Exact privacy loss of a worked pair: one of 40 experts changes its preference.

    Yields: Exact ε and derived guarantee for each ε and calibration.
    """
    for epsilon in (1.0, 4.0):
        for calibration in ("paper", "replace_one"):
            made = replace(ProductOfExperts(epsilon), calibration=calibration)
            one, other = Vector((0.0, -41 * CLIP)), Vector((-CLIP, -40 * CLIP))
            exact = exact_epsilon(made, one, other, 0.0)
            setting, guarantee = f"ε = {epsilon:g}, {calibration}", made.guarantee.epsilon(0.0)
            yield MeasuredValue(setting, Quantity.EXACT_REPLACE_ONE, exact, f"{exact:.4f}")
            yield MeasuredValue(setting, Quantity.GUARANTEE, guarantee, f"{guarantee:g}")
