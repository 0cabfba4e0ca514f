"""When may an audit end early? The bet is played while pairs come in, each pair once."""

from __future__ import annotations

from leakbound.auditing.assemble import drawn
from leakbound.auditing.prepare import Prepared
from leakbound.auditing.release import learnt
from leakbound.auditing.store import EvidenceRow, RunStore

__all__ = ["SequentialStop"]

REST = 12  # bounds that do not exceed the promise are looked at again after a twelfth more pairs


class SequentialStop:
    """Follows the stored batches in their order, up to the first that is missing.

    Which batch ends an audit depends on the batches before it alone: not on when they came, from
    where, or in how many runs.
    """

    def __init__(self, prepared: Prepared, store: RunStore) -> None:
        self.prepared, self.store = prepared, store
        self.seen, self.ended = 0, False
        self._score, self._next = prepared.attack.score, 0
        self._process = prepared.bet.start()

    def __call__(self) -> bool:
        """Has the promise been refuted by the pairs so far? Always no, unless the audit is to stop
        then.
        """
        while self.prepared.spec.stop_when_rejected and not self.ended and (batch := self._batch()):
            self._see(batch)
        return self.ended

    def _batch(self) -> list[EvidenceRow]:
        """The next batch, empty if it is not stored; a batch is stored whole or not at all."""
        stop = min(self.seen + self.prepared.spec.batch_pairs, len(self.prepared.pairs))
        return list(self.store.evidence(self.seen, stop))

    def _see(self, batch: list[EvidenceRow]) -> None:
        prepared, first = self.prepared, max(self.seen, self.prepared.pilot)
        fresh = batch[first - self.seen :]
        self.seen += len(batch)
        if not fresh:
            return
        if first == prepared.pilot:
            self._learn()
        prepared.bet.play(
            drawn(prepared, self._score, prepared.pairs[first : self.seen], fresh), self._process
        )
        if self._process.rejected and self.seen >= self._next:
            self.ended = prepared.bet.broken(self._process)
            self._next = self.seen + self.seen // REST

    def _learn(self) -> None:
        prepared = self.prepared
        self._score = learnt(
            prepared.task, prepared.mechanism, self._score, prepared.pairs, self.store.evidence(0, prepared.pilot),
            prepared.pilot, prepared.spec.seed,
        )  # fmt: skip
