"""A result as numbers, labels and a file: what is logged to the trackers of other projects."""

from __future__ import annotations

import math
import sys

from leakbound._install import install_hint
from leakbound.auditing import AuditResult
from leakbound.errors import UsageError

__all__ = ["e_value_of", "labels_of", "missing_host", "numbers_of", "public_record"]


def missing_host(package: str, extra: str) -> UsageError:
    """The error for an integration whose package is not installed.

    Args:
        package: The package.
        extra: The extra of this package that installs it.

    Returns:
        The error to raise.
    """
    return UsageError(f"{package} is not installed; install it with: {install_hint(extra)}.")


def e_value_of(result: AuditResult) -> float | None:
    """The e-value after the last pair.

    Args:
        result: A finished audit.

    Returns:
        Evidence against what was tested, at most the largest float; None where the estimator has no
        e-values.
    """
    path = result.e_values
    if path is None or not path.log_e_values:
        return None
    return math.exp(min(path.log_e_values[-1], math.log(sys.float_info.max)))


def numbers_of(result: AuditResult) -> dict[str, float]:
    """The numbers of a result that a tracker keeps and compares.

    Args:
        result: A finished audit.

    Returns:
        By name, each with a value: the lower bound on epsilon, its delta and confidence, the claim,
        the e-value, the number of tested pairs and of model calls.
    """
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
    """What a tracker filters by.

    Args:
        result: A finished audit.

    Returns:
        By name: the verdict, its reason where it is inconclusive, the run, what was audited, the
        method of the bound, and the digest of the result.
    """
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
    """The record, without private text.

    Args:
        result: A finished audit.

    Returns:
        The text of `record.json` where `store_text` kept no private text in it; else the same
        without the example prompt and the trials.
    """
    if result.spec.get("store_text") in ("none", "canary_only"):
        return result.to_json()
    return result.model_copy(update={"example_prompt": "", "trials": ()}).to_json()
