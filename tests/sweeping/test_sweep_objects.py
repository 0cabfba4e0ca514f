"""`sweep` and `tune` take objects wherever a name is taken; the record names each."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest
from leakbound_lab.tuning import tune

import leakbound
from leakbound.api.decisions import describe_grid, keys_and_objects, name_objects
from leakbound.attacks import Attack, Hex, Membership
from leakbound.auditing import Claim
from leakbound.errors import UsageError
from leakbound.mechanisms import ReportNoisyMax
from leakbound.models import Scripted
from leakbound.sweeping import SweepRecord
from leakbound.tasks import Context, Task

SMALL: dict[str, Any] = {"pairs": 3, "shots": 4, "simulations": 100}


def leaks(context: Context, query: str) -> str:
    return "yes" if any(str(row.input) in query for row in context) else "no"


def refuses(context: Context, query: str) -> str:
    return "no"


class Short(Hex):
    """A canary that no catalogue holds."""


def swept(rows: Context, grid: Any, out: Path, **given: Any) -> SweepRecord:
    return leakbound.sweep(grid, rows=rows, out=out, **SMALL | given)


def named(record: SweepRecord, key: str) -> list[object]:
    return [point.changes[key] for point in record.points]


@pytest.mark.parametrize(
    ("key", "values", "names"),
    [
        ("canary", [Hex(8), "hex"], ["hex(digits=8)", "hex"]),
        ("canary", [Short(4), Hex(4)], ["Short(digits=4)", "hex(digits=4)"]),
        ("claim", [Claim(1.0, 1e-5), Claim(4.0, 1e-6)], ["(1, 1e-05)", "(4, 1e-06)"]),
        ("attack", [Attack(Hex(8), Membership()), Attack(Hex(), Membership(), insertion="append")],
         ["hex(digits=8)+membership", "hex+membership+append"]),
        ("system", [leaks, refuses], ["leaks", "refuses"]),
        ("task", [Task("one", ("odd", "plain")), Task("two", ("odd", "plain"))], ["one", "two"]),
    ],
)  # fmt: skip
def test_a_grid_holds_objects(
    rows: Context, tmp_path: Path, key: str, values: list[object], names: list[str]
) -> None:
    given: dict[str, Any] = {} if key == "system" else {"system": leaks}
    record = swept(rows, {key: values}, tmp_path, **given)
    assert named(record, key) == names
    assert len({point.run for point in record.points}) == 2


def test_each_object_runs_at_its_point(rows: Context, tmp_path: Path) -> None:
    record = swept(rows, {"system": [leaks, refuses]}, tmp_path, pairs=16)
    assert [point.verdict for point in record.points] == ["violation", "inconclusive"]


def test_a_guarantee_is_that_of_the_systems_of_a_grid(rows: Context, tmp_path: Path) -> None:
    declared = leakbound.PureDP(2.0)
    record = swept(rows, {"system": [refuses, leaks]}, tmp_path, guarantee=declared)
    assert len(record.points) == 2
    with pytest.raises(UsageError, match="guarantee is what a system declares"):
        swept(rows, {"canary": [Hex(8)]}, tmp_path, guarantee=declared, system=None)


def point(grid: Any, parameters: dict[str, Any], changes: dict[str, Any]) -> Any:
    base, shared = keys_and_objects("sweep", None, parameters, {})
    return describe_grid(grid, shared, parameters, base).point(base, changes, seed=3)


def test_objects_of_a_grid_stand_before_those_of_the_base() -> None:
    grid = {"canary": [Short(4), "natural"]}
    assert name_objects(grid) == {"canary": ["Short(digits=4)", "natural"]}
    spec, handed = point(grid, {"canary": Hex(8)}, {"canary": "Short(digits=4)"})
    assert (spec.attack.canary.python, handed.canary) == (f"{__name__}:Short", Short(4))
    spec, handed = point(grid, {"canary": Short(8)}, {"canary": "natural"})
    assert (spec.attack.canary.kind, handed.canary) == ("natural", None)


class Asking(Membership):
    """A query that says which canary it is used with."""

    canary: ClassVar[str] = "coded"


def test_the_usual_canary_of_a_query_takes_the_place_of_none_that_is_named() -> None:
    grid: dict[str, list[object]] = {"canary": ["natural", "hex"], "query": [Asking(), "recall"]}
    for given in ({}, {"canary": "natural"}):
        for changes in ({"query": "Asking"}, {"query": "Asking", "canary": "hex"}):
            spec, handed = point(grid, given, changes)
            wanted = changes.get("canary", given.get("canary", "coded"))
            assert (spec.attack.canary.kind, handed.query) == (wanted, Asking())


def test_a_grid_changes_an_option_of_an_object_that_a_name_makes() -> None:
    grid, base = {"mechanism.partitions": [2, 4]}, {"mechanism": ReportNoisyMax(3.0)}
    spec, handed = point(grid, base, {"mechanism.partitions": 4})
    options = spec.system.mechanism.options
    assert (options["sigma"], options["partitions"], handed.mechanism) == (3.0, 4, None)
    with pytest.raises(UsageError, match=r"canary\.digits, and canary is a Python object"):
        point({"canary.digits": [2]}, {"canary": Short(8)}, {"canary.digits": 2})


def test_a_claim_of_the_defaults_wins_over_the_base() -> None:
    grid = {"claim": [Claim(1.0, 1e-5)]}
    spec, _ = point(grid, {"epsilon": 4.0}, {"claim": "(1, 1e-05)"})
    assert spec.decision.epsilon == 1.0
    grid = {"claim": [Claim(1.0, 1e-5, "add_remove")]}
    with pytest.raises(UsageError, match="the claim is stated under add_remove"):
        point(grid, {}, {"claim": "(1, 1e-05)"})


@pytest.mark.parametrize(
    ("grid", "given", "sentence"),
    [
        ({"canary": [Hex(8), Hex(8)]}, {}, "name one value twice"),
        ({"canary": [3.5j]}, {}, "canary is complex; it must be a name, or an object with every"),
        ({"epsilon": [Hex(8)]}, {}, "must be a list of numbers or names"),
        ({"mechanism": ["few_shot", "zero_shot"]}, {}, "in place of a mechanism; leave one"),
        ({"epsilon": [1, 2]}, {"epsiln": 3}, "sweep has no parameter 'epsiln'. Did you mean 'epsi"),
        ({"epsilon": [1, 2]}, {"pairs": "8"}, "pairs is '8'; it must be a whole number"),
        ({"epsilon": [1, 2]}, {"settings": 3}, "settings is int; it must be a mapping"),
        ({"epsilon": [1, 2]}, {"settings": {"pairs": 3}}, "given pairs, and settings has it too"),
    ],
)
def test_what_cannot_be_swept_is_refused(
    rows: Context, tmp_path: Path, grid: Any, given: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(UsageError, match=sentence):
        swept(rows, grid, tmp_path, **{"system": leaks} | given)


def test_objects_may_stand_in_the_settings(rows: Context, tmp_path: Path) -> None:
    base = {"system": leaks, "canary": Hex(8), **SMALL}
    record = leakbound.sweep({"epsilon": [1, 2]}, base, rows=rows, out=tmp_path)
    assert len(record.points) == 2


def test_tasks_of_one_name_are_told_apart(rows: Context) -> None:
    one, other = Task("mail", ("odd", "plain")), Task("mail", ("odd", "plain"), instruction="Guess")
    found = [
        leakbound.api.audits.prepare_call(rows, system=leaks, task=task) for task in (one, other)
    ]
    assert found[0].name != found[1].name
    assert found[0].questions != found[1].questions


def test_tune_takes_objects(rows: Context, tmp_path: Path) -> None:
    given: dict[str, Any] = {
        "pilot_pairs": 4,
        "max_calls": 60,
        "reflection": "none",
        "out": tmp_path,
    }
    model = Scripted(complete=lambda prompt: "yes", name="says-yes")
    found = tune(rows=rows, model=model, canary=Short(8), shots=4, **given)
    assert found.prepared.attack.canary == Short(8)
    assert found.prepared.model is model
    found = tune({"canary": Hex(8), "shots": 4}, rows=rows, system=refuses, **given)
    assert found.prepared.spec.attack.canary.options == {"digits": 8}
    with pytest.raises(UsageError, match="tune has no parameter 'canari'"):
        tune(canari=Hex(8), **given)  # type: ignore[call-arg]
