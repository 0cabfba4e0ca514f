"""An option that is given in two layers is merged or refused, and never dropped."""

from __future__ import annotations

from typing import Any

import pytest

import leakbound
from leakbound.attacks import Hex, Membership, PredictedMember
from leakbound.auditing.spec.audit_spec import flat_keys, make_spec, merge_keys
from leakbound.errors import LeakboundError, UsageError
from leakbound.mechanisms import ReportNoisyMax
from leakbound.tasks import Context

BELOW: list[dict[str, Any]] = [
    {"mechanism.partitions": 2},
    {"mechanism": {"partitions": 2}},
    {"mechanism": {"kind": "report_noisy_max", "partitions": 2}},
]


@pytest.mark.parametrize("below", BELOW)
def test_an_option_below_a_named_kind_is_kept(below: dict[str, Any]) -> None:
    """A file or --set gave an option, and a flag the kind: ten partitions were planned."""
    merged = merge_keys(flat_keys(below), flat_keys({"mechanism": "report_noisy_max"}))
    assert make_spec(merged).system.mechanism.options == {"partitions": 2}


@pytest.mark.parametrize("key", ["canary.digitz", "mechanism.partitions"])
def test_an_option_that_the_named_kind_lacks_is_refused(key: str, rows: Context) -> None:
    with pytest.raises(UsageError, match=key.partition(".")[2]):
        leakbound.plan(rows, canary="hex", mechanism="few_shot", settings={key: 4})


TWICE: list[dict[str, Any]] = [
    {"epsilon": 1.0, "settings": {"epsilon": 2}},
    {"settings": {"pairs": 20}},
    {"canary": "hex", "settings": {"canary": "natural"}},
    {"mechanism": "few_shot", "settings": {"mechanism": "zero_shot"}},
]


@pytest.mark.parametrize("given", TWICE)
def test_a_parameter_is_no_setting(given: dict[str, Any], rows: Context) -> None:
    with pytest.raises(UsageError, match="is a parameter of its own"):
        leakbound.plan(rows, **given)


WRONG: list[dict[str, Any]] = [
    {"canary": Hex}, {"canary": 3}, {"query": Hex(8)}, {"query": Membership}, {"score": 3},
    {"score": PredictedMember}, {"estimator": 3}, {"task": 3}, {"settings": 3},
    {"attack": 3},
]  # fmt: skip


@pytest.mark.parametrize("given", WRONG, ids=str)
def test_wrong_objects_get_a_sentence(given: dict[str, Any], rows: Context) -> None:
    with pytest.raises(LeakboundError, match="must be"):
        leakbound.plan(rows, **given)


@pytest.mark.parametrize("given", [3, "rows.csv", ["a", "b"], [("a", "b", "c")]])
def test_wrong_rows_get_a_sentence(given: Any) -> None:
    with pytest.raises(LeakboundError, match="must be"):
        leakbound.plan(given)


def never(context: Any, query: str) -> str:
    return "no"


@pytest.mark.parametrize(
    ("relation", "insertion", "use"),
    [("add_remove", None, "'add'"), ("replace_one", "add", "'replace'")],
)
def test_a_claim_under_another_relation_than_the_insertion_is_refused(
    rows: Context, relation: Any, insertion: Any, use: str
) -> None:
    """It was dropped, and the relation of the insertion tested and recorded."""
    claim = leakbound.Claim(1.0, 1e-5, relation)
    with pytest.raises(UsageError, match=f"stated under {relation}.*use insertion={use}"):
        leakbound.plan(rows, system=never, claim=claim, insertion=insertion)


def test_a_claim_has_one_of_two_relations() -> None:
    with pytest.raises(UsageError, match="relation is 'foo'; it must be 'replace_one'"):
        leakbound.Claim(1.0, 1e-5, "foo")  # type: ignore[arg-type]


APPEND = leakbound.Attack(Hex(8), Membership(), insertion="append")
CONTRADICTIONS: list[dict[str, Any]] = [
    {"claim": leakbound.Claim(6.0, 1e-5), "epsilon": 1.0},
    {"claim": leakbound.Claim(1.0, 1e-4), "delta": 1e-5},
    {"attack": APPEND, "insertion": "replace"},
]


@pytest.mark.parametrize("given", CONTRADICTIONS, ids=str)
def test_a_part_that_is_given_beside_the_whole_is_refused_at_its_default_too(
    given: dict[str, Any], rows: Context
) -> None:
    """The claim of 6 was tested, and the epsilon of 1 dropped."""
    with pytest.raises(UsageError, match="is given too; leave one out"):
        leakbound.audit(rows, system=never, **given)


TYPES: list[tuple[dict[str, Any], str]] = [
    ({"epsilon": "1"}, "epsilon is '1'; it must be a number"),
    ({"epsilon": True}, "epsilon is True; it must be a number"),
    ({"pairs": "40"}, "pairs is '40'; it must be a whole number"),
    ({"seed": False}, "seed is False; it must be a whole number"),
]


@pytest.mark.parametrize(("given", "said"), TYPES)
def test_a_text_or_truth_value_is_no_number(given: dict[str, Any], said: str, rows: Any) -> None:
    with pytest.raises(UsageError, match=said):
        leakbound.plan(rows, system=never, **given)


MADE: list[tuple[Any, str]] = [
    (lambda: leakbound.Claim("1", 1e-5), "epsilon is '1'; it must be a number"),  # type: ignore[arg-type]
    (lambda: leakbound.Claim(True, 1e-5), "epsilon is True; it must be a number"),
    (lambda: Hex(8.5), "digits of the canary hex is 8.5; it must be a whole number of at least 1"),  # type: ignore[arg-type]
    (lambda: leakbound.Attack(3, 4), "canary is int; it must be an object with fit and make"),  # type: ignore[arg-type]
    (lambda: leakbound.Attack(Hex(8), 4), "query is int; it must be an object with render"),  # type: ignore[arg-type]
    (lambda: ReportNoisyMax(1.0, partitions=2.5), "partitions is 2.5; it must be a whole"),  # type: ignore[arg-type]
    (lambda: leakbound.Task("m", "ab"), "labels is 'ab'; it must be a sequence of texts"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("made", "said"), MADE, ids=[said for _, said in MADE])
def test_an_object_of_wrong_parts_is_refused_where_it_is_made(made: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        made()
