"""Estimators against their definitions, written out: mixtures, columns, crowds, powers, losses."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from itertools import pairwise, product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr

from leakbound.errors import UsageError
from leakbound.estimators import (
    Bounds,
    Claim,
    ClopperPearson,
    EProcess,
    Exact,
    Observations,
    PairedScores,
    ScoredTrials,
    TrialDesign,
    Unconditional,
    score_bounds,
)
from leakbound.estimators.base import ACCURACIES, threshold_rule
from leakbound.estimators.e_process import EValues
from leakbound.estimators.error_counts import AccuracyBound
from leakbound.estimators.exact import KNOWN, POINTS, ProfileSum, _PairValues
from leakbound.estimators.random_guessing import power_against_guessing, two_sided
from leakbound.estimators.served_columns import ServedColumns
from leakbound.estimators.simulated_power import (
    AUDITS,
    MANY,
    MORE,
    Crowd,
    PlainTest,
    YesNo,
    rejection_times,
    simulate_power,
)
from leakbound.privacy import ApproxDP, Gaussian, PureDP
from leakbound.stats import (
    Assumption,
    BestOnSameData,
    Bonferroni,
    CategoricalLaw,
    Fixed,
    GaussianLaw,
    Power,
    Split,
    VoteScores,
    clopper_pearson,
    clopper_pearson_power,
    exact_privacy_loss,
    one_run,
    privacy_profile,
)
from leakbound.stats import EProcess as PlainEProcess
from leakbound.stats.counts.one_run import one_run_power
from leakbound.stats.counts.unconditional import unconditional, unconditional_power
from leakbound.stats.noise.best_votes import BestVotes
from leakbound.stats.power import Leak

Floats = npt.NDArray[np.float64]
CLAIM = Claim(1.0, 1e-5)


# Designs


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (None, Fixed(7.0)),
        ("split", Split()),
        ("split:0.3", Split(0.3)),
        ("bonferroni", Bonferroni()),
        ("best", BestOnSameData()),
        ("-1.5", Fixed(-1.5)),
        (0.25, Fixed(0.25)),
        ("best:0.3", "must be a number"),
        ("bonferroni:2", "must be a number"),
        ("split:x", "must be a number"),
        ("split:0.95", "and its fraction is 0.95"),
        ("nan", "and its value is NaN"),
    ],
)
def test_a_setting_names_a_rule_or_is_refused(text: Any, rule: Any) -> None:
    if isinstance(rule, str):
        with pytest.raises(UsageError, match=rule):
            threshold_rule(text, Fixed(7.0))
    else:
        assert threshold_rule(text, Fixed(7.0)) == rule


@pytest.mark.parametrize(
    ("guarantee", "claim", "first", "mu"),
    [
        (Gaussian(1.0, 4.0), Claim(2.0, 1e-5), "guarantee", 0.25),
        (Gaussian(1.0, 1.0), Claim(2.0, 1e-5), "claim", 1.0),
        (Gaussian(1.0, 4.0), Claim(2.0, 0.0), "claim", 0.25),  # implies no claim at delta 0
        (PureDP(0.1), Claim(2.0, 1e-5), "claim", None),
    ],
)
def test_what_implies_the_other_is_tested_first(
    guarantee: Any, claim: Claim, first: str, mu: float | None
) -> None:
    design = TrialDesign(claim, guarantee)
    assert design.hypotheses[0] == first
    assert len(design.hypotheses) == (1 if mu is None else 2)
    assert design.tested == (guarantee if first == "guarantee" else claim.guarantee())
    assert design.guarantee_mu == mu


def test_a_design_has_the_defaults_of_a_system_that_is_asked_once() -> None:
    design = TrialDesign(CLAIM)
    assert (design.confidence, design.pairs, design.pilot, design.copies) == (0.95, 100, 0, 0)
    assert design.one_answer
    assert replace(design, voters=1).one_answer
    for values in ({"served": True}, {"voters": 2}, {"served": True, "voters": 1}):
        assert not replace(design, **values).one_answer
    assert design.one_side.confidence == pytest.approx(0.975)
    assert (design.horizon, replace(design, early_stop=True).horizon) == (100, None)
    looked = replace(design, first_look=40, early_stop=True)
    assert (looked.horizon, replace(looked, first_look=0).horizon) == (40, None)


def test_estimators_declare_when_their_bounds_hold() -> None:
    """At any time: e-values and certain losses. Together: bounds that each have half the error."""
    for estimator, anytime, simultaneous in (
        (EProcess(), True, False),
        (EProcess().by_channel(), True, False),
        (two_sided(EProcess()), True, False),
        (ClopperPearson(), False, True),
        (two_sided(ClopperPearson()), False, False),
        (Unconditional(), False, False),
        (Exact(), True, True),
    ):
        estimator.check(TrialDesign(CLAIM))
        assert (estimator.anytime, estimator.simultaneous) == (anytime, simultaneous)
        assert estimator.kind == "lower_bound"


@pytest.mark.parametrize(
    ("draws", "served", "of"),
    [(1, False, "score"), (1, True, "score"), (20, True, "distribution"), (20, False, "score")],
)
def test_a_bound_is_read_from_single_outputs_or_from_a_distribution(
    draws: int, served: bool, of: str
) -> None:
    """Of a system that answers once, many draws are its answer again."""
    values = EValues(TrialDesign(CLAIM, pairs=12, served=served, draws=draws))
    ones, zeros = np.ones((12, draws)), np.zeros((12, draws))
    values.observe(Observations(0, 12, simulated_scores=PairedScores(ones, zeros)))
    reading = values.bounds()[0].reading
    assert reading is not None
    assert (reading.of, reading.guesses) == (of, 12 if of == "score" else 0)


@given(st.integers(2, 60), st.sampled_from([0.1, 0.2, 0.5, 0.9]))
def test_a_share_of_the_pairs_chooses_the_threshold(pairs: int, fraction: float) -> None:
    design = TrialDesign(CLAIM, pairs=pairs, rule=Split(fraction), pilot=3)
    chosen = math.floor(pairs * fraction)
    assert design.threshold_pairs(pairs) == chosen
    assert design.untested_pairs(pairs) == max(3, chosen)
    plain = replace(design, pilot=0)
    assert replace(plain, rule=Fixed()).untested_pairs(pairs) == 0
    if chosen:
        plain.require_pairs()
    else:
        with pytest.raises(UsageError, match="choose a threshold on"):
            plain.require_pairs()
    replace(plain, pilot=pairs - 1, rule=Fixed()).require_pairs()


# The mixture of an audit


def served(scores: Floats, less: Floats, thresholds: Floats, cuts: Floats) -> Floats:
    """(2, pairs, columns): above thresholds, above cuts without the last noise, and seen before."""
    rows: list[list[list[float]]] = [[], []]
    counts = Counter[float](), Counter[float]()
    for pair in range(scores.shape[1]):
        for side in (0, 1):
            score, rest = scores[side, pair], less[side, pair]
            row = [float(score >= tau) for tau in thresholds]
            row += [0.5 if math.isnan(rest) else float(rest >= tau) for tau in cuts]
            for seen, value in zip(counts, (score, rest), strict=True):
                known = seen[round(value, 9)]
                row += [float(known > 0), float(known >= 0)]
            rows[side].append(row)
        for seen, values in zip(counts, (scores, less), strict=True):
            seen[round(values[0, pair], 9)] += 1
            seen[round(values[1, pair], 9)] -= 1
    return np.array(rows)


@pytest.mark.parametrize("levels", [4, 30])
def test_served_columns_are_those_of_one_score_after_another(levels: int) -> None:
    rng = np.random.default_rng(8)
    thresholds, steps = np.array([0.5, 1.5]), np.arange(levels) / 4
    scores, less = rng.integers(0, 4, (2, 2, 25)).astype(float)
    less[0, 3], less[1, 7] = math.nan, math.nan
    columns, parts = ServedColumns(thresholds, steps), []
    for pairs in (slice(0, 10), slice(10, 25)):
        both = [PairedScores(one[0, pairs], one[1, pairs]) for one in (scores, less)]
        parts.append(np.stack(columns.of(*both)))
    middle = (steps[1:] + steps[:-1]) / 2
    cuts = (
        middle if levels == 4 else middle[np.round(np.arange(12) * (levels - 2) / 11).astype(int)]
    )
    known = np.where(np.isnan(less), math.inf, less)  # of unknown ones none is seen before
    wanted = served(scores, less, thresholds, cuts)
    assert np.concatenate(parts, 1)[..., :-2] == pytest.approx(wanted[..., :-2])
    both_known = np.isfinite(known).all(0)
    assert np.concatenate(parts, 1)[:, both_known] == pytest.approx(wanted[:, both_known])


def test_one_level_leaves_nothing_to_correct() -> None:
    columns = ServedColumns(np.array([0.5]), np.array([0.5]))
    found = columns.of(PairedScores(np.ones(3), np.zeros(3)), None)
    assert [one.tolist() for one in found] == [[[1.0]] * 3, [[0.0]] * 3]


def mean(parts: dict[str, tuple[float, Floats]]) -> Floats:
    return np.asarray(np.log(sum(weight * np.exp(path) for weight, path in parts.values())))


@pytest.mark.parametrize(
    ("known_rows", "draws", "is_served"),
    [*product(("all", "first", "none"), (50,), (True, False)), ("all", 1, True), ("none", 1, True)],
)
def test_an_audit_of_votes_is_the_mixture_that_is_documented(
    known_rows: str, draws: int, is_served: bool
) -> None:
    """0.88 for the declared distribution; 0.12 for what comes out, simulated and served alike."""
    rng = np.random.default_rng(8)
    known, pairs = VoteScores.margin(3, 1.0), 24
    design = TrialDesign(
        Claim(5.0, 1e-5), Gaussian(1.0, 1.0), pairs=pairs + 4, pilot=2, known=known, sigma=1.0,
        voters=3, served=is_served, draws=draws, levels=(-1.0, 0.0, 1.0),
    )  # fmt: skip
    margins = np.stack([np.full(pairs, -1.0), np.full(pairs, -3.0)])
    simulated = margins[..., None] + rng.normal(0, 1.4, (2, pairs, draws))
    trial = margins + rng.normal(0, 1.4, (2, pairs))
    chances = known.exceedance(margins)
    if known_rows == "none":
        chances = chances * math.nan
    if known_rows == "first":
        chances[:, 9:12] = math.nan
    values = EValues(design)
    for rows in (slice(0, 2), slice(2, 9), slice(9, pairs)):
        values.observe(
            Observations(
                rows.start,
                rows.stop - rows.start,
                trial_scores=PairedScores(*trial[:, rows]),
                simulated_scores=PairedScores(*simulated[:, rows]),
                level_chances=PairedScores(*chances[:, rows]),
            )
        )
    few = known.thresholds[np.round(np.linspace(0, known.thresholds.size - 1, 15)).astype(int)]

    def shares(thresholds: Floats) -> Floats:
        return np.asarray((simulated[..., None] >= thresholds).mean(2))[:, 2:]

    def path(scores: Floats, **options: Any) -> Floats:
        process = PlainEProcess(
            Gaussian(1.0, 1.0), 0.95, deltas=(1e-5,), horizon=pairs + 4, **options
        )
        process.extend(*scores)
        return process.log_e_values

    known_parts = {"support": known.support(), "expected": known.expected()}
    filled = np.where(np.isnan(chances[:, 2:]), shares(known.thresholds), chances[:, 2:])
    one_by_one = ServedColumns(few, np.array(design.levels)).of(PairedScores(*trial[:, 2:]), None)
    declared = known_rows != "none"
    names = [
        name
        for name, there in (
            ("simulated", declared and draws > 1),
            ("served", draws > 1 or declared),
        )
        if there and is_served
    ]
    outputs = {"simulated": shares(few), "served": np.stack(one_by_one)}
    wanted = {name: (0.12 / len(names), path(outputs[name])) for name in names}
    main = path(filled, **known_parts) if declared else path(filled)
    wanted["main"] = 1 - 0.12 * bool(names), main
    assert values.process.log_e_values == pytest.approx(mean(wanted), rel=1e-9)
    weights = {name: weight for name, (weight, _) in values.process.parts.items()}
    assert weights.pop("exact" if declared else "score") == pytest.approx(wanted.pop("main")[0])
    assert weights == pytest.approx({name: weight for name, (weight, _) in wanted.items()})


@pytest.mark.parametrize("channels", [(), ("answer", "log")])
@pytest.mark.parametrize("early", [True, False])
def test_two_sides_and_channels_share_the_evidence(channels: tuple[str, ...], early: bool) -> None:
    """Both sides weigh a half; the scores of the second are those of exchanged contexts."""
    rng = np.random.default_rng(8)
    design = TrialDesign(Claim(0.0, 0.0), pairs=12, early_stop=early)
    x, y = rng.integers(0, 2, (2, 12)).astype(float)
    seen = Observations(
        0, 12, trial_scores=PairedScores(x, y),
        simulated_scores=PairedScores(x[:, None], y[:, None]),
        reply_pairs=(((None, None), "canary"),) * 12,
    )  # fmt: skip
    if channels:
        observer: Any = EProcess().by_channel().begin(replace(design, channels=channels))
        observer.observe(replace(seen, channels={"answer": seen, "log": seen.exchange()}))
    else:
        observer = two_sided(EProcess()).begin(design)
        observer.observe(seen)
    sides = {}
    for name, (one, other) in {"a": (x, y), "b": (y, x)}.items():
        process = PlainEProcess(
            ApproxDP(0.0, 0.0), 0.975, deltas=(0.0,), horizon=None if early else 12
        )
        process.extend(one[:, None], other[:, None])
        path = process.log_e_values
        # a channel leaves half to the witness, which has read nothing
        sides[name] = (0.5, np.log(0.5 * np.exp(path) + 0.5) if channels else path)
    assert observer.process.log_e_values == pytest.approx(mean(sides), abs=1e-12)


# Crowds and powers


@pytest.mark.parametrize(
    ("hit", "alarm", "member", "nonmember"),
    [(1.0, 0.0, 4, 3), (1.0, 1.0, 8, 8), (0.0, 1.0, 4, 5), (0.0, 0.0, 0, 0)],
)
@pytest.mark.parametrize("shared", [True, False])
def test_a_crowd_has_one_vote_more_for_the_canary(
    hit: float, alarm: float, member: int, nonmember: int, shared: bool
) -> None:
    """Of eight partitions, one holds the canary in one context, three in both, four in none."""
    votes = tuple((float(v),) for v in range(9))
    crowd = Crowd(8, 3, Assumption(hit, alarm), shared, votes, MANY)
    assert crowd.certain
    assert not replace(crowd, draws=MANY - 1).certain
    x, y = crowd.draw(3, 5, np.random.default_rng(0))
    assert (x.shape, y.shape) == ((3, 5, 1), (3, 5, 1))
    assert (set(x.ravel()), set(y.ravel())) == ({float(member)}, {float(nonmember)})


@pytest.mark.parametrize("shared", [True, False])
def test_a_crowd_that_errs_does_so_at_its_rates(shared: bool) -> None:
    votes = tuple((float(v),) for v in range(9))
    crowd = Crowd(8, 3, Assumption(0.7, 0.2), shared, votes, MANY)
    assert not crowd.certain
    x, y = (one[..., 0] for one in crowd.draw(100, 200, np.random.default_rng(1)))
    assert x.mean() == pytest.approx(0.7 + 3 * 0.7 + 4 * 0.2, abs=0.05)
    assert y.mean() == pytest.approx(0.2 + 3 * 0.7 + 4 * 0.2, abs=0.05)
    variance = (3 * 0.7 * 0.3 + 4 * 0.2 * 0.8) * shared
    assert np.cov(x.ravel(), y.ravel())[0, 1] == pytest.approx(variance, abs=0.06)
    assert (np.abs(x - y).max() <= 1) == shared


@pytest.mark.parametrize("draws", [1, 3, MANY - 1])
def test_outputs_of_a_crowd_are_shares_of_its_draws(draws: int) -> None:
    crowd = Crowd(1, 0, Assumption(), True, ((0.3, 0.1), (0.9, 0.4)), draws)
    x, y = crowd.draw(40, 50, np.random.default_rng(2))
    assert (x * draws) == pytest.approx(np.round(x * draws))
    assert x.mean((0, 1)) == pytest.approx([0.9, 0.4], abs=0.04)
    assert y.mean((0, 1)) == pytest.approx([0.3, 0.1], abs=0.04)
    if draws == 1:  # one output lies above every threshold below it
        assert (np.diff(x, axis=-1) <= 0).all()


@pytest.mark.parametrize("leak", [1.0, 3.0])
def test_a_crowd_leaks_as_if_its_noise_were_smaller(leak: float) -> None:
    votes = np.arange(5.0)
    known = VoteScores.margin(4, 2.0)
    thresholds = known.thresholds
    few = thresholds[np.round(np.linspace(0, len(thresholds) - 1, 15)).astype(int)]
    design = TrialDesign(
        Claim(4.0, 1e-5), Gaussian(1.0, 2.0), served=True, voters=4, copies=9, known=known
    )
    crowd = Crowd.of(design, leak)
    assert crowd is not None
    gaps = (2 * votes - 4)[:, None] - few
    assert np.array(crowd.chances) == pytest.approx(ndtr(gaps / (math.sqrt(8) / leak)))
    assert (crowd.copies, crowd.partitions, crowd.shared, crowd.columns) == (3, 4, True, 15)
    for wins, levels in ((True, (0.0,)), (False, (-1.0, 0.5))):
        best = BestVotes(4, 3, 2.0, levels, shared=False, wins=wins)
        small = replace(best, sigma=2.0 / leak)
        crowd = Crowd.of(replace(design, known=best, copies=1), leak)
        assert crowd is not None
        wanted = small.chances([[v, 4 - v, 0] for v in range(5)])
        assert np.array(crowd.chances) == pytest.approx(wanted)
        assert (crowd.copies, crowd.shared) == (1, False)


class Several:
    """Audits that are played together; those that have rejected are not drawn again."""

    leak: Leak = "small_noise"
    certain = False
    columns = 2

    def __init__(self, x: Floats, y: Floats, ends: list[int]) -> None:
        self.x, self.y, self.ends, self.seen = x, y, np.array(ends), 0

    def draw(self, audits: int, pairs: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
        going = np.flatnonzero((self.ends == 0) | (self.ends > self.seen))
        assert len(going) == audits
        part = slice(self.seen, self.seen + pairs)
        self.seen += pairs
        return self.x[going, part], self.y[going, part]


@pytest.mark.parametrize("weight", [1.0, 0.3])
def test_audits_that_are_simulated_together_end_where_each_would(weight: float) -> None:
    """An e-value that counts less has to be larger."""
    rng, pairs, audits = np.random.default_rng(6), 40, 12
    x, y = rng.random((audits, pairs, 2)), 0.35 * rng.random((audits, pairs, 2))
    test, ends = PlainTest(ApproxDP(0.5, 1e-5), 0.95, 1e-5, pairs, weight), []
    for one, other in zip(x, y, strict=True):
        process = test.process()
        process.extend(one, other)
        over = np.flatnonzero(process.log_e_values >= math.log(20 / weight))
        ends.append(int(over[0]) + 1 if over.size else 0)
    found = rejection_times(test, pairs, audits, Several(x, y, ends), rng)
    assert found.tolist() == ends
    assert 0 < sum(map(bool, ends)) < audits


@pytest.mark.parametrize("weight", [1.0, 0.2])
def test_a_certain_audit_is_simulated_once(weight: float) -> None:
    """And more often only in name: all of them reject, or none."""
    process = PlainEProcess(ApproxDP(0.5, 0.0), deltas=(0.0,))
    process.extend(np.ones((30, 1)), np.zeros((30, 1)))
    least = int((process.log_e_values >= math.log(20 / weight)).argmax()) + 1
    test = PlainTest(ApproxDP(0.5, 0.0), 0.95, 0.0, None, weight)
    scene = YesNo(1.0, 0.0)
    assert simulate_power(test, least - 1, scene) == Power(0.0, AUDITS)
    assert simulate_power(test, least, scene) == Power(1.0, AUDITS + MORE)
    blind = YesNo(0.0, 0.0)
    sizes = [simulate_power(test, pairs, blind).audits for pairs in (10, 25_000, 10**6)]
    assert sizes == [200, 160, 100]
    for rates, certain in (((1, 0), True), ((1, 1), True), ((0.0, 0.5), False), ((0.5, 1), False)):
        answers = YesNo(*rates)
        assert answers.certain == certain
        assert answers.draw(2, 3, np.random.default_rng(0))[0].shape == (2, 3, answers.columns)


@pytest.mark.parametrize("confidence", [0.9, 0.95])
def test_the_power_against_guessing_is_that_of_one_side(confidence: float) -> None:
    """An attack that is right with a chance a leaks as randomised response of ln(a / (1 - a))."""
    each, n = 1 - (1 - confidence) / 2, 9
    formulas: dict[str, Any] = {
        "clopper_pearson": lambda e: clopper_pearson_power(n, e, 0.0, 0.0, each),
        "unconditional": lambda e: unconditional_power(n, e, 0.0, 0.0, each),
        "one_run": lambda e: one_run_power(n, 1 / (1 + math.exp(-e)), 0.0, 0.0, each),
    }
    for method, formula in formulas.items():
        wanted = [(a, pytest.approx(formula(math.log(a / (1 - a))))) for a in ACCURACIES]
        assert [(a, p.chance) for a, p in power_against_guessing(method, n, confidence)] == wanted
        assert power_against_guessing(method, 0, confidence) == ()
    test = PlainTest(ApproxDP(0.0, 0.0), each, 0.0, n, 0.5)
    found = dict(power_against_guessing("e_process", n, confidence, 0.5))
    assert found == {a: simulate_power(test, n, YesNo(a, 1 - a)) for a in ACCURACIES}
    early = dict(power_against_guessing("e_process", n, confidence, 1.0, early=True))
    plain = replace(test, horizon=None, weight=1.0)
    assert early == {a: simulate_power(plain, n, YesNo(a, 1 - a)) for a in ACCURACIES}
    assert power_against_guessing("e_process", 0) == ()
    design = TrialDesign(Claim(0.0, 0.0), pairs=n, confidence=confidence)
    counted = two_sided(ClopperPearson()).accuracy_power(design, n)
    assert counted == power_against_guessing("clopper_pearson", n, confidence)
    paired = two_sided(EProcess()).accuracy_power(replace(design, replies=True), n)
    assert dict(paired) == found
    alone = two_sided(EProcess()).accuracy_power(replace(design, early_stop=True), n)
    assert dict(alone) == early
    for one in (EProcess(), ClopperPearson()):
        assert two_sided(one).accuracy_power(replace(design, served=True), n) == ()


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_the_pairs_that_are_needed_are_the_first_that_a_perfect_attack_needs(
    epsilon: float,
) -> None:
    design = TrialDesign(Claim(epsilon, 1e-5), pairs=10, pilot=2)
    for estimator in (EProcess(), ClopperPearson(), Unconditional()):
        needed = estimator.pairs_needed(design) or 0
        early = replace(design, early_stop=True)
        reached = [
            estimator.largest_certifiable(replace(early, pilot=0), n).epsilon
            for n in (needed - 1, needed)
        ]
        assert reached[0] <= epsilon < reached[1] or isinstance(estimator, EProcess)
        if isinstance(estimator, EProcess):
            process = PlainEProcess(ApproxDP(epsilon, 1e-5), deltas=(1e-5,))
            process.extend(np.ones((needed, 1)), np.zeros((needed, 1)))
            assert process.rejected_at == needed
    assert ClopperPearson().pairs_needed(TrialDesign(Claim(12.5, 0.0))) is None
    assert (ClopperPearson().pairs_needed(TrialDesign(Claim(12.0, 0.0))) or 0) > 100_000
    assert EProcess().pairs_needed(TrialDesign(Claim(12.0, 1e-5))) is None


def test_counts_estimate_what_their_formulas_do() -> None:
    design = TrialDesign(CLAIM, pairs=40, pilot=4, confidence=0.9)
    wanted = clopper_pearson(36, 0, 0, 36, 1e-5, 0.9).epsilon
    assert ClopperPearson().largest_certifiable(design, 40).epsilon == wanted
    assert ClopperPearson().largest_certifiable(design, 4) == Bounds(0.0, 0.0)
    assert AccuracyBound().largest_certifiable(design, 4) == Bounds(0.0, None)
    assert [ClopperPearson().tested_pairs(design, n) for n in (3, 4, 5)] == [0, 0, 1]
    assert [EProcess().tested_pairs(design, n) for n in (3, 4, 5)] == [0, 0, 1]
    several = replace(design, rule=Bonferroni((0.1, 0.2, 0.3)))
    each = 1 - 0.1 / 3
    best = clopper_pearson(36, 0, 0, 36, 1e-5, each).epsilon
    assert ClopperPearson().largest_certifiable(several, 40).epsilon == best
    levels = replace(several, rule=Bonferroni(), levels=(0.1, 0.2, 0.3))
    assert ClopperPearson().largest_certifiable(levels, 40).epsilon == best
    power = ClopperPearson().power(several, 40, 3.0)
    assert power == Power(clopper_pearson_power(36, 3.0, 1.0, 1e-5, each))
    assert ClopperPearson().power(replace(design, served=True), 40, 3.0) is None


@pytest.mark.parametrize(
    "rule", [Split(0.25), BestOnSameData(), Fixed(0.4), Bonferroni((0.3, 0.6))]
)
def test_a_threshold_is_chosen_on_the_first_pairs_and_tested_on_the_others(rule: Any) -> None:
    rng = np.random.default_rng(8)
    design = TrialDesign(CLAIM, pairs=16, rule=rule)
    x, y = rng.random((2, 16)) + np.array([[0.3], [0.0]])
    x[:4], y[:4] = [0.9, 0.8, 0.9, 0.9], [0.2, 0.7, 0.1, 0.3]
    observer = ClopperPearson().begin(design)
    for rows in (slice(0, 3), slice(3, 16)):
        observer.observe(
            Observations(
                rows.start,
                rows.stop - rows.start,
                trial_scores=PairedScores(x[rows], y[rows]),
                simulated_scores=PairedScores(x[rows, None], y[rows, None]),
            )
        )
    found = observer.bounds()[0]

    def at(tau: float, some: slice, confidence: float = 0.95) -> float:
        tp, fp, n = int((x[some] >= tau).sum()), int((y[some] >= tau).sum()), len(x[some])
        return clopper_pearson(tp, n - tp, fp, n - fp, 1e-5, confidence).epsilon or 0.0

    if isinstance(rule, Split):  # halfway between the lowest member and the highest other
        assert found.epsilon == at(0.75, slice(4, None))
        assert "(tau = 0.75)" in found.threshold
    elif isinstance(rule, Fixed):
        assert found.epsilon == at(0.4, slice(None))
    elif isinstance(rule, Bonferroni):
        assert found.epsilon == max(at(tau, slice(None), 0.975) for tau in (0.3, 0.6))
    else:
        taus = sorted(np.r_[x, y], reverse=True)
        tau = taus[int(np.argmax([(x >= tau).mean() - (y >= tau).mean() for tau in taus]))]
        assert found.epsilon == at(tau - 1e-9, slice(None))


# Losses of known distributions


def test_losses_are_those_of_the_worst_pair() -> None:
    laws = [GaussianLaw(np.array([m]), 2.0) for m in (0.0, 1.0, 3.0)]
    observer = Exact().begin(TrialDesign(CLAIM))
    pairs = ((laws[0], laws[1]), (laws[2], laws[0]), (laws[1], laws[1]))
    observer.observe(Observations(0, 3, distribution_pairs=pairs))
    (found,) = observer.bounds()
    each = [exact_privacy_loss(one, other, 1e-5).epsilon or 0.0 for one, other in pairs]
    assert (found.epsilon, found.counts) == (max(each), {"pairs": 3})
    assert found.details == {"mean_epsilon": sum(each) / 3, "pairs_without_loss": 1.0}
    observer.observe(Observations(3, 1, distribution_pairs=((laws[0], None),)))
    assert observer.bounds() == Exact().begin(TrialDesign(CLAIM)).bounds() == ()
    Exact().check(TrialDesign(CLAIM, answers=1))
    assert Exact().largest_certifiable(TrialDesign(CLAIM), 0).epsilon == 0.0
    assert Exact().largest_certifiable(TrialDesign(CLAIM), 1).mu == math.inf
    assert Exact().pairs_needed(TrialDesign(CLAIM)) == 1


@pytest.mark.parametrize(("claimed", "end"), [(0.5, 1.0), (100.0, 40.0)])
def test_a_profile_goes_to_twice_the_claim_and_is_rounded_up(claimed: float, end: float) -> None:
    laws = [CategoricalLaw(np.array(p)) for p in ([0.7, 0.3], [0.4, 0.6], [0.1, 0.9])]
    pairs = ((laws[0], laws[1]), (laws[0], laws[2]))
    total = ProfileSum(claimed)
    assert total.profile() is None
    total.observe(Observations(0, 2, distribution_pairs=pairs))
    found = total.profile()
    assert found is not None
    assert found.epsilon == pytest.approx(np.linspace(0, end, POINTS))
    each = np.array([[privacy_profile(*pair, e) for e in found.epsilon] for pair in pairs])
    for curve, wanted in ((found.mean, each.mean(0)), (found.worst, each.max(0))):
        assert np.array(curve) == pytest.approx(wanted, abs=2.5e-12)
        assert (np.array(curve) >= wanted - 1e-16).all()
    total.observe(Observations(2, 1, distribution_pairs=((laws[0], None),)))
    assert total.profile() is None


def test_equal_pairs_are_computed_once_and_others_kept_up_to_a_limit() -> None:
    asked = []
    values = _PairValues(lambda one, other: asked.append((one, other)) or len(asked))
    laws = [GaussianLaw(np.array([float(m)]), 1.0) for m in range(KNOWN + 1)]
    origin = GaussianLaw(np.zeros(1), 2.0)
    for _ in range(2):
        assert [values.of((law, origin)) for law in laws[:KNOWN]] == list(range(1, KNOWN + 1))
    assert values.of((laws[KNOWN], origin)) == KNOWN + 1
    assert values.of((laws[0], origin)) == KNOWN + 2  # forgotten with all others
    assert values.of((origin, laws[0])) == KNOWN + 3
    assert values.of((None, origin)) is values.of((origin, None)) is None
    assert len(asked) == KNOWN + 3


# Scores of other tools


def test_the_bounds_of_scores_say_what_they_could_reach() -> None:
    rng = np.random.default_rng(8)
    x, y = rng.normal(1, 1, 60), rng.normal(0, 1, 60)
    for rule in (Fixed(0.5), Bonferroni((0.2, 0.5, 0.9)), Split(0.25)):
        found = score_bounds(ScoredTrials(x, y), 1e-5, 0.9, rule)
        tested = found.counts["tested_member"]
        assert tested == found.counts["tested_nonmember"] == (45 if isinstance(rule, Split) else 60)
        each = 1 - 0.1 / (3 if isinstance(rule, Bonferroni) else 1)
        cells = (tested, 0, 0, tested, 1e-5, each)
        assert found.largest("clopper_pearson") == clopper_pearson(*cells).epsilon
        assert found.largest("unconditional") == unconditional(*cells).epsilon
        design = TrialDesign(
            Claim(1.0, 1e-5), confidence=0.9, pairs=tested, levels=found.levels, draws=1
        )
        wanted = EProcess().largest_certifiable(design, tested).epsilon
        assert found.largest("e_process") == wanted
    one = score_bounds(ScoredTrials(x, y, "one_run"), 0.0, 0.9)
    assert one.largest("one_run") == one_run(120, 60, 60, 0.0, 0.9).epsilon


@pytest.mark.parametrize("design", ["paired", "unpaired"])
@pytest.mark.parametrize("sizes", [(40, 40), (40, 30)])
@pytest.mark.parametrize("several", [True, False])
def test_what_is_left_out_is_what_does_not_hold(
    design: Any, sizes: tuple[int, int], several: bool
) -> None:
    rng = np.random.default_rng(8)
    if design == "paired" and sizes[0] != sizes[1]:
        return
    trials = ScoredTrials(rng.random(sizes[0]), rng.random(sizes[1]), design)
    found = score_bounds(trials, rule=Bonferroni((0.3, 0.6)) if several else Fixed(0.5))
    reasons = {
        "unconditional": design == "paired",
        "unconditional_mu": design == "paired",
        "joint_beta": design == "paired" or several,
        "accuracy_bound": design == "paired" or several or sizes[0] != sizes[1],
        "one_run": True,
    }
    assert set(found.left_out) == {name for name, out in reasons.items() if out}
    methods = [one.method for one in found.estimates]
    assert set(methods) == {
        "e_process", "e_process_mu", "clopper_pearson", "gdp",
        *(name for name, out in reasons.items() if not out),
        *(["accuracy_log_odds"] if not several and sizes[0] == sizes[1] else []),
    }  # fmt: skip
    assert found.counts["pairs"] == min(sizes)
    assert (found.counts["member"], found.counts["nonmember"]) == sizes


def test_levels_lie_between_held_out_scores() -> None:
    x, y = np.arange(10.0) + 100, np.arange(10.0)
    found = score_bounds(ScoredTrials(x, y, in_order=True), rule=Split(0.5))
    held = sorted([*x[:5], *y[:5]])
    between = {(a + b) / 2 for a, b in pairwise(held)}
    assert set(found.levels) <= between
    assert {(held[0] + held[1]) / 2, (4 + 100) / 2, (held[-2] + held[-1]) / 2} <= set(found.levels)
