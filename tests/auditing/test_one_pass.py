"""An audit is one pass: every stored aggregate is read, released and estimated once."""

from __future__ import annotations

import pickle
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import leakbound
from leakbound.auditing import AuditResult, make_spec, prepare, run_audit
from leakbound.auditing.collect.collect import CollectionPlan
from leakbound.auditing.design import pairs as design_module
from leakbound.auditing.observe.release import CONTROL_DRAWS
from leakbound.auditing.prepare.build import Handed
from leakbound.auditing.prepare.prepared import Prepared
from leakbound.auditing.store import run_store as store_module
from leakbound.auditing.store.run_store import RunStore
from leakbound.mechanisms import ReportNoisyMax
from leakbound.mechanisms.parts.base import PartitionedMechanism
from leakbound.models import Scripted
from leakbound.tasks import Context, GaussianLaw, Outputs, Votes

PAIRS, SIMULATIONS = 24, 4800
CONTROLS = 16  # pairs, beside the tested ones; half of them hold one canary
SIZE = 4  # pairs of a batch
SEEN: Counter[str] = Counter()
DESIGNED: Counter[int] = Counter()  # from the preparation on; control pairs are below 0


@dataclass(frozen=True, slots=True)
class Counting(ReportNoisyMax):
    """Counts what is asked of it."""

    name: ClassVar[str] = "counting"
    exactness = PartitionedMechanism.exactness
    vote_noise = ReportNoisyMax.vote_noise

    def release(self, aggregate: Votes, draws: int, rng: np.random.Generator) -> Outputs:
        SEEN["releases"] += 1
        SEEN["outputs"] += draws
        return ReportNoisyMax(self.sigma, self.partitions).release(aggregate, draws, rng)

    def output_distribution(self, aggregate: Votes) -> GaussianLaw:
        SEEN["distributions"] += 1
        return ReportNoisyMax(self.sigma, self.partitions).output_distribution(aggregate)


@dataclass(frozen=True, slots=True)
class HalfNoise(Counting):
    """Declares its noise, and adds an eighth of it."""

    name: ClassVar[str] = "half_noise"
    exactness = PartitionedMechanism.exactness
    vote_noise = ReportNoisyMax.vote_noise

    def release(self, aggregate: Votes, draws: int, rng: np.random.Generator) -> Outputs:
        found = Counting(self.sigma / 8, self.partitions).release(aggregate, draws, rng)
        return replace(found)


