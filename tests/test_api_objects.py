"""Objects that are handed over: what lacks a member is refused in a sentence that names it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import leakbound
from leakbound._members import members_of
from leakbound.attacks import AuditQuery, Canary, Hex, Membership, PredictedMember, Score
from leakbound.errors import UsageError
from leakbound.estimators import EProcess, Estimator
from leakbound.tasks import Context

WHOLE = {
    "query": (Membership(), AuditQuery),
    "canary": (Hex(), Canary),
    "score": (PredictedMember(), Score),
    "estimator": (EProcess(), Estimator),
}
LACKING = [
    (key, thing, member)
    for key, (thing, protocol) in WHOLE.items()
    for member in members_of(protocol)
]


def without(thing: object, protocol: type[Any], lacking: str) -> SimpleNamespace:
    """An object of no class of this package, with every member but one."""
    members = {name: getattr(thing, name) for name in members_of(protocol) if name != lacking}
    return SimpleNamespace(**members)


def test_members_are_those_that_a_protocol_declares() -> None:
    assert members_of(Canary) == ("name", "mislabels", "of_rows", "fixed", "needs_tokenizer",
                                  "file_contents", "code_digits", "fit", "make")  # fmt: skip


@pytest.mark.parametrize(("key", "thing", "member"), LACKING)
def test_an_object_without_a_member_is_refused(
    rows: Context, key: str, thing: object, member: str
) -> None:
    given: Any = {key: without(thing, WHOLE[key][1], member)}
    with pytest.raises(UsageError, match=rf"{key} is SimpleNamespace; .* it lacks {member}\."):
        leakbound.plan(rows, **given)


@pytest.mark.parametrize("key", WHOLE)
def test_an_object_with_every_member_is_taken(rows: Context, key: str) -> None:
    thing, protocol = WHOLE[key]
    given: Any = {key: without(thing, protocol, "")}
    assert leakbound.plan(rows, system=lambda context, query: "no", **given).pairs == 100


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (
            {"mechanism": SimpleNamespace(name="m")},
            "is not a mechanism: it lacks guarantee, access",
        ),
        ({"mechanism": 3}, "int is not a mechanism: it lacks name, guarantee"),
        ({"task": SimpleNamespace(name="t", answers=())}, "task is SimpleNamespace; it must be a"),
        ({"canary": Hex}, r"canary is the class Hex; it must be a name, or Hex\(\.\.\.\)"),
        (
            {"score": without(PredictedMember(), Score, "levels")},
            "it lacks levels",
        ),
        (
            {
                "query": SimpleNamespace(
                    **vars(without(Membership(), AuditQuery, "")) | {"render": 3}
                )
            },
            r"render of SimpleNamespace is 3; it must be a method that takes \(canary, task, rare",
        ),
        (
            {"canary": SimpleNamespace(**vars(without(Hex(), Canary, "")) | {"make": lambda: 3})},
            r"make of SimpleNamespace takes \(\); it must take \(held_out, label, rng\)",
        ),
    ],
)
def test_what_is_no_such_object_is_refused(rows: Context, given: Any, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        leakbound.plan(rows, **given)
