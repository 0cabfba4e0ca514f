"""leakbound.audit: which runs are resumed, and how parts are named."""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import leakbound
from leakbound._catalogue import Component
from leakbound.api.audits import prepare_call
from leakbound.api.parameters import AuditParameters
from leakbound.attacks import Attack, Hex, Membership, PredictedMember
from leakbound.attribution import load_influence
from leakbound.auditing.spec.audit_spec import ALIASES, KEYS
from leakbound.errors import UsageError
from leakbound.mechanisms import ReportNoisyMax, ZeroShot
from leakbound.tasks import Context

SMALL = {"pairs": 6, "shots": 4, "simulations": 1000, "controls": 0, "state_check": 0.0}
CALLS = 12  # two contexts of each pair
SYSTEM = """
calls = []

def leaky(context, query):
    calls.append(1)
    return "yes" if any(row.input == query.split('"')[1] for row in context) else "no"
"""


def loaded(path: Path, text: str) -> Any:
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_rows_come_from_one_place(rows: Context, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="leave one of them out"):
        leakbound.audit(
            rows, system=lambda context, query: "no", out=tmp_path, data="other.jsonl", **SMALL
        )


@pytest.mark.slow
def test_a_function_is_known_by_its_file(rows: Context, tmp_path: Path) -> None:
    file, out = tmp_path / "mine.py", tmp_path / "runs"
    first = loaded(file, SYSTEM)
    record = leakbound.audit(rows, system=first.leaky, out=out, **SMALL)
    assert len(first.calls) == CALLS
    again = loaded(file, SYSTEM)
    assert leakbound.audit(rows, system=again.leaky, out=out, **SMALL).to_json() == record.to_json()
    assert not again.calls
    changed = loaded(file, SYSTEM.replace('"yes"', '"no"'))
    leakbound.audit(rows, system=changed.leaky, out=out, **SMALL)
    assert len(changed.calls) == CALLS


def closing_over(said: str, calls: list[int]) -> Callable[[Any, str], str]:
    def system(context: Any, query: str) -> str:
        calls.append(1)
        return said

    return system


def test_a_closure_is_never_taken_for_an_earlier_one(rows: Context, tmp_path: Path) -> None:
    for said in ("yes", "no"):
        calls: list[int] = []
        leakbound.audit(rows, system=closing_over(said, calls), out=tmp_path, **SMALL)
        assert len(calls) == CALLS


ALIKE = """
def leaky(context, query):
    return "yes" if any(row.input == query.split('"')[1] for row in context) else "no"

def made(leaks):
    def answer(context, query, leaks=leaks):
        return leaky(context, query) if leaks else "no"
    return answer

def kind(leaks):
    class System:
        def __call__(self, context, query):
            return leaky(context, query) if leaks else "no"
    return System

LAMBDAS = lambda context, query: "no", lambda context, query: leaky(context, query)
DEFAULTS = made(False), made(True)
CLASSES = kind(False), kind(True)
"""


@pytest.mark.slow
def test_systems_of_one_name_and_file_are_not_taken_for_each_other(
    rows: Context, tmp_path: Path
) -> None:
    module = loaded(tmp_path / "alike.py", ALIKE)
    for pair in (module.LAMBDAS, module.DEFAULTS, module.CLASSES):
        sound, leaky = (
            leakbound.audit(rows, system=one, out=tmp_path / "runs", **SMALL | {"pairs": 24})
            for one in pair
        )
        assert (sound.verdict, leaky.verdict) == ("inconclusive", "violation")


@dataclass(frozen=True, slots=True)
class Titled:
    """A component whose instances have names of their own."""

    name: str = "mine"
    size: int = 2


class Renamed(ReportNoisyMax):
    @property
    def name(self) -> str:  # type: ignore[override]
        return "renamed"


def test_a_component_has_the_name_of_its_object() -> None:
    assert Component.of(Titled("yours"), {}).kind == "yours"
    assert Component.of(Renamed(1.0), {}).kind == "renamed"


