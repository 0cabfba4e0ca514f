"""What exists already shows: outputs of an application (`audit_log`), scores (`bounds`)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from numbers import Real
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from leakbound.api.kinds import in_python
from leakbound.auditing import Claim
from leakbound.auditing.logs import LogAudit, audit_logs, load_outputs, load_texts
from leakbound.errors import UsageError
from leakbound.estimators.random_guessing import RANDOM_GUESSING
from leakbound.estimators.score_bounds import DecidingName, ScoreDesign, ScoredTrials
from leakbound.gating.score_files import (
    ScoreResult,
    claim_of,
    judge_scores,
    rule_of,
    sees_leak,
)
from leakbound.stats.curves.curves import clean_scores

TextSource = str | Path | Iterable[str]


@in_python
def audit_log(
    used: TextSource, held_out: TextSource, outputs: TextSource, *,
    fields: Sequence[str] = (), answer: str | None = None, confidence: float = 0.95,
    fdr: float = 0.1, seed: int = 0, show: bool = False,
) -> LogAudit:  # fmt: skip
    """Test whether outputs of an application disclose the records that it was shown.

    No model is asked. The test compares the records that were used with records like them that were
    set aside: what outputs share with the used records beyond that comes from the application.

    Args:
        used: Records that the application was shown (PRIVATE): a file of rows, or texts.
        held_out: Records like them that it was never shown (PRIVATE), of the same kind.
        outputs: What it answered (PRIVATE): a file of rows, or texts.
        fields: Fields of the records that are looked for; none for all that hold text.
        answer: Field of the outputs; None for the only one, or one with a usual name.
        confidence: 1 minus the error of the verdict, above 0 and below 1.
        fdr: False discovery rate of the records that stand out, from 0 to 1.
        seed: Of the random divisions that the test draws.
        show: Whether the findings hold the passages that were disclosed.

    Returns:
        The verdict, its p-value, and the records that stand out, by their numbers.

    Raises:
        DataError: If a file cannot be read, or holds no text.
        UsageError: For a confidence or a false discovery rate that cannot be one.

    Example:
        >>> import leakbound
        >>> used = [f"patient {i} takes {i + 100} mg" for i in range(40)]
        >>> held_out = [f"patient {i} takes {i + 100} mg" for i in range(40, 80)]
        >>> said = ["I recall that patient 7 takes 107 mg.", *used[10:20]]
        >>> found = leakbound.audit_log(used, held_out, said)
        >>> found.verdict, len(found.disclosed)
        ('disclosure', 11)
    """
    records = [
        load_texts(Path(one), fields)
        if isinstance(one, str | Path)
        else [(text,) for text in _texts(one, name)]
        for name, one in (("used", used), ("held_out", held_out))
    ]
    if isinstance(outputs, str | Path):
        said = load_outputs(Path(outputs), answer)
    else:
        said = _texts(outputs, "outputs")
    return audit_logs(records[0], records[1], said, confidence, fdr, seed, show)


def _texts(given: object, name: str) -> list[str]:
    """Refuses anything else than texts, without showing it."""
    texts = list(given) if isinstance(given, Iterable) else None
    if texts is None or not all(isinstance(text, str) for text in texts):
        got = type(given).__name__ if texts is None else "a list that holds more than texts"
        raise UsageError(f"{name} is {got}; it must be a list of texts, or a file of rows.")
    return texts


@in_python
def bounds(
    scores_in: npt.ArrayLike, scores_out: npt.ArrayLike, *, design: ScoreDesign | None = None,
    epsilon: float | None = None, delta: float = 0.0,
    claim: float | Claim | Literal["random-guessing"] | None = None, confidence: float = 0.95,
    threshold: str | float | Sequence[float] | None = None,
    estimator: DecidingName | None = None,
    control_scores: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
    lower_is_member: bool = False, in_order: bool = False, seed: int = 0,
) -> ScoreResult:  # fmt: skip
    """Every bound on epsilon that scores of an attack allow and, with a claim, a verdict.

    No model is asked. The threshold is chosen on scores that enter no bound.

    Args:
        scores_in: (n,) scores of trials with the record, higher for members.
        scores_out: (m,) scores of trials without it; m = n in a paired design.
        design: How the trials were made: "paired", trial i of both is a pair, and pairs are
            independent; "unpaired", all are independent; "one_run", of one system, see
            `ScoredTrials`. It must be stated: a bound of another design may be wrong.
        epsilon: The claim; None for no verdict.
        delta: At which epsilon is stated, in [0, 1).
        claim: In place of `epsilon`: a number, a `Claim`, or "random-guessing", which is 0 at delta
            0, tested on both sides.
        confidence: Of each bound, above 0 and below 1.
        threshold: "split:SHARE", or a number or several that were fixed beforehand; for one run
            "rank:SHARE". None: split:0.2, or rank:0.5 for one run.
        estimator: Which bound decides; None: e_process, or one_run for one run.
        control_scores: Scores, in and out, of a system that leaks for certain; they show that
            the attack is not blind. None: the trials have to show it.
        lower_is_member: Whether members have lower scores, as losses do; to be known beforehand.
        in_order: Whether scores are in the order of the trials; else they are shuffled.
        seed: Of that order.

    Returns:
        The bound that decides (`.epsilon`, `.bound`), all of them (`.bounds`), and the verdict.

    Raises:
        UsageError: If a side or an option cannot be used.

    Guarantee:
        The true epsilon is at least a bound, with its confidence, if `design` is true.

    Examples:
        >>> import leakbound
        >>> found = leakbound.bounds([1.0] * 60, [0.0] * 60, design="paired", claim=1.0)
        >>> found.verdict, found.epsilon > 1.0
        ('violation', True)
        >>> found.plot().get_xlabel()
        'ε at least'
    """
    if design is None:
        raise UsageError(
            "design is missing, and scores do not say how their trials were made; it must be "
            '"paired" (scores_in[i] and scores_out[i] are of one pair), "unpaired" (each score is '
            'of a system of its own) or "one_run" (all scores are of one system).'
        )
    stated = _claim(epsilon, delta, claim)
    if stated is None and (estimator is not None or control_scores is not None):
        raise UsageError(
            f"{'control_scores' if estimator is None else 'estimator'} is for a verdict, "
            "and nothing is claimed; add epsilon=... or claim=..., or leave it out."
        )
    sign = -1.0 if lower_is_member else 1.0
    one, other = clean_scores("scores_in", scores_in), clean_scores("scores_out", scores_out)
    for name, shape in (("scores_in", np.shape(scores_in)), ("scores_out", np.shape(scores_out))):
        if math.prod(shape[1:]) != 1:
            raise UsageError(
                f"{name} has the shape {shape}; it must be (n,), one score of each trial, such as "
                "probabilities[:, 1]."
            )
    trials = ScoredTrials(sign * one, sign * other, design, in_order)
    if control_scores is not None and not (
        isinstance(control_scores, Sequence) and len(control_scores) == 2
    ):
        raise UsageError(
            "control_scores must be a pair of arrays: scores of a positive control with the "
            "record, and without it."
        )
    guessing = claim == RANDOM_GUESSING
    seen = None
    if control_scores is not None:
        one, other = (sign * clean_scores("control_scores", side) for side in control_scores)
        seen = sees_leak(trials, ScoredTrials(one, other), guessing)
    return judge_scores(
        trials, stated, delta, confidence, rule_of(threshold), seed, estimator, seen
    )


def _claim(epsilon: float | None, delta: float, claim: object) -> Claim | None:
    if claim is None or isinstance(claim, str):
        return claim_of(epsilon, claim, delta)
    if epsilon is not None:
        raise UsageError("claim and epsilon are both given; leave one of them out.")
    if isinstance(claim, Claim) and not delta:
        return claim
    if isinstance(claim, Real) and not isinstance(claim, bool):
        return claim_of(float(claim), None, delta)
    raise UsageError(
        f"claim is {claim!r}; it must be a number (with delta beside it), a Claim, which has its "
        f"own delta, or {RANDOM_GUESSING!r}."
    )
