"""The parts of a record, and what the sentences about an audit read of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from leakbound._records import Frozen
from leakbound.attacks import Canary
from leakbound.auditing.decide.decide import ChannelResult, ContextUse
from leakbound.auditing.decide.obstacles import Reason, Verdict
from leakbound.auditing.design.pairs import Pair
from leakbound.auditing.observe.release import SeenTrial
from leakbound.estimators import Claim
from leakbound.models.content import content_size, readable, without
from leakbound.privacy import Gaussian, Guarantee
from leakbound.stats import BoundReading, Estimate, Fixed, ThresholdRule, roc
from leakbound.stats.arrays import Floats
from leakbound.stats.e_values.anytime import AnytimeTest
from leakbound.tasks import Example, Job

ClaimSource = Literal["stated", "default", "unknown"]


class GuaranteeData(Frozen):
    """What the mechanism guarantees: in words, epsilon at the claim's delta, mu where Gaussian."""

    text: str
    epsilon: float
    mu: float | None

    @classmethod
    def of(cls, guarantee: Guarantee, delta: float) -> GuaranteeData:
        mu = guarantee.mu if isinstance(guarantee, Gaussian) else None
        return cls(text=guarantee.describe(), epsilon=guarantee.epsilon(delta), mu=mu)


class AuditRecord(Protocol):
    """An `AuditResult`, as far as its sentences read it."""

    verdict: Verdict
    reason: Reason | None
    channels: tuple[ChannelResult, ...]
    use: ContextUse | None
    sentences: tuple[str, ...]
    claim: Claim
    claim_source: ClaimSource
    guarantee: GuaranteeData
    attack: dict[str, str]
    counts: dict[str, int]
    estimates: tuple[Estimate, ...]
    spec: dict[str, Any]
    provenance: dict[str, str]

    @property
    def bound(self) -> Estimate:
        """The estimate of epsilon that decided."""

    @property
    def reading(self) -> BoundReading:
        """What decided, with its guesses."""


POINTS = 200  # of a curve: more than a figure of 700 pixels can show
BINS = 60  # of a histogram
DIGITS = 6  # of curves and paths: beyond what a figure shows, and equal on every platform


class Curves(Frozen):
    """What figures show: the ROC curve of simulated outputs, and histograms of both contexts."""

    fpr: tuple[float, ...]
    tpr: tuple[float, ...]
    edges: tuple[float, ...]
    member: tuple[float, ...]
    nonmember: tuple[float, ...]
    auroc: float
    outputs: int


class EValuePath(Frozen):
    """The e-value against what was tested: its logarithm after some of the pairs.

    tested: the guarantee or claim, in words. level: the logarithm of the e-value that rejects.
    rejected_at: the pair at which it was first reached.
    """

    tested: str
    level: float
    rejected_at: int | None
    pairs: tuple[int, ...]
    log_e_values: tuple[float, ...]


def curves_of(member: Floats, nonmember: Floats) -> Curves:
    fpr, tpr, _ = roc(member, nonmember)
    keep = np.unique(np.linspace(0, len(fpr) - 1, POINTS).astype(int))
    edges = _edges(member, nonmember)
    shares = [np.histogram(scores, edges)[0] / scores.size for scores in (member, nonmember)]
    return Curves(
        fpr=_floats(fpr[keep]),
        tpr=_floats(tpr[keep]),
        edges=_floats(edges),
        member=_floats(shares[0]),
        nonmember=_floats(shares[1]),
        auroc=round(float(np.trapezoid(tpr, fpr)), DIGITS),
        outputs=member.size + nonmember.size,
    )


def _edges(member: Floats, nonmember: Floats) -> Floats:
    """Two bins for scores of 0 and 1, else `BINS`."""
    low = float(min(member.min(), nonmember.min()))
    high = float(max(member.max(), nonmember.max()))
    if high - low <= 1:
        return np.linspace(low - 0.5, high + 0.5, 3)
    return np.linspace(low, high, BINS + 1)


def path_of(process: AnytimeTest) -> EValuePath:
    path = process.log_e_values
    last = max(len(path) - 1, 0)
    keep = np.unique(np.linspace(0, last, POINTS).astype(int))[: len(path)]
    return EValuePath(
        tested=process.claim.describe(),
        level=round(process.log_threshold, DIGITS),
        rejected_at=process.rejected_at,
        pairs=tuple((keep + 1).tolist()),
        log_e_values=_floats(path[keep]),
    )


def _floats(values: Floats) -> tuple[float, ...]:
    return tuple(round(float(v), DIGITS) for v in values)


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


WITHHELD = "[private, "


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
        one, other = (show_prompt(prepared, pair, job) for job in (pair.member, pair.nonmember))
        said, elsewhere = (_answer(prepared, pair, text) for text in trial.answers)
        guesses, scores = _right(rule, trial), (float(member), float(nonmember))
        views.append(TrialView(pair.index, (one, other), (said, elsewhere), scores, guesses))
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
    return f"{WITHHELD}{len(text)} character{'s' * (len(text) != 1)} of it kept]"


def is_withheld(answer: str) -> bool:
    return answer.startswith(WITHHELD)


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
