"""Exported configurations: every key comes back, and what a run does not keep is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

import leakbound
from leakbound.attacks import Attack, Hex, Membership, PredictedMember
from leakbound.auditing import make_spec, prepare, run_audit
from leakbound.auditing.result.audit_result import config_text
from leakbound.auditing.spec.audit_spec import load_config
from leakbound.errors import UsageError
from leakbound.estimators import EProcess
from leakbound.mechanisms import ReportNoisyMax
from leakbound.models import Scripted

QUICK: dict[str, Any] = {"pairs": 6, "shots": 5, "simulations": 0}
OPTIONS: list[dict[str, Any]] = [
    {"epsilon": 3, "delta": 1e-7, "threshold": 0.5, "seed": 4},
    {"mechanism": "report_noisy_max", "mechanism.partitions": 4, "threshold": "split:0.5"},
    {"canary": "given", "canary.text": "no: 'yes'\n- \"ü\"", "stop_when_rejected": True,
     "answers": 2, "mechanism": "report_noisy_max", "mechanism.partitions": 5},
    {"mechanism": {"kind": "prompt_defense", "level": 2}, "insertion": "append",
     "estimator": "clopper_pearson", "task": "help_desk"},
]  # fmt: skip


def named(name: str) -> Scripted:
    return Scripted(complete=lambda prompt: "no", name=name)


@pytest.mark.parametrize("options", OPTIONS)
def test_the_same_run_is_found(tmp_path: Path, options: dict[str, Any]) -> None:
    spec = make_spec(QUICK | options)
    record, _ = run_audit(prepare(spec, named("pocket")), tmp_path / "runs")
    file = tmp_path / "again.yaml"
    file.write_text(config_text(record), encoding="utf-8")
    again = make_spec(load_config(file))
    assert again == spec
    assert prepare(again, named("pocket")).name == record.name


def test_what_a_run_does_not_keep_is_refused(tmp_path: Path) -> None:
    rows = [(f"row {i}", "ab"[i % 2]) for i in range(20)]
    handed = leakbound.audit(rows, model=named("pocket"), out=tmp_path, **QUICK)
    with pytest.raises(UsageError, match=r"Python objects \(rows\)"):
        config_text(handed)
    with pytest.raises(UsageError, match=r"Python objects \(model\)"):
        config_text(leakbound.audit(model=named("mine"), out=tmp_path, **QUICK))

    def answer(context: object, query: str) -> str:
        return "no"

    with pytest.raises(UsageError, match=r"Python objects \(mechanism\)"):
        config_text(leakbound.audit(system=answer, out=tmp_path, **QUICK))


SENTENCES = [(f"sentence {i}", ("objective", "subjective")[i % 2]) for i in range(20)]


@pytest.mark.parametrize("task", ["subj", None])
def test_own_rows_never_become_those_of_a_public_or_bundled_task(
    tmp_path: Path, task: str | None
) -> None:
    """The exported file would have audited the public rows of subj, or the bundled ones."""
    given: dict[str, Any] = {**QUICK, "controls": 0, "task": task}
    handed = leakbound.audit(SENTENCES, model=named("pocket"), out=tmp_path / "a", **given)
    rows = [{"text": text, "label": label} for text, label in SENTENCES]
    prepared = prepare(make_spec({**given, "rows": rows}), named("pocket"))
    own, _ = run_audit(prepared, tmp_path / "b")
    for record in (handed, own):
        with pytest.raises(UsageError, match=r"Python objects \(rows\), or rows that its config"):
            config_text(record)


def test_nothing_private_is_in_it(tmp_path: Path) -> None:
    record = leakbound.audit(model=named("pocket"), out=tmp_path, store_text="all", **QUICK)
    values = yaml.safe_load(config_text(record))
    assert "rows" not in values
    assert record.example_prompt not in config_text(record)


NAMED = {
    "canary": Hex(8),
    "estimator": EProcess(),
    "score": PredictedMember(),
    "mechanism": ReportNoisyMax.calibrated(4.0, 1e-5, partitions=4),
    "attack": Attack(Hex(8), Membership()),
}


@pytest.mark.parametrize("key", NAMED)
def test_an_object_that_a_name_makes_is_exported(key: str, tmp_path: Path) -> None:
    given: Any = {key: NAMED[key]}
    record = leakbound.audit(model=named("pocket"), out=tmp_path, **QUICK, **given)
    assert record.handed == ()
    file = tmp_path / "again.yaml"
    file.write_text(config_text(record), encoding="utf-8")
    assert prepare(make_spec(load_config(file)), named("pocket")).name == record.name


class Own(Hex):
    """A canary of somebody's own, under the name of another."""


def test_an_object_of_another_class_is_not_taken_for_the_named_one(tmp_path: Path) -> None:
    record = leakbound.audit(model=named("pocket"), canary=Own(8), out=tmp_path, **QUICK)
    assert record.handed == ("canary",)
    with pytest.raises(UsageError, match="register a class of your own by an entry point"):
        config_text(record)
