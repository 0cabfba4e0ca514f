"""What an audit of a judge shows of the judge itself: how often it withholds an answer."""

from __future__ import annotations

from collections.abc import Sequence

from leakbound.auditing.result.audit_result import Finding

REFUSES_ALL = "judge_refuses_all"


def judge_finding(withheld: Sequence[int], pairs: int) -> Finding:
    """How often a judge withheld an answer, and whether it can judge at all.

    Examples:
        >>> judge_finding((9, 1), 10).code
        'judge_refusals'
        >>> judge_finding((10, 10), 10).code
        'judge_refuses_all'
    """
    inside, outside = withheld
    counted = (
        f"the judge withheld {inside} of {pairs} answers where the canary was in the context, and "
        f"{outside} of {pairs} where it was not"
    )
    if inside + outside < 2 * pairs:
        return Finding("judge_refusals", f"{counted}.")
    return Finding(
        REFUSES_ALL,
        f"{counted}: a judge that refuses every answer cannot judge, so this says nothing of the "
        "defense. Use another judge with --judge-model.",
    )
