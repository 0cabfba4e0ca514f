"""An option that is given in two layers is merged or refused, and never dropped."""

from __future__ import annotations

from typing import Any

import pytest

import leakbound
from leakbound.attacks import Hex, Membership, PredictedMember
from leakbound.auditing.spec import flat_keys, make_spec, merge_keys
from leakbound.errors import LeakboundError, UsageError
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
    {"attack": leakbound.Attack(1, 2)},  # type: ignore[arg-type]
]  # fmt: skip


@pytest.mark.parametrize("given", WRONG, ids=str)
def test_wrong_objects_get_a_sentence(given: dict[str, Any], rows: Context) -> None:
    with pytest.raises(LeakboundError, match="must be"):
        leakbound.plan(rows, **given)


@pytest.mark.parametrize("given", [3, "rows.csv", ["a", "b"], [("a", "b", "c")]])
def test_wrong_rows_get_a_sentence(given: Any) -> None:
    with pytest.raises(LeakboundError, match="must be"):
        leakbound.plan(given)
