"""Exact discrete noise on votes: the sampler against its probabilities, and what is released.

False alarms: every chi-square test here is on fixed seeds at p < 1e-6.
"""

from __future__ import annotations

import secrets
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from leakbound_lab.conformance import assert_conforms
from scipy import stats

import leakbound
from leakbound.attacks import DistanceGap
from leakbound.attacks.protocols import RenderedQuery
from leakbound.errors import UsageError
from leakbound.mechanisms import KeywordMean, ReportNoisyMax, build_mechanism
from leakbound.mechanisms.keyword_mean import mean_counts
from leakbound.mechanisms.parts.discrete_noise import _edges, _invert, discrete_gaussian
from leakbound.models import Scripted
from leakbound.privacy import DiscreteGaussian, discrete_gaussian_pmf, self_compose
from leakbound.serving import PrivateICL
from leakbound.serving.ledger import Ledger
from leakbound.stats import exact_privacy_loss, privacy_profile
from leakbound.stats.noise.output_distributions import DiscreteGaussianLaw
from leakbound.stats.noise.votes import DiscreteBestVotes, DiscreteMargins
from leakbound.tasks import Example, Query, Task, Vector, VoteNoise, Votes

LEVEL = 1e-6


def fit(samples: np.ndarray, sigma: float) -> float:
    """p-value of a chi-square test over outcomes, the rare ones together."""
    p = discrete_gaussian_pmf(sigma)
    seen = np.bincount(samples.ravel() + p.size // 2, minlength=p.size)
    expected = p * samples.size
    rare = expected < 10
    tail = float(stats.poisson.sf(seen[rare].sum() - 1, expected[rare].sum()))
    off = ((seen - expected)[~rare] ** 2 / expected[~rare]).sum()
    bulk = stats.chi2.sf(off, (~rare).sum() - 1)
    return min(1.0, 2 * min(tail, float(bulk)))


@pytest.mark.parametrize("sigma", [0.4, 1.0, 2.8, 11.0, 48.0])
def test_samples_follow_the_probabilities(sigma: float) -> None:
    samples = discrete_gaussian(sigma, (200_000,), np.random.default_rng(1))
    assert fit(samples, sigma) > LEVEL


@pytest.mark.parametrize("bits", [3, 6, 10])
def test_further_bits_decide_where_the_first_do_not(bits: int) -> None:
    """With few first bits, a large share of the samples needs more."""
    rng, sigma = np.random.default_rng(2), 2.0
    words = rng.integers(0, 1 << bits, 100_000, dtype=np.uint64)
    unsure = np.isin(words, np.array(_edges(sigma, bits)[1], np.uint64), kind="sort").mean()
    asked: list[int] = []

    def more(at: int, word: int) -> int:
        asked.append(word)
        return int(rng.integers(0, 1 << 64, dtype=np.uint64))

    samples = _invert(sigma, words, bits, more)
    assert len(asked) == pytest.approx(unsure * len(words)), "and one word more is enough"
    assert unsure > 0.01
    assert fit(samples, sigma) > LEVEL


def test_cells_hold_their_boundaries() -> None:
    """The first 64 bits of a cumulative probability are those of 128 bits, and of the sum."""
    coarse, fine = (np.array(_edges(1.5, bits)[0], object) for bits in (64, 128))
    assert list(coarse[:40]) == [value >> 64 for value in fine[:40]]
    p, middle = discrete_gaussian_pmf(1.5), discrete_gaussian_pmf(1.5).size // 2
    order = [0, 1, -1, 2, -2, 3, -3]
    sums = np.cumsum([p[middle + x] for x in order])
    assert [value / 2**64 for value in coarse[:7]] == pytest.approx(sums.tolist(), rel=1e-12)


def test_the_generator_alone_decides() -> None:
    one, again, other = (
        discrete_gaussian(3.0, (50, 4), np.random.default_rng(s)) for s in (5, 5, 6)
    )
    assert (one == again).all()
    assert (one != other).any()
    rng = np.random.default_rng(5)
    first, second = discrete_gaussian(3.0, (50, 4), rng), discrete_gaussian(3.0, (50, 4), rng)
    assert (first == one).all()
    assert (first != second).any(), "and no noise is used twice"


def test_ties_are_broken_at_random() -> None:
    quiet = ReportNoisyMax(0.05, 4, noise="discrete_gaussian")  # no noise in practice
    outputs = quiet.release(Votes((2, 2, 0)), 4000, np.random.default_rng(0))
    assert set(outputs.answers) == {0, 1}
    assert stats.binomtest(int((outputs.answers == 0).sum()), 4000).pvalue > LEVEL
    assert outputs.noisy is not None
    assert (outputs.noisy == np.rint(outputs.noisy)).all()


def test_keywords_have_whole_noisy_counts() -> None:
    """Summed shares are whole counts again; ties are broken at random; a guarantee for 2m counts"""
    shares = mean_counts(["red kite", "red", "kite", "wet"] * 3, ["red", "kite", "wet"], 2)
    aggregate = Vector(tuple(shares.tolist()), ("red", "kite", "wet"))
    quiet = KeywordMean(0.05, 12, per_answer=2, top=2, selection="discrete_gaussian")
    outputs = quiet.release(aggregate, 4000, np.random.default_rng(0))
    assert outputs.noisy is not None
    assert outputs.picked is not None
    assert (outputs.noisy == [6.0, 6.0, 3.0]).all()
    assert stats.binomtest(int((outputs.picked[:, 0] == 0).sum()), 4000).pvalue > LEVEL
    assert (np.sort(outputs.picked, axis=1) == [0, 1]).all()
    made = KeywordMean.calibrated(2.0, 1e-5, per_answer=2, selection="discrete_gaussian")
    assert made.guarantee == DiscreteGaussian(made.noise, moves=4)
    assert made.access == {"black_box", "white_box"}
    assert made.guarantee.epsilon(1e-5) == pytest.approx(2.0, rel=1e-9)
    with pytest.raises(UsageError, match="must be analytic for discrete_gaussian noise"):
        KeywordMean.calibrated(1.0, 1e-5, 10, "classical", selection="discrete_gaussian")


def test_scores_of_keywords_are_those_of_continuous_noise() -> None:
    """The gap to an answer, in votes, is read from counts as from means."""
    answers, counts = ("yes", "no"), (0.75, 0.25)
    aggregate = Vector(counts, answers, ((1.0, 0.0), (0.0, 1.0)))
    asked = RenderedQuery(Query("?", answers), "yes", "no")
    found = [
        DistanceGap().score(
            KeywordMean(noise, 8, selection=selection).release(  # type: ignore[arg-type]
                aggregate, 1, np.random.default_rng(0)
            ),
            asked,
            answers,
        )
        for noise, selection in ((1e-9, "gaussian"), (0.05, "discrete_gaussian"))
    ]
    assert found[0] == pytest.approx(found[1], abs=1e-6)


@pytest.mark.parametrize("counts", [(6, 4, 0), (4, 3, 3), (5, 5)])
def test_chances_of_scores_are_those_of_releases(counts: tuple[int, ...]) -> None:
    made, draws = ReportNoisyMax(1.3, 10, noise="discrete_gaussian"), 40_000
    outputs = made.release(Votes(counts), draws, np.random.default_rng(3))
    law = made.output_distribution(Votes(counts))
    assert isinstance(law, DiscreteGaussianLaw)
    assert outputs.noisy is not None
    wins = [law.win_chance(i) for i in range(len(counts))]
    assert sum(wins) == pytest.approx(1.0, rel=1e-12)
    levels = np.array([-2.0, -0.5, 0.0, 1.0])
    noisy = outputs.noisy
    pairs = [
        (outputs.answers == 0, wins[0]),
        *zip(
            noisy[:, 0] - noisy[:, 1] >= levels[:, None],
            law.difference_chances(0, 1, 1.0, levels),
            strict=True,
        ),
        *zip(
            noisy[:, 0] - noisy[:, 1:].max(1) >= levels[:, None],
            law.margin_chances(0, 1.0, levels),
            strict=True,
        ),
    ]
    for seen, chance in pairs:
        assert stats.binomtest(int(seen.sum()), draws, float(chance)).pvalue > LEVEL / 10


def test_estimators_expect_the_chances_of_scores() -> None:
    margins = DiscreteMargins.margin(4, 1.1)
    law = DiscreteGaussianLaw(np.array([3.0, 1.0, 0.0]), 1.1)
    want = law.difference_chances(0, 1, 1.0, margins.thresholds)
    assert margins.exceedance([2])[0] == pytest.approx(want, abs=1e-12)
    wins = DiscreteBestVotes(4, 3, 1.1, wins=True).chances([[3, 1, 0]])
    assert wins[0, 0] == pytest.approx(law.win_chance(0))
    levels = (-1.0, 2.0)
    found = DiscreteBestVotes(4, 3, 1.1, levels).chances([[3, 1, 0]])[0]
    assert found == pytest.approx(law.margin_chances(0, 1.0, np.array(levels)))


def test_the_exact_loss_of_a_moved_vote_is_the_guarantee() -> None:
    for sigma in (0.6, 2.8):
        made = ReportNoisyMax(sigma, noise="discrete_gaussian")
        laws = [made.output_distribution(Votes(counts)) for counts in ((6, 4, 0), (5, 4, 1))]
        for delta in (1e-6, 1e-3):
            lost = exact_privacy_loss(*laws, delta).epsilon
            assert lost == made.guarantee.epsilon(delta)
            assert privacy_profile(*laws, made.guarantee.epsilon(delta)) <= delta
        assert exact_privacy_loss(laws[0], laws[0], 0.0).epsilon == 0.0
    with pytest.raises(UsageError, match="must differ by whole numbers"):
        exact_privacy_loss(laws[0], DiscreteGaussianLaw(np.array([5.5, 4.0, 0.0]), 2.8), 1e-5)


@pytest.mark.parametrize("epsilon", [0.1, 16.0])
def test_discrete_votes_conform(epsilon: float) -> None:
    assert_conforms(ReportNoisyMax.calibrated(epsilon, 1e-5, noise="discrete_gaussian"), pairs=20)


def test_half_of_the_noise_is_found() -> None:
    class Quiet(ReportNoisyMax):
        @property
        def guarantee(self) -> DiscreteGaussian:
            return DiscreteGaussian(2 * self.sigma)

    with pytest.raises(AssertionError, match="loss: a pair under"):
        assert_conforms(Quiet(1.4, noise="discrete_gaussian"), pairs=20)


def test_options_are_checked() -> None:
    with pytest.raises(UsageError, match="noise is 'laplace'; it must be gaussian or discrete"):
        ReportNoisyMax(1.0, noise="laplace")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="must be analytic for discrete_gaussian noise"):
        ReportNoisyMax.calibrated(1.0, 1e-5, 10, "classical", "discrete_gaussian")
    made = build_mechanism("report_noisy_max", {"noise": "discrete_gaussian"}, 2.0, 1e-5)
    assert made.guarantee == DiscreteGaussian(made.sigma)  # type: ignore[attr-defined]
    assert made.vote_noise == VoteNoise(made.sigma, whole=True)
    config = made.to_config()
    assert config.pop("kind") == "report_noisy_max"
    assert build_mechanism("report_noisy_max", config, 9.0, 1e-3) == made
    assert "noise" not in ReportNoisyMax(1.0).to_config(), "records of the default keep their names"


