"""From aggregates through the mechanism's own release code to what estimators observe."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from leakbound.attacks import Score
from leakbound.attacks.scores import output_texts
from leakbound.auditing.design import Pair
from leakbound.auditing.seeds import Purpose, generator
from leakbound.auditing.store import EvidenceRow
from leakbound.errors import UsageError
from leakbound.estimators import Observations, PairedScores
from leakbound.estimators.base import DistributionPair, Reads
from leakbound.tasks import Aggregate, Mechanism, Outputs, Task, Votes

__all__ = ["Releaser", "trials"]

Floats = npt.NDArray[np.float64]
Batch = Sequence[tuple[Pair, EvidenceRow]]
PILOT_DRAWS = 200  # noisy means of one pilot pair: their mean is as good as the aggregate's
NO_ANSWER = "(no answer)"


class Releaser:
    """Releases each aggregate once for its trial and once for the simulated outputs.

    A score with a direction to learn is fitted on the first pairs, which are held until then.

    Args:
        task: The task of the rows.
        mechanism: What releases.
        score: Turns outputs into numbers.
        seed: Root of the randomness.
        pilot: Pairs that teach the score.
        draws: Simulated outputs of each aggregate.
        answers: Outputs of one context that a trial sees.
        reads: What the estimators of the audit read; nothing else is computed.
    """

    def __init__(
        self, task: Task, mechanism: Mechanism, score: Score, seed: int, *, pilot: int, draws: int,
        answers: int, reads: frozenset[Reads],
    ) -> None:  # fmt: skip
        self._task, self._mechanism, self._score = task, mechanism, score
        self._seed, self._pilot, self._draws = seed, pilot, max(1, draws)
        self._answers, self._reads = answers, reads
        self._held: list[tuple[Pair, EvidenceRow]] = []

    def observe(self, batch: Batch) -> Observations | None:
        """Release the next pairs.

        Args:
            batch: Pairs with their aggregates, in order.

        Returns:
            What they show; None while pairs are held to teach the score.
        """
        self._held += batch
        if len(self._held) < self._pilot:
            return None
        if self._pilot:
            self._score, self._pilot = self._fit(self._held[: self._pilot]), 0
        held, self._held = self._held, []
        return self._released(held)

    def _fit(self, pilot: Batch) -> Score:
        """The score's direction from canary-out to canary-in, from noisy means."""
        if not self._score.learns:
            return self._score
        means = [[self._noisy_mean(pair, row, of) for pair, row in pilot] for of in (0, 1)]
        return self._score.fit(np.stack(means[0]), np.stack(means[1]))

    def _noisy_mean(self, pair: Pair, row: EvidenceRow, context: int) -> Floats:
        rng = generator(self._seed, "pilot", pair.index, context)
        noisy = self._mechanism.release(row.both[context], PILOT_DRAWS, rng).noisy
        return np.zeros(1) if noisy is None else np.asarray(noisy.mean(0))

    def _released(self, batch: Batch) -> Observations:
        reads, first = self._reads, batch[0][0].index
        trial, texts = self.trials(batch) if reads & {"trials", "text"} else (None, None)
        return Observations(
            first=first,
            pairs=len(batch),
            trial_scores=trial,
            simulated_scores=self._scores(batch, self._draws, "simulate"),
            vote_margins=_margins(self._task, batch) if "votes" in reads else None,
            distribution_pairs=self._distributions(batch) if "distribution" in reads else None,
            text_pairs=texts if "text" in reads else None,
        )

    def trials(self, batch: Batch) -> tuple[PairedScores, tuple[tuple[str, str], ...]]:
        """What one trial of each context sees.

        Args:
            batch: Pairs with their aggregates.

        Returns:
            The mean score of its outputs, and what the last of them says (PRIVATE).
        """
        scores, texts = np.empty((2, len(batch))), []
        for at, (pair, row) in enumerate(batch):
            both = [self._outputs(pair, row, of, self._answers, "release") for of in (0, 1)]
            answers = self._task.answers(pair.asked.query)
            scores[:, at] = [self._score.score(o, pair.asked, answers).mean() for o in both]
            texts.append((_text(both[0], answers), _text(both[1], answers)))
        return PairedScores(scores[0], scores[1]), tuple(texts)

    def _scores(self, batch: Batch, draws: int, purpose: Purpose) -> PairedScores:
        """(pairs, draws) mean scores of `answers` outputs each."""
        out = np.empty((2, len(batch), draws))
        for at, (pair, row) in enumerate(batch):
            answers = self._task.answers(pair.asked.query)
            for of in (0, 1):
                outputs = self._outputs(pair, row, of, draws * self._answers, purpose)
                scores = self._score.score(outputs, pair.asked, answers)
                out[of, at] = scores.reshape(draws, self._answers).mean(1)
        return PairedScores(out[0], out[1])

    def _outputs(
        self, pair: Pair, row: EvidenceRow, context: int, draws: int, purpose: Purpose
    ) -> Outputs:
        rng = generator(self._seed, purpose, pair.index, context)
        return self._mechanism.release(row.both[context], draws, rng)

    def _distributions(self, batch: Batch) -> tuple[DistributionPair, ...]:
        known = self._mechanism.output_distribution
        return tuple((known(row.member), known(row.nonmember)) for _, row in batch)


def trials(
    task: Task, mechanism: Mechanism, score: Score, pairs: Sequence[Pair],
    evidence: Iterable[EvidenceRow], seed: int,
) -> PairedScores:  # fmt: skip
    """One trial of each context.

    Args:
        task: The task of the rows.
        mechanism: What releases.
        score: Turns outputs into numbers.
        pairs: The pairs (PRIVATE).
        evidence: Their aggregates, in the same order.
        seed: Root of the randomness.

    Returns:
        (pairs,) scores of one output a context.
    """
    reads: frozenset[Reads] = frozenset({"trials"})
    released = Releaser(task, mechanism, score, seed, pilot=0, draws=1, answers=1, reads=reads)
    found, _ = released.trials([*zip(pairs, evidence, strict=True)])
    return found


def _margins(task: Task, batch: Batch) -> PairedScores:
    """Votes for the canary-in answer less those for the canary-out answer, of both contexts."""
    out = np.empty((2, len(batch)))
    for at, (pair, row) in enumerate(batch):
        answers = task.answers(pair.asked.query)
        yes, no = answers.index(pair.asked.member), answers.index(str(pair.asked.nonmember))
        out[:, at] = [_counts(votes)[yes] - _counts(votes)[no] for votes in row.both]
    return PairedScores(out[0], out[1])


def _counts(aggregate: Aggregate) -> tuple[int, ...]:
    if not isinstance(aggregate, Votes):
        raise UsageError("an estimator reads votes, and the mechanism counts none.")
    return aggregate.counts


def _text(outputs: Outputs, answers: tuple[str, ...]) -> str:
    """What the last output says."""
    if outputs.choices:
        return output_texts(outputs)[-1]
    at = int(outputs.answers[-1])
    return answers[at] if at < len(answers) else NO_ANSWER
