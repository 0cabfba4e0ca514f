"""Attacks: canaries, queries and scores, and the refusal of what a system does not release."""

import re

import numpy as np
import pytest

from leakbound.attacks import (
    Attack,
    Given,
    Hex,
    IfThenExplicit,
    InputOutput,
    LabelMargin,
    Membership,
    Natural,
    PredictedMember,
)
from leakbound.errors import TargetError, UsageError
from leakbound.mechanisms import FewShot, ReportNoisyMax
from leakbound.tasks import Example, Outputs, Task

TASK = Task("t", ("a", "b"))
HELD = Example("held out", "b")


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_hex_is_random_and_repeats() -> None:
    one, other = (Hex(24).make(HELD, "a", rng(s)) for s in (1, 2))
    assert re.fullmatch(r"[0-9a-f]{24}", one.input)
    assert one.label == "a"
    assert one != other
    assert one == Hex(24).make(HELD, "a", rng(1))


def test_natural_and_given() -> None:
    assert Natural().make(HELD, "a", rng()) == HELD
    assert Given("mine").make(HELD, "a", rng()) == Example("mine", "a")
    assert Given("mine", "b").make(HELD, "a", rng()) == Example("mine", "b")
    with pytest.raises(UsageError, match="given:text=TEXT"):
        Given()


@pytest.mark.parametrize("query", [Membership(), IfThenExplicit(), InputOutput()])
def test_queries_name_the_canary_and_allow_their_answers(query: object) -> None:
    asked = query.render(Example("deadbeef", "a"), TASK, "a", "b")  # type: ignore[attr-defined]
    assert "deadbeef" in asked.query.text
    answers = TASK.answers(asked.query)
    assert asked.member in answers
    assert asked.nonmember is None or asked.nonmember in answers


def test_input_output_needs_labels() -> None:
    with pytest.raises(UsageError, match="use membership or if_then_explicit"):
        InputOutput().render(HELD, Task("free"), "a", "b")


def test_scores_are_higher_for_members() -> None:
    asked = Membership().render(HELD, TASK, "a", "b")
    outputs = Outputs(
        np.array([0, 1, 2]), np.array([[2.0, 1.0, 0.0], [1.0, 4.0, 0.0], [0.0, 0.0, 5.0]])
    )
    assert PredictedMember().score(outputs, asked, ("yes", "no")).tolist() == [1, 0, 0]
    assert LabelMargin().score(outputs, asked, ("yes", "no")).tolist() == [1, -3, 0]
    open_ended = InputOutput().render(Example("x", "a"), TASK, "a", "b")
    assert LabelMargin().score(outputs, open_ended, ("a", "b")).tolist() == [1, -3, -5]


def test_white_box_attacks_need_white_box_systems() -> None:
    attack = Attack(Hex(), Membership(), LabelMargin())
    attack.require(ReportNoisyMax(1.0))
    with pytest.raises(
        TargetError, match="needs white_box access, and few_shot offers only black_box"
    ):
        attack.require(FewShot())


def test_an_attack_may_leave_its_score_to_the_audit() -> None:
    attack = Attack(Hex(), Membership())
    assert (attack.score, attack.access) == (None, None)
    attack.require(FewShot())
