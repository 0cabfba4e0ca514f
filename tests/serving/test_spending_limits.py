"""No limit on money or time counts private tokens: one longer row would decide an answer."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from services import ROWS, TASK

import leakbound
from leakbound.cli.verbs.protect import answer as answer_command
from leakbound.cli.verbs.protect import serve as serve_command
from leakbound.errors import UsageError
from leakbound.mechanisms import FewShot, ReportNoisyMax
from leakbound.models import Counted, Endpoint, Model, Scripted, WithEmbedder
from leakbound.models.openai import OpenAIModel
from leakbound.serving import Ledger, PrivateICL
from leakbound.tasks import Mechanism


def limited(**limits: Any) -> OpenAIModel:
    endpoint = Endpoint(("http://127.0.0.1:9/v1",), price_in=1.0, price_out=1.0, **limits)
    return OpenAIModel("m", endpoint)


def service(folder: Path, model: Model, mechanism: Mechanism) -> PrivateICL:
    ledger = Ledger(folder / "ledger", math.inf, 1e-5)
    return PrivateICL(mechanism, ROWS, TASK, model, ledger)


@pytest.mark.parametrize(("name", "limit"), [("max_cost", 1.0), ("max_minutes", 5.0)])
def test_a_service_with_a_guarantee_refuses_limits(name: str, limit: float, tmp_path: Path) -> None:
    """The limit struck at a longer row, and replaced the votes of all partitions."""
    model, private = limited(**{name: limit}), ReportNoisyMax(1.0, 10)
    option = f"--{name.replace('_', '-')} would count the tokens"
    for wrapped in (model, Counted(model), WithEmbedder(Scripted(complete=str), model)):
        with pytest.raises(UsageError, match=option):
            service(tmp_path, wrapped, private)
    with pytest.raises(UsageError, match=f"^{name} would count the tokens"):  # as Python names it
        leakbound.answer("q", ROWS, task=TASK, model=model, ledger=tmp_path / "other")
    service(tmp_path, limited(), private)
    service(tmp_path, model, FewShot())  # guarantees nothing


@pytest.mark.parametrize("option", ["--max-cost", "--max-minutes"])
@pytest.mark.parametrize(
    ("command", "rest"), [(answer_command, ["query"]), (serve_command, ["--budget", "1"])]
)
def test_the_commands_refuse_limits_before_a_row_is_read(
    command: Any, rest: list[str], option: str
) -> None:
    model = ["--model", "openai/m", "--base-url", "http://127.0.0.1:9/v1"]
    what = ["--mechanism", "report_noisy_max", "--data", "missing.jsonl", option, "1"]
    given = [*model, *what, *rest]
    refused = CliRunner().invoke(command.command, given).exception
    assert isinstance(refused, UsageError)
    assert f"{option} would count" in str(refused)
    assert "--budget" in str(refused)
