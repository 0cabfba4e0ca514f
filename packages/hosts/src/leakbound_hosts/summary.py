"""A result as numbers, labels and a file: what is logged to the trackers of other projects."""

from __future__ import annotations

import math
import sys

from leakbound._install import install_hint
from leakbound.auditing import AuditResult
from leakbound.errors import UsageError


def host_error(package: str, extra: str) -> UsageError:
    """The error for an integration whose package is not installed."""
    return UsageError(f"{package} is not installed; install it with: {install_hint(extra)}.")


def e_value_of(result: AuditResult) -> float | None:
    """The e-value after the last pair."""
    path = result.e_values
    if path is None or not path.log_e_values:
        return None
    return math.exp(min(path.log_e_values[-1], math.log(sys.float_info.max)))


def numbers_of(result: AuditResult) -> dict[str, float]:
    """The numbers of a result that a tracker keeps and compares."""
    bound = result.bound
    found = {
        "epsilon_bound": bound.epsilon,
        "confidence": bound.confidence,
        "claim_epsilon": result.claim.epsilon,
        "claim_delta": result.claim.delta,
        "e_value": e_value_of(result),
        "tested_pairs": result.tested_pairs,
        "model_calls": result.counts.get("model_calls"),
    }
    return {f"leakbound/{name}": float(one) for name, one in found.items() if one is not None}


def labels_of(result: AuditResult) -> dict[str, str]:
    """What a tracker filters by."""
    found = {
        "verdict": result.verdict,
        "reason": result.reason or "",
        "run": result.name,
        "mechanism": result.attack["mechanism"],
        "method": result.bound.method,
        "digest": result.digest,
    }
    return {f"leakbound.{name}": one for name, one in found.items() if one}


def public_record(result: AuditResult) -> str:
    """The record, without private text."""
    if result.spec.get("store_text") in ("none", "canary_only"):
        return result.to_json()
    return result.model_copy(update={"example_prompt": "", "trials": ()}).to_json()
