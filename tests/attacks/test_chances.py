"""Exact chances of scores: those of the outputs that a mechanism releases."""

from __future__ import annotations

import numpy as np
import pytest

from leakbound.attacks import DistanceGap, LabelMargin, PredictedMember, ReferenceDirection
from leakbound.attacks.protocols import RenderedQuery, Score
from leakbound.mechanisms import EmbeddingMean, ReportNoisyMax
from leakbound.stats import CategoricalLaw, GaussianLaw
from leakbound.stats.noise.best_votes import BestVotes, best_chance
from leakbound.tasks import Outputs, Query, Vector, Votes

ANSWERS = ("yes", "no")
TWO = RenderedQuery(Query("?"), "yes", "no")
ONE = RenderedQuery(Query("?"), "yes", None)
DRAWS = 40_000  # a share of so many has a standard error of at most 0.0025

VOTES = Votes((3, 5, 2))
MEAN = Vector((0.3, -0.2), ("yes", "no"), ((0.6, 0.8), (1.0, 0.0)))
FITTED = ReferenceDirection().fit(np.array([[1.0, 0.0]]), np.array([[0.0, 0.5]]))


@pytest.mark.parametrize(
    ("mechanism", "aggregate", "score", "asked"),
    [
        (ReportNoisyMax(2.0, 10), VOTES, LabelMargin(), TWO),
        (ReportNoisyMax(2.0, 10), VOTES, LabelMargin(), ONE),
        (ReportNoisyMax(2.0, 10), VOTES, PredictedMember(), TWO),
        (EmbeddingMean(0.4, 5), MEAN, DistanceGap(), TWO),
        (EmbeddingMean(0.4, 5), MEAN, FITTED, TWO),
    ],
    ids=["margin", "margin to the best", "winner", "distance", "direction"],
)
def test_chances_are_shares_of_outputs(
    mechanism: ReportNoisyMax | EmbeddingMean,
    aggregate: Votes | Vector,
    score: Score,
    asked: RenderedQuery,
) -> None:
    """Differences above 0.015, six standard errors, have a chance below 1e-7."""
    outputs = mechanism.release(aggregate, DRAWS, np.random.default_rng(0))  # type: ignore[arg-type]
    law = mechanism.output_distribution(aggregate)  # type: ignore[arg-type]
    levels = score.levels(10)
    found = score.chances(law, outputs, asked, ANSWERS, levels)
    shares = (score.score(outputs, asked, ANSWERS)[:, None] >= levels).mean(0)
    assert found is not None
    assert np.abs(found - shares).max() < 0.015


def test_chances_of_finitely_many_outputs_are_their_probabilities() -> None:
    law = CategoricalLaw(np.array([0.7, 0.2, 0.1]))
    outputs = Outputs(np.array([0]))
    found = PredictedMember().chances(law, outputs, TWO, ANSWERS, np.array([0.5]))
    assert found is not None
    assert found[0] == pytest.approx(0.7)


def test_chances_that_are_not_known_are_not_made_up() -> None:
    """The nearest point is chosen, not the largest entry."""
    mechanism = EmbeddingMean(0.4, 5)
    outputs = mechanism.release(MEAN, 10, np.random.default_rng(0))
    law = mechanism.output_distribution(MEAN)
    assert PredictedMember().chances(law, outputs, TWO, ANSWERS, np.array([0.5])) is None
    assert DistanceGap().chances(law, outputs, ONE, ANSWERS, np.array([0.0])) is None


def test_a_margin_to_one_other_is_that_of_two_gaussians() -> None:
    from scipy.special import ndtr

    law, levels = GaussianLaw(np.array([4.0, 1.0]), 1.5), np.linspace(-9, 9, 7)
    found = law.margin_chances(0, 1.0, levels)
    assert found == pytest.approx(ndtr((3 - levels) / (1.5 * np.sqrt(2))), abs=1e-12)


@pytest.mark.parametrize(("partitions", "classes"), [(2, 2), (4, 3), (3, 5)])
def test_the_support_holds_every_pair_that_one_vote_makes(partitions: int, classes: int) -> None:
    scores = BestVotes(partitions, classes, 1.3, (-1.0, 0.0, 2.0))
    support = scores.support()
    assert support is not None
    xs, ys = support
    draw = np.random.default_rng(1)
    for _ in range(200):
        votes = np.bincount(draw.integers(classes, size=partitions), minlength=classes)
        other = votes.copy()
        source = draw.choice(np.flatnonzero(votes))
        other[source] -= 1
        other[draw.integers(classes)] += 1
        x, y = scores.chances([votes, other])
        way = draw.normal(size=(2, 3))  # a payoff: its least value lies on a corner of the hull
        assert (way[0] * x + way[1] * y >= (way[0] * xs + way[1] * ys).min(0) - 1e-12).all()


def test_the_winner_of_a_tie_is_drawn_evenly() -> None:
    one, others = np.array([5.0]), np.array([[5.0, 5.0]])
    assert best_chance(one, others, 2.0, np.zeros(1))[0, 0] == pytest.approx(1 / 3, abs=1e-12)
