"""What a mechanism leaves of the answers of a sure model: utility before anything is spent."""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

import numpy as np

from leakbound.errors import LeakboundError
from leakbound.mechanisms import AnswerProbabilities, FewShot
from leakbound.models import Model, ScoreLabels, Scripted
from leakbound.models.content import readable
from leakbound.models.request import Prompt
from leakbound.tasks import Example, Job, Mechanism, Query, Task

ROW, ASKED = "row-that-is-there", "query-that-is-asked"
SURE, ODDS = "sure", 50.0  # the word, and its score in nats above all others
WORDS, SIZE = 50, 384  # that a free answer chooses among; numbers of an embedding
RELEASES, TEXTS = 4000, 24
MADE_UP, REPEATS = "a note about the weather", 4
FREE_OF_NOISE, ENOUGH = 1e4, 0.9  # an epsilon, and the share that must remain at it


class _Sure(Scripted):
    """Knows the answer from any row, and nothing without one."""

    def __init__(self, answer: str) -> None:
        super().__init__(
            complete=lambda prompt: answer if _holds_both(prompt) else "?",
            label_scores=lambda prompt, labels: [
                -ODDS * (_holds_both(prompt) and label != answer) for label in labels
            ],
            next_logits=lambda prompt, _: [[ODDS * _holds_both(prompt)] + [0.0] * WORDS + [-ODDS]],
            embed=lambda text: (
                np.random.default_rng(crc32(text.encode())).normal(size=SIZE).tolist()
            ),
            name="sure",
        )

    def encode(self, text: Prompt) -> Sequence[int]:
        return (int(_holds_both(text)),)

    def text(self, ids: Sequence[int]) -> str:
        return " ".join(str(one) if one else SURE for one in ids)

    def end_ids(self) -> frozenset[int]:
        return frozenset({WORDS + 1})


def _holds_both(prompt: Prompt) -> bool:
    if isinstance(prompt, tuple):
        return prompt[0] == 1
    said = readable(prompt)
    return ROW in said and ASKED in said


def at_best(mechanism: Mechanism, task: Task, shots: int, delta: float) -> float | None:
    """Share of answers, or of words of free ones, that are the model's own, if any of so many
    examples makes it sure of each and it knows nothing without them; no model is asked.

    Returns:
        The share in [0, 1], by chance 1 of the labels or of `WORDS`; None of a mechanism that would
        not answer as its model does without noise either.

    Examples:
        >>> from leakbound.mechanisms import ProductOfExperts
        >>> task, experts = Task("notes", ("a", "b")), ProductOfExperts(1.0, group_size=2)
        >>> at_best(experts, task, 20, 1e-5) > 0.99
        True
    """
    silent = mechanism.recalibrated(FREE_OF_NOISE, delta)
    if _share(silent, task, shots) < ENOUGH:
        return None
    return _share(mechanism, task, shots)


def _share(mechanism: Mechanism, task: Task, shots: int) -> float:
    labels, rng = task.labels or (SURE,), np.random.default_rng(0)
    rows = tuple(Example(f"{ROW} {at}", labels[at % len(labels)]) for at in range(shots))
    job, model = Job(rows, Query(ASKED)), _Sure(labels[0])
    times = 1 if task.labels else TEXTS
    found = mechanism.collect(task, [job] * times, range(times), model)
    if task.labels:
        answers = np.asarray(mechanism.release(found[0], RELEASES, rng).answers)
        return float((answers == 0).mean())
    said = [
        word for one in found
        for text in mechanism.decode(task, job.query, mechanism.release(one, 1, rng), model)
        for word in text.split()
    ]  # fmt: skip
    return sum(word == SURE for word in said) / max(1, len(said))


def label_whatever_is_shown(mechanism: Mechanism, task: Task, model: Model) -> str:
    """The answer to a made-up text that examples label one way, then another way; "" if the two
    differ, or there is none. Two calls, which hold no row.
    """
    shown = task.labels[:2]
    if len(shown) < 2 or mechanism.application is not None:
        return ""
    plain = AnswerProbabilities() if ScoreLabels in mechanism.needs else FewShot()
    jobs = [Job((Example(MADE_UP, label),) * REPEATS, Query(MADE_UP)) for label in shown]
    try:
        found = plain.collect(task, jobs, (0, 0), model)
    except LeakboundError:  # the answer itself says what is wrong
        return ""
    rng = np.random.default_rng(0)
    said = {
        text
        for one in found
        for text in plain.decode(task, jobs[0].query, plain.release(one, 1, rng), model)
    }
    return said.pop() if len(said) == 1 else ""
