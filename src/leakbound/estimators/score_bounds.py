"""All bounds that the scores of any tool allow. Numbers go in, estimates come out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Literal, get_args

import numpy as np

from leakbound import stats
from leakbound.errors import UsageError
from leakbound.estimators.base import Claim, Observations, PairedScores, TrialDesign
from leakbound.estimators.e_process import EProcess
from leakbound.estimators.error_counts import STATISTICS, by_accuracy, by_log_odds
from leakbound.stats import BestOnSameData, Bonferroni, Estimate, Fixed, Split
from leakbound.stats.arrays import Floats
from leakbound.stats.counts.one_run import Ranked
from leakbound.stats.counts.unconditional import unconditional, unconditional_mu
from leakbound.stats.curves.curves import FromCounts, clean_scores, error_cells

DecidingName = Literal["e_process", "clopper_pearson", "unconditional", "one_run"]
DECIDING: tuple[DecidingName, ...] = ("e_process", "clopper_pearson", "unconditional", "one_run")
LOW_FPR = (0.1, 0.01, 0.001)
WITHIN_PAIR = "it assumes independent trials, and the trials of a pair may share randomness"
ONE_THRESHOLD = "it needs a single threshold, and several are tried"
UNEQUAL = "it needs equal numbers of member and non-member trials"
ONE_SYSTEM = "it assumes independent trials, and the scores of one run come from one system"
NOT_ONE_RUN = "it is for records of one run, each put in by a separate fair coin (--design one_run)"
UNFAIR = 1e-6  # error of calling fair coins unfair
IN_ORDER = "trials are read in an order that does not depend on any score"
ScoreDesign = Literal["paired", "unpaired", "one_run"]
ScoreRule = Fixed | Split | Bonferroni | BestOnSameData | Ranked
FINITE = 1e300  # replaces infinite scores, between which there is no midpoint
MOST_LEVELS = 15  # thresholds of the e-process: quantiles that are about 6 % of the scores apart


@dataclass(frozen=True, slots=True, repr=False)
class ScoredTrials:
    """Scores of member and non-member trials, higher for members.

    Args:
        member: (n,) scores of trials with the record.
        nonmember: (m,) scores of trials without it; m = n in a paired design.
        design: "paired": trial i of both sides belongs to one pair, and pairs are independent.
            "unpaired": all trials are independent, and identically distributed on each side.
            "one_run": all scores come from one system, into which each record was put by an
            independent fair coin.
        in_order: Whether scores are in the order in which the trials were made. Otherwise they are
            shuffled, because tools may sort scores, and a sorted order reveals the next score.

    Raises:
        UsageError: If a side has no score, one is NaN, or paired sides differ in length.
    """

    member: Floats
    nonmember: Floats
    design: ScoreDesign = "unpaired"
    in_order: bool = False

    def __post_init__(self) -> None:
        if self.design not in get_args(ScoreDesign):
            known = ", ".join(get_args(ScoreDesign))
            raise UsageError(f"design is {self.design!r}; it must be one of {known}.")
        for name in ("member", "nonmember"):
            found = clean_scores(name, getattr(self, name)).clip(-FINITE, FINITE)
            object.__setattr__(self, name, found)
        if self.design == "paired" and len(self.member) != len(self.nonmember):
            raise UsageError(
                f"there are {len(self.member)} member and {len(self.nonmember)} non-member scores; "
                "paired trials have one of each per pair. If the trials are not paired, say so "
                "with --design unpaired."
            )
        if self.design == "one_run" and self.in_order:
            raise UsageError("one_run has no order of trials; remove --in-order.")

    def shuffled(self, seed: int) -> ScoredTrials:
        """The trials in an order that depends on no score. Pairs stay together in a paired design,
        and trials in order are unchanged."""
        if self.in_order:
            return self
        rng = np.random.default_rng(seed)
        member = rng.permutation(len(self.member))
        other = member if self.design == "paired" else rng.permutation(len(self.nonmember))
        return replace(self, member=self.member[member], nonmember=self.nonmember[other])

    def divided(self, fraction: float) -> tuple[ScoredTrials, ScoredTrials]:
        """Split each side into its first trials, a share in (0, 1) of them, and all others."""
        first, other = (int(fraction * len(side)) for side in (self.member, self.nonmember))
        if not (first and other):
            raise UsageError(
                f"{len(self.member)} member and {len(self.nonmember)} non-member scores leave none "
                f"to choose a threshold on (a share of {fraction:g}); give --threshold, a number "
                "that was fixed beforehand."
            )
        held = replace(self, member=self.member[:first], nonmember=self.nonmember[:other])
        rest = replace(self, member=self.member[first:], nonmember=self.nonmember[other:])
        return held, rest

    @property
    def swapped(self) -> ScoredTrials:
        """The trials with members and non-members exchanged, as a two-sided test needs them."""
        return replace(self, member=self.nonmember, nonmember=self.member)

    @property
    def sizes(self) -> tuple[int, int]:
        return len(self.member), len(self.nonmember)

    @property
    def pairs(self) -> PairedScores:
        """One trial of each side per pair; as many pairs as the shorter side has trials."""
        most = min(self.sizes)
        return PairedScores(self.member[:most], self.nonmember[:most])


@dataclass(frozen=True, slots=True)
class _ChosenThreshold:
    tau: float | None
    levels: tuple[float, ...]
    text: str


def choose_threshold(
    trials: ScoredTrials, rule: Fixed | Split | Bonferroni
) -> tuple[_ChosenThreshold, ScoredTrials]:
    """Choose a threshold that depends on no returned trial, and remove those that chose it."""
    if isinstance(rule, Fixed):
        return _ChosenThreshold(rule.value, (rule.value,), str(rule)), trials
    if isinstance(rule, Bonferroni):
        if not rule.values:
            raise UsageError("bonferroni needs its thresholds, such as --threshold 0.2,0.5,0.8.")
        return _ChosenThreshold(None, tuple(sorted(rule.values)), str(rule)), trials
    held, rest = trials.divided(rule.fraction)
    tau = stats.best_threshold(held.member, held.nonmember)
    text = (
        f"split: {tau:g}, chosen on {len(held.member)} member and {len(held.nonmember)} non-member "
        "scores, which enter no bound"
    )
    return _ChosenThreshold(tau, _levels(held, tau), text), rest


def _levels(held: ScoredTrials, tau: float) -> tuple[float, ...]:
    """Thresholds between held-out scores, spaced by quantiles."""
    values = np.sort(np.concatenate([held.member, held.nonmember]))
    at = np.unique(np.linspace(0, values.size - 1, MOST_LEVELS + 1).astype(int))
    between = (values[at][1:] + values[at][:-1]) / 2
    return tuple(np.unique(np.append(between, tau)).tolist())


@dataclass(frozen=True, slots=True)
class ScoreBounds:
    """Estimates from scores.

    Args:
        design: How the trials were made.
        delta: Value of delta at which every epsilon is stated.
        confidence: Confidence of every bound.
        counts: Numbers of scores. member, nonmember: all scores; tested_member, tested_nonmember:
            scores that enter bounds; pairs: trials of the e-process.
        threshold: How the threshold was chosen, in words.
        levels: Thresholds that were tried.
        seed: Seed of the order; None if the trials are in their own order.
        estimates: Estimates of each method.
        left_out: Methods that do not apply, with the reason.
        rates: Point estimates from all scores: AUROC with its standard error, and TPR at low FPR.
    """

    design: str
    delta: float
    confidence: float
    counts: Mapping[str, int]
    threshold: str
    levels: tuple[float, ...]
    seed: int | None
    estimates: tuple[Estimate, ...]
    left_out: Mapping[str, str]
    rates: Mapping[str, float]

    def estimate(self, method: str) -> Estimate:
        """The estimate of one method, such as "clopper_pearson"."""
        found = next((one for one in self.estimates if one.method == method), None)
        if found is None:
            why = self.left_out.get(method, "it is not known")
            applied = ", ".join(one.method for one in self.estimates if one.kind == "lower_bound")
            raise UsageError(
                f"{method} does not apply to these scores: {why}. Those that do: {applied}."
            )
        return found

    def largest(self, method: DecidingName) -> float:
        """The bound of a method that may decide if every score is on the right side of the
        threshold."""
        n, m = self.counts["tested_member"], self.counts["tested_nonmember"]
        if method == "one_run":
            made = self.estimate(method).counts
            given = (made["canaries"], made["guesses"], made["guesses"])
            return stats.one_run(*given, self.delta, self.confidence).epsilon or 0.0
        if method == "e_process":
            design = _design(self.counts["pairs"], self.levels, self.delta, self.confidence, False)
            return EProcess().largest_certifiable(design, self.counts["pairs"]).epsilon
        tried = 1 if self.estimate(method).threshold == self.threshold else len(self.levels)
        perfect = (n, 0, 0, m, self.delta, 1 - (1 - self.confidence) / tried, "")
        return STATISTICS[method].epsilon(*perfect).epsilon or 0.0


def score_bounds(
    trials: ScoredTrials,
    delta: float = 0.0,
    confidence: float = 0.95,
    rule: ScoreRule | None = None,
    seed: int = 0,
) -> ScoreBounds:
    """Every bound that scores of member and non-member trials allow.

    Args:
        trials: Scores, higher for members, and how they were made.
        delta: Failure probability at which epsilon is stated, in [0, 1).
        confidence: Confidence of each single bound, in (0, 1).
        rule: How the threshold is chosen; by default `Split()`, and `Ranked()` for one run.
        seed: Seed of the order in which trials are read, unless they are in their own order.

    Raises:
        UsageError: If an argument lies outside its range, the rule chooses on the tested trials, or
            there are too few trials.

    Guarantee:
        Each lower bound exceeds the truth with probability at most 1 - confidence, if the trials
        were made as their design says. This does not hold for the best of several bounds.

    Reference:
        See each method; Steinke, Nasr and Jagielski (NeurIPS 2023) for one run.

    Examples:
        >>> import numpy as np
        >>> found = score_bounds(ScoredTrials(np.arange(200.0) + 150, np.arange(200.0)))
        >>> [one.method for one in found.estimates if one.kind == "lower_bound"][:2]
        ['e_process', 'e_process_mu']
        >>> found.estimate("clopper_pearson").epsilon > 1
        True
    """
    if isinstance(rule, BestOnSameData):
        raise UsageError(
            "a threshold chosen on the tested trials gives no valid bound; use --threshold split."
        )
    if isinstance(rule, Ranked) and trials.design != "one_run":
        raise UsageError("guesses by rank are for one run; use --threshold split, or a number.")
    if trials.design == "one_run":
        return _of_one_run(trials, delta, confidence, rule or Ranked(), seed)
    plain = rule if isinstance(rule, Fixed | Split | Bonferroni) else Split()
    chosen, tested = choose_threshold(trials.shuffled(seed), plain)
    counts = _counts(trials, tested)
    design = _design(counts["pairs"], chosen.levels, delta, confidence, trials.in_order)
    counted, left_out = _from_counts(tested, chosen, delta, confidence)
    return ScoreBounds(
        trials.design, delta, confidence, counts, chosen.text, chosen.levels,
        None if trials.in_order else seed,
        (*_e_process(tested.pairs, design, chosen), *counted), {**left_out, "one_run": NOT_ONE_RUN},
        _rates(trials),
    )  # fmt: skip


def _counts(trials: ScoredTrials, tested: ScoredTrials) -> dict[str, int]:
    (all_in, all_out), (member, nonmember) = trials.sizes, tested.sizes
    return {
        "member": all_in, "nonmember": all_out, "tested_member": member,
        "tested_nonmember": nonmember, "pairs": min(member, nonmember),
    }  # fmt: skip


def _design(
    pairs: int, levels: tuple[float, ...], delta: float, confidence: float, in_order: bool
) -> TrialDesign:
    """Design of the e-process. If trials are in order, more may follow, so it has no horizon."""
    return TrialDesign(
        Claim(1.0, delta), confidence=confidence, pairs=pairs, levels=levels, early_stop=in_order,
        draws=1,
    )  # fmt: skip


def _e_process(
    scores: PairedScores, design: TrialDesign, chosen: _ChosenThreshold
) -> Iterator[Estimate]:
    single = PairedScores(scores.member[:, None], scores.nonmember[:, None])
    observer = EProcess().begin(design)
    observer.observe(Observations(0, len(scores), trial_scores=scores, simulated_scores=single))
    few = f"{len(chosen.levels)} thresholds; {chosen.text}"
    for one in observer.bounds():
        yield replace(one, threshold=few, assumptions=(*one.assumptions, IN_ORDER))


def _from_counts(
    trials: ScoredTrials, chosen: _ChosenThreshold, delta: float, confidence: float
) -> tuple[list[Estimate], dict[str, str]]:
    """Estimates from error counts, and why the other methods do not fit."""
    n, m = trials.sizes
    paired = WITHIN_PAIR if trials.design == "paired" else None
    several = ONE_THRESHOLD if chosen.tau is None else None
    unequal = UNEQUAL if n != m else None
    methods: tuple[tuple[FromCounts, str, str | None], ...] = (
        (stats.clopper_pearson, "clopper_pearson", None),
        (stats.gdp, "gdp", None),
        (unconditional, "unconditional", paired),
        (unconditional_mu, "unconditional_mu", paired),
        (stats.joint_beta, "joint_beta", paired or several),
        (by_accuracy, "accuracy_bound", paired or several or unequal),
        (by_log_odds, "", several or unequal),
    )
    left_out = {name: why for _, name, why in methods if name and why is not None}
    fitting = (formula for formula, _, why in methods if why is None)
    if chosen.tau is None:
        tried = (trials.member, trials.nonmember, chosen.levels, delta, confidence)
        return [stats.bonferroni(formula, *tried) for formula in fitting], left_out
    cells = error_cells(trials.member, trials.nonmember, chosen.tau)
    given = (*cells, delta, confidence, chosen.text)
    return [formula(*given) for formula in fitting], left_out


def _of_one_run(
    trials: ScoredTrials, delta: float, confidence: float, rule: ScoreRule, seed: int
) -> ScoreBounds:
    members, others = trials.sizes
    # guesses about unequal numbers are right more often than a coin without any leak
    if stats.binomial_lower(max(members, others), members + others, UNFAIR) > 0.5:
        raise UsageError(
            f"{members} members and {others} others are not drawn by fair coins, as one_run "
            "assumes; put each record in with probability 1/2, or use another --design."
        )
    mixed, levels = trials.shuffled(seed), tuple[float, ...]()
    if isinstance(rule, Ranked):
        tested, text = mixed, rule.describe(sum(mixed.sizes))
        guessed, right = _rank(mixed, rule, seed)
    else:
        plain = rule if isinstance(rule, Fixed | Split | Bonferroni) else Split()
        chosen, tested = choose_threshold(mixed, plain)
        if chosen.tau is None:
            raise UsageError("one_run guesses at one threshold; use --threshold rank or split.")
        levels, text = chosen.levels, chosen.text
        guessed = sum(tested.sizes)
        right = int((tested.member >= chosen.tau).sum() + (tested.nonmember < chosen.tau).sum())
    bound = stats.one_run(sum(tested.sizes), guessed, right, delta, confidence)
    without = ("e_process", "clopper_pearson", "unconditional", "joint_beta", "gdp")
    left_out = dict.fromkeys(without, ONE_SYSTEM)
    return ScoreBounds(
        "one_run", delta, confidence, _counts(trials, tested), text, levels, seed,
        (replace(bound, threshold=text),), left_out, _rates(trials),
    )  # fmt: skip


def _rank(trials: ScoredTrials, rule: Ranked, seed: int) -> tuple[int, int]:
    """(guesses, right guesses); equal scores are in an order that does not depend on the coins."""
    scores = np.concatenate([trials.member, trials.nonmember])
    coins = np.repeat([1, -1], trials.sizes)
    order = np.random.default_rng([seed, 1]).permutation(scores.size)
    made = rule.guesses(scores[order])
    return int(np.abs(made).sum()), int((made == coins[order]).sum())


def _rates(trials: ScoredTrials) -> dict[str, float]:
    area = stats.auroc(trials.member, trials.nonmember)
    low = ((f"tpr_at_fpr_{fpr:g}", stats.tpr_at_fpr(trials.member, trials.nonmember, fpr))
           for fpr in LOW_FPR)  # fmt: skip
    error = stats.auroc_standard_error(area, *trials.sizes)
    return dict(chain([("auroc", area), ("auroc_standard_error", error)], low))
