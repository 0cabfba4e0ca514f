"""Headline, count and bound of a result never contradict each other."""

from __future__ import annotations

import itertools
import random
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import leakbound
from leakbound.auditing import AuditResult, make_spec, prepare, run_audit
from leakbound.auditing.decide.obstacles import above_zero, conclude, controls_lost
from leakbound.auditing.observe.controls import ControlCheck, check_controls
from leakbound.auditing.observe.rejections import as_tested
from leakbound.auditing.prepare.build import Handed
from leakbound.auditing.receipts import load_result
from leakbound.auditing.result.sentences import attacker_sentence
from leakbound.estimators import (
    Bounds,
    Claim,
    ClopperPearson,
    EProcess,
    Estimator,
    Observations,
    Observer,
    PairedScores,
    TrialDesign,
)
from leakbound.gating.gate import Gate, check_gate
from leakbound.models import Model
from leakbound.privacy import Gaussian, PureDP
from leakbound.report import page, summary
from leakbound.stats import BoundReading, Estimate
from leakbound.tasks import Context, Task

GOLDEN = Path(__file__).parents[1] / "golden" / "audit-2"
RECORD = load_result(GOLDEN / "python_user_system_py_answer-membership.json")
READINGS = (
    BoundReading("score", "", 61, 80),
    BoundReading("replies", "", 38, 40, "Replies are 14 words longer when the canary is there."),
    BoundReading("replies", "seconds", 37, 40),
    BoundReading("score", "tools", 36, 40),
    BoundReading("distribution"),
)
CLAIMS = (0.1, 1.0, 1.0000004, 8.0)
GAPS = (-0.5, -1e-9, 0.0, 1e-12, 1e-9, 0.00417, 1.5)


def told(reading: BoundReading, claimed: float, gap: float, exact: float | None) -> AuditResult:
    """The result of a bound at some distance from the claim, made as `assemble` makes it."""
    claim, epsilon = Claim(claimed, 1e-5), max(0.0, claimed + gap)
    old = RECORD.estimate("e_process")
    bound = replace(old, epsilon=epsilon, reading=reading)
    guarantee = PureDP(claimed) if exact is not None else RECORD_DESIGN.guarantee
    design = replace(RECORD_DESIGN, claim=claim, guarantee=guarantee)
    loss = None if exact is None else Estimate(
        "exact", "lower_bound", claimed + exact, 1e-5, 1.0, {"pairs": 40}, (),
        reading=BoundReading("distribution"),
    )  # fmt: skip
    said = conclude(design, EProcess(), (bound,), loss, 40, Bounds(99.0, None))
    others = tuple(e for e in RECORD.estimates if e.method not in ("e_process", "exact"))
    return RECORD.model_copy(
        update={
            "verdict": said.verdict, "reason": said.reason, "sentences": said.sentences,
            "claim": claim, "estimates": (bound, *others, *([loss] if loss else [])),
            "decided_by": ("exact",) if said.by_exact else ("e_process",),
        }
    )  # fmt: skip


RECORD_DESIGN = TrialDesign(Claim(1.0, 1e-5))


