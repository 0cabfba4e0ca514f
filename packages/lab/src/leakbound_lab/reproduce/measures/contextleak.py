"""Measures of ContextLeak: leakage of few-shot prompts, defenses and private aggregations."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from leakbound.auditing import AuditResult
from leakbound.auditing.prepare.build import Handed
from leakbound.auditing.result.assemble import REFUSES_ALL
from leakbound.mechanisms import FewShot, ZeroShot
from leakbound.stats import accuracy_bound, accuracy_log_odds, cut
from leakbound_lab.reproduce.context import AuditKeys, RecipeContext
from leakbound_lab.reproduce.metrics import accuracy_leak, percent
from leakbound_lab.reproduce.utility import Metric, NoiseGroup, mean_with_error, utility
from leakbound_lab.reproduce.values import MeasuredValue, PaperTable, Quantity, Sample
from leakbound_lab.tuning import tune_spec

EPSILONS, SHOTS = (1, 2, 4, 8), 20  # the paper's
INFINITE = "ε = ∞"
RERUNS = 10  # the fewest that can tell the spread at 24 pairs from that at 6
DEFENSES: tuple[AuditKeys, ...] = (
    {"mechanism": "few_shot"},
    {"mechanism": {"kind": "prompt_defense", "level": 1}},
    {"mechanism": {"kind": "prompt_defense", "level": 2}},
)
UNDEFENDED: AuditKeys = {"mechanism": "few_shot", "score": None}


def log_odds_and_bounds(
    context: RecipeContext, table: PaperTable, queries: Sequence[int] = (400, 100)
) -> Iterator[MeasuredValue]:
    """Log odds of printed accuracies, and what a given number of queries certifies; exact.

    table: Cells with an accuracy in percent. queries: Numbers of queries.
    Yields: For each cell the log odds, then a lower bound for each number of queries.
    """
    for cell in table.cells():
        setting, accuracy = f"{cell.row}, {cell.column}", cell.values["accuracy"]
        odds = accuracy_log_odds(round(10 * accuracy), 1000).epsilon or 0.0
        yield MeasuredValue(setting, Quantity.LOG_ODDS, odds, f"{odds:.2f}")
        for n in queries:
            right = math.floor(accuracy * n / 100 + 0.5)  # half a correct answer counts as one
            bound = accuracy_bound(right, n).epsilon or 0.0
            yield MeasuredValue(setting, f"ε ≥ with {n} queries, 95 %", bound, f"≥ {cut(bound)}")


def defense_levels(context: RecipeContext, attack: AuditKeys) -> Iterator[MeasuredValue]:
    """Two attacks against no defense, two prompts and a judge.

    attack: Query and canary of the attack that is compared with prompt injection.
    Yields: Leakage at each level, and how often the judge withheld an answer.
    """
    defenses = (*DEFENSES, {"mechanism": "judge_defense", "judge_model": context.judge_model})
    for name, keys in (("injection", {"query": "injection"}), ("our attack", attack)):
        for level, defense in enumerate(defenses):
            result, setting = context.audit(keys, defense, {"shots": 3}), f"L{level}, {name}"
            yield from accuracy_leak(setting, result)
            yield from _withheld(setting, result)


def _withheld(setting: str, result: AuditResult) -> Iterator[MeasuredValue]:
    """How often a judge withheld an answer. A judge that always withholds cannot judge."""
    blind = any(finding.code == REFUSES_ALL for finding in result.findings)
    for name, quantity in (
        ("withheld_member", Quantity.WITHHELD_MEMBER),
        ("withheld_nonmember", Quantity.WITHHELD_NONMEMBER),
    ):
        if name in result.counts:
            share = 100 * result.counts[name] / result.counts["pairs"]
            shown = f"{share:.1f}" + (", every answer: this judge cannot judge" if blind else "")
            yield MeasuredValue(setting, quantity, share, shown, exact=True)


def canaries_by_queries(
    context: RecipeContext, audit: AuditKeys, canaries: Sequence[str], queries: AuditKeys
) -> Iterator[MeasuredValue]:
    """Every canary with every query, for each model.

    canaries: Canaries by name. queries: Queries with their options, by their names in the table.
    Yields: Leakage of each combination.
    """
    for address in context.models:
        for canary in canaries:
            for name, query in queries.items():
                keys = {"canary": canary, "query": query, "model": address}
                setting = _with_model(context, address, f"{name}, {canary}")
                yield from accuracy_leak(setting, context.audit(audit, keys))


def _with_model(context: RecipeContext, address: str, setting: str) -> str:
    return setting if len(context.models) == 1 else f"{setting}, {address}"


def tuned_query(context: RecipeContext, audit: AuditKeys) -> Iterator[MeasuredValue]:
    """A query before and after a search for better wording.

    Yields: Leakage before, accuracy on the pilot before and after, leakage after.
    """
    yield from accuracy_leak("before", context.audit(audit))
    pairs = context.scale.pairs
    found = tune_spec(
        context.spec(audit), max_calls=100 * pairs, pairs=max(2, pairs // 4), reflection="none",
        out=context.out / "runs", handed=Handed(model=context.model()), tell=context.report,
    )  # fmt: skip
    for setting, accuracy in (("before", found.before), ("after", found.after)):
        yield percent(setting, Quantity.PILOT_ACCURACY, accuracy)
    given = {"query": {"kind": "given", "text": found.best}}
    yield from accuracy_leak("after", context.audit(audit, given))


def leakage_by_epsilon(context: RecipeContext, audit: AuditKeys) -> Iterator[MeasuredValue]:
    """Leakage of a mechanism at each ε, and without privacy.

    Yields: Leakage at each ε.
    """
    for epsilon in EPSILONS:
        result = context.audit(audit, {"epsilon": epsilon})
        yield from accuracy_leak(f"ε = {epsilon}", result)
    yield from accuracy_leak(INFINITE, context.audit(audit, UNDEFENDED))


def _calibrate(context: RecipeContext, *keys: AuditKeys) -> NoiseGroup:
    """The mechanism of an audit at each ε."""
    made = {f"ε = {e}": context.mechanism(*keys, {"epsilon": e}) for e in EPSILONS}
    return NoiseGroup(made["ε = 1"], made)


def privacy_and_utility(
    context: RecipeContext, audit: AuditKeys, metric: Metric
) -> Iterator[MeasuredValue]:
    """Utility and leakage of a mechanism at each ε, without examples and without privacy.

    metric: The kind of utility.
    Yields: Utility of each setting, then leakage.
    """
    groups = [
        NoiseGroup.of("0-shot", ZeroShot()), _calibrate(context, audit),
        NoiseGroup.of(INFINITE, FewShot()),
    ]  # fmt: skip
    yield from utility(context, SHOTS, groups, metric)
    yield from leakage_by_epsilon(context, audit)


def privacy_and_utility_by_model(
    context: RecipeContext, audit: AuditKeys, metric: Metric
) -> Iterator[MeasuredValue]:
    """Utility and leakage at each ε, for each model.

    metric: The kind of utility.
    Yields: Utility and leakage, model after model.
    """
    for address in context.models:
        for row in privacy_and_utility(context.with_model(address), audit, metric):
            yield replace(row, setting=_with_model(context, address, row.setting))


def examples_and_partitions(
    context: RecipeContext, audit: AuditKeys, sizes: Mapping[str, Mapping[str, int]],
    sentences: int = 1,
) -> Iterator[MeasuredValue]:  # fmt: skip
    """Utility, then leakage at the smallest and largest ε, for several sizes of a context.

    sizes: `shots` and `partitions` of each setting. sentences: Different sentences of the bundled
    free-text rows, of which an example holds one.
    Yields: ROUGE-1 and leakage of each setting.
    """
    for setting, size in sizes.items():
        shots = size["shots"]
        keys = {"shots": shots, "mechanism": {"partitions": size["partitions"]}}
        groups = [_calibrate(context, audit, keys), NoiseGroup.of(INFINITE, FewShot())]
        for row in utility(context, shots, groups, "rouge1", sentences):
            yield replace(row, setting=f"{setting}, {row.setting}")
        for epsilon in (min(EPSILONS), max(EPSILONS)):
            result = context.audit(audit, keys, {"epsilon": epsilon})
            yield from accuracy_leak(f"{setting}, ε = {epsilon}", result)


def spread_of_reruns(context: RecipeContext, audit: AuditKeys) -> Iterator[MeasuredValue]:
    """The spread of the accuracy of one output per context, between audits of different pairs.

    audit: Keys of the audit, with a fixed threshold.
    Yields: For each number of pairs and each ε, the mean accuracy and its standard deviation.
    """
    most, repeats = context.scale.pairs, max(RERUNS, context.scale.repeats)
    seeds = range(context.seed * repeats, (context.seed + 1) * repeats)
    for pairs in dict.fromkeys(max(2, most // part) for part in (4, 2, 1)):
        for epsilon in (1, 4, 10):
            keys = {"pairs": pairs, "epsilon": epsilon}
            audits = (context.audit(audit, {**keys, "seed": seed}) for seed in seeds)
            counts = (one.estimate("accuracy_log_odds").counts for one in audits)
            found = [100 * one["correct"] / one["n"] for one in counts]
            setting, deviation = f"{pairs} pairs, ε = {epsilon}", float(np.std(found, ddof=1))
            away = tuple(abs(np.array(found) - np.median(found)).tolist())
            sample = Sample(away, "re-run", f"re-runs of {setting}", "distance from the median, %")
            yield mean_with_error(setting, Quantity.AUDITING_ACCURACY, found)
            yield MeasuredValue(setting, Quantity.DEVIATION, deviation, f"{deviation:.1f}", sample)
