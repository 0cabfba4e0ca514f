"""The slow side: ask the model about both worlds of every pair, batch by batch, into the store."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from contextleak.auditing.design import Pair
from contextleak.auditing.store import EvidenceRow, RunStore
from contextleak.icl import Job, Mechanism, Spoken, Task
from contextleak.models import Counted, Distinct, Model, require

__all__ = ["check", "collect"]

Progress = Callable[[int, int], None]
BLOT = "█"


def check(task: Task, mechanism: Mechanism, pairs: Sequence[Pair], model: Model) -> None:
    """Everything that can be refused without a model call, refused: kinds of asks, prompts that do not fit."""
    require(model, mechanism.needs, mechanism.name)
    for pair in pairs:
        for job in (pair.member, pair.nonmember):
            model.check(mechanism.asks(task, job, pair.draw))


def collect(
    task: Task, mechanism: Mechanism, pairs: Sequence[Pair], model: Model, store: RunStore, size: int,
    progress: Progress = lambda done, total: None, stop: Callable[[], bool] = lambda: False,
    keep_text: bool = True,
) -> None:  # fmt: skip
    """Collect the pairs that the store lacks. Batches always start at the same pairs, so resuming asks the same batches.

    `stop` is asked before every further batch: an anytime-valid audit may end early. Without `keep_text`, of a free answer
    only the words that the canary has are stored.
    """
    done = store.done()
    progress(len(done), len(pairs))
    for batch in _batches(pairs, size):
        if batch[0].index not in done:
            if done and stop():
                return
            rows, calls = _batch(task, mechanism, batch, model)
            store.add(
                batch[0].index, rows if keep_text else [_masked(r, p) for r, p in zip(rows, batch, strict=True)], calls
            )
            done |= {pair.index for pair in batch}
            progress(len(done), len(pairs))


def _batches(pairs: Sequence[Pair], size: int) -> list[tuple[Pair, ...]]:
    return [tuple(pairs[i : i + size]) for i in range(0, len(pairs), size)]


def _batch(task: Task, mechanism: Mechanism, batch: Sequence[Pair], model: Model) -> tuple[list[EvidenceRow], int]:
    """Both worlds of a few pairs at once: equal asks reach the model once."""
    counted = Counted(model)
    jobs: list[Job] = [job for pair in batch for job in (pair.member, pair.nonmember)]
    draws = [pair.draw for pair in batch for _ in range(2)]
    clean = mechanism.collect(task, jobs, draws, Distinct(counted))
    rows = [
        EvidenceRow(pair.index, member, nonmember)
        for pair, member, nonmember in zip(batch, clean[::2], clean[1::2], strict=True)
    ]
    return rows, counted.calls if mechanism.needs else len(jobs)


def _masked(row: EvidenceRow, pair: Pair) -> EvidenceRow:
    """The row with every word of a free answer blotted out that has nothing of the canary in it."""
    member, nonmember = (
        Spoken(" ".join(_blot(word, pair.asked.target) for word in clean.text.split()))
        if isinstance(clean, Spoken)
        else clean
        for clean in (row.member, row.nonmember)
    )
    return EvidenceRow(row.pair, member, nonmember)


def _blot(word: str, target: str) -> str:
    plain, known = word.casefold(), target.casefold()
    return word if plain in known or known in plain else BLOT * len(word)
