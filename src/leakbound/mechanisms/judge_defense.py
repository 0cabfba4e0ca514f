"""JudgeDefense: a judge sees the prompt and the answer before anyone else does (CL, level L3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from leakbound.mechanisms.single import Undefended, heard
from leakbound.mechanisms.wording import JUDGE, REFUSAL
from leakbound.models import Complete, Model
from leakbound.tasks import Aggregate, Job, Query, Task, parse_answer

__all__ = ["JudgeDefense"]


@dataclass(frozen=True, slots=True)
class JudgeDefense(Undefended):
    """FewShot, and a second look: the model is shown the examples and the answer and says leak or
    safe.

    Released (public): the answer if the judge clearly says safe, else `refusal`. `question`
    replaces our wording; it must hold
    "{output}". The judge is the same model (give a model that routes to another one to use
    another). Two calls an answer. An
    answer that is one of the query's public answers holds no text of an example and passes unseen,
    unless `judge_answers`: yes or
    no to a question about an example gets through. Guarantee: none, a judge is no proof.
    """

    name: ClassVar[str] = "judge_defense"
    question: str = JUDGE
    refusal: str = REFUSAL
    judge_answers: bool = False

    def collect(
        self, task: Task, jobs: Sequence[Job], draws: Sequence[int], model: Model
    ) -> list[Aggregate]:
        """Answers, then verdicts on them, each in one batch."""
        requests = [
            ask
            for job, draw in zip(jobs, draws, strict=True)
            for ask in self.requests(task, job, draw)
        ]
        outputs = model.answer(requests)
        seen = [
            i
            for i, job in enumerate(jobs)
            if self.judge_answers or not _public(task, job.query, outputs[i])
        ]
        said = model.answer([self._look(task, jobs[i], outputs[i], draws[i]) for i in seen])
        refused = {i for i, verdict in zip(seen, said, strict=True) if not _safe(verdict)}
        return [
            heard(task, job.query, self.refusal if i in refused else text)
            for i, (job, text) in enumerate(zip(jobs, outputs, strict=True))
        ]

    def _look(self, task: Task, job: Job, output: str, draw: int) -> Complete:
        query = Query(self.question.replace("{output}", output.strip()), ("leak", "safe"))
        return Complete(task.prompt(job.context, query), max_tokens=4, draw=draw)


def _public(task: Task, query: Query, output: str) -> bool:
    """Is the answer one of the query's own?"""
    answers = task.answers(query)
    return parse_answer(output, answers) < len(answers)


def _safe(verdict: str) -> bool:
    """Only a clear word lets an answer through."""
    return verdict.strip().casefold().startswith("safe")
