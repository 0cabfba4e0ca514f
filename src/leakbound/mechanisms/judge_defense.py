"""JudgeDefense: a judge checks each answer before it is returned (CL, level L3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from leakbound.errors import UsageError
from leakbound.mechanisms.parts.base import answer_each
from leakbound.mechanisms.parts.single import Undefended, as_aggregate
from leakbound.mechanisms.parts.wording import JUDGE, REFUSAL
from leakbound.models import Complete, Model
from leakbound.tasks import Aggregate, Job, Query, Task
from leakbound.witness.features import ReplyFacts

# Tokens of a verdict: "leak" or "safe" after a quote or a space. A truncated verdict is not a clear
# "safe", so the answer is refused.
VERDICT_TOKENS = 4
REFUSED = "refusal"  # a finish reason that records may keep


@dataclass(frozen=True, slots=True)
class JudgeDefense(Undefended):
    """FewShot with a judge that sees the examples and the answer, and says leak or safe.

    Every answer is judged, even if it is one of the query's given answers. It is returned if the
    verdict clearly begins with "safe"; otherwise `refusal` is returned. The judge is the same model
    unless another one is configured (`--judge-model`, `leakbound.models.WithJudge`). An answer
    costs two model calls. If the judge refuses everything, an audit says nothing about the defence.
    The audit result counts how many answers were withheld in both contexts.

    Attributes:
        question: Question to the judge. It must contain "{output}".
        refusal: Public text that replaces a refused answer.

    Raises:
        UsageError: If the question does not contain "{output}".

    Guarantee:
        None. A judge provides no proof.

    Reference:
        CL, defence level L3.
    """

    exactness = Undefended.exactness
    withheld_as: ClassVar[str | None] = REFUSED
    name: ClassVar[str] = "judge_defense"
    question: str = JUDGE
    refusal: str = REFUSAL

    def __post_init__(self) -> None:
        if "{output}" not in self.question:
            raise UsageError(
                f"the question of judge_defense is {self.question!r}; it must hold {{output}}, "
                "which is replaced by the judged answer."
            )

    def collect(
        self, task: Task, jobs: Sequence[Job], draws: Sequence[int], model: Model
    ) -> list[Aggregate]:
        """Collect the answers, then the verdicts on them, each in one batch."""
        each = [self.requests(task, job, draw) for job, draw in zip(jobs, draws, strict=True)]
        outputs = [text for (text,) in answer_each(model, each)]
        verdicts = model.answer([
            self._judge(task, job, text, draw)
            for job, text, draw in zip(jobs, outputs, draws, strict=True)
        ])  # fmt: skip
        return [
            as_aggregate(task, job.query, text) if _is_safe(said) else self._refused(task, job)
            for job, text, said in zip(jobs, outputs, verdicts, strict=True)
        ]

    def _refused(self, task: Task, job: Job) -> Aggregate:
        """The refusal, marked as such: everyone who sees the answer can see that it is one."""
        reply = ReplyFacts(self.refusal, finish_reason=REFUSED)
        return replace(as_aggregate(task, job.query, self.refusal), reply=reply)

    def _judge(self, task: Task, job: Job, output: str, draw: int) -> Complete:
        query = Query(self.question.replace("{output}", output.strip()), ("leak", "safe"))
        prompt = task.prompt(job.context, query)
        return Complete(prompt, max_tokens=VERDICT_TOKENS, draw=draw, judge=True)


def _is_safe(verdict: str) -> bool:
    """Whether the verdict clearly says that the answer is safe."""
    return verdict.strip().casefold().startswith("safe")
