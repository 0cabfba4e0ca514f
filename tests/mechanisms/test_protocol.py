"""What a mechanism must have, how one is built from options, and what one answer costs."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from leakbound_lab.conformance import conform

from leakbound.api.audits import prepare_call
from leakbound.errors import UsageError
from leakbound.mechanisms import (
    MECHANISMS,
    BoundedCID,
    FewShot,
    MechanismBase,
    ProductOfExperts,
    PromptDefense,
    ReportNoisyMax,
    SubsampleAverage,
    SyntheticShots,
    build_mechanism,
    option_names,
)
from leakbound.mechanisms.parts.single import Undefended
from leakbound.models import Scripted
from leakbound.privacy import Gaussian, Guarantee, NonPrivate, PureDP, self_compose
from leakbound.serving import PrivateICL
from leakbound.serving.ledger import Ledger
from leakbound.tasks import Example, Query, Task, require_mechanism
from leakbound.tasks.mechanism import MEMBERS

CHOICE, FREE = Task("t", ("a", "b")), Task("free")
QUERY = Query("what?")
ROWS = tuple(Example(f"text {i}", "ab"[i % 2]) for i in range(10))


def plain(**changes: Any) -> Any:
    """A class written to the protocol without a base; None leaves a member out."""
    inner = ReportNoisyMax(2.0)
    members = {name: getattr(inner, name) for name in MEMBERS} | changes
    left = {name: value for name, value in members.items() if changes.get(name, 0) is not None}
    return type("Plain", (), {name: _static(value) for name, value in left.items()})()


def _static(value: Any) -> Any:
    return staticmethod(value) if callable(value) else value


def test_a_plain_class_with_every_member_is_a_mechanism() -> None:
    mechanism = plain()
    assert require_mechanism(mechanism) is mechanism
    broken = [check for check in conform(mechanism, pairs=20) if not check.passed]
    assert not broken


def test_estimators_read_the_noise_of_votes_of_any_class() -> None:
    prepared = prepare_call(ROWS * 4, mechanism=plain(), task=CHOICE, pairs=20)
    assert prepared.trial_design.sigma == 2.0
    with pytest.raises(UsageError, match=r"vote_noise of Plain is 0; it must be a VoteNoise"):
        require_mechanism(plain(vote_noise=0))


@pytest.mark.parametrize("name", MEMBERS)
def test_no_member_is_optional(name: str) -> None:
    with pytest.raises(UsageError, match=rf"Plain is not a mechanism: it lacks {name}\."):
        require_mechanism(plain(**{name: None}))
    (first, *_) = conform(plain(**{name: None}), pairs=1)
    assert (first.name, first.passed) == ("members", False)


def test_a_mechanism_without_noise_in_collect_answers_nothing(tmp_path: Path) -> None:
    """Its outputs of epsilon 8 were reused for epsilon 0.1, with 0 model calls."""
    ledger = Ledger(tmp_path / "ledger.sqlite", math.inf, 1e-5)
    model = Scripted(complete=lambda prompt: "a")
    with pytest.raises(UsageError, match="it lacks noise_in_collect"):
        PrivateICL(plain(noise_in_collect=None), ROWS, CHOICE, model, ledger)


def test_a_subclass_must_say_what_has_no_right_default() -> None:
    class Silent(MechanismBase):
        pass

    with pytest.raises(TypeError, match=r"abstract methods .*noise_in_collect.*voters"):
        Silent()  # type: ignore[abstract]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"noise_in_collect": False}, "must be a method that takes (task, query)"),
        ({"cost": lambda task: PureDP(1.0)}, "takes (task); it must take (task, query)"),
        ({"name": ""}, "must be a text that is not empty"),
        ({"guarantee": 1.0}, "such as PureDP(1.0) or NonPrivate()"),
        (
            {"access": frozenset({"grey_box"})},
            "must be a frozenset of black_box, probabilities and white_box",
        ),
        ({"needs": []}, "must be a frozenset of kinds of requests"),
        ({"strongest_score": ""}, "must be the name of a score"),
    ],
)
def test_a_member_that_cannot_be_used_is_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        require_mechanism(plain(**changes))
    assert sentence in str(caught.value)


def test_a_class_is_no_mechanism() -> None:
    with pytest.raises(UsageError, match=r"FewShot is a class; .* such as FewShot\(\.\.\.\)"):
        require_mechanism(FewShot)


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_configuration_makes_the_same_mechanism_again(name: str) -> None:
    pytest.importorskip("dp_accounting")
    made = build_mechanism(name, {}, 2.0, 1e-5)
    assert require_mechanism(made) is made
    config = made.to_config()
    assert config.pop("kind") == name
    assert build_mechanism(name, config, 7.0, 1e-3) == made
    assert made.recalibrated(2.0, 1e-5) == made
    assert made.source == "", "the version of this package stands for its code"


@pytest.mark.parametrize("name", MECHANISMS)
def test_every_mechanism_keeps_its_claim(name: str) -> None:
    pytest.importorskip("dp_accounting")
    made = build_mechanism(name, {}, 0.7, 1e-5)
    epsilon = made.guarantee.epsilon(1e-5)
    assert isinstance(made.guarantee, NonPrivate) or epsilon <= 0.7 * (1 + 1e-9)


def test_options_are_those_of_calibrated_or_the_fields() -> None:
    assert option_names(ReportNoisyMax) == (
        "partitions", "calibration", "noise", "prior", "sampling",
    )  # fmt: skip
    assert option_names(PromptDefense) == ("level", "text")
    assert option_names(BoundedCID) == ("temperature", "tokens", "largest")
    assert ReportNoisyMax.for_claim(2.0, 1e-5, partitions=4) == ReportNoisyMax.calibrated(
        2.0, 1e-5, 4
    )
    assert FewShot.for_claim(2.0, 1e-5) == FewShot()


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("report_noisy_max", {"partitons": 4}, "has no option 'partitons'; its options are "
         "partitions, calibration, noise, prior, sampling, or sigma for noise of your own. Did "
         "you mean 'partitions'?"),
        ("few_shot", {"sigma": 1.0}, "few_shot has no option 'sigma'; it has none. It is an option "
         "of "),
        ("report_noisy_max", {"epsilon": 3.0}, "has no option 'epsilon'"),
        ("report_noisy_max", {"partitions": "four"}, "must be a whole number"),
        ("report_noisy_max", {"calibration": "exact"}, "must be one of 'analytic', 'classical'"),
        ("report_noisy_max", {"sigma": 2.0, "calibration": "classical"}, "leave one of them out"),
        ("report_noisy_max", {"sigma": -2.0}, "sigma is -2.0; it must be a finite number above 0"),
        ("prompt_defense", {"level": 3}, "must be 1 or 2"),
        ("report_noisy_min", {}, "Did you mean 'report_noisy_max'?"),
    ],
)  # fmt: skip
def test_what_cannot_be_built_is_said(name: str, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        build_mechanism(name, options, 1.0, 1e-5)
    assert sentence in str(caught.value)


def test_noise_of_ones_own_needs_no_claim() -> None:
    made = build_mechanism("report_noisy_max", {"sigma": 3.0}, 1.0, 1e-5)
    assert made == ReportNoisyMax(3.0)
    experts = build_mechanism("product_of_experts", {"epsilon": 3.0, "tokens": 2}, 1.0, 1e-5)
    assert experts == ProductOfExperts(3.0, tokens=2)


def test_voters_are_what_an_aggregate_counts() -> None:
    assert ReportNoisyMax(1.0, 7).voters(20) == 7
    assert SubsampleAverage(1.0, 30).voters(20) == 30
    assert ProductOfExperts(1.0, group_size=3).voters(20) == 7
    assert FewShot().voters(20) == 1


def test_a_free_answer_costs_the_composition_of_its_tokens() -> None:
    """It was recorded as 2-DP; at delta 0 its tokens compose to 2.632."""
    made = ProductOfExperts.calibrated(2.0, 1e-5)
    cost = made.cost(FREE, QUERY)
    assert cost.epsilon(0.0) == pytest.approx(2.632, abs=1e-3)
    assert cost.epsilon(1e-5) == pytest.approx(2.0)
    assert made.cost(CHOICE, QUERY).epsilon(0.0) == 2.0
    assert cost.describe().startswith("composition of 8 releases, each 0.329")


def test_the_cost_of_synthetic_examples_is_their_guarantee() -> None:
    made = SyntheticShots.calibrated(2.0, 1e-5)
    cost = self_compose(made.cost(FREE, QUERY), 1)
    assert isinstance(cost, Gaussian), "so that it is tested as Gaussian noise"
    assert cost.mu == pytest.approx(made.guarantee.mu, rel=1e-12)
    twice = self_compose(made.cost(FREE, QUERY), 2)
    assert isinstance(twice, Gaussian)
    assert twice.mu == pytest.approx(math.sqrt(2) * made.guarantee.mu, rel=1e-12)


def test_code_that_changes_is_another_run() -> None:
    """What a function makes may hold values that no file tells, so no run of it goes on."""

    def make() -> FewShot:
        class Mine(FewShot):
            pass

        return Mine()

    one = make()
    assert one.source == one.source != make().source
    assert len(Claimed().source) == 16
    assert FewShot().source == ""


@dataclass(frozen=True, slots=True)
class Claimed(Undefended):
    name: ClassVar[str] = "claimed"
    call: Any = field(default=print, repr=False)
    claim: Guarantee = PureDP(1.0)


def test_a_configuration_holds_plain_values_only() -> None:
    claim = {"kind": "PureDP", "value": 1.0, "relation": "replace_one"}
    assert Claimed().to_config() == {"kind": "claimed", "claim": claim}
    with pytest.raises(UsageError, match="the field claim of Claimed is set; it must be a plain"):
        Claimed(claim={1}).to_config()  # type: ignore[arg-type]


def test_the_code_of_a_class_without_a_file_is_found() -> None:
    space: dict[str, Any] = {"__name__": "nowhere", "FewShot": FewShot}
    sources = []
    for answer in (1, 2):
        exec(
            f"class Mine(FewShot):\n    def voters(self, shots):\n        return {answer}\n", space
        )
        sources.append(space["Mine"]().source)
    assert sources[0] != sources[1]


def test_aggregates_hold_for_every_claim_or_for_one() -> None:
    assert not ProductOfExperts(1.0).noise_in_collect(CHOICE, QUERY)
    assert ProductOfExperts(1.0).noise_in_collect(FREE, QUERY)
    assert SyntheticShots(1.0).noise_in_collect(CHOICE, QUERY)
    assert np.isinf(FewShot().cost(CHOICE, QUERY).epsilon(0.1))
