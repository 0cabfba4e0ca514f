"""Few-shot prompting behind an endpoint that reports log-probabilities."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from leakbound import AuditResult, audit
from leakbound.errors import UsageError
from leakbound.mechanisms import AnswerProbabilities
from leakbound.mechanisms.baselines import UNSEEN
from leakbound.models import Scripted
from leakbound.tasks import Access, Example, Job, Query, Task, Vector

ROWS = [(f"note {n} about {'rain' if n % 2 else 'sun'}", str(n % 2)) for n in range(60)]
LabelScores = Callable[[str, Sequence[str]], list[float]]
TASK = Task("mail", ("work", "home"))


def hesitant(prompt: str, labels: Sequence[str]) -> list[float]:
    """Always says no; how surely depends on the context."""
    canary = prompt.split('"')[1]
    return [-1.0 if prompt.count(canary) > 1 else -3.0, -0.1]


def rest(prompt: str, labels: Sequence[str]) -> list[float]:
    """The same whatever the context holds, and some endpoints show few tokens."""
    return [float("nan"), -0.1]


def audited(scores: LabelScores, access: Access | None = None) -> AuditResult:
    model = Scripted(label_scores=scores, name=scores.__name__)
    return audit(
        ROWS, mechanism=AnswerProbabilities(), model=model, pairs=60, access=access,
        settings={"detect_change": 0},
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("access", "verdict"),
    [("probabilities", "violation"), (None, "violation"), ("black_box", "inconclusive")],
)
def test_probabilities_show_what_answers_do_not(access: Access | None, verdict: str) -> None:
    found = audited(hesitant, access)
    assert found.verdict == verdict
    assert found.attack["access"] == (access or "probabilities")
    said = str(found)
    assert ("From the probabilities of each answer" in said) == (access != "black_box")


@pytest.mark.slow
def test_a_model_that_looks_at_no_context_shows_nothing() -> None:
    found = audited(rest)
    assert (found.verdict, found.bound.epsilon) == ("inconclusive", 0.0)


def test_an_answer_beyond_the_tokens_shown_is_the_least_likely() -> None:
    job = Job((Example("a", "work"),), Query('is "b" there?', ("yes", "no")))
    (one,) = AnswerProbabilities().collect(TASK, [job], [0], Scripted(label_scores=rest))
    assert isinstance(one, Vector)
    assert one.values == (UNSEEN, pytest.approx(-0.1))
    out = AnswerProbabilities().release(one, 2, np.random.default_rng(0))
    assert out.answers.tolist() == [1, 1]
    nothing = AnswerProbabilities().release(Vector((UNSEEN, UNSEEN)), 1, np.random.default_rng(0))
    assert nothing.answers.tolist() == [2]  # none of them


def test_levels_are_those_of_prompt_defenses() -> None:
    plain, one, two = (AnswerProbabilities(level).preamble() for level in (0, 1, 2))
    assert not plain
    assert one != two
    with pytest.raises(UsageError, match="must be 0"):
        AnswerProbabilities(3)
    with pytest.raises(UsageError, match="chooses among given answers"):
        AnswerProbabilities().requests(Task("free"), Job((), Query("x")), 0)
