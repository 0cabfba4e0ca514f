"""What trackers of others get of a result, and what an integration says without its host."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

import pytest
from leakbound_hosts.summary import e_value_of, labels_of, numbers_of, public_record

import leakbound
from leakbound._install import install_hint
from leakbound.auditing import AuditResult
from leakbound.errors import UsageError

SECRET = "zanzibar"
ROWS = [(f"{SECRET} message {i}", "ab"[i % 2]) for i in range(40)]


def audited(out: Path, **options: str) -> AuditResult:
    def leaks(context: tuple[leakbound.Example, ...], query: str) -> str:
        return "yes" if any(str(row.input) in query for row in context) else "no"

    return leakbound.audit(ROWS, system=leaks, pairs=12, simulations=0, out=out, **options)  # type: ignore[arg-type]


def test_the_numbers_are_those_of_the_result(tmp_path: Path) -> None:
    result = audited(tmp_path)
    numbers = numbers_of(result)
    assert numbers["leakbound/epsilon_bound"] == result.bound.epsilon
    assert numbers["leakbound/tested_pairs"] == 12
    assert numbers["leakbound/e_value"] == e_value_of(result) > 20  # type: ignore[operator]
    assert labels_of(result)["leakbound.verdict"] == "violation"
    assert public_record(result) == result.to_json()  # as it lies in the run folder


def test_an_e_value_beyond_floats_is_the_largest(tmp_path: Path) -> None:
    result = audited(tmp_path)
    path = result.e_values.model_copy(update={"log_e_values": (1e6,)})  # type: ignore[union-attr]
    far = result.model_copy(update={"e_values": path})
    assert e_value_of(far) == pytest.approx(sys.float_info.max)
    assert e_value_of(result.model_copy(update={"e_values": None})) is None


def test_private_text_stays_in_the_run_folder(tmp_path: Path) -> None:
    result = audited(tmp_path, store_text="all")
    assert SECRET in result.to_json()
    assert SECRET not in public_record(result)


@pytest.mark.parametrize(
    ("module", "function", "host"),
    [
        ("mlflow", "log_result", "mlflow"),
        ("wandb", "log_result", "wandb"),
        ("opentelemetry", "emit_result", "opentelemetry._logs"),
    ],
)
def test_what_is_not_installed_is_named_with_its_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, function: str, host: str
) -> None:
    monkeypatch.setitem(sys.modules, host, None)
    found = importlib.import_module(f"leakbound_hosts.{module}")
    with pytest.raises(UsageError, match=re.escape(install_hint(module))):
        vars(found)[function](audited(tmp_path))
