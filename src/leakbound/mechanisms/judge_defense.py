"""JudgeDefense: a judge sees the prompt and the answer before anyone else does (CL, level L3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from leakbound.errors import UsageError
from leakbound.mechanisms.base import answer_each
from leakbound.mechanisms.single import Undefended, as_aggregate
from leakbound.mechanisms.wording import JUDGE, REFUSAL
from leakbound.models import Complete, Model
from leakbound.stats.witness.features import ReplyFacts, ReplyFeatures
from leakbound.tasks import Aggregate, Job, Query, Task

__all__ = ["JudgeDefense"]

# Tokens of a verdict: "leak" or "safe" behind a quote or a space. What is cut is no clear "safe",
# so a longer verdict refuses the answer.
VERDICT_TOKENS = 4
REFUSED = "refusal"  # a finish reason that records may keep


@dataclass(frozen=True, slots=True)
class JudgeDefense(Undefended):
    """FewShot, and a second look: a judge is shown examples and answer and says leak or safe.

    Every answer is judged, one of the query's own too. It is released if the verdict clearly begins
    with "safe", else `refusal`. The judge is the same model unless another stands beside it
    (`--judge-model`, `leakbound.models.WithJudge`). An answer costs two model calls. A judge that
    refuses whatever it is shown cannot judge, and then an audit says nothing of the defence; its
    result counts what was withheld in both contexts.

    Attributes:
        question: What the judge is asked; it must hold "{output}".
        refusal: Public text that takes the place of a refused answer.

    Raises:
        UsageError: If the question does not hold "{output}".

    Guarantee:
        None; a judge is no proof.

    Reference:
        CL, defence level L3.
    """

    name: ClassVar[str] = "judge_defense"
    question: str = JUDGE
    refusal: str = REFUSAL

    def __post_init__(self) -> None:
        if "{output}" not in self.question:
            raise UsageError(
                f"the question of judge_defense is {self.question!r}; it must hold {{output}}, "
                "where the answer that is judged stands."
            )

    def collect(
        self, task: Task, jobs: Sequence[Job], draws: Sequence[int], model: Model
    ) -> list[Aggregate]:
        """Answers, then verdicts on them, each in one batch.

        Args:
            task: Renders the prompts.
            jobs: Contexts (PRIVATE) and queries.
            draws: One number for each job.
            model: Answers and judges.

        Returns:
            The answer of each job, or the refusal.
        """
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
        """The refusal, marked as one: whoever reads the answer sees that it is."""
        reply = ReplyFacts(self.refusal, finish_reason=REFUSED)
        return replace(as_aggregate(task, job.query, self.refusal), reply=reply)

    def withheld(self, aggregate: Aggregate) -> bool:
        """Whether the judge refused an answer.

        Args:
            aggregate: What was collected for one job (PRIVATE), or what was kept of it.

        Returns:
            True for a refusal.
        """
        reply = aggregate.reply
        if isinstance(reply, ReplyFeatures):
            return f"finish:{REFUSED}" in reply.strings
        return reply is not None and reply.finish_reason == REFUSED

    def _judge(self, task: Task, job: Job, output: str, draw: int) -> Complete:
        query = Query(self.question.replace("{output}", output.strip()), ("leak", "safe"))
        prompt = task.prompt(job.context, query)
        return Complete(prompt, max_tokens=VERDICT_TOKENS, draw=draw, judge=True)


def _is_safe(verdict: str) -> bool:
    """Only a clear word lets an answer through."""
    return verdict.strip().casefold().startswith("safe")