@pytest.mark.parametrize(
    ("reading", "claimed", "gap", "exact"),
    list(itertools.product(READINGS, CLAIMS, GAPS, (None, -0.01, 0.001))),
)
def test_headline_count_and_bound_agree(
    reading: BoundReading, claimed: float, gap: float, exact: float | None
) -> None:
    """Old: "right about 40 of 80 ... The bound 1.00 exceeds the claimed epsilon 1"."""
    result = told(reading, claimed, gap, exact)
    above = (result.claim.epsilon + gap) > result.claim.epsilon
    assert (result.verdict == "violation") == (above or (exact or 0) > 0)
    text = summary(result)
    printed = re.search(r"leak ε +≥ (\S+) +claim (\S+)", text)
    assert printed is not None
    shown, limit = float(printed[1]), float(printed[2])
    assert (shown > limit) == (result.verdict == "violation")
    assert shown <= (result.bound.epsilon or 0.0)  # rounded to the safe side
    if above:
        first = re.match(r"the bound (\S+), read from (.*), exceeds .* epsilon (\S+?)\.? ",
                         result.sentences[0])  # fmt: skip
        assert first is not None
        assert float(first[1]) > float(first[3])
        assert first[2] == reading.words
        why = result.sentences[0][1:]
        gate = check_gate(result, Gate(claimed))
        drawn = (claimed, gap, exact) == (1.0, 0.00417, None)  # a page takes half a second
        whole = summary(result, verbose=True)
        pages = (whole, str(result), gate.why, *([page([result])] if drawn else []))
        assert all(why.split(" exceeds")[0] in one for one in pages)
    headline, lines = attacker_sentence(result), {len(line) for line in text.splitlines()}
    assert f"{reading.right} of {reading.guesses}" in text or result.reading.of == "distribution"
    assert max(lines) <= 80
    counts = re.search(r"in (\d+) of (\d+) (\w+)", headline)
    if result.reading.of == "distribution":
        assert not (result.verdict == "violation" and counts)
    else:
        assert counts is not None
        assert (int(counts[1]), int(counts[2])) == (reading.right, reading.guesses)
        assert counts[3] == ("pairs" if reading.compares else "trials")
        assert (reading.words in headline) == reading.compares
        leak = bool(result.bound.epsilon)  # else nothing is claimed of how replies differ
        assert (reading.leads in headline) == (leak or not reading.leads)


def at(epsilon: float, mu: float) -> tuple[Estimate, Estimate]:
    """Two bounds of one estimator, of epsilon and of mu."""
    old = RECORD.estimate("e_process"), RECORD.estimate("e_process_mu")
    return replace(old[0], epsilon=epsilon), replace(old[1], mu=mu)


@settings(max_examples=300, deadline=None)
@given(
    st.floats(0, 4), st.floats(0, 4), st.floats(0.05, 3), st.floats(0.05, 3),
    st.sampled_from([EProcess(), ClopperPearson()]),
)  # fmt: skip
def test_bounds_of_no_violation_are_not_above_what_is_tested(
    epsilon: float, mu: float, claimed: float, guaranteed: float, estimator: Estimator
) -> None:
    """NO VIOLATION stood beside "epsilon at least 1.2; claimed: 1" where a guarantee of mu, which
    is tested first, was not rejected."""
    design = TrialDesign(Claim(claimed, 1e-5), guarantee=Gaussian(guaranteed, 1.0))
    found = at(epsilon, mu)
    shown = as_tested(design, estimator, found)
    before, after = (
        conclude(design, estimator, each, None, 40, Bounds(99.0, 99.0)) for each in (found, shown)
    )
    assert before == after
    low, low_mu = shown[0].epsilon or 0.0, shown[1].mu or 0.0
    assert (low <= epsilon, low_mu <= mu) == (True, True)
    assert shown == as_tested(design, estimator, shown)
    if after.verdict != "violation":
        assert low <= claimed
        assert low_mu <= guaranteed
    if estimator.simultaneous:
        assert shown == found


@dataclass(frozen=True, slots=True)
class Contrary(EProcess):
    """Bounds that no e-process would give: epsilon above the claim, and mu of nothing."""

    name: ClassVar[str] = "contrary"
    anytime: ClassVar[bool] = True

    def begin(self, design: TrialDesign) -> Observer:  # type: ignore[override]
        return ContraryBounds()


class ContraryBounds:
    rejected = False
    process = None

    def observe(self, observations: Observations) -> None:
        assert observations.trials

    def bounds(self) -> tuple[Estimate, ...]:
        return at(1.2, 0.0)


