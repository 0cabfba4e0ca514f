"""A few paired trials as a report shows them: both prompts and both answers, as far as private
text may be kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from leakbound.attacks import Canary
from leakbound.auditing.design.pairs import Pair
from leakbound.auditing.observe.release import SeenTrial
from leakbound.models.content import content_size, readable, without
from leakbound.stats import Fixed, ThresholdRule
from leakbound.tasks import Example, Job

if TYPE_CHECKING:
    from leakbound.auditing.prepare.prepared import Prepared

EACH = 4  # trials that are shown where the attack was right, and where it was not


@dataclass(frozen=True, slots=True)
class TrialView:
    """One paired trial, redacted as `store_text` says."""

    index: int
    prompts: tuple[str, str]
    answers: tuple[str, str]
    scores: tuple[float, float]
    right: tuple[bool, bool] | None


def trial_views(
    prepared: Prepared, rule: ThresholdRule, trials: Sequence[SeenTrial]
) -> tuple[TrialView, ...]:
    """The first trials in which the attack was right twice, and the first in which it was not."""
    wrong = [trial for trial in trials if not all(_right(rule, trial) or (True,))][:EACH]
    right = [trial for trial in trials if trial not in wrong][:EACH]
    shown = sorted([*right, *wrong], key=lambda trial: trial.pair.index)
    views = []
    for trial in shown:
        pair, (member, nonmember) = trial.pair, trial.scores
        prompts = [show_prompt(prepared, pair, job) for job in (pair.member, pair.nonmember)]
        answers = [_answer(prepared, pair, text) for text in trial.answers]
        view = TrialView(
            pair.index,
            prompts=(prompts[0], prompts[1]),
            answers=(answers[0], answers[1]),
            scores=(float(member), float(nonmember)),
            right=_right(rule, trial),
        )
        views.append(view)
    return tuple(views)


def _right(rule: ThresholdRule, trial: SeenTrial) -> tuple[bool, bool] | None:
    if not isinstance(rule, Fixed):
        return None
    return trial.scores[0] >= rule.value, trial.scores[1] < rule.value


def _answer(prepared: Prepared, pair: Pair, text: str) -> str:
    """A public answer as it is; of another one how much of it is kept, beside its score."""
    public = () if prepared.inferred else prepared.task.answers(pair.asked.query)
    keep, canary = prepared.spec.design.store_text, pair.canary.input
    held = isinstance(canary, str) and canary in text
    if keep == "all" or (text in public and not (held and keep == "none")):
        return text  # a query may have the canary itself among its answers
    return f"[private, {len(text)} characters of it kept]"


def show_prompt(prepared: Prepared, pair: Pair, job: Job) -> str:
    """A prompt as far as private text may be kept: that of the part in which the canary stands."""
    keep = prepared.spec.design.store_text
    shown = job if keep == "all" else _redact(prepared.attack.canary, pair, job, keep == "none")
    requests = prepared.mechanism.requests(prepared.task, shown, pair.draw)
    if not requests:
        rows = "".join(f"{readable(row.input, keep == 'all')}\n" for row in shown.context)
        text = readable(shown.query.text, keep == "all")
        return f"(context of {len(shown.context)} examples)\n{rows}\n{text}"
    return readable(requests[pair.position % len(requests)].prompt, keep == "all")  # type: ignore[attr-defined]


def _redact(canary: Canary, pair: Pair, job: Job, whole: bool) -> Job:
    """A job without its rows, and without the canary where `whole` or where that is a row."""
    rows = [
        row if row == pair.canary and not (whole or canary.of_rows)
        else Example(f"[private, {content_size(row.input)}]", "[private]")
        for row in job.context
    ]  # fmt: skip
    text = job.query.text
    if canary.of_rows:  # the question holds words of the row, too
        text = f"[private, {content_size(text)}]"
    elif whole:
        text = without(text, pair.canary.input, "[canary]")
    return Job(tuple(rows), type(job.query)(text, job.query.labels))
