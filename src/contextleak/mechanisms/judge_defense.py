"""JudgeDefense: a judge sees the prompt and the answer before anyone else does (CL, level L3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from contextleak.icl import Clean, Job, Query, Task
from contextleak.mechanisms.single import Undefended, heard
from contextleak.mechanisms.wording import JUDGE, REFUSAL
from contextleak.models import Complete, Model

__all__ = ["JudgeDefense"]


@dataclass(frozen=True, slots=True)
class JudgeDefense(Undefended):
    """FewShot, and a second look: the model is shown the examples and the answer and says leak or safe.

    Released (public): the answer if the judge clearly says safe, else `refusal`. `question` replaces our wording; it must hold
    "{output}". The judge is the same model (give a model that routes to another one to use another). Two calls an answer.
    Guarantee: none, a judge is no proof.
    """

    name: ClassVar[str] = "judge_defense"
    question: str = JUDGE
    refusal: str = REFUSAL

    def collect(self, task: Task, jobs: Sequence[Job], draws: Sequence[int], model: Model) -> list[Clean]:
        """Answers, then verdicts on them, each in one batch."""
        asks = [ask for job, draw in zip(jobs, draws, strict=True) for ask in self.asks(task, job, draw)]
        outputs = model.answer(asks)
        looks = [self._look(task, job, text, draw) for job, text, draw in zip(jobs, outputs, draws, strict=True)]
        said = model.answer(looks)
        return [
            heard(task, job.query, text if _safe(verdict) else self.refusal)
            for job, text, verdict in zip(jobs, outputs, said, strict=True)
        ]

    def _look(self, task: Task, job: Job, output: str, draw: int) -> Complete:
        query = Query(self.question.replace("{output}", output.strip()), ("leak", "safe"))
        return Complete(task.prompt(job.context, query), max_tokens=4, draw=draw)


def _safe(verdict: str) -> bool:
    """Only a clear word lets an answer through."""
    return verdict.strip().casefold().startswith("safe")
