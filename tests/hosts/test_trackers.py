"""A result in trackers of others: MLflow, OpenTelemetry and W&B as they are installed here."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import leakbound
from leakbound import AuditResult, load_result
from leakbound.errors import UsageError

pytestmark = [pytest.mark.hosts, pytest.mark.filterwarnings("ignore")]  # of the hosts themselves

SECRET = "zanzibar"
ROWS = [(f"{SECRET} message {i}", "ab"[i % 2]) for i in range(40)]


def leaks(context: tuple[leakbound.Example, ...], query: str) -> str:
    return "yes" if any(str(row.input) in query for row in context) else "no"


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> AuditResult:
    """One that keeps private text, which no tracker may see."""
    out = tmp_path_factory.mktemp("runs")
    found = leakbound.audit(ROWS, system=leaks, pairs=40, simulations=0, store_text="all", out=out)
    assert SECRET in found.to_json()
    return found


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """Files that a host leaves open are closed where its warnings are ignored."""
    yield
    gc.collect()


def all_files(folder: Path) -> bytes:
    return b"".join(one.read_bytes() for one in folder.rglob("*") if one.is_file())


# --- MLflow


@pytest.fixture
def mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """MLflow with a store in a folder of its own."""
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    module = pytest.importorskip("mlflow")
    module.set_tracking_uri((tmp_path / "mlruns").as_uri())
    return module


def test_mlflow_has_metrics_tags_and_the_record(
    mlflow: Any, result: AuditResult, tmp_path: Path
) -> None:
    from leakbound_hosts.mlflow import log_result

    run = mlflow.get_run(log_result(result))
    assert run.info.status == "FINISHED"
    assert run.data.metrics["leakbound/epsilon_bound"] == result.bound.epsilon
    assert run.data.metrics["leakbound/claim_epsilon"] == result.claim.epsilon
    assert run.data.metrics["leakbound/e_value"] >= 20
    assert run.data.tags["leakbound.verdict"] == result.verdict == "violation"
    file = mlflow.artifacts.download_artifacts(
        run_id=run.info.run_id, artifact_path="leakbound/record.json", dst_path=str(tmp_path / "d")
    )
    kept = load_result(Path(file))
    assert kept.bound == result.bound
    assert (kept.trials, kept.example_prompt) == ((), "")
    assert SECRET.encode() not in all_files(tmp_path)


def test_mlflow_takes_the_active_run_or_the_one_that_is_named(
    mlflow: Any, result: AuditResult
) -> None:
    from leakbound_hosts.mlflow import log_result

    with mlflow.start_run() as active:
        assert log_result(result) == active.info.run_id
        assert mlflow.active_run().info.run_id == active.info.run_id
    assert log_result(result, run_id=active.info.run_id) == active.info.run_id
    assert mlflow.active_run() is None


# --- OpenTelemetry


def test_the_event_is_that_of_the_conventions(result: AuditResult) -> None:
    logs = pytest.importorskip("opentelemetry.sdk._logs")
    export = pytest.importorskip("opentelemetry.sdk._logs.export")
    trace = pytest.importorskip("opentelemetry.sdk.trace")
    from leakbound_hosts.opentelemetry import emit_result
    from opentelemetry import _logs
    from opentelemetry.semconv._incubating.attributes import gen_ai_attributes as names

    memory = export.InMemoryLogRecordExporter()
    provider = logs.LoggerProvider()
    provider.add_log_record_processor(export.SimpleLogRecordProcessor(memory))
    emit_result(result)  # nobody listens yet
    _logs.set_logger_provider(provider)
    with trace.TracerProvider().get_tracer("app").start_as_current_span("chat") as span:
        emit_result(result, response_id="chatcmpl-1")
    (found,) = memory.get_finished_logs()
    record = found.log_record
    assert record.event_name == "gen_ai.evaluation.result"
    assert record.span_id == span.get_span_context().span_id
    assert record.attributes[names.GEN_AI_EVALUATION_NAME] == "leakbound.epsilon"
    assert record.attributes[names.GEN_AI_EVALUATION_SCORE_VALUE] == result.bound.epsilon
    assert record.attributes[names.GEN_AI_EVALUATION_SCORE_LABEL] == "violation"
    assert record.attributes[names.GEN_AI_EVALUATION_EXPLANATION] == result.sentences[0]
    assert record.attributes[names.GEN_AI_RESPONSE_ID] == "chatcmpl-1"
    assert SECRET not in json.dumps(dict(record.attributes))


# --- W&B


def test_wandb_has_summary_and_the_record(
    result: AuditResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Offline: what would be sent lies in the folder of the run."""
    for name, value in (("WANDB_DIR", tmp_path),
                        ("WANDB_DATA_DIR", tmp_path), ("WANDB_CACHE_DIR", tmp_path),
                        ("WANDB_SILENT", "true")):  # fmt: skip
        monkeypatch.setenv(name, str(value))
    wandb = pytest.importorskip("wandb")
    from leakbound_hosts.wandb import log_result

    with pytest.raises(UsageError, match="no run of W&B is active"):
        log_result(result)
    with wandb.init(project="audits", mode="offline", dir=tmp_path) as run:
        log_result(result)
        assert run.summary["leakbound/epsilon_bound"] == result.bound.epsilon
        assert run.summary["leakbound.verdict"] == "violation"
    wandb.teardown()  # its service writes the folder after the run has ended
    sent = all_files(tmp_path)
    assert b"leakbound-record" in sent
    assert SECRET.encode() not in sent
    (record,) = (one for one in tmp_path.rglob("*") if one.is_file() and is_record(one))
    assert json.loads(record.read_text())["verdict"] == "violation"


def is_record(file: Path) -> bool:
    return file.read_bytes().startswith(b'{\n  "schema_version"')


# --- none of them is needed


def test_nothing_imports_a_host_before_it_is_called() -> None:
    code = (
        "import sys, leakbound, leakbound.cli, leakbound_hosts.mlflow, "
        "leakbound_hosts.opentelemetry, leakbound_hosts.wandb; "
        "print({'mlflow', 'opentelemetry', 'wandb', 'litellm'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ
    )
    assert done.stdout.strip() == "set()"
