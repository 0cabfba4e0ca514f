"""Plans: the calls are exactly those that are made; ceiling and power are exact."""

from pathlib import Path

import numpy as np
import pytest

from leakbound.auditing import make_spec, prepare, run_audit
from leakbound.auditing.plan import plan
from leakbound.models import Counted, Scripted
from leakbound.stats import (
    clopper_pearson,
    clopper_pearson_power,
)
from leakbound.tasks import Context


@pytest.mark.parametrize("mechanism", ["few_shot", "zero_shot", "report_noisy_max"])
def test_predicted_calls_are_made_and_planning_makes_none(
    rows: Context, leaky: Scripted, tmp_path: Path, mechanism: str
) -> None:
    counted = Counted(leaky)
    prepared = prepare(
        make_spec(
            {"mechanism": mechanism, "pairs": 10, "simulations": 0, "labels": ["odd", "plain"]}
        ),
        counted,
        rows=rows,
    )
    planned = plan(prepared)
    assert counted.calls == 0
    run_audit(prepared, tmp_path)
    assert counted.calls == planned.model_calls


def test_power_equals_simulation() -> None:
    rng, n, true, claim = np.random.default_rng(0), 60, 2.5, 1.0
    p = 1 / (1 + np.exp(true))
    hits = [
        (clopper_pearson(n - fn, fn, fp, n - fp).epsilon or 0) > claim
        for fn, fp in zip(rng.binomial(n, p, 2000), rng.binomial(n, p, 2000), strict=True)
    ]
    assert clopper_pearson_power(n, true, claim) == pytest.approx(np.mean(hits), abs=0.04)


def test_a_true_claim_is_refuted_at_most_as_often_as_stated() -> None:
    for n in (10, 40, 200):
        assert clopper_pearson_power(n, 1.0, 1.0) <= 0.05