ROWS = tuple(Example(f"row {i}", "ab"[i % 2]) for i in range(10))


def test_a_service_spends_it_exactly(tmp_path: Path) -> None:
    made = ReportNoisyMax.calibrated(1.0, 1e-5, 5, noise="discrete_gaussian")
    ledger = Ledger(tmp_path / "ledger.sqlite", 1.0, 1e-5)
    model = Scripted(complete=lambda prompt: "a")
    answer = PrivateICL(made, ROWS, Task("t", ("a", "b")), model, ledger).answer("what?")
    assert answer.text in ("a", "b", "(no answer)")
    assert answer.spent == made.guarantee.epsilon(1e-5) <= 1.0
    assert self_compose(made.guarantee, 3).epsilon(1e-5) < 3.0


def test_an_audit_certifies_what_it_does_of_continuous_noise(tmp_path: Path) -> None:
    """1.60 of 2 after 60 pairs; without the known support of pairs it was 0.37."""
    found = _audit(
        ReportNoisyMax.calibrated(2.0, 1e-5, 5, noise="discrete_gaussian"), 2.0, tmp_path
    )
    assert found.verdict == "no_violation"
    assert found.estimates[0].method == "e_process"
    assert 1.4 < (found.estimates[0].epsilon or 0) <= 2.0


@pytest.mark.slow
def test_an_audit_refutes_too_little_of_it(tmp_path: Path) -> None:
    for sigma, broken in ((0.5, True), (8.0, False)):
        made = ReportNoisyMax(sigma, 5, noise="discrete_gaussian")
        assert (_audit(made, 1.0, tmp_path).verdict == "violation") == broken


def _audit(made: ReportNoisyMax, epsilon: float, out: Path) -> leakbound.AuditResult:
    def said(prompt: str) -> str:
        canary = prompt.split('"')[-2]
        return "yes" if prompt.count(canary) > 1 else "no"

    model = Scripted(complete=said, name="leaky")
    return leakbound.audit(
        mechanism=made, model=model, epsilon=epsilon, pairs=60, shots=10, out=out
    )


def test_keys_of_the_operating_system_are_as_good_as_any() -> None:
    """As a service draws its noise: a generator from 128 random bits for each answer.

    Fewer than 4 values of 100 have probability below 1e-90.
    """
    drawn = [
        int(discrete_gaussian(5.0, (1,), np.random.default_rng(secrets.randbits(128)))[0])
        for _ in range(100)
    ]
    assert len(Counter(drawn)) >= 4
