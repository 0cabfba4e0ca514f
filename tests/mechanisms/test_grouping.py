"""How a service groups its examples: by public facts, unless its operator says otherwise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import leakbound
from leakbound.auditing.prepare.build import build_served
from leakbound.auditing.spec.audit_spec import make_spec
from leakbound.errors import UsageError
from leakbound.mechanisms import (
    MECHANISMS,
    PublicFacts,
    ReportNoisyMax,
    option_names,
    service_options,
)
from leakbound.models import Counted, Scripted
from leakbound.tasks import PublicManifest, Task
from leakbound.tasks.synthetic import HELP_DESK

DELTA = 1e-5
LABELS = ("odd", "plain")
ROWS = [(f"message {i}", LABELS[i % 2]) for i in range(20)]


def facts(shots: int, labels: int = 4, epsilon: float = 4.0) -> PublicFacts:
    return PublicFacts(shots, labels, epsilon, DELTA)


def test_a_vote_sees_at_least_four_examples_and_one_of_each_label() -> None:
    assert [facts(shots).partitions(facts(shots).least) for shots in (1, 4, 8, 20)] == [1, 1, 2, 5]
    assert facts(20, labels=6).least == 6
    assert facts(20, labels=2).least == facts(20, labels=0).least == 4


def test_partitions_grow_once_noise_no_longer_decides() -> None:
    """sigma is 5.28, 2.82, 1.53 and 0.85: six of it, rounded up, are enough votes."""
    wanted = {1.0: 32, 2.0: 17, 4.0: 10, 8.0: 6}
    assert {e: facts(400, epsilon=e).partitions(4) for e in wanted} == wanted


GROUPS: dict[str, tuple[dict[str, int], dict[str, int]]] = {  # of 20 examples: labels, free answers
    "report_noisy_max": ({"partitions": 5}, {"partitions": 5}),
    "embedding_mean": ({"partitions": 5}, {"partitions": 5}),
    "keyword_mean": ({"partitions": 5}, {"partitions": 5}),
    "synthetic_shots": ({"partitions": 2}, {"partitions": 5}),
    "product_of_experts": ({"group_size": 2}, {"group_size": 1}),
    "invisible_ink": ({"partitions": 10}, {"partitions": 20}),
}


@pytest.mark.parametrize("name", sorted(MECHANISMS))
def test_each_mechanism_groups_as_its_paper_does(name: str) -> None:
    found = service_options(name, {}, facts(20)), service_options(name, {}, facts(20, labels=0))
    assert found == GROUPS.get(name, ({}, {}))


@pytest.mark.parametrize(
    ("name", "given", "wanted"),
    [
        ("report_noisy_max", {"partitions": 10}, {"partitions": 10}),
        ("report_noisy_max", {"sigma": 2.0}, {"partitions": 5, "sigma": 2.0}),
        ("product_of_experts", {"group_size": 3}, {"group_size": 3}),
        (
            "product_of_experts",
            {"calibration": "add_remove"},
            {"group_size": 1, "calibration": "add_remove"},
        ),
        ("invisible_ink", {"partitions": 4}, {"partitions": 4}),
    ],
)
def test_what_the_operator_says_wins(
    name: str, given: dict[str, Any], wanted: dict[str, Any]
) -> None:
    assert service_options(name, given, facts(20)) == wanted
    spec = make_spec({"mechanism": {"kind": name, **given}, "shots": 20, "epsilon": 4.0})
    config = build_served(spec, HELP_DESK).to_config()
    assert wanted.items() <= config.items()


def test_a_rule_may_not_count_examples_where_their_number_is_private() -> None:
    """Under add_remove a neighbour has one more, and must be answered by the same mechanism."""
    for name, given in (
        ("invisible_ink", {"relation": "add_remove"}),
        ("product_of_experts", {"calibration": "add_remove"}),
    ):
        one, other = (service_options(name, given, facts(shots)) for shots in (20, 21))
        assert one == other
    assert "partitions" not in service_options(
        "invisible_ink", {"relation": "add_remove"}, facts(9)
    )


def test_too_many_partitions_of_the_operator_are_still_refused() -> None:
    spec = make_spec({"mechanism": {"kind": "report_noisy_max", "partitions": 30}, "shots": 20})
    with pytest.raises(UsageError, match="30 partitions need at least as many examples"):
        build_served(spec, HELP_DESK)


def test_an_answer_asks_groups_and_its_manifest_says_so(tmp_path: Path) -> None:
    """Before, ten partitions answered, of whatever size."""
    model = Counted(Scripted(complete=lambda prompt: "odd"))
    found = leakbound.answer(
        "which?", ROWS, labels=LABELS, model=model, epsilon=1.0, ledger=tmp_path / "l.sqlite"
    )
    task = Task("classification", LABELS)
    grouped = ReportNoisyMax.calibrated(1.0, DELTA, partitions=5)
    assert found.manifest == PublicManifest.of(task, grouped, model, 1000).digest
    assert model.calls == 5 + 1  # and one without private rows, before the spend


@pytest.mark.parametrize("rows", [5, 9, 10])
def test_under_add_remove_a_service_starts_with_any_number_of_examples(rows: int) -> None:
    """With fewer than partitions, too: their number is private."""
    spec = make_spec({"mechanism": "invisible_ink", "mechanism.relation": "add_remove",
                      "shots": rows, "epsilon": 4.0})  # fmt: skip
    made = build_served(spec, HELP_DESK)
    assert made.to_config()["partitions"] == 10


def test_a_pure_claim_needs_no_gaussian_noise_to_group_examples() -> None:
    given = {"partitions": 5, "selection": "joint_exponential"}
    pure = PublicFacts(20, 2, 4.0, 0.0)
    assert service_options("keyword_mean", given, pure)["partitions"] == 5
    assert pure.partitions(4) == 5


def test_no_class_counts_examples_whose_number_is_private() -> None:
    for name in MECHANISMS:
        if "relation" in option_names(MECHANISMS[name]):
            given = {"relation": "add_remove"}
            few, many = (service_options(name, given, facts(shots)) for shots in (11, 40))
            assert few == many, name
