"""Power is that of the audits that users run: with a model that misses canaries and cries wolf."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr
from scipy.stats import binom

from leakbound.auditing import make_spec, prepare
from leakbound.auditing.plan import plan
from leakbound.auditing.receipts import load_result
from leakbound.cli.verbs.audit.plan import described
from leakbound.errors import UsageError
from leakbound.estimators import (
    Claim,
    ClopperPearson,
    EProcess,
    Observations,
    PairedScores,
    TrialDesign,
    Unconditional,
)
from leakbound.estimators.simulated_power import (
    Crowd,
    PlainTest,
    YesNo,
    count_rejections,
    simulate_power,
)
from leakbound.mechanisms import ReportNoisyMax
from leakbound.models import Scripted
from leakbound.privacy import ApproxDP, Gaussian, Guarantee, PureDP
from leakbound.stats import Assumption, Power, VoteScores, clopper_pearson_power
from leakbound.stats import EProcess as PlainEProcess
from leakbound.stats.noise.best_votes import BestVotes
from leakbound.stats.noise.votes import DiscreteBestVotes
from leakbound.stats.power import NO_POWER, Leak
from leakbound.tasks import Example

Floats = npt.NDArray[np.float64]
GOOD, PERFECT = Assumption(0.9, 0.02), Assumption()
PLAIN = TrialDesign(Claim(1.0, 1e-5), pairs=60)
GOLDEN = Path(__file__).parents[1] / "golden" / "audits"
RUNS = 30  # real audits of a cell
# two-sided chance of a gap of 5 standard errors: below 1e-6, were the runs not seeded
GAP = 5.0


def voting(epsilon: float, partitions: int, pairs: int, **values: Any) -> TrialDesign:
    made = ReportNoisyMax.calibrated(epsilon, 1e-5, partitions)
    known = VoteScores.margin(partitions, made.sigma)
    design = TrialDesign(
        Claim(epsilon, 1e-5), made.guarantee, pairs=pairs, sigma=made.sigma, voters=partitions,
        known=known, noise_levels=tuple(known.thresholds), served=True, draws=200,
        levels=tuple(range(-partitions - 2, partitions + 3)),
    )  # fmt: skip
    return replace(design, **values)


def audit(design: TrialDesign, leak: float, rng: np.random.Generator) -> bool:
    """A real audit of a crowd whose noise is `leak` times too small: observed as a run observes."""
    n, top, assumed = design.pairs, design.voters or 1, design.assumption
    assert isinstance(design.known, VoteScores)
    crowd = rng.binomial(top - 1, assumed.false_alarm, n)
    votes = [crowd + (rng.random(n) < p) for p in (assumed.hit, assumed.false_alarm)]
    margins = 2.0 * np.stack(votes) - top
    sigma = (design.sigma or 0.0) * math.sqrt(2) / leak
    simulated = margins[..., None] + rng.normal(0, sigma, (2, n, design.draws))
    unknown = np.full(n, np.nan)
    observer = EProcess().begin(design)
    observer.observe(
        Observations(
            first=0,
            pairs=n,
            trial_scores=PairedScores(*(margins + rng.normal(0, sigma, (2, n)))),
            simulated_scores=PairedScores(*simulated),
            level_chances=PairedScores(*design.known.exceedance(margins)),
            corrected_scores=PairedScores(unknown, unknown),
        )
    )
    return observer.rejected


def agree(power: Power, rejected: int, runs: int) -> bool:
    """Are two shares the same but for the error of both?"""
    share = rejected / runs
    pooled = (rejected + 1 + power.chance * (power.audits or 0)) / (runs + 2 + (power.audits or 0))
    error = math.sqrt(pooled * (1 - pooled) * (1 / runs + 1 / (power.audits or 10**9)))
    return abs(share - power.chance) <= GAP * error


@pytest.mark.slow
@pytest.mark.parametrize(
    ("epsilon", "partitions", "pairs", "leak", "assumption"),
    [
        (4.0, 4, 60, 2.0, GOOD),
        (4.0, 4, 60, 2.0, PERFECT),
        pytest.param(1.0, 10, 80, 2.0, GOOD, marks=pytest.mark.slow),
    ],
)
def test_the_power_against_small_noise_is_that_of_real_audits(
    epsilon: float, partitions: int, pairs: int, leak: float, assumption: Assumption
) -> None:
    """With a model of (.9, .02) it was 1.00 beside a real .1 to .6."""
    design, rng = (
        voting(epsilon, partitions, pairs, assumption=assumption),
        np.random.default_rng(5),
    )
    rejected = sum(audit(design, leak, rng) for _ in range(RUNS))
    power = EProcess().power(design, pairs, leak)
    assert power.leak == "small_noise"
    assert agree(power, rejected, RUNS), (power, rejected / RUNS)
    assert (power.chance < 0.9) == (assumption == GOOD)


@pytest.mark.slow
@pytest.mark.parametrize("assumption", [PERFECT, GOOD])
@pytest.mark.parametrize("guarantee", [None, Gaussian(0.5, 1.0)])
def test_the_power_of_single_answers_is_that_of_real_audits(
    assumption: Assumption, guarantee: Gaussian | None
) -> None:
    design = replace(PLAIN, assumption=assumption)
    if guarantee is not None:
        design = replace(design, guarantee=guarantee, claim=Claim(3.0, 1e-5))
    rng, rejected, runs = np.random.default_rng(7), 0, 50
    leak = 1.75 if guarantee is None else 2.0
    swapped = 1 / (1 + math.exp(leak)) if guarantee is None else float(ndtr(-0.5))
    tpr, fpr = assumption.seen_through(swapped)
    for _ in range(runs):
        x, y = (rng.random((60, 1)) < rate for rate in (tpr, fpr))
        scores = PairedScores(x.astype(float), y.astype(float))
        observer = EProcess().begin(design)
        observer.observe(Observations(0, 60, simulated_scores=scores))
        rejected += observer.rejected
    power = EProcess().power(design, 60, leak)
    assert agree(power, rejected, runs), (power, rejected / runs)
    assert 0.05 < power.chance < 0.95


@pytest.mark.parametrize("columns", [1, 3])
def test_simulated_audits_are_e_processes(columns: int) -> None:
    """One after another: each audit that the simulation plays is the e-process itself."""
    rng, pairs = np.random.default_rng(3), 50
    chances = np.linspace(0.9, 0.4, columns)
    test = PlainTest(ApproxDP(1.0, 1e-5), 0.95, 1e-5, pairs)
    rejections = []
    for _ in range(30):
        x = (rng.random((1, pairs, columns)) < chances).astype(float)
        y = (rng.random((1, pairs, columns)) < chances / 3.2).astype(float)
        process = PlainEProcess(test.tested, deltas=(1e-5,), horizon=pairs)
        process.extend(x[0], y[0])
        played = count_rejections(test, pairs, 1, Replayed(x, y), rng)
        rejections.append(process.rejected)
        assert played == process.rejected
    assert 0 < sum(rejections) < 30


class Replayed:
    """One audit, pair by pair."""

    leak: Leak = "small_noise"
    certain = False

    def __init__(self, x: Floats, y: Floats) -> None:
        self.x, self.y, self.seen = x, y, 0

    @property
    def columns(self) -> int:
        return int(self.x.shape[2])

    def draw(self, audits: int, pairs: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
        part = slice(self.seen, self.seen + pairs)
        self.seen += pairs
        return self.x[:, part], self.y[:, part]


@pytest.mark.parametrize("assumption", [PERFECT, GOOD, Assumption(0.7, 0.05)])
def test_the_power_at_ten_thousand_pairs_is_one(assumption: Assumption) -> None:
    """`clopper_pearson_power` fell to 0.00 from about 5,000 pairs on."""
    design = replace(PLAIN, pairs=10_000, assumption=assumption)
    for estimator in (EProcess(), ClopperPearson()):
        power = estimator.power(design, 10_000, 3.0)
        assert power.chance == pytest.approx(1.0)
        assert power.safe > 0.99


@settings(max_examples=40, deadline=None)
@given(
    st.integers(5, 2000), st.floats(0.5, 1.0), st.floats(0.0, 0.1), st.floats(1.0, 6.0),
    st.floats(0.2, 2.0),
)  # fmt: skip
def test_power_does_not_fall_as_pairs_are_added(
    pairs: int, hit: float, alarm: float, true: float, claim: float
) -> None:
    """But for a tooth of the saw, since counts are whole numbers; where the claim is false."""
    assumption = Assumption(hit, alarm)
    tpr, fpr = assumption.rates(true)
    if max(math.log(tpr / fpr), math.log((1 - fpr) / (1 - tpr))) < 1.05 * claim:
        return
    path = [
        clopper_pearson_power(pairs * 4**i, true, claim, assumption=assumption) for i in range(4)
    ]
    assert min(np.diff(path)) > -0.06


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 20))
def test_a_weaker_model_leaks_no_more(hit: float, alarm: float, true: float) -> None:
    tpr, fpr = Assumption(hit, alarm).rates(true)
    assert 0 <= min(tpr, fpr) <= max(tpr, fpr) <= 1
    assert tpr <= math.exp(true) * fpr + 1e-12
    assert 1 - fpr <= math.exp(true) * (1 - tpr) + 1e-12


def test_the_power_falls_with_the_model() -> None:
    for design in (PLAIN, voting(4.0, 4, 60)):
        found = [
            EProcess().power(replace(design, assumption=one), 60, 2.0).chance
            for one in (PERFECT, GOOD, Assumption(0.5, 0.05))
        ]
        assert found[0] > found[1] > found[2]


def test_copies_put_a_crowd_on_edge() -> None:
    """Ten partitions, black box: alone, one vote decides nothing; with four copies it does."""
    made = ReportNoisyMax.calibrated(4.0, 1e-5, 9)
    known = BestVotes(9, 3, made.sigma, wins=True)
    design = TrialDesign(
        Claim(4.0, 1e-5), made.guarantee, pairs=100, sigma=made.sigma, voters=9, known=known,
        served=True,
    )  # fmt: skip
    alone, edge = (
        EProcess().power(replace(design, copies=copies), 100, 8.0).chance for copies in (0, 4)
    )
    assert alone < 0.1 < 0.9 < edge


@pytest.mark.parametrize("draws", [1, 200])
@pytest.mark.parametrize("voters", [1, 10])
@pytest.mark.parametrize("guarantee", [Gaussian(1.0, 2.0), PureDP(2.0)])
def test_no_power_is_known_where_outputs_are_not_those_of_votes(
    guarantee: Guarantee, voters: int, draws: int
) -> None:
    """It was 1.00 for `embedding_mean` (none of 16 real audits), and .99 for discrete noise."""
    design = TrialDesign(
        Claim(4.0, 1e-5), guarantee, pairs=60, voters=voters, served=True, draws=draws,
        assumption=Assumption(0.9, 0.1),
    )  # fmt: skip
    for estimator in (EProcess(), ClopperPearson(), Unconditional()):
        assert estimator.power(design, 60, 2.0) is None
    assert EProcess().power(replace(design, served=False, voters=None), 60, 2.0) is not None


def test_no_power_is_known_where_a_claim_on_votes_is_tested() -> None:
    known = DiscreteBestVotes(10, 3, 8.0, wins=True)
    for design in (
        voting(1.0, 10, 60, known=known, guarantee=ApproxDP(1.0, 1e-5), copies=4),
        voting(4.0, 10, 60, claim=Claim(1.0, 1e-5)),
        replace(PLAIN, voters=10),
    ):
        assert design.hypotheses[0] == "claim"
        assert EProcess().power(design, 60, 2.0) is None


def test_votes_are_scored_as_the_known_chances_say() -> None:
    """With one of its partitions removed, a vote moves a margin by 1 and not by 2."""
    for known in (VoteScores.margin(4, 1.5), VoteScores.count(4, 1.5), VoteScores(-4, 4, 1.5)):
        crowd = Crowd.of(voting(4.0, 4, 60, known=known, guarantee=Gaussian(1.0, 9.0)), 1.0)
        assert crowd is not None
        exact = known.exceedance(np.linspace(known.low, known.high, 5))
        assert {*np.ravel(crowd.chances)} <= {*exact.ravel()}


@pytest.mark.parametrize(
    ("design", "known"),
    [
        ({"mechanism": "few_shot"}, True),
        ({"mechanism": "report_noisy_max"}, True),
        ({"mechanism": "report_noisy_max", "access": "white_box"}, True),
        ({"mechanism": "report_noisy_max", "mechanism.noise": "discrete_gaussian"}, False),
        ({"mechanism": "keyword_mean", "access": "white_box"}, False),
        ({"mechanism": "report_noisy_max", "answers": 2}, False),
    ],
)
def test_a_plan_says_where_no_power_is_known(design: dict[str, Any], known: bool) -> None:
    spec = make_spec(
        {"shots": 10, "simulations": 2_000, "pairs": 20, "labels": ["a", "b"], **design}
    )
    rows = tuple(Example(f"row {i}", "ab"[i % 2]) for i in range(40))
    prepared = prepare(spec, Scripted(complete=lambda prompt: "a"), rows=rows)
    planned = plan(prepared)
    assert bool(planned.power) == known
    assert (NO_POWER in described(planned, prepared.trial_design.claim)) != known


def test_results_of_old_audits_hold_the_power_of_single_answers_alone() -> None:
    found = {file.stem: load_result(file).power for file in GOLDEN.glob("*.json")}
    single = ("answer-", "few_shot-", "prompt_defense-")
    assert {name for name, power in found.items() if power} == {
        name for name in found if name.startswith(single)
    }


@pytest.mark.parametrize("rate", ["0.9", True, False, math.nan, -0.1, 1.1])
def test_a_rate_is_a_number_from_0_to_1(rate: Any) -> None:
    """A text was kept, a boolean was 1.0, and of NaN it said that it must be at most 1."""
    for name in ("hit", "false_alarm"):
        said = f"{name} is {rate!r}; it must be a probability from 0 to 1."
        with pytest.raises(UsageError, match=re.escape(said)):
            Assumption(**{name: rate})
        with pytest.raises(UsageError, match=re.escape(f"assume_{said}")):
            make_spec({f"assume_{name}": rate})


@pytest.mark.parametrize("epsilon", [math.nan, -5.0])
def test_the_power_against_what_is_no_claim_is_refused(epsilon: float) -> None:
    with pytest.raises(UsageError, match="epsilon is"):
        clopper_pearson_power(60, 2.0, epsilon)


def test_outputs_are_drawn_as_a_run_draws_them() -> None:
    rng = np.random.default_rng(0)
    for draws, values in ((1, {0.0, 1.0}), (4, {0.0, 0.25, 0.5, 0.75, 1.0})):
        crowd = Crowd.of(voting(4.0, 4, 60, draws=draws, assumption=GOOD), 1.0)
        assert crowd is not None
        x, y = crowd.draw(20, 30, rng)
        assert {*np.unique(x), *np.unique(y)} == values
        assert x.shape == y.shape == (20, 30, 15)


def test_a_simulated_power_has_an_interval_and_a_safe_end() -> None:
    power = Power(0.5, 200)
    assert power.kind == "simulated"
    assert power.safe == power.interval[0] < 0.5 < power.interval[1]
    tails = binom.sf(99, 200, power.interval[0]), binom.cdf(100, 200, power.interval[1])
    assert tails == pytest.approx((0.025, 0.025))
    assert Power(0.5).interval == (0.5, 0.5)
    assert Power(0.5).kind == "exact"
    test = PlainTest(ApproxDP(1.0, 1e-5), 0.95, 1e-5, 40)
    assert simulate_power(test, 40, YesNo(1.0, 0.0)).safe > 0.99
    assert simulate_power(test, 0, YesNo(1.0, 0.0)).chance == 0.0
