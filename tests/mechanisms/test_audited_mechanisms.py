"""Mechanisms of one's own in an audit: what is refused, what is reused, what an answer costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leakbound
from leakbound.errors import UsageError
from leakbound.mechanisms import ProductOfExperts, ReportNoisyMax
from leakbound.models import Counted, Model, Scripted
from leakbound.serving import PrivateICL
from leakbound.serving.ledger import Ledger
from leakbound.tasks import Aggregate, Job, Outputs, Query, Task, Votes
from leakbound.tasks.mechanism import MEMBERS
from leakbound.tasks.synthetic import HELP_DESK, help_desk

SMALL: dict[str, Any] = {"pairs": 4, "shots": 5, "simulations": 0}


def scripted() -> Counted:
    return Counted(Scripted(complete=lambda prompt: "yes", name="says yes"))


@dataclass(frozen=True, slots=True)
class EarlyNoise(ReportNoisyMax):
    """Draws its noise while collecting, and says so."""

    def noise_in_collect(self, task: Task, query: Query) -> bool:
        return True

    def collect(
        self, task: Task, jobs: Sequence[Job], draws: Sequence[int], model: Model
    ) -> list[Aggregate]:
        votes = ReportNoisyMax.collect(self, task, jobs, draws, model)
        return [self._noised(v, draw) for v, draw in zip(votes, draws, strict=True)]

    def _noised(self, votes: Aggregate, draw: int) -> Votes:
        rng = np.random.default_rng(draw)
        best = int(ReportNoisyMax.release(self, votes, 1, rng).answers[0])  # type: ignore[arg-type]
        return Votes(tuple(int(i == best) for i in range(len(votes.counts))))  # type: ignore[union-attr]

    def release(self, aggregate: Votes, draws: int, rng: np.random.Generator) -> Outputs:
        return Outputs(np.full(draws, int(np.argmax(aggregate.counts))))

    def output_distribution(self, aggregate: Votes) -> None:  # type: ignore[override]
        return None


class OldProtocol:
    """Every member but `noise_in_collect`, as mechanisms were written before it was required."""


for _name in MEMBERS:
    if _name != "noise_in_collect":
        _value = getattr(EarlyNoise(2.0, 5), _name)
        setattr(OldProtocol, _name, staticmethod(_value) if callable(_value) else _value)


def test_a_mechanism_that_does_not_say_when_it_draws_noise_is_not_audited(tmp_path: Path) -> None:
    """Its outputs of epsilon 8 were reused for epsilon 0.1: 0 model calls, a false violation."""
    model = scripted()
    with pytest.raises(UsageError, match="it lacks noise_in_collect"):
        leakbound.audit(mechanism=OldProtocol(), model=model, out=tmp_path, **SMALL)  # type: ignore[arg-type]
    assert model.calls == 0


def calls(mechanism: Any, epsilon: float, out: Path) -> int:
    """Model calls of one audit."""
    model = scripted()
    leakbound.audit(
        mechanism=mechanism,
        model=model,
        epsilon=epsilon,
        access="black_box",
        out=out,
        **SMALL,
    )
    return model.calls


def test_aggregates_are_reused_for_another_claim_unless_they_hold_noise(tmp_path: Path) -> None:
    assert calls(ReportNoisyMax.calibrated(8.0, 1e-5, 5), 8.0, tmp_path) > 0
    assert calls(ReportNoisyMax.calibrated(0.1, 1e-5, 5), 0.1, tmp_path) == 0
    first = calls(EarlyNoise.calibrated(8.0, 1e-5, 5), 8.0, tmp_path)
    assert calls(EarlyNoise.calibrated(0.1, 1e-5, 5), 0.1, tmp_path) == first > 0


@pytest.mark.slow
@pytest.mark.torch
def test_audit_record_and_ledger_state_one_cost(tmp_path: Path) -> None:
    """A free answer was recorded as 2-DP, and the ledger paid its composition, 2.632 at delta 0."""
    mechanism, reply = ProductOfExperts.calibrated(2.0, 1e-5, tokens=8), Task("reply")
    cost = mechanism.cost(reply, Query("q", free=True))
    result = leakbound.audit(
        mechanism=mechanism,
        query="repeat",
        canary="natural",
        epsilon=2.0,
        out=tmp_path,
        **SMALL | {"pairs": 1, "shots": 2},
    )
    assert result.guarantee.text == cost.describe()
    assert result.guarantee.epsilon == cost.epsilon(1e-5) == pytest.approx(2.0)
    ledger = Ledger(tmp_path / "ledger.sqlite", 10.0, 0.0)
    rows = help_desk(2, np.random.default_rng(0))
    service = PrivateICL(mechanism, rows, HELP_DESK, leakbound.open_model("pocket"), ledger)
    answer = service.answer(Query("my card", free=True))
    assert answer.spent == cost.epsilon(0.0) == pytest.approx(2.632, abs=1e-3)