@pytest.fixture(autouse=True)
def counters(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is decoded from the store, and which pairs are designed."""
    SEEN.clear()
    DESIGNED.clear()
    unpack, design = store_module._unpacked, design_module._pair
    control, single = design_module._control, design_module._single

    def unpacked(text: str) -> Any:
        SEEN["decoded"] += 1
        return unpack(text)

    def designed(index: int, *rest: Any) -> Any:
        DESIGNED[index] += 1
        return design(index, *rest)

    def controlled(index: int, *rest: Any) -> Any:
        DESIGNED[index] += 1
        return control(index, *rest)

    def singled(index: int, *rest: Any) -> Any:
        DESIGNED[index] += 1
        return single(index, *rest)

    monkeypatch.setattr(store_module, "_unpacked", unpacked)
    monkeypatch.setattr(design_module, "_pair", designed)
    monkeypatch.setattr(design_module, "_control", controlled)
    monkeypatch.setattr(design_module, "_single", singled)


def ready(rows: Context, model: Scripted, kind: type[Counting], **values: Any) -> Prepared:
    spec = make_spec(
        {
            "pairs": PAIRS,
            "batch_pairs": SIZE,
            "detect_change": 0,
            "simulations": SIMULATIONS,
            "epsilon": 4,
            "labels": ["odd", "plain"],
            **values,
        }
    )
    mechanism = kind.calibrated(4.0, 1e-5, partitions=4)
    return prepare(spec, model, rows=rows, handed=Handed(mechanism=mechanism))


def assert_each_once(result: AuditResult) -> None:
    """Every pair and control pair is designed for the checks before the first call, and kept."""
    aggregates, draws = 2 * result.counts["pairs"], SIMULATIONS // (2 * PAIRS)
    assert SEEN["decoded"] == aggregates + 2 * CONTROLS
    assert SEEN["distributions"] == aggregates
    once = 2 * aggregates  # for the trial, and for the simulated outputs
    assert SEEN["releases"] == once + 2 * CONTROLS
    assert SEEN["outputs"] == aggregates * (1 + draws) + 2 * CONTROLS * CONTROL_DRAWS
    assert result.counts["simulated_outputs"] == aggregates * draws
    assert dict.fromkeys(range(-CONTROLS, PAIRS), 1) == DESIGNED


def test_a_fresh_run_does_everything_once(rows: Context, leaky: Scripted, tmp_path: Path) -> None:
    prepared = ready(rows, leaky, Counting)
    SEEN.clear()
    result, _ = run_audit(prepared, tmp_path)
    assert result.counts["pairs"] == PAIRS
    assert_each_once(result)


def test_pairs_beyond_those_that_are_held_are_made_again(
    rows: Context, leaky: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once for the checks and once for their trial; none of them is shown to another process."""
    monkeypatch.setattr(design_module, "HELD", held := CONTROLS + 1)
    prepared = ready(rows, leaky, Counting)
    run_audit(prepared, tmp_path)
    assert {DESIGNED[index] for index in range(-CONTROLS, held)} == {1}
    assert {DESIGNED[index] for index in range(held, PAIRS)} == {2}
    travelled = pickle.dumps(prepared.pairs)
    assert len(travelled) == len(pickle.dumps(replace(prepared.pairs, _held=design_module._Held())))


def test_a_run_that_ends_early_does_everything_once(
    rows: Context, leaky: Scripted, tmp_path: Path
) -> None:
    prepared = ready(rows, leaky, HalfNoise, stop_when_rejected=True)
    SEEN.clear()
    result, _ = run_audit(prepared, tmp_path)
    assert result.verdict == "violation"
    assert result.counts["pairs"] < PAIRS
    assert_each_once(result)


@pytest.mark.parametrize("stored", [[0, 4, 8], [20, 4], [0, 4, 8, 12, 16, 20]])
def test_a_resumed_run_does_everything_once(
    rows: Context, leaky: Scripted, tmp_path: Path, stored: list[int]
) -> None:
    """Some batches are stored already, in any place, or all of them."""
    prepared = ready(rows, leaky, Counting)
    alone, _ = run_audit(prepared, tmp_path / "alone")
    store = RunStore(tmp_path / prepared.name, prepared.manifest)
    for first in (-CONTROLS, -CONTROLS + SIZE, *stored):
        batch = CollectionPlan.of(prepared).ask(first, leaky)
        store.add(batch.first, batch.rows, batch.calls)
    SEEN.clear()
    result, _ = run_audit(prepared, tmp_path)
    assert_each_once(result)
    assert result.results() == alone.results()


def test_a_resumed_run_that_ends_early_reads_nothing_beyond_its_end(
    rows: Context, leaky: Scripted, tmp_path: Path
) -> None:
    """All pairs are stored; what lies behind the end in the same block is decoded, and not used."""
    whole = ready(rows, leaky, HalfNoise)
    run_audit(whole, tmp_path)
    early = ready(rows, leaky, HalfNoise, stop_when_rejected=True)
    SEEN.clear()
    result, _ = run_audit(early, tmp_path)
    used = 2 * result.counts["pairs"]
    assert result.counts["pairs"] < PAIRS
    assert SEEN["releases"] == 2 * used + 2 * CONTROLS
    assert SEEN["distributions"] == used
    assert SEEN["decoded"] <= 2 * (PAIRS + CONTROLS)


@pytest.mark.parametrize("partitions", [2, 4])
@pytest.mark.parametrize("estimator", ["e_process", "unconditional", "clopper_pearson"])
def test_what_is_reported_is_read_from_the_mechanism_that_ran(
    rows: Context, leaky: Scripted, tmp_path: Path, partitions: int, estimator: str
) -> None:
    """The number of partitions stood in two places: 2 were asked, and 10 reported."""
    mechanism = ReportNoisyMax.calibrated(4.0, 1e-5, partitions=partitions)
    result = leakbound.audit(
        rows, mechanism=mechanism, model=leaky, epsilon=4.0, estimator=estimator, pairs=40,
        simulations=4000, batch_pairs=8, settings={"labels": "odd,plain"}, out=tmp_path,
    )  # fmt: skip
    # a control pair: partitions full of the canary are alike, and none of the others has it
    assert result.counts["model_calls"] == (40 + CONTROLS) * (partitions + 1)
    assert result.counts["answers"] == 40 * 2 * partitions
    assert result.spec["mechanism"]["partitions"] == partitions
    assert result.guarantee.mu == pytest.approx(mechanism.guarantee.mu)
    largest = result.largest_certifiable
    assert (result.bound.epsilon or 0.0) <= largest.epsilon
    assert (result.mu_bound.mu or 0.0) <= (largest.mu or 0.0)
    assert result.verdict == "no_violation"


def test_pilot_pairs_are_read_once_and_held_until_the_score_is_fitted(
    rows: Context, tmp_path: Path
) -> None:
    model = Scripted(
        complete=lambda prompt: "yes" if prompt.count(prompt.split('"')[-2]) > 1 else "no",
        embed=lambda text: [float(len(text)), 1.0],
    )
    values = {
        "mechanism": "embedding_mean", "labels": ["odd", "plain"],
        "query": "signal_pair", "score": "reference_direction",
        "pairs": 20, "batch_pairs": 3, "simulations": 2000, "shots": 10, "detect_change": 0,
    }  # fmt: skip
    prepared = prepare(make_spec(values), model, rows=rows)
    SEEN.clear()
    result, _ = run_audit(prepared, tmp_path)
    assert prepared.trial_design.pilot == 4
    assert SEEN["decoded"] == 2 * (20 + CONTROLS)
    assert result.tested_pairs == 16
    assert result.counts["simulated_outputs"] == 2000