def test_a_result_without_violation_shows_no_bound_above_its_claim(
    rows: Context, leaky: Model, tmp_path: Path
) -> None:
    mechanism = leakbound.mechanisms.ReportNoisyMax.calibrated(1.0, 1e-5, partitions=4)
    handed = Handed(mechanism=mechanism, task=Task("note", ("odd", "plain")), estimator=Contrary())
    ready = prepare(make_spec({"pairs": 24, "epsilon": 1}), leaky, rows=rows, handed=handed)
    result = run_audit(ready, tmp_path)[0]
    assert result.verdict != "violation"
    assert result.bound.epsilon == 1.0
    assert any("tested in order" in one for one in result.bound.assumptions)


def test_an_attack_is_not_blind_beside_an_exact_loss_above_0() -> None:
    loss = Estimate("exact", "lower_bound", 0.4, 1e-5, 1.0, {"pairs": 40}, ())
    blind = ("attack_blind", "replies tell more than what decides reads.")
    said = conclude(
        RECORD_DESIGN, EProcess(), at(0.0, 0.0), loss, 40, Bounds(99.0, None), (blind,),
        shown=(loss,),
    )  # fmt: skip
    assert (said.verdict, said.reason) == ("inconclusive", "too_few_trials")
    assert said.sentences[0].startswith("epsilon is at least 0.40 (exact, if outputs are dist")
    assert said.sentences[1] == blind[1]  # the reason and the sentence under it are of one kind


class NearChance:
    """Right in 65 % of its answers: too few controls see it, and bounds of some methods are > 0."""

    stateful = False

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)

    def __call__(self, context: Context, query: str) -> str:
        there = any(query.split('"')[1] in str(row.input) for row in context)
        return "yes" if (self._rng.random() < 0.65) == there else "no"


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ["e_process", "clopper_pearson"])
def test_no_result_is_blind_beside_a_bound_of_any_method(tmp_path: Path, estimator: str) -> None:
    """ "Nothing shows that the canary is seen" stood above bounds of methods that do not decide."""
    rows = [(f"note {i} about item {i * 7}", "ab"[i % 2]) for i in range(60)]
    reasons = set()
    for seed in (5, 6, 11, 12):
        result = leakbound.audit(
            rows, system=NearChance(seed), pairs=40, shots=6, epsilon=1.0, state_check=0.0,
            simulations=0, estimator=estimator, out=tmp_path / str(seed),
        )  # fmt: skip
        above = above_zero(result.estimates)
        assert result.verdict != "violation"
        assert result.reason != "attack_blind"
        assert "othing shows" not in summary(result)
        reasons.add((above is None, result.controls is not None and result.controls.seen))
    assert (False, False) in reasons  # a bound above 0, and controls that did not see it


def test_a_lost_control_is_no_change_of_the_system_unless_it_differs_from_the_first() -> None:
    """A classifier with p = .0028 before and .1 after was said to have changed meanwhile."""

    def check(hits: int) -> ControlCheck:
        member = np.repeat([1.0, 0.0], [hits, 8 - hits])
        return check_controls(PairedScores(member, np.zeros(8)), False)

    ((_, chance),) = controls_lost(check(7).followed_by([check(3)]))
    ((_, changed),) = controls_lost(check(8).followed_by([check(0)]))
    assert ("no evidence that the system changed" in chance, "quota" in chance) == (True, False)
    assert "the system changed during the audit (an exhausted quota" in changed


def test_only_what_decides_stands_under_what_decides(rows: Context, tmp_path: Path) -> None:
    """A bound on mu stood there for systems without noise, with an epsilon "if Gaussian"."""
    result = leakbound.audit(
        rows, system=lambda context, query: "no", pairs=4, shots=4, simulations=0, out=tmp_path
    )
    assert result.decided_by == ("e_process",)
    assert result.estimate("e_process_mu").details["implied_epsilon"] >= 0
    assert "if Gaussian" not in page([result])


def test_one_obstacle_is_shown_and_the_others_behind_v() -> None:
    result = RECORD.model_copy(
        update={
            "verdict": "inconclusive",
            "reason": "attack_blind",
            "sentences": ("a.", "b.", "c."),
        }
    )
    short, long = summary(result), summary(result, verbose=True)
    assert ("attack blind: a.\n" in short, "b." in short) == (True, False)
    assert "  C.\n" in long
