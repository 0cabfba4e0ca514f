"""JudgeDefense: a judge sees the prompt and the answer before anyone else does (CL, level L3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from leakbound.mechanisms.base import answer_each
from leakbound.mechanisms.single import Undefended, as_aggregate
from leakbound.mechanisms.wording import JUDGE, REFUSAL
from leakbound.models import Complete, Model
from leakbound.tasks import Aggregate, Job, Query, Task, parse_answer

__all__ = ["JudgeDefense"]

# Tokens of a verdict: "leak" or "safe" behind a quote or a space. What is cut is no clear "safe",
# so a longer verdict refuses the answer.
VERDICT_TOKENS = 4


@dataclass(frozen=True, slots=True)
class JudgeDefense(Undefended):
    """FewShot, and a second look: the model is shown examples and answer and says leak or safe.

    The answer is released if the verdict clearly begins with "safe", else `refusal`. The judge is
    the same model; give a model that routes to another one to use another. An answer costs two
    model calls. An answer that is one of the query's public answers holds no text of an example and
    is not judged, unless `judge_answers`: yes or no to a question about an example gets through.

    Attributes:
        question: What the judge is asked; it must hold "{output}".
        refusal: Public text that takes the place of a refused answer.
        judge_answers: Whether public answers are judged as well.

    Guarantee:
        None; a judge is no proof.

    Reference:
        CL, defence level L3.
    """

    name: ClassVar[str] = "judge_defense"
    question: str = JUDGE
    refusal: str = REFUSAL
    judge_answers: bool = False

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
        judged = [
            i
            for i, job in enumerate(jobs)
            if self.judge_answers or not _is_public(task, job.query, outputs[i])
        ]
        verdicts = model.answer([self._judge(task, jobs[i], outputs[i], draws[i]) for i in judged])
        refused = {i for i, said in zip(judged, verdicts, strict=True) if not _is_safe(said)}
        return [
            as_aggregate(task, job.query, self.refusal if i in refused else text)
            for i, (job, text) in enumerate(zip(jobs, outputs, strict=True))
        ]

    def _judge(self, task: Task, job: Job, output: str, draw: int) -> Complete:
        query = Query(self.question.replace("{output}", output.strip()), ("leak", "safe"))
        return Complete(task.prompt(job.context, query), max_tokens=VERDICT_TOKENS, draw=draw)


def _is_public(task: Task, query: Query, output: str) -> bool:
    """Is the answer one of the query's own?"""
    answers = task.answers(query)
    return parse_answer(output, answers) < len(answers)


def _is_safe(verdict: str) -> bool:
    """Only a clear word lets an answer through."""
    return verdict.strip().casefold().startswith("safe")
