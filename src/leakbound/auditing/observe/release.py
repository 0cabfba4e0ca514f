"""From aggregates through the mechanism's own release code to what estimators observe."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import scipy

from leakbound.attacks import Score
from leakbound.attacks.protocols import chances_of
from leakbound.attacks.scores import output_texts
from leakbound.auditing.design.pairs import Pair, generator
from leakbound.auditing.observe.controls import StoredBatch, observe_channels, replies_in
from leakbound.auditing.store.run_store import EvidenceRow
from leakbound.errors import UsageError
from leakbound.estimators import Observations, PairedScores
from leakbound.estimators.base import Distribution, DistributionPair, Reads
from leakbound.stats import GaussianLaw, NoiseFit, noise_goodness_of_fit, rank_test, sign_test
from leakbound.stats.arrays import Floats
from leakbound.tasks import ANSWER, Aggregate, Mechanism, Outputs, Task, Votes, reply_of
from leakbound.tasks.facts import exactness_of

# Error of all tests of an audit together. A false alarm makes a correct system inconclusive, and
# systems that remember are found at far smaller levels.
LEVEL = 0.01
RARE, OFTEN = 0.05, 0.03  # so seldom do drawn texts quote so many records; share of the replies
# Replies that quote records, from which on no chance is assumed.
FEW, SHARE = 3, 0.01


def many_quotes(number: int, size: int, chance: float) -> bool:
    """Do more replies quote records of other contexts than drawn texts do, with a `chance`?"""
    often = number >= max(FEW, OFTEN * size)
    return often and bool(scipy.special.bdtrc(number - 1, size, chance) <= RARE)


@dataclass(frozen=True, slots=True)
class StateTest:
    """One test of one way to depend on earlier queries."""

    name: str
    p_value: float | None  # None of what was counted


@dataclass(frozen=True, slots=True)
class StateCheck:
    """What the state check showed. It is a finding, and never a verdict."""

    repeats: int
    tests: tuple[StateTest, ...]
    level: float = LEVEL

    @property
    def found(self) -> StateTest | None:
        """The strongest test, if it rejects at its share of the level."""
        least = min(self.tests, key=lambda test: test.p_value or 0.0, default=None)
        if least is None or (least.p_value or 0.0) > self.level / len(self.tests):
            return None
        return least


@dataclass(frozen=True, slots=True)
class _Seen:
    """One pair; the last three are None where nothing was repeated."""

    out_first: bool
    member: float
    nonmember: float
    again: float | None
    same: bool | None
    neutral: int | None

    @property
    def change(self) -> float:
        """Score of the repeated query less that of the first."""
        return (self.again or 0.0) - (self.nonmember if self.out_first else self.member)


@dataclass(slots=True)
class _StateTally:
    """Collects what the tests read, pair by pair."""

    seen: list[_Seen] = field(default_factory=list)

    def add(
        self, pair: Pair, member: float, nonmember: float, again: float | None, same: bool | None
    ) -> None:
        neutral = len(pair.repeat) - 1 if pair.repeat else None
        self.seen.append(_Seen(pair.out_first, member, nonmember, again, same, neutral))

    def check(self, earlier: int = 0, chance: float = 0.0) -> StateCheck:
        """Run the tests; `earlier` replies quote another context, which has a `chance`."""
        repeated = [pair for pair in self.seen if pair.again is not None]
        tests = [*self._orders(), *(_repeats(repeated) if repeated else ())]
        if many_quotes(earlier, 2 * len(self.seen), chance):
            of = f"{earlier} of {2 * len(self.seen)}"
            tests.append(
                StateTest(f"{of} replies quote records that their context does not hold", None)
            )
        return StateCheck(len(repeated), tuple(tests))

    def _orders(self) -> Iterator[StateTest]:
        """The order within pairs is drawn, and pairs are drawn alike."""
        out_first = [pair for pair in self.seen if pair.out_first]
        in_first = [pair for pair in self.seen if not pair.out_first]
        yield _ranks(
            "its answers to the canary-in context depend on whether that is asked first",
            [pair.member for pair in in_first], [pair.member for pair in out_first],
        )  # fmt: skip
        yield _ranks(
            "its answers to the canary-out context depend on whether that is asked first",
            [pair.nonmember for pair in out_first], [pair.nonmember for pair in in_first],
        )  # fmt: skip
        sums, middle = [pair.member + pair.nonmember for pair in self.seen], len(self.seen) // 2
        yield _ranks("its answers drift over the audit", sums[:middle], sums[middle:])


def _repeats(repeated: list[_Seen]) -> Iterator[StateTest]:
    """A repeated query and the first are alike, whatever was asked in between."""
    for out_first, name in ((False, "canary-in"), (True, "canary-out")):
        changes = [pair.change for pair in repeated if pair.out_first == out_first]
        yield StateTest(
            f"a query to the {name} context is answered differently when it is repeated",
            sign_test(changes),
        )
    for name, counts in (("one neutral query", {1}), ("neutral queries", {1, 2})):
        some = [float(bool(pair.same)) for pair in repeated if pair.neutral in counts]
        others = [float(bool(pair.same)) for pair in repeated if pair.neutral not in counts]
        yield _ranks(f"a repeated query is answered differently after {name}", some, others)


def _ranks(name: str, some: list[float], others: list[float]) -> StateTest:
    return StateTest(name, rank_test(some, others, two_sided=True))


def _alike(one: Aggregate, other: Aggregate) -> bool:
    """Two answers; of replies of an application their texts, beside which seconds differ."""
    texts = [reply.digests[:1] for reply in map(reply_of, (one, other)) if reply is not None]
    return texts[0] == texts[1] if len(texts) == 2 and all(texts) else one == other


BETWEEN, DRAWN = 2, 3  # streams of a pair beside those of its two contexts
MOST_BETWEEN = 3  # 0, 1 or 2 outputs between pairs: enough to leave any fixed period
NOISE_LEVEL = 0.001  # of the noise test, apart from the verdict's: one audit in 1,000 finds noise
FEWEST = 8  # outputs below which the noise is not tested
DIGITS = 9  # noise that agrees in so many decimals is the same noise


class _ServedOutputs:
    """Releases the outputs of trials in their order. Where noise was used before, some more are
    released, or both contexts of a pair would always share it; fresh noise never comes back."""

    def __init__(self, mechanism: Mechanism, seed: int, answers: int, watched: bool) -> None:
        self._mechanism, self._seed = mechanism, seed
        self._answers, self._watched = answers, watched
        self._last: tuple[Aggregate, Distribution] | None = None
        self._used: set[bytes] = set()
        self._repeated = False
        self.sigma: float | None = None
        self.noise: list[Floats] = []
        self.counted = self.unlike = 0

    def pair(
        self, pair: Pair, row: EvidenceRow, laws: DistributionPair = (None, None)
    ) -> tuple[list[Outputs], list[Outputs]]:
        found: list[list[Outputs]] = [[], []]
        for of in (1, 0) if pair.out_first else (0, 1):
            for k in range(self._answers):
                found[of].append(self._call(row.both[of], laws[of], pair, of, k))
        return found[0], found[1]

    def before(self, pair: Pair) -> Floats | None:
        """Perhaps release the last aggregate again."""
        if not self._watched or self._last is None:
            return None
        if self._repeated:
            drawn = generator(self._seed, "release", abs(pair.index), DRAWN).integers(MOST_BETWEEN)
            for k in range(int(drawn)):
                self._call(*self._last, pair, BETWEEN, k)
        return self.noise[-1] if self.noise else None

    def _call(
        self, aggregate: Aggregate, law: Distribution, pair: Pair, stream: int, k: int
    ) -> Outputs:
        index = (stream, k) if k else (stream,)
        rng = generator(self._seed, "release", abs(pair.index), *index)
        outputs = self._mechanism.release(aggregate, 1, rng)
        self._last = aggregate, law
        self._compare(aggregate, outputs)
        if not isinstance(law, GaussianLaw) or outputs.noisy is None:
            return outputs
        noise = np.asarray(outputs.noisy[0] - law.mean)
        if np.isfinite(noise).all():
            self.sigma = law.sigma
            self.noise.append(noise)
            key = (noise.round(DIGITS) + 0.0).tobytes()
            self._repeated = key in self._used
            self._used.add(key)
        return outputs

    def _compare(self, aggregate: Aggregate, outputs: Outputs) -> None:
        """Is the answer what the released counts say? Only then do scores speak for answers."""
        if not isinstance(aggregate, Votes) or outputs.noisy is None or outputs.choices:
            return
        if outputs.noisy.shape[1] == len(aggregate.counts):
            self.counted += 1
            self.unlike += int(outputs.answers[0]) != int(outputs.noisy[0].argmax())

    def noise_fit(self) -> NoiseFit | None:
        """Does the noise of the outputs so far follow the declared distribution?"""
        if not self.sigma or len(self.noise) < FEWEST:
            return None
        same = len({noise.shape for noise in self.noise}) == 1
        residuals = np.stack(self.noise) if same else np.concatenate(self.noise)
        return noise_goodness_of_fit(residuals, self.sigma, NOISE_LEVEL)


def less_noise(outputs: Outputs, noise: Floats | None) -> Outputs | None:
    """Outputs less some noise."""
    if noise is None or outputs.noisy is None or outputs.noisy.shape[1] != noise.size:
        return None
    return replace(outputs, noisy=outputs.noisy - noise)


CONTROL_DRAWS = 2000  # noisy outputs of one control context: enough to see through the noise
PILOT_DRAWS = 200  # noisy means of one pilot pair: their mean is as good as the aggregate's
NO_ANSWER = "(no answer)"


class Releaser:
    """Releases each aggregate once for its trial and once for the simulated outputs."""

    def __init__(
        self, task: Task, mechanism: Mechanism, score: Score, seed: int, *, pilot: int, draws: int,
        answers: int, reads: frozenset[Reads], thresholds: Floats | None = None,
        served: bool = False, channels: Sequence[str] = (),
    ) -> None:  # fmt: skip
        self._task, self._mechanism, self._score = task, mechanism, score
        self._seed, self._pilot, self._draws = seed, pilot, max(1, draws)
        self._answers, self._reads, self._channels = answers, reads, channels or (ANSWER,)
        self._stated = exactness_of(mechanism) != "none"
        self._held: list[tuple[Pair, EvidenceRow]] = []
        self._thresholds = np.zeros(0) if thresholds is None else thresholds
        self.state = _StateTally()
        self.shown: list[SeenTrial] = []
        self.served = _ServedOutputs(mechanism, seed, answers, served and "chances" in reads)

    def observe(self, batch: StoredBatch) -> Observations | None:
        self._held += batch
        if len(self._held) < self._pilot:
            return None
        if self._pilot:
            self._score, self._pilot = self._fit(self._held[: self._pilot]), 0
        held, self._held = self._held, []
        reads, first = self._reads, held[0][0].index
        laws = None
        if reads & {"distribution", "chances"}:
            known = self._mechanism.output_distribution if self._stated else lambda _: None
            laws = tuple((known(row.member), known(row.nonmember)) for _, row in held)
        trial, less, texts = None, None, None
        if reads & {"trials", "text"}:
            trial, less, texts = self._trials(held, laws)
            for at, (pair, _) in enumerate(held[: LOOKED_AT - len(self.shown)]):
                both = float(trial.member[at]), float(trial.nonmember[at])
                self.shown.append(SeenTrial(pair, texts[at], both))
        simulated, chances = self._simulated(held, laws)
        if trial is not None and not self._mechanism.needs:
            self._note_state(held, trial)
        whole = Observations(
            first=first,
            pairs=len(held),
            trial_scores=trial,
            simulated_scores=simulated,
            vote_margins=_margins(self._task, held) if "votes" in reads else None,
            distribution_pairs=laws if "distribution" in reads else None,
            text_pairs=texts if "text" in reads else None,
            level_chances=chances,
            corrected_scores=less,
            reply_pairs=replies_in(held) if "replies" in reads else None,
        )
        return observe_channels(held, whole, self._channels) if "channels" in reads else whole

    def _fit(self, pilot: StoredBatch) -> Score:
        """The score's direction from canary-out to canary-in, from noisy means."""
        if not self._score.learns:
            return self._score
        means = [[self._noisy_mean(pair, row, of) for pair, row in pilot] for of in (0, 1)]
        return self._score.fit(np.stack(means[0]), np.stack(means[1]))

    def _noisy_mean(self, pair: Pair, row: EvidenceRow, context: int) -> Floats:
        rng = generator(self._seed, "pilot", pair.index, context)
        noisy = self._mechanism.release(row.both[context], PILOT_DRAWS, rng).noisy
        return np.zeros(1) if noisy is None else np.asarray(noisy.mean(0))

    def _note_state(self, batch: StoredBatch, trial: PairedScores) -> None:
        for (pair, row), member, nonmember in zip(
            batch, trial.member, trial.nonmember, strict=True
        ):
            first = row.nonmember if pair.out_first else row.member
            same = None if row.again is None else _alike(row.again, first)
            again = self._again_score(pair, row)
            self.state.add(pair, float(member), float(nonmember), again, same)

    def _trials(
        self, batch: StoredBatch, laws: Sequence[DistributionPair] | None
    ) -> tuple[PairedScores, PairedScores, tuple[tuple[str, str], ...]]:
        """Scores, the same less the noise of the last output before the pair, and texts."""
        scores, less, texts = np.empty((2, len(batch))), np.full((2, len(batch)), np.nan), []
        for at, (pair, row) in enumerate(batch):
            noise = self.served.before(pair)
            both = self.served.pair(pair, row, laws[at] if laws else (None, None))
            scores[:, at] = [self._mean_score(pair, outputs) for outputs in both]
            less[:, at] = [self._corrected_score(pair, outputs, noise) for outputs in both]
            answers = self._task.answers(pair.asked.query)
            texts.append((_text(both[0][-1], answers), _text(both[1][-1], answers)))
        return PairedScores(*scores), PairedScores(*less), tuple(texts)

    def _mean_score(self, pair: Pair, outputs: Sequence[Outputs]) -> float:
        return float(np.mean([self._score_of(pair, one) for one in outputs]))

    def _score_of(self, pair: Pair, outputs: Outputs) -> Floats:
        answers = self._task.answers(pair.asked.query)
        return self._score.score(outputs, pair.asked, answers)

    def _corrected_score(
        self, pair: Pair, outputs: Sequence[Outputs], noise: Floats | None
    ) -> float:
        less = [less_noise(one, noise) for one in outputs]
        known = [one for one in less if one is not None]
        return self._mean_score(pair, known) if known else np.nan

    def _simulated(
        self, batch: StoredBatch, laws: Sequence[DistributionPair] | None
    ) -> tuple[PairedScores, PairedScores | None]:
        """Scores of simulated outputs, and the exact chances of the score at each threshold."""
        exactly = chances_of(self._score)
        known = laws is not None and "chances" in self._reads and self._answers == 1
        chances = np.full((2, len(batch), self._thresholds.size), np.nan)
        out = np.empty((2, len(batch), self._draws))
        for at, (pair, row) in enumerate(batch):
            for of in (0, 1):
                rng = generator(self._seed, "simulate", abs(pair.index), of)
                outputs = self._mechanism.release(row.both[of], self._draws * self._answers, rng)
                out[of, at] = self._scored(pair, outputs)
                law = laws[at][of] if laws is not None and known else None
                if law is not None and exactly is not None:
                    answers = self._task.answers(pair.asked.query)
                    found = exactly(law, outputs, pair.asked, answers, self._thresholds)
                    chances[of, at] = np.nan if found is None else found
        return PairedScores(*out), PairedScores(*chances) if known else None

    def _scored(self, pair: Pair, outputs: Outputs) -> Floats:
        """(draws,) mean scores of `answers` outputs each."""
        scores = self._score_of(pair, outputs)
        return np.asarray(scores.reshape(-1, self._answers).mean(1))

    def control_scores(self, batch: StoredBatch) -> PairedScores:
        """What the attack sees of control pairs, once its score is fitted."""
        draws = CONTROL_DRAWS if self._mechanism.needs else 1  # a system answers once
        found = np.empty((2, len(batch)))
        for at, (pair, row) in enumerate(batch):
            for of, aggregate in enumerate(row.both):
                rng = generator(self._seed, "control")
                outputs = self._mechanism.release(aggregate, draws * self._answers, rng)
                found[of, at] = self._scored(pair, outputs).mean()
        return PairedScores(*found)

    def _again_score(self, pair: Pair, row: EvidenceRow) -> float | None:
        if row.again is None:
            return None
        rng = generator(self._seed, "state", pair.index, 1)
        outputs = self._mechanism.release(row.again, 1, rng)
        return float(self._score_of(pair, outputs).mean())


def scores_of(
    task: Task, mechanism: Mechanism, score: Score, pairs: Sequence[Pair],
    evidence: Iterable[EvidenceRow], seed: int, draws: int | None = None,
) -> PairedScores:  # fmt: skip
    """Those of the trials; with `draws`, of so many simulated outputs of each context."""
    reads: frozenset[Reads] = frozenset({"trials"} if draws is None else ())
    released = Releaser(
        task, mechanism, score, seed, pilot=0, draws=draws or 1, answers=1, reads=reads
    )
    batch = [*zip(pairs, evidence, strict=True)]
    read = released._trials if draws is None else released._simulated
    return read(batch, None)[0]


def _margins(task: Task, batch: StoredBatch) -> PairedScores:
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
    if outputs.choices:
        return output_texts(outputs)[-1]
    at = int(outputs.answers[-1])
    return answers[at] if at < len(answers) else NO_ANSWER


LOOKED_AT = 100  # trials among which those that are shown are found


@dataclass(frozen=True, slots=True, repr=False)
class SeenTrial:
    """One pair as it was released (PRIVATE)."""

    pair: Pair
    answers: tuple[str, str]
    scores: tuple[float, float]
