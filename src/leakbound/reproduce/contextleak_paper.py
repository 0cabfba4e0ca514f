"""ContextLeak: its table and figures. Audits are ours; printed numbers are those of the text."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from leakbound.mechanisms import EmbeddingMean, FewShot, ReportNoisyMax, ZeroShot
from leakbound.reproduce.context import RecipeContext
from leakbound.reproduce.metrics import ACCURACY, ODDS, accuracy_leak
from leakbound.reproduce.recipe import NO_NUMBERS, Measured, Printed, recipe
from leakbound.reproduce.rounds import ACCURACY as RIGHT
from leakbound.reproduce.rounds import ROUGE_1, spread, utility
from leakbound.stats import accuracy_bound, accuracy_log_odds, cut
from leakbound.tuning import tune

__all__ = ["RECIPES", "TABLE_1"]

EPSILONS, DELTA, SHOTS, PARTITIONS = (1, 2, 4, 8), 1e-5, 20, 10
INFINITE = "ε = ∞"
COLUMNS = (*(f"ε = {e}" for e in EPSILONS), INFINITE)
TABLE_1: dict[
    str, tuple[tuple[float, float], ...]
] = {  # (epsilon, accuracy in percent) of each column
    "llama docvqa": ((0.37, 59.2), (0.65, 65.8), (1.16, 76.2), (2.04, 88.5), (3.39, 96.8)),
    "llama samsum": ((0.38, 59.4), (0.69, 66.6), (1.10, 75.0), (2.02, 88.3), (3.11, 95.8)),
    "llama sarcasm": ((0.32, 58.0), (0.66, 65.9), (0.93, 71.8), (1.59, 83.0), (3.18, 96.0)),
    "llama subj": ((0.29, 57.2), (0.51, 62.6), (0.92, 71.6), (1.45, 81.0), (2.51, 92.5)),
    "qwen docvqa": ((0.40, 59.9), (0.57, 63.9), (1.11, 75.1), (1.67, 84.1), (2.44, 92.0)),
    "qwen samsum": ((0.41, 59.4), (0.60, 64.7), (1.01, 74.5), (1.63, 83.7), (2.42, 91.7)),
    "qwen sarcasm": ((0.33, 57.0), (0.61, 64.3), (0.88, 70.3), (1.45, 80.1), (3.10, 95.6)),
    "qwen subj": ((0.32, 56.5), (0.53, 62.3), (0.85, 70.1), (1.34, 79.5), (2.09, 90.7)),
}
QUERIES = (400, 100)
STRONG: dict[str, Any] = {
    "attack": "if_then_explicit",
    "canary": "false_fact",
    "shots": SHOTS,
    "partitions": PARTITIONS,
}
DIRECTION: dict[str, Any] = {
    **STRONG,
    "mechanism": "embedding_mean",
    "score": "reference_direction",
}
POINT = (
    "The paper turns the accuracy into ε by log odds, a point estimate of trials whose threshold "
    "was chosen on them; beside it stands our "
    "lower bound by the e-process, which has a confidence. "
)
OURS = (
    "Ours: the model, rows and number of pairs named below, our own words for queries, canaries "
    "and defences, two worlds a pair instead "
    "of a coin for each query, the analytic calibration. "
)


def _certified(accuracy: float, queries: int) -> float:
    """What an accuracy in percent over so many queries certifies at 95 %; half a right answer
    counts as one.
    """
    return accuracy_bound(math.floor(accuracy * queries / 100 + 0.5), queries).epsilon or 0.0


def _conversions(lab: RecipeContext) -> Iterator[Measured]:
    for row, cells in TABLE_1.items():
        for column, (_, accuracy) in zip(COLUMNS, cells, strict=True):
            odds = accuracy_log_odds(round(10 * accuracy), 1000).epsilon or 0.0
            yield Measured(f"{row}, {column}", ODDS, odds, f"{odds:.2f}")
            for n in QUERIES:
                bound = _certified(accuracy, n)
                yield Measured(
                    f"{row}, {column}", f"ε ≥ with {n} queries, 95 %", bound, f"≥ {cut(bound)}"
                )


def _table_1() -> Iterator[Printed]:
    for row, cells in TABLE_1.items():
        for column, (epsilon, accuracy) in zip(COLUMNS, cells, strict=True):
            yield Printed(f"{row}, {column}", ODDS, epsilon, f"beside {accuracy} %")


def _accuracies(*rows: str) -> Iterator[Printed]:
    """Of Table 1, which holds the accuracies that the figures show."""
    for row in rows:
        for column, (epsilon, accuracy) in zip(COLUMNS, TABLE_1[row], strict=True):
            yield Printed(column, ACCURACY, accuracy, f"Table 1, {row}")
            yield Printed(column, ODDS, epsilon, f"Table 1, {row}")


def _shape(setting: str, words: str, where: str, what: str = ACCURACY) -> Printed:
    return Printed(setting, what, words, f"{NO_NUMBERS}; {where}")


def _defences(lab: RecipeContext) -> Iterator[Measured]:
    prompted: list[dict[str, Any]] = [
        {"mechanism": "prompt_defense", "level": level} for level in (1, 2)
    ]
    levels = [{"mechanism": "few_shot"}, *prompted, {"mechanism": "judge_defense"}]
    for attack, fields in (("injection", {"attack": "injection"}), ("our attack", STRONG)):
        for level, defence in enumerate(levels):
            made = {**fields, **defence, "shots": 3, "partitions": 1}
            yield from accuracy_leak(f"L{level}, {attack}", lab.audit(**made))


def _grid(lab: RecipeContext) -> Iterator[Measured]:
    for address in lab.models:
        for canary in ("hex", "unigram", "false_fact"):
            for query in ("input_output", "if_then_explicit", "if_then_implicit"):
                fields = {
                    **STRONG,
                    "mechanism": "report_noisy_max",
                    "epsilon": 8,
                    "canary": canary,
                    "attack": query,
                }
                yield from accuracy_leak(
                    _beside(lab, address, f"{query}, {canary}"), lab.audit(**fields, model=address)
                )


def _beside(lab: RecipeContext, address: str, setting: str) -> str:
    return setting if len(lab.models) == 1 else f"{setting}, {address}"


def _optimised(lab: RecipeContext) -> Iterator[Measured]:
    fields = {
        **STRONG,
        "mechanism": "report_noisy_max",
        "epsilon": 10,
        "canary": "hex",
        "attack": "membership",
    }
    yield from accuracy_leak("before", lab.audit(**fields))
    spec = lab.spec(**fields)
    found = tune(spec, max_calls=100 * lab.sizes.pairs, pairs=max(2, lab.sizes.pairs // 4), reflection="none",
                 out=lab.out / "runs", model=lab.model(), tell=lab.tell)  # fmt: skip
    for setting, value in (("before", found.before), ("after", found.after)):
        yield Measured(setting, "accuracy on the pilot, %", 100 * value, f"{100 * value:.1f}")
    yield from accuracy_leak(
        "after", lab.audit(**{**fields, "attack": "given", "query_text": found.best})
    )


def _audits(lab: RecipeContext, **fields: Any) -> Iterator[Measured]:
    for epsilon in EPSILONS:
        yield from accuracy_leak(f"ε = {epsilon}", lab.audit(**fields, epsilon=epsilon))
    plain = {name: value for name, value in fields.items() if name != "score"}
    yield from accuracy_leak(INFINITE, lab.audit(**{**plain, "mechanism": "few_shot"}))


def _noisy(kind: Any, partitions: int) -> tuple[Any, dict[str, Any]]:
    made = {f"ε = {e}": kind.calibrated(e, DELTA, partitions) for e in EPSILONS}
    return made["ε = 1"], made


def _trade_off(lab: RecipeContext, kind: Any, what: Any, **fields: Any) -> Iterator[Measured]:
    families = [
        (ZeroShot(), {"0-shot": ZeroShot()}),
        _noisy(kind, PARTITIONS),
        (FewShot(), {INFINITE: FewShot()}),
    ]
    yield from utility(lab, SHOTS, families, what)
    yield from _audits(lab, **fields)


def _factor(lab: RecipeContext, settings: Sequence[tuple[str, int, int]]) -> Iterator[Measured]:
    """ESA with so many examples and partitions:

    utility, then the audit, at the largest and smallest epsilon.
    """
    for setting, shots, partitions in settings:
        for row in utility(
            lab,
            shots,
            [_noisy(EmbeddingMean, partitions), (FewShot(), {INFINITE: FewShot()})],
            "rouge1",
        ):
            yield Measured(f"{setting}, {row.setting}", row.what, row.value, row.shown)
        for epsilon in (1, 8):
            fields = {**DIRECTION, "shots": shots, "partitions": partitions, "epsilon": epsilon}
            yield from accuracy_leak(f"{setting}, ε = {epsilon}", lab.audit(**fields))


def _reruns(lab: RecipeContext) -> Iterator[Measured]:
    """The spread of the accuracy of one release a world, between audits of other pairs."""
    for pairs in dict.fromkeys(max(2, lab.sizes.pairs // part) for part in (4, 2, 1)):
        for epsilon in (1, 4, 10):
            found = [
                _one_release(lab, pairs, epsilon, seed) for seed in range(max(2, lab.sizes.repeats))
            ]
            setting = f"{pairs} pairs, ε = {epsilon}"
            deviation = float(np.std(found, ddof=1))
            yield spread(setting, ACCURACY, found)
            yield Measured(setting, "standard deviation of it", deviation, f"{deviation:.1f}")


def _one_release(lab: RecipeContext, pairs: int, epsilon: float, seed: int) -> float:
    fields = {
        **STRONG,
        "mechanism": "report_noisy_max",
        "score": "predicted_member",
        "threshold": 0.5,
    }
    counts = (
        lab.audit(**fields, epsilon=epsilon, seed=seed, pairs=pairs)
        .estimate("accuracy_log_odds")
        .counts
    )
    return 100 * counts["correct"] / counts["n"]


def _models(lab: RecipeContext) -> Iterator[Measured]:
    for address in lab.models:
        for row in _trade_off(
            lab.on(address), ReportNoisyMax, "accuracy", **STRONG, mechanism="report_noisy_max"
        ):
            yield Measured(_beside(lab, address, row.setting), row.what, row.value, row.shown)


RNM = {**STRONG, "mechanism": "report_noisy_max"}
RECIPES = (
    recipe(
        "contextleak/table1", "empirical ε of auditing accuracies", "ln(a/(1 − a)) of the accuracies that the table prints, and what so many queries certify.",
        _table_1(),
        "All 20 values of llama follow from the accuracies beside them, up to the rounding of "
        "those. Of the 20 values of qwen 12 do not: "
        "no accuracy that rounds to the printed one has the printed ε, and the paper does not say "
        "why. The bounds are ours: "
            "accuracy_bound at 95 % for independent trials whose threshold was fixed beforehand, "
            "which a point estimate does not give.",
        _conversions, needs="nothing",
    ),
    recipe(
        "contextleak/fig3", "our attack and prompt injection against four levels of defence", "Who stops theft of examples does not stop membership.",
        (*(_shape(f"L{i}, injection", words, "Figure 3") for i, words in enumerate(("full leakage", "may get past", "may get past", "near 50"))),
         *(_shape(f"L{i}, our attack", "full leakage", "Figure 3") for i in range(4))),
        OURS + "The judge is the audited model itself, not GPT-5. Contexts hold three examples, so that a whole one fits into a free answer.",
        _defences,
    ),
    recipe(
        "contextleak/fig4", "canaries by queries", "Which canary shows under which query.",
        (_shape("input_output, hex", "the strongest", "Section 4.2"), _shape("if_then_implicit, hex", "weak", "Section 4.2")),
        OURS + "The text names neither mechanism nor ε; ours is report_noisy_max at ε = 8. The rare words of our unigram canary are five, not sixteen. " + POINT,
        _grid,
    ),
    recipe(
        "contextleak/fig5", "the optimised query", "A searched wording does better than the one it starts from.",
        (_shape("after", "above before", "Figure 5"),),
        OURS + "The search starts from the membership and tries the rewrites of this package on pilot pairs (GPT-5 under GEPA in the paper; `leakbound "
        "tune` does that with a model of yours). The pilot accuracy of the best of many is optimistic; the audit below it uses other pairs. " + POINT,
        _optimised,
    ),
    recipe(
        "contextleak/fig6", "leakage of report noisy max by ε", "Accuracy grows with the theoretical ε.",
        _accuracies("llama subj", "llama sarcasm", "qwen subj", "qwen sarcasm"), OURS + POINT + "ε = ∞ is few_shot.",
        lambda lab: _audits(lab, **RNM),
    ),
    recipe(
        "contextleak/fig7", "leakage of embedding aggregation by ε", "Accuracy grows with the theoretical ε.",
        _accuracies("llama samsum", "llama docvqa", "qwen samsum", "qwen docvqa"),
        OURS + POINT + "The reference direction is learnt on pilot pairs that enter no bound. Without --embedder, embeddings are the model's own. ε = ∞ is few_shot.",
        lambda lab: _audits(lab, **DIRECTION),
    ),
    recipe(
        "contextleak/fig8", "privacy and utility of report noisy max", "Utility jumps from 0-shot to ε = 1 and then stays.",
        (*_accuracies("llama subj", "llama sarcasm"), _shape("0-shot", "lowest", "Section 5.1", RIGHT), _shape("ε = 1", "far above 0-shot", "Section 5.1", RIGHT),
         _shape("ε = 8", "about as at ε = 1", "Section 5.1", RIGHT)),
        OURS + POINT + "Utility is the expected accuracy over the noise.", lambda lab: _trade_off(lab, ReportNoisyMax, "accuracy", **RNM),
    ),
    recipe(
        "contextleak/fig9", "privacy and utility of embedding aggregation", "Utility grows slowly with ε; without aggregation it is far higher.",
        (*_accuracies("llama samsum", "llama docvqa"), _shape("ε = 8", "above ε = 1", "Section 5.2", ROUGE_1), _shape(INFINITE, "much higher", "Section 5.2", ROUGE_1)),
        OURS + POINT + "On the bundled rows the free task is to end a sentence that every example shares.", lambda lab: _trade_off(lab, EmbeddingMean, "rouge1", **DIRECTION),
    ),
    recipe(
        "contextleak/fig10", "number of examples, at a fixed number of partitions", "The audit hardly changes; utility without aggregation grows.",
        (_shape("40 examples, ε = 8", "about as with 10", "Section 6.1"), _shape(f"40 examples, {INFINITE}", "above 10", "Section 6.1", ROUGE_1)),
        OURS + POINT, lambda lab: _factor(lab, [(f"{n} examples", n, PARTITIONS) for n in (10, 20, 40)]),
    ),
    recipe(
        "contextleak/fig11", "number of partitions, at 20 examples", "Neither leakage nor utility changes much.",
        (_shape("20 partitions, ε = 8", "about as with 5", "Section 6.2"), _shape("20 partitions, ε = 8", "about as with 5", "Section 6.2", ROUGE_1)),
        OURS + POINT + "The text does not name the mechanism; ours is embedding_mean, as in Figure 10.", lambda lab: _factor(lab, [(f"{n} partitions", SHOTS, n) for n in (5, 10, 20)]),
    ),
    recipe(
        "contextleak/fig14", "spread of the accuracy by number of re-runs", "The spread falls as runs are added.",
        (_shape("all settings", "falls with the number of runs", "Section 6.3", "standard deviation of it"),),
        OURS + "A run is one release of each world of a pair, black box, with the fixed threshold of the answer itself; the spread is that between audits of other pairs (--repeats).",
        _reruns,
    ),
    recipe(
        "contextleak/fig15", "smaller models", "Utility as in larger models, leakage much lower.",
        (_shape("ε = 8", "much lower than of larger models", "Section 6.4"), _shape("ε = 1", "above 0-shot", "Section 6.4", RIGHT)),
        OURS + POINT + "Give --model several times to compare models.", _models,
    ),
)  # fmt: skip
