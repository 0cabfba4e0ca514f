"""What inspect_ai finds by its entry point."""

from __future__ import annotations

from leakbound_hosts.inspect.audits import audit, leakage, paired_trial, paired_trial_scores

__all__ = ["audit", "leakage", "paired_trial", "paired_trial_scores"]
