"""What a probe found, and what follows from it:

which mechanisms, scores and influence readings the model can serve.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from leakbound.attacks import QUERIES, SCORES
from leakbound.mechanisms import MECHANISMS

if TYPE_CHECKING:
    from leakbound.models.probe import ProbeRecord

__all__ = ["consequences", "probe_table"]

STATES = {True: "yes", False: "no", None: "unclear"}
SAME_RELEASE = {"reference_direction": "distance_gap"}  # reads what the other reads
READINGS = {"given responses at lambda 1 and temperature 1": "ScoreTokens",
            "drawn responses and any other lambda or temperature": "NextLogits"}  # fmt: skip


def probe_table(record: ProbeRecord) -> str:
    """A line for each check, then what is available and what is missing, with the reason."""
    where = f" at {record.base_url}" if record.base_url else ""
    lines = [f"{record.address}{where}: {record.requests} questions about public texts"]
    lines += [f"  {STATES[f.holds]:<8} {f.check:<24} {f.detail}" for f in record.findings]
    for title, found in consequences(record).items():
        there = [name for name, missing in found.items() if not missing]
        lines += [title, f"  available: {', '.join(there) or 'none'}"]
        for reason, names in _by_reason(found).items():
            lines += [f"  missing: {', '.join(names)}", f"    {reason}"]
    return "\n".join(lines)


def _by_reason(found: Mapping[str, str]) -> dict[str, list[str]]:
    reasons: dict[str, list[str]] = {}
    for name, reason in found.items():
        if reason:
            reasons.setdefault(reason, []).append(name)
    return reasons


def consequences(record: ProbeRecord) -> dict[str, dict[str, str]]:
    """By kind of thing (mechanisms, attacks, scores, influence):

    each name with why it is missing, empty where it is there.
    """
    mechanisms = {
        name: _missing(record, {need.__name__ for need in kind.needs})
        for name, kind in MECHANISMS.items()
    }
    return {"mechanisms": mechanisms, "attacks": {name: _missing(record, {"Complete"}) for name in QUERIES},
            "scores": {name: _score(name, mechanisms) for name in SCORES}, "influence": _influence(record)}  # fmt: skip


def _missing(record: ProbeRecord, needs: set[str]) -> str:
    return "; ".join(
        f"needs {need}: {_why(record, need)}" for need in sorted(needs - set(record.supports))
    )


def _score(name: str, mechanisms: Mapping[str, str]) -> str:
    """A white-box score reads what some mechanisms release, and is there as soon as one of them is;
    or what a user's own
    system releases, whatever the model."""
    score: Any = SCORES[name]
    if score.access == "black_box":
        return ""
    carriers = [
        mechanism
        for mechanism, kind in MECHANISMS.items()
        if _releases(kind, SAME_RELEASE.get(name, name))
    ]
    there = any(not mechanisms[carrier] for carrier in carriers)
    return "" if there or not carriers else f"reads what {' and '.join(carriers)} release"


def _releases(kind: Any, score: str) -> bool:
    return bool(kind.white_box_score == score)


def _influence(record: ProbeRecord) -> dict[str, str]:
    if record.base_url:
        reason = "removes spans from token ids, and an endpoint does not show its tokens; use a local model (pocket or hf/...)"
        return dict.fromkeys(READINGS, reason)
    return {reading: _missing(record, {need}) for reading, need in READINGS.items()}


def _why(record: ProbeRecord, need: str) -> str:
    if record.base_url is None:
        return "the model does not answer it"
    reasons = {
        "Complete": "no text comes back", "Embed": "there are no embeddings; give --embedder",
        "NextLogits": "an endpoint shows some next tokens at most, never all; use a local model (pocket or hf/...)",
    }  # fmt: skip
    return reasons.get(need) or _why_no_scores(record)


def _why_no_scores(record: ProbeRecord) -> str:
    if record.finding("logprobs_valid").holds is False:
        return f"its log-probabilities break their laws ({record.finding('logprobs_valid').detail})"
    for check in ("echo_aligned", "prompt_logprobs_aligned"):
        if record.finding(check).holds is False:
            return record.finding(check).detail
    if record.holds("echo") or record.holds("prompt_logprobs"):
        return "it could not be determined whether log-probabilities of given texts stand at their tokens"
    return "no log-probabilities of given texts (neither echo nor prompt_logprobs)"
