"""Baselines and defences without a guarantee: the whole context in one prompt, or nothing of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from leakbound.errors import UsageError
from leakbound.mechanisms.parts.single import Undefended, as_aggregate
from leakbound.mechanisms.parts.wording import JUDGE, L1, L2, REFUSAL
from leakbound.models import Complete, Model
from leakbound.privacy import Guarantee, PureDP
from leakbound.tasks import Aggregate, Job, Query, Task
from leakbound.witness.features import ReplyFacts

# Tokens of a verdict: "leak" or "safe" after a quote or a space. A truncated verdict is not a clear
# "safe", so the answer is refused.
VERDICT_TOKENS = 4
REFUSED = "refusal"  # a finish reason that records may keep


@dataclass(frozen=True, slots=True)
class FewShot(Undefended):
    """Prompts with all examples, then the query, and returns the model's answer unchanged.

    This is the non-private upper bound of every trade-off.

    Guarantee:
        None.
    """

    name: ClassVar[str] = "few_shot"


@dataclass(frozen=True, slots=True)
class ZeroShot(Undefended):
    """Prompts without examples: the zero-shot baseline of every trade-off.

    Guarantee:
        0-DP under any relation, because the answer does not depend on the context.
    """

    name: ClassVar[str] = "zero_shot"

    @property
    def guarantee(self) -> Guarantee:
        """0-DP: the context is not read."""
        return PureDP(0.0)

    def shown(self, job: Job) -> Job:
        return Job((), job.query)


@dataclass(frozen=True, slots=True)
class PromptDefense(Undefended):
    """Adds a preamble before the examples that forbids the model to reveal them.

    Attributes:
        level: Strength of the preamble, 1 or 2.
        text: Text of the preamble. If empty, the wording of this package is used.

    Guarantee:
        None.

    Reference:
        CL, defence levels L1 and L2.
    """

    name: ClassVar[str] = "prompt_defense"
    level: int = 1
    text: str = ""

    def __post_init__(self) -> None:
        if self.level not in (1, 2):
            raise UsageError(f"the level of a prompt defence is {self.level!r}; it must be 1 or 2.")

    def preamble(self) -> str:
        return self.text or (L1, L2)[self.level - 1]


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
        outputs = [text for (text,) in self._answer_jobs(task, jobs, draws, model)]
        asked = []
        for job, text, draw in zip(jobs, outputs, draws, strict=True):
            query = Query(self.question.replace("{output}", text.strip()), ("leak", "safe"))
            prompt = task.prompt(job.context, query)
            asked.append(Complete(prompt, max_tokens=VERDICT_TOKENS, draw=draw, judge=True))
        verdicts = model.answer(asked)
        return [
            as_aggregate(task, job.query, text)
            if said.strip().casefold().startswith("safe")
            else self._refusal(task, job)
            for job, text, said in zip(jobs, outputs, verdicts, strict=True)
        ]

    def _refusal(self, task: Task, job: Job) -> Aggregate:
        """The refusal, marked as such: everyone who sees the answer can see that it is one."""
        reply = ReplyFacts(self.refusal, finish_reason=REFUSED)
        return replace(as_aggregate(task, job.query, self.refusal), reply=reply)
