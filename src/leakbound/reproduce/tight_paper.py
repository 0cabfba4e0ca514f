"""Tight auditing of DP in-context learning (XL):

its figures, its table of signal texts, and what it derives without a model.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from scipy.special import ndtr

from leakbound.attacks import Attack, DistanceGap, Natural, SignalPair
from leakbound.attacks.templates import SIGNAL_MEMBER, SIGNAL_NONMEMBER
from leakbound.auditing.design import design
from leakbound.mechanisms import EmbeddingMean, FewShot, ReportNoisyMax, ZeroShot
from leakbound.models import Complete, Embed, Model, Request
from leakbound.models.wrappers import Wrapper
from leakbound.privacy import calibrate_gaussian, gdp_epsilon
from leakbound.reproduce.context import RecipeContext
from leakbound.reproduce.metrics import BOOTSTRAP, gaussian_leak
from leakbound.reproduce.recipe import NO_NUMBERS, Measured, Printed, recipe
from leakbound.reproduce.rounds import ACCURACY, ROUGE_L, utility
from leakbound.stats import exact_privacy_loss, gdp
from leakbound.tasks import GaussianLaw

__all__ = ["DISTANCES", "RECIPES"]

R = TypeVar("R")
EPSILONS, DELTA, PARTITIONS, PER_PART, TRIALS = (1, 2, 4, 8), 1e-5, 4, 2, 200_000
CLASSES: dict[str, Any] = {
    "mechanism": "report_noisy_max",
    "attack": "membership",
    "canary": "natural",
    "calibration": "classical",
}
TEXTS: dict[str, Any] = {**CLASSES, "mechanism": "embedding_mean", "attack": "signal_pair"}
ACCESS: Mapping[str, dict[str, Any]] = {"black box": {"score": "predicted_member"}, "white box": {}}
DISTANCES = (0.7476, 0.645, 0.5562, 0.4628, 0.1022)
SIGNALS = (  # ours, from far apart to near
    (SIGNAL_MEMBER, SIGNAL_NONMEMBER),
    ('["Found",]', "[]"),
    ("A green tram climbs the hill at noon.", "A white ferry crosses the strait at dusk."),
    ("The home side took the cup with ease.", "The visitors earned the cup in the end."),
    ("The lamp in the hall went out twice.", "The lamp in the hall went out once."),
)
FLAWLESS, EXACT, DISTANCE = (
    "flawless model, by resampled trials",
    "exact ε of a flawless model, claim 8",
    "L2 distance of the signals",
)
SIGMA, TRUE, MU, RATIO = (
    "σ of private voting",
    "exact ε of that noise",
    "μ",
    "ln(TPR/FPR), threshold 0",
)
OURS = (
    "Ours: the model, rows and pairs named below, our own words, δ = 1e-5 (the text names none), "
    "the classical formula for σ as in the paper "
    "(its true ε: tight/calibration). The paper's ε treats 400,000 noisy copies of a few hundred "
    "answers as independent trials: a "
    "point estimate, which may exceed the claim; the two rows below it are bounds, the last one "
    "for any mechanism. "
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
        warm: list[Any] = [
            replace(a, temperature=self.temperature) if isinstance(a, Complete) else a
            for a in requests
        ]
        return self.model.answer(warm)


def _cells(
    lab: RecipeContext,
    setting: str,
    fields: dict[str, Any],
    parts: int = PARTITIONS,
    per: int = PER_PART,
    **more: Any,
) -> Iterator[Measured]:
    """Black and white box at one setting."""
    for access, score in ACCESS.items():
        record = lab.audit(**{**fields, **score, "partitions": parts, "shots": parts * per, **more})
        yield from gaussian_leak(f"{setting}, {access}", record)


def _overview(
    lab: RecipeContext, fields: dict[str, Any], baselines: Mapping[str, dict[str, Any]]
) -> Iterator[Measured]:
    for epsilon in EPSILONS:
        yield from _cells(lab, f"ε = {epsilon}", fields, epsilon=epsilon)
        for name, other in baselines.items():
            made = {
                **fields,
                **other,
                "partitions": PARTITIONS,
                "shots": PARTITIONS * PER_PART,
                "epsilon": epsilon,
            }
            yield from gaussian_leak(f"ε = {epsilon}, {name}", lab.audit(**made))


BRAINWASH = {"brainwash, black box": {"attack": "brainwash", "score": "predicted_member"}}
OTHERS = {"repeat, black box": {"attack": "repeat"},
          "reference vector, white box": {"attack": "if_then_explicit", "canary": "false_fact", "score": "reference_direction"}}  # fmt: skip


def _partitions(lab: RecipeContext, fields: dict[str, Any]) -> Iterator[Measured]:
    for parts in (2, 4, 8, 16):
        for epsilon in EPSILONS:
            yield from _cells(lab, f"T = {parts}, ε = {epsilon}", fields, parts, epsilon=epsilon)
            if fields is CLASSES:
                found = flawless(parts, epsilon)
                yield Measured(
                    f"T = {parts}, ε = {epsilon}, black box", FLAWLESS, found, f"{found:.2f}"
                )


def flawless(parts: int, epsilon: float) -> float:
    """What the released label shows of votes (1, T - 1) against (0, T), by expected counts of so
    many trials a world.
    """
    sigma = ReportNoisyMax.calibrated(epsilon, DELTA, parts, "classical").sigma
    tp, fp = (round(TRIALS * float(ndtr((2 * k - parts) / (math.sqrt(2) * sigma)))) for k in (1, 0))
    return gdp(tp, TRIALS - tp, fp, TRIALS - fp, DELTA).details["implied_epsilon"]


def _shots(lab: RecipeContext, fields: dict[str, Any]) -> Iterator[Measured]:
    for per in (1, 2, 4):
        for epsilon in EPSILONS:
            yield from _cells(
                lab, f"{per} a partition, ε = {epsilon}", fields, per=per, epsilon=epsilon
            )


def _trials(lab: RecipeContext, fields: dict[str, Any]) -> Iterator[Measured]:
    for trials in (100, 1000, 10_000, 100_000, 400_000):
        yield from _cells(lab, f"{trials} trials", fields, epsilon=4, simulations=trials)


def _calls(lab: RecipeContext, fields: dict[str, Any]) -> Iterator[Measured]:
    most = lab.sizes.pairs
    for pairs in dict.fromkeys(max(2, most // part) for part in (8, 4, 2, 1)):
        yield from _cells(lab, f"{pairs} pairs asked", fields, epsilon=4, pairs=pairs)


def _temperatures(lab: RecipeContext, fields: dict[str, Any]) -> Iterator[Measured]:
    for heat in (0.2, 0.4, 1.0, 2.0, 3.0):
        warm = lab.behind(lambda model, heat=heat: AtTemperature(model, heat))  # type: ignore[misc]
        yield from _cells(warm, f"temperature {heat:g}", fields, epsilon=4)


def _models(lab: RecipeContext, fields: dict[str, Any]) -> Iterator[Measured]:
    for address in lab.models:
        for epsilon in EPSILONS:
            yield from _cells(
                lab, f"{address}, ε = {epsilon}", fields, epsilon=epsilon, model=address
            )


def _utility(lab: RecipeContext, kind: Any, what: Any) -> Iterator[Measured]:
    for parts in (2, 4, 8):
        made = {f"ε = {e}": kind.calibrated(e, DELTA, parts, "classical") for e in EPSILONS}
        families = [
            (made["ε = 1"], made),
            (ZeroShot(), {"0-shot": ZeroShot()}),
            (FewShot(), {"no privacy": FewShot()}),
        ]
        for row in utility(lab, parts * PER_PART, families, what):
            yield replace(row, setting=f"T = {parts}, {row.setting}")


def _seen(distance: float) -> float:
    """Epsilon when one of T answers moves by `distance`, under noise for a claim of 8 that expects
    a move of 2.
    """
    return gdp_epsilon(distance / calibrate_gaussian(8, DELTA, 2.0, "classical"), DELTA)


def _distances(lab: RecipeContext) -> Iterator[Measured]:
    for number, signals in enumerate(SIGNALS):
        one, other = (
            np.asarray(e, float) for e in lab.model().answer([Embed(text) for text in signals])
        )
        far = float(np.linalg.norm(one / np.linalg.norm(one) - other / np.linalg.norm(other)))
        yield Measured(f"pair {number + 1}", DISTANCE, far, f"{far:.4f}")
        yield Measured(
            f"pair {number + 1}",
            EXACT,
            _seen(far),
            f"{_seen(far):.2f}, at our distance; {_seen(DISTANCES[number]):.2f} at the paper's",
        )


def _signals(lab: RecipeContext) -> Iterator[Measured]:
    yield from _distances(lab)
    for number, signals in enumerate(SIGNALS):
        found = _exact_losses(lab, SignalPair(*signals))
        yield Measured(
            f"pair {number + 1}",
            "exact ε of the pairs asked, mean",
            float(np.mean(found)),
            f"{np.mean(found):.2f}, largest {max(found):.2f}",
        )


def _exact_losses(lab: RecipeContext, query: SignalPair) -> list[float]:
    """The exact loss of every pair of worlds, white box, claim 8."""
    rows, task = lab.rows()
    mechanism = EmbeddingMean.calibrated(8, DELTA, PARTITIONS, "classical")
    worlds = design(
        rows,
        task,
        Attack(Natural(), query, DistanceGap()),
        lab.sizes.pairs,
        PARTITIONS * PER_PART,
        0,
    )
    jobs, draws = (
        [job for p in worlds for job in (p.member, p.nonmember)],
        [p.draw for p in worlds for _ in range(2)],
    )
    laws = [
        mechanism.output_distribution(aggregate)  # type: ignore[arg-type]
        for aggregate in mechanism.collect(task, jobs, draws, lab.model())
    ]
    return [
        exact_privacy_loss(*pair, DELTA).epsilon or 0.0 for pair in zip(laws[::2], laws[1::2], strict=True)
    ]


CLAIMS = ((1, 1e-5), (2, 1e-5), (4, 1e-5), (8, 1e-5), (10, 1e-5), (8, 1e-3))


def _calibration(lab: RecipeContext) -> Iterator[Measured]:
    for epsilon, delta in CLAIMS:
        made = ReportNoisyMax.calibrated(epsilon, delta, 10, "classical")
        setting = f"ε = {epsilon}, δ = {delta:g}"
        yield Measured(setting, SIGMA, made.sigma, f"{made.sigma:.4f}")
        yield Measured(
            setting, TRUE, made.guarantee.epsilon(delta), f"{made.guarantee.epsilon(delta):.3f}"
        )


VOTES = ((1, 2), (1, 4), (2, 4), (1, 10), (5, 10), (10, 10))


def _lemma(lab: RecipeContext) -> Iterator[Measured]:
    sigma = ReportNoisyMax.calibrated(1, DELTA, 10, "classical").sigma
    for k, parts in VOTES:
        one, other = (
            GaussianLaw(np.array([float(v), float(parts - v)]), sigma) for v in (k, k - 1)
        )
        mu = exact_privacy_loss(one, other, DELTA).mu or 0.0
        rates = [float(ndtr((2 * v - parts) / (math.sqrt(2) * sigma))) for v in (k, k - 1)]
        ratio = math.log(rates[0] / rates[1])
        yield Measured(_move(k, parts), MU, mu, f"{mu:.4f}")
        yield Measured(_move(k, parts), RATIO, ratio, f"{ratio:.4f}")


def _move(k: int, parts: int) -> str:
    return f"[{k}, {parts - k}] against [{k - 1}, {parts - k + 1}]"


def _sensitivity(lab: RecipeContext) -> Iterator[Measured]:
    for parts in (1, 2, 4, 8, 16):
        found = EmbeddingMean.calibrated(1, DELTA, parts).guarantee.sensitivity
        yield Measured(f"T = {parts}", "L2 sensitivity of the mean embedding", found, f"{found:g}")


def _says(setting: str, words: str, where: str, what: str = BOOTSTRAP) -> Printed:
    return Printed(setting, what, words, f"{NO_NUMBERS}; {where}")


def _both(setting: str, words: str, where: str) -> tuple[Printed, ...]:
    return tuple(_says(f"{setting}, {access}", words, where) for access in ACCESS)


VOTING, EMBEDDING = "private voting", "embedding aggregation"
RECIPES = (
    recipe("tight/fig5", f"{VOTING}: black box, white box, baseline", "Both attacks see far more than brainwash, and come near the claim.",
            [_says(f"ε = {e}, {a}", w, "Figure 5") for e in EPSILONS for a, w in (("black box", "near the claim"), ("white box", "near the claim"), ("brainwash, black box", "far below"))],
            OURS + "T = 4 throughout; the paper takes the best T.", _overview, CLASSES, BRAINWASH),
    recipe("tight/fig6", f"{VOTING}: number of partitions", "White box: nearly flat in T. Black box: falls to nothing as T grows at large ε.",
            [*_both("T = 2, ε = 1", "high at every T", "Section 4.2"), _says("T = 16, ε = 8, white box", "close to the claim", "Section 4.2"), _says("T = 16, ε = 8, black box", "collapses", "Section 4.2")],
            OURS + "The rows of a flawless model are exact: they show that the label alone stops showing a single vote once T is large against σ.", _partitions, CLASSES),
    recipe("tight/fig7", f"{VOTING}: examples a partition", "Hardly any effect.", _both("4 a partition, ε = 8", "about as with 1", "Section 4.2"), OURS, _shots, CLASSES),
    recipe("tight/fig8", f"{VOTING}: number of simulated trials", "The estimate rises until about 1,000 trials and then stays.",
            [*_both("100 trials", "low and unstable below 10³", "Section 4.2"), *_both("400000 trials", "converged", "Section 4.2")],
            OURS + "More simulated trials make the paper's limits tighter without any new answer; our bounds rest on the pairs asked and hardly move. ε = 4.", _trials, CLASSES),
    recipe("tight/fig9", f"{VOTING}: number of model calls", "100 to 200 calls are enough for the estimate.", [_says("every number above 100–200 calls", "stable", "Section 4.2")],
            OURS + "Our bounds do grow with the pairs asked, which is what a confidence costs. ε = 4.", _calls, CLASSES),
    recipe("tight/fig10", f"{VOTING}: temperature", "Leakage falls with the temperature, most above 2.", _both("temperature 3", "lower than below 2", "Section 4.2"), OURS + "ε = 4.", _temperatures, CLASSES),
    recipe("tight/fig11", f"{VOTING}: models", "The larger model leaks slightly more.", (), OURS + "The paper compares Llama-3-8b-Instruct and GPT-oss-20b and prints no number; give --model several times.", _models, CLASSES),
    recipe("tight/fig12", f"{VOTING}: utility by partitions", "Accuracy improves with T.", [_says("T = 8, ε = 8", "above T = 2", "Section 4.2", ACCURACY)], OURS, _utility, ReportNoisyMax, "accuracy"),
    recipe("tight/fig13", f"{EMBEDDING}: black box, white box, baselines", "Both attacks beat their baselines and stay far below the claim.",
            [Printed("ε = 8, white box", BOOTSTRAP, 4, "“only around 4”, Section 4.3"), *(_says(f"ε = {e}, {name}", "below ours", "Figure 13") for e in EPSILONS for name in OTHERS)],
            OURS + "T = 4 throughout; the paper takes the best T. Noise is made for answers that move by 2, and texts lie nearer: see tight/table3.", _overview, TEXTS, OTHERS),
    recipe("tight/fig14", f"{EMBEDDING}: number of partitions", "Rises until T = 6–8, then falls.", [*_both("T = 8, ε = 8", "near the peak", "Section 4.3"), *_both("T = 16, ε = 8", "lower", "Section 4.3")],
            OURS + "The sensitivity 2/T shrinks exactly as one answer's part in the mean, so for a model that always answers with the right signal μ is the same at every T.", _partitions, TEXTS),
    recipe("tight/fig15", f"{EMBEDDING}: examples a partition", "Falls as examples are added.", _both("4 a partition, ε = 8", "below 1 a partition", "Section 4.3"), OURS, _shots, TEXTS),
    recipe("tight/fig16", f"{EMBEDDING}: number of simulated trials", "Low below 1,000 trials, then stable.", [*_both("100 trials", "low and unstable", "Section 4.3"), *_both("400000 trials", "converged", "Section 4.3")], OURS + "ε = 4.", _trials, TEXTS),
    recipe("tight/fig17", f"{EMBEDDING}: number of model calls", "Stable after 200–400 calls.", [_says("every number above 200–400 calls", "stable", "Section 4.3")], OURS + "ε = 4.", _calls, TEXTS),
    recipe("tight/fig18", f"{EMBEDDING}: distance of the signals", "Grows with the distance.",
            [Printed(f"pair {i + 1}", DISTANCE, d, "Table 3") for i, d in enumerate(DISTANCES)] + [_says("pair 2", "0 in the black box: the zero-shot answer is always the second text", "Section 4.3", EXACT)],
            OURS + "The five pairs of texts are ours. The exact losses are those of the noisy mean (white box), so they need no trials.", _signals),
    recipe("tight/fig19", f"{EMBEDDING}: temperature", "Peaks at a low temperature; 0 in the black box at 0.2 and below.", [_says("temperature 0.2, black box", "0", "Section 4.3"), *_both("temperature 0.4", "near the peak", "Section 4.3")],
            OURS + "Our candidates are the two signals themselves, so the black box does not depend on what a model without examples says. ε = 4.", _temperatures, TEXTS),
    recipe("tight/fig20", f"{EMBEDDING}: models", "The larger model leaks more.", (), OURS + "The paper compares Llama-3-8b-Instruct and GPT-oss-20b and prints no number; give --model several times.", _models, TEXTS),
    recipe("tight/fig21", f"{EMBEDDING}: utility by partitions", "No clear relation.", [_says("T = 8, ε = 8", "within a small range of T = 2", "Section 4.3", ROUGE_L)], OURS, _utility, EmbeddingMean, "rougeL"),
    recipe("tight/table3", "signal texts and their distances", "How far apart two texts lie bounds what their mean can show.", [Printed(f"pair {i + 1}", DISTANCE, d, "Table 3") for i, d in enumerate(DISTANCES)],
            "The texts are ours, and so is the embedder (--embedder); the paper does not name its own. At its distances a model that always answers with the right signal shows at most 2.52 at a claim of 8 if σ is made for 2/T and δ is 1e-5, less than the 4 that Figure 13 speaks of; the text names no δ, and its Algorithm 3 writes σ without T.", _distances),
    recipe("tight/calibration", "noise of private voting, and what it promises", "σ = 2√ln(1.25/δ)/ε, and its true ε.",
            [row for e, d in CLAIMS for row in (Printed(f"ε = {e}, δ = {d:g}", SIGMA, 2 * math.sqrt(math.log(1.25 / d)) / e, "the formula of Section 2"), Printed(f"ε = {e}, δ = {d:g}", TRUE, e, "claimed"))],
            "The formula is proved for ε below 1 only; the exact profile of the Gaussian gives less than the claim at small ε and more at large ones.", _calibration, needs="nothing"),
    recipe("tight/lemma3.1", "what a vote's place changes", "μ does not depend on T or k; ln(TPR/FPR) at threshold 0 does.",
            [Printed(_move(k, t), MU, math.sqrt(2) / ReportNoisyMax.calibrated(1, DELTA, 10, "classical").sigma, "2b/(√2 σ) at b = 1, Appendix D") for k, t in VOTES],
            "Nothing: exact, at ε = 1 and δ = 1e-5.", _lemma, needs="nothing"),
    recipe("tight/lemmaA.1", "sensitivity of the mean embedding", "2/T for embeddings of norm 1.", [Printed(f"T = {t}", "L2 sensitivity of the mean embedding", 2 / t, "Appendix A") for t in (1, 2, 4, 8, 16)],
            "Nothing: exact.", _sensitivity, needs="nothing"),
)  # fmt: skip
