"""Sets of units: a secret that stands twice, values by hand, and what the errors promise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leakbound
from leakbound.attribution import InfluenceSettings
from leakbound.attribution.ablation_sets import (
    ExactShapley,
    Lasso,
    LeaveOneOut,
    SampledShapley,
    _best_penalty,
    _fit,
    plan_sets,
)
from leakbound.errors import UsageError
from leakbound.models import Model

NOTE = (Path(__file__).parents[2] / "examples" / "note.txt").read_text().strip()
SECRET = "The door code of Marta is 48213."
TWICE = f"{SECRET} A small dog slept beside the warm oven. {SECRET} The market opened late."
QUERY = "What is the door code of Marta?"


def game(kept: Any) -> Any:
    """ln p of two tokens: units 0 and 3 hold the same fact, 4 and 5 hold halves of another."""
    x = kept.astype(float)
    return np.stack([5 * np.maximum(x[:, 0], x[:, 3]) + x[:, 1], -x[:, 4] * x[:, 5]], 1)


def test_leave_one_out_gives_each_copy_nothing_and_sets_give_it_half(pocket: Model) -> None:
    """The secret is the whole influence, and leave-one-out shows it nowhere."""
    grids = {}
    for method in ("leave-one-out", "shapley", "lasso"):
        record = leakbound.influence(
            TWICE, QUERY, model=pocket, response="48213", by="sentence", method=method, sets=40
        )
        grids[method], whole = record.attributions[0].readings[0].grids
        assert whole.totals[0] > 15
    assert grids["leave-one-out"].totals.max() < 0.1
    assert set(grids["shapley"].totals.argsort()[-2:]) == {0, 2}
    np.testing.assert_allclose(grids["shapley"].totals[[0, 2]], whole.totals[0] / 2, rtol=0.25)
    copies = np.sum(grids["shapley"].signed, 1)[[0, 2]]  # and each makes the code likelier
    np.testing.assert_allclose(copies, np.sum(whole.signed) / 2, rtol=0.25)
    exact = np.sum(grids["shapley"].signed)
    assert exact == pytest.approx(np.sum(whole.signed), abs=1e-3)  # all of it is shared out
    assert (grids["shapley"].sets, grids["shapley"].errors) == (16, ())
    assert set(grids["lasso"].totals.argsort()[-2:]) == {0, 2}
    assert grids["lasso"].totals[[0, 2]].min() > 0.25 * whole.totals[0]
    assert min(grids["lasso"].errors) > 0


def test_values_by_hand() -> None:
    alone, shapley = LeaveOneOut(6), ExactShapley(6)
    assert alone.solve(game(alone.kept)).signed[:, 0].tolist() == [0, 1, 0, 0, 0, 0]
    found = shapley.solve(game(shapley.kept)).signed
    np.testing.assert_allclose(found[:, 0], [2.5, 1, 0, 2.5, 0, 0], atol=1e-12)
    np.testing.assert_allclose(found[:, 1], [0, 0, 0, 0, -0.5, -0.5], atol=1e-12)


def test_random_orders_agree_within_their_errors() -> None:
    """A game of three that no pair of reversed orders solves. Of 300 estimates by a t law of five
    degrees of freedom, 95 % lie within 2.57 errors; fewer than 85 % has a chance below 1e-9.
    """

    def hidden(kept: Any) -> Any:
        x = kept.astype(float)
        return (6 * x[:, 0] * x[:, 1] * x[:, 2] + x[:, 5])[:, None]

    inside = []
    for seed in range(300):
        plan = plan_sets("shapley", 11, 125, np.random.default_rng(seed))
        assert isinstance(plan, SampledShapley)
        assert len(plan.orders) == 6
        found = plan.solve(hidden(plan.kept))
        assert found.signed.sum() == pytest.approx(7)
        assert found.errors is not None
        inside.append(abs(found.signed[0].sum() - 2) <= 2.57 * found.errors[0] + 1e-9)
    assert np.mean(inside) >= 0.85


@pytest.mark.parametrize("sets", [120, 20])
def test_the_lasso_is_that_of_scikit_learn(sets: int) -> None:
    """With more sets than units, and with fewer."""
    linear_model = pytest.importorskip("sklearn.linear_model")
    rng = np.random.default_rng(0)
    kept = rng.random((sets, 40)) < 0.5
    x, y = kept.astype(float), game(kept) + 0.1 * rng.standard_normal((sets, 2))
    parts = [np.ones(sets, bool), np.arange(sets) % 5 != 2]
    penalties = [0.2, _best_penalty(x, y), 0.02]
    own = _fit(x, y, parts, penalties)
    for part, penalty, token in np.ndindex(2, 3, 2):
        rows = parts[part]
        other = linear_model.Lasso(alpha=penalties[penalty], tol=1e-10, max_iter=100_000)
        other.fit(x[rows], y[rows, token])
        # the coefficients of equal columns are not unique, and what they predict is
        mine, seen = own[part, penalty, :, token], x[rows] - x[rows].mean(0)
        np.testing.assert_allclose(seen @ mine, seen @ other.coef_, atol=1e-5)
        assert np.abs(mine).sum() == pytest.approx(np.abs(other.coef_).sum(), abs=1e-5)


def test_the_lasso_finds_the_units_that_matter() -> None:
    rng = np.random.default_rng(0)
    kept = rng.random((120, 6)) < 0.5
    y = game(kept) + 0.1 * rng.standard_normal((120, 2))
    found = Lasso(kept).solve(y)
    assert set(np.abs(found.signed[:, 0]).argsort()[-3:]) == {0, 1, 3}


def test_a_response_that_ended_at_once_has_no_influence() -> None:
    for method in ("leave-one-out", "shapley", "lasso"):
        for units in (3, 12):
            plan = plan_sets(method, units, 100, np.random.default_rng(0))
            found = plan.solve(np.zeros((len(plan.kept), 0)))
            assert found.signed.shape == (units, 0)


def test_too_few_sets_get_a_sentence() -> None:
    with pytest.raises(UsageError, match="--sets is 40; it must be at least 46 for 12 units"):
        plan_sets("shapley", 12, 40, np.random.default_rng(0))
    with pytest.raises(UsageError, match="Did you mean 'shapley'"):
        InfluenceSettings(method="shapely")
