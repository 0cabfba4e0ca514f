"""A result in MLflow, in one call: metrics, tags, and the record as an artifact."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from leakbound.auditing import AuditResult
from leakbound_hosts.summary import host_error, labels_of, numbers_of, public_record

ARTIFACT = "leakbound/record.json"


def log_result(result: AuditResult, run_id: str | None = None) -> str:
    """Log a finished audit to MLflow.

    Metrics are the numbers of the result (`leakbound/epsilon_bound`, `leakbound/e_value`, ...),
    tags its labels (`leakbound.verdict`, ...), and `leakbound/record.json` is the artifact. No
    private text is logged.
    """
    try:
        import mlflow
    except ModuleNotFoundError:
        raise host_error("mlflow", "mlflow") from None
    with _run(mlflow, run_id) as run:
        chosen: str = run.info.run_id
        mlflow.log_metrics(numbers_of(result), run_id=chosen)
        for name, value in labels_of(result).items():
            mlflow.MlflowClient().set_tag(chosen, name, value)
        mlflow.log_text(public_record(result), ARTIFACT, run_id=chosen)
    return chosen


def _run(mlflow: Any, run_id: str | None) -> Any:
    """The run to log to; one that was active, or finished, stays so."""
    if run_id is not None:
        return nullcontext(mlflow.get_run(run_id))
    active = mlflow.active_run()
    return mlflow.start_run() if active is None else nullcontext(active)
