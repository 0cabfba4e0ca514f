"""A result in Weights & Biases, in one call: summary, configuration, and the record as a file."""

from __future__ import annotations

from typing import Any

from leakbound.auditing import AuditResult
from leakbound.errors import UsageError
from leakbound_hosts.summary import host_error, labels_of, numbers_of, public_record

KIND = "leakbound-record"  # type of the artifact


def log_result(result: AuditResult, run: Any = None) -> None:
    """Log a finished audit to W&B.

    The numbers of the result (`leakbound/epsilon_bound`, `leakbound/e_value`, ...) are logged,
    its labels (`leakbound.verdict`, ...) go into the summary, and the record is an artifact of
    type `leakbound-record`. No private text is logged.
    """
    try:
        import wandb
    except ModuleNotFoundError:
        raise host_error("wandb", "wandb") from None
    chosen = wandb.run if run is None else run
    if chosen is None:
        raise UsageError("no run of W&B is active; call wandb.init() first, or give run=...")
    chosen.log(numbers_of(result))
    chosen.summary.update(labels_of(result))
    artifact = wandb.Artifact(f"leakbound-{result.digest}", KIND, metadata=labels_of(result))
    with artifact.new_file("record.json", mode="w", encoding="utf-8") as file:
        file.write(public_record(result))
    chosen.log_artifact(artifact)