def test_every_parameter_is_a_key_or_stands_for_several_and_is_described() -> None:
    several = {"attack", "guarantee", *ALIASES}
    assert {*AuditParameters.__annotations__} <= {*KEYS, *several}
    about = inspect.getdoc(leakbound.audit) or ""
    assert [one for one in AuditParameters.__annotations__ if f"\n    {one}: " not in about] == []


@pytest.mark.parametrize(
    ("mechanism", "access", "score"),
    [
        (ReportNoisyMax(1.0), None, "label_margin"),
        (ReportNoisyMax(1.0), "black_box", "predicted_member"),
        (ZeroShot(), None, "predicted_member"),
    ],
)
def test_an_attack_without_a_score_gets_the_strongest_that_access_allows(
    rows: Context, mechanism: Any, access: Any, score: str
) -> None:
    attack = Attack(Hex(16), Membership())
    found = prepare_call(
        rows,
        mechanism=mechanism,
        attack=attack,
        access=access,
        task=leakbound.Task("mail", ("odd", "plain")),
    ).attack
    assert found.score.name == score
    assert found.canary == Hex(16)


def test_a_score_of_an_attack_is_kept(rows: Context) -> None:
    attack = Attack(Hex(16), Membership(), PredictedMember())
    found = prepare_call(
        rows,
        mechanism=ReportNoisyMax(1.0),
        attack=attack,
        task=leakbound.Task("mail", ("odd", "plain")),
    )
    assert found.attack.score == PredictedMember()


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"attack": Hex()}, r"attack is Hex; it must be an Attack, such as Attack\(Hex\(16\)"),
        ({"claim": 2.0}, r"claim is 2.0; it must be a Claim, such as Claim\(1.0, 1e-5\), or"),
        ({"model": 3}, "model is int; it must be an address such as 'pocket'"),
    ],
)
def test_an_object_of_another_class_is_refused_in_a_sentence(
    rows: Context, given: Any, sentence: str
) -> None:
    with pytest.raises(UsageError, match=sentence):
        leakbound.plan(rows, **given)


def test_help_shows_every_parameter_of_an_audit_with_its_default() -> None:
    shown = inspect.signature(leakbound.audit).parameters
    assert list(shown)[:2] == ["rows", "system"]
    assert (shown["pairs"].default, shown["design"].default, shown["query"].default) == (
        100, "paired", None,
    )  # fmt: skip
    assert shown.keys() - {"calls", "out"} == inspect.signature(leakbound.plan).parameters.keys()
    assert shown == inspect.signature(leakbound.audit_async).parameters


def test_an_audit_is_awaited_while_a_loop_goes_on(rows: Context, tmp_path: Path) -> None:
    """In a notebook, a loop runs already, and a system of it may be asynchronous."""

    async def silent(context: object, query: str) -> str:
        await asyncio.sleep(0)
        return "no"

    async def both() -> tuple[leakbound.AuditResult, int]:
        turns, task = 0, asyncio.ensure_future(
            leakbound.audit_async(rows, system=silent, out=tmp_path / "a", **SMALL)
        )  # fmt: skip
        while not task.done():
            turns += 1
            await asyncio.sleep(0.01)
        return task.result(), turns

    awaited, turns = asyncio.run(both())
    assert turns > 1
    plain = leakbound.audit(rows, system=silent, out=tmp_path / "b", **SMALL)
    assert awaited.verdict == plain.verdict
    assert awaited.counts == plain.counts


def test_results_print_what_they_found_and_become_frames() -> None:
    """str(influence) was empty; numbers stand in it, and no text of the context."""
    golden = Path(__file__).parent / "golden"
    influence = load_influence(golden / "influence-2.json")
    said = str(influence)
    whole = influence.attributions[0].readings[0].grids[-1]
    assert f"influence {whole.totals[0]:.3f} nats" in said
    assert "48213" not in said
    assert influence.to_frame().equals(influence.to_pandas())
    (file,) = (golden / "audit-2").glob("report_noisy*")
    assert leakbound.load_result(file).to_frame()["decides"].sum() == 1
    scores = leakbound.bounds([1.0] * 60, [0.0] * 60, design="paired")
    assert {"to_frame", "epsilon", "save"} <= {*dir(scores)}
    assert "model_dump" not in dir(influence)
