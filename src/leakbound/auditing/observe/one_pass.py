"""One pass over the stored pairs: each is released once, and observed by every estimator."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, is_dataclass, replace
from functools import cached_property
from itertools import groupby

import numpy as np
import scipy

from leakbound.auditing.collect.collect import CollectionPlan
from leakbound.auditing.collect.quotes import FEW
from leakbound.auditing.design.pairs import LATE, OtherPairs, Pair
from leakbound.auditing.observe.context_digest import ContextDigest, context_digest, readings_apart
from leakbound.auditing.observe.controls import (
    ControlCheck,
    StoredBatch,
    channels_shown,
    check_channels,
    check_controls,
    of_all_channels,
    replies_in,
)
from leakbound.auditing.observe.rejections import rejections
from leakbound.auditing.observe.release import Releaser, StateCheck, many_quotes
from leakbound.auditing.observe.reply_separation import (
    ChangeTest,
    ReplySeparation,
    change_between,
)
from leakbound.auditing.prepare.prepared import LEVEL, MOST, Prepared, wanted_change
from leakbound.auditing.store.run_store import EvidenceRow, PriorResults, RunStore
from leakbound.errors import UsageError
from leakbound.estimators import (
    REPORTED,
    Estimator,
    Observations,
    Observer,
    PairedScores,
    TrialDesign,
)
from leakbound.estimators.exact import Profile, ProfileSum
from leakbound.stats import Estimate
from leakbound.tasks import ANSWER, Aggregate, Vector, Votes, reply_of
from leakbound.witness import ReplyFeatures, shows_more

REST = 12  # bounds that reject nothing are computed again after a twelfth more pairs
QUOTES = 0.001  # p-value from which more replies quote records than the claim allows
BLOCK = 512  # pairs read from the store at once
GIVEN = "no bound: it holds given the aggregates, which this mechanism may draw at random"
CHOSEN = (
    "no bound: the number of pairs was chosen after a look at them (an early end, or an earlier "
    "result), and this method needs one that is fixed beforehand"
)


class _Quotes:
    """Replies that quote records of another context, nearer to which a reply is as often by chance,
    and more of their own than `epsilon` allows."""

    def __init__(self, epsilon: float) -> None:
        self.epsilon, self.other = epsilon, 0
        self.replies = [Counter[str]() for _ in range(FEW + 2)]  # by how many records have words
        self.pairs = [Counter[str]() for _ in self.replies]

    def add(self, asked: Sequence[EvidenceRow]) -> None:
        """Count the replies of one pair; of several, the first that is nearer to either context."""
        found = (reply_of(one) for row in asked for one in row.both)
        marks = [reply.quotes for reply in found if reply is not None and reply.quotes]
        self.other += sum(one[-1] == "o" for one in marks)
        for at, (all_of, first) in enumerate(zip(self.replies, self.pairs, strict=True)):
            all_of.update(one[at] for one in marks)
            first.update([one[at] for one in marks if one[at] in "+-"][:1])

    @property
    def own(self) -> int:
        allowed, found = [0.5, *[scipy.special.expit(self.epsilon)] * (FEW + 1)], [0]
        for replies, pairs, chance in zip(self.replies, self.pairs, allowed, strict=True):
            if pairs["+"] and scipy.special.bdtrc(pairs["+"] - 1, pairs.total(), chance) <= QUOTES:
                found.append(replies["+"])
        same = self.replies[0]["="]  # contexts of half of the rows
        return max(*found, same and same + self.replies[0]["+"])


class Tally:
    """What is counted over all aggregates and simulated outputs, for each context apart."""

    def __init__(self, withheld_as: str | None = None, epsilon: float = 0.0) -> None:
        self.answers, self.unreadable, self.withheld = [0, 0], [0, 0], [0, 0]
        self.channels = set[str]()  # of replies, beside their answers
        self.quotes = _Quotes(epsilon)
        self._withheld_as, self.judged = withheld_as, withheld_as is not None
        self.candidates, self.alike = False, True
        self.low, self.high = math.inf, -math.inf
        self._simulated: list[PairedScores] = []

    def add(self, rows: list[EvidenceRow]) -> None:
        for row in rows:
            self.quotes.add([row])
        for of, aggregate in (found for row in rows for found in enumerate(row.both)):
            if isinstance(aggregate, Votes):
                self.unreadable[of] += aggregate.counts[-1]
                self.answers[of] += sum(aggregate.counts)
            self.channels.update(aggregate.channels)
            if self._withheld_as is not None:
                self.withheld[of] += _has_reason(self._withheld_as, aggregate)
            if isinstance(aggregate, Vector):
                self.candidates = True
                self.alike = self.alike and len(aggregate.choices) <= 1

    def keep(self, simulated: PairedScores) -> None:
        self._simulated.append(simulated)
        for scores in (simulated.member, simulated.nonmember):
            self.low = min(self.low, float(scores.min()))
            self.high = max(self.high, float(scores.max()))

    def simulated(self) -> PairedScores:
        member = np.concatenate([scores.member for scores in self._simulated])
        nonmember = np.concatenate([scores.nonmember for scores in self._simulated])
        return PairedScores(member, nonmember)


class OnePass:
    """Follows the stored batches in order: those before one alone decide whether it is the last."""

    def __init__(
        self, prepared: Prepared, store: RunStore, plan: CollectionPlan, prior: PriorResults
    ) -> None:
        self.prepared, self.store, self._plan, self.prior = prepared, store, plan, prior
        first_look = prior.first(prepared.trial_design.pairs)
        self.design = replace(prepared.trial_design, first_look=first_look)
        self.observers, self.first = dict[Estimator, Observer](), list[Pair]()
        self.tally = Tally(prepared.mechanism.withheld_as, self.design.claim.epsilon)
        self.seen, self.ended, self._next, self._observed = 0, False, 0, False
        self._two_sided = prepared.spec.decision.claim is not None
        self.told = ReplySeparation(self._two_sided, self.design.claim)

    def __call__(self) -> bool:
        while not self.ended and (rows := self._rows()):
            for start in range(0, len(rows), self._plan.size):
                batch = rows[start : start + self._plan.size]
                pairs = self._plan.pairs_of(self.seen)
                self.first = self.first or [pairs[0]]
                self.seen += len(batch)
                self.tally.add(batch)
                observations = self.releaser.observe([*zip(pairs, batch, strict=True)])
                if observations is not None:
                    self._observe(observations)
                    self._look()
                if self.ended:
                    break
        return self.ended

    def _rows(self) -> list[EvidenceRow]:
        """Whole batches; a batch is stored whole or not at all. Controls come before any pair."""
        if not self.observers and not self._began():
            return []
        size = self._plan.size
        stop = min(self.seen + max(1, BLOCK // size) * size, self.design.pairs)
        return self.store.without_gap(self.seen, stop) if stop > self.seen else []

    def _began(self) -> bool:
        """Begin once the control pairs are stored; their replies say what estimators will read."""
        stored, prepared = self.store.batches(), self.prepared
        if any(first not in stored for first in self._plan.batches() if first < 0):
            return False
        if wanted := prepared.spec.attack.channels:
            shown = channels_shown(wanted, self._full_rows)
            self.design = replace(self.design, channels=shown)
        elif self._controls_show_more():
            self.design = replace(self.design, replies=True)
        self.observers = dict(_begin(prepared.estimator, self.design))
        # a distribution is that of one output, and the loss of several in a trial is another one
        known = self.design.answers == 1 and any(map(_reads_distribution, self.observers))
        self._profile = ProfileSum(prepared.spec.decision.epsilon) if known else None
        design, reads = self.design, (one.reads for one in self.observers)
        self.releaser = Releaser(
            prepared.task, prepared.mechanism, prepared.attack.score, prepared.spec.design.seed,
            pilot=design.pilot, draws=design.draws, answers=design.answers,
            reads=frozenset().union(*reads), thresholds=design.thresholds, served=design.served,
            channels=design.channels,
        )  # fmt: skip
        return True

    @property
    def _full_rows(self) -> list[EvidenceRow]:
        """Controls with one canary choose nothing that is read."""
        return self.control_rows[self.prepared.controls.single :]

    def _controls_show_more(self) -> bool:
        if self.design.replies or self.prepared.mechanism.application is None:
            return False
        replies = (reply_of(one) for row in self._full_rows for one in row.both)
        answers = self.prepared.task.answers(self.prepared.pairs[0].asked.query)
        return any(shows_more(one, answers) for one in replies)

    def _observe(self, observations: Observations) -> None:
        self._observed = True
        self.tally.keep(observations.simulated)
        state = self.state()
        stateful = state is not None and state.found is not None
        observations = replace(self.told.measured(observations), stateful=stateful)
        for observer in self.observers.values():
            observer.observe(observations)
        if self._profile is not None:
            self._profile.observe(observations)

    def _look(self) -> None:
        """May the audit end? Bounds are computed only where the evidence may suffice."""
        deciding = self.observers[self.prepared.estimator]
        if not (self.design.early_stop and deciding.rejected and self.seen >= self._next):
            return
        self.ended = bool(rejections(self.design, self.prepared.estimator, deciding.bounds()))
        self._next = self.seen + self.seen // REST

    @cached_property
    def control_rows(self) -> list[EvidenceRow]:
        """The stored control pairs, decoded once."""
        return self.store.controls() if self.prepared.controls else []

    def controls(self) -> ControlCheck:
        if self.design.channels and self.control_batch():
            return of_all_channels(self.channel_controls())
        late = [self._check(batch) for batch in self._late_controls()]
        # they should be there, and are not where the last samples of a log are missing
        lacks = self.prepared.late_controls is not None and self._observed and not self.ended
        full, single = self._check(self.control_batch()), self._check(self._single_batch())
        found = self._beside(full.followed_by(late), single, ANSWER)
        return found if late or not lacks else replace(found, late=1.0)

    def control_batch(self) -> StoredBatch:
        return self._control_pairs()[self.prepared.controls.single :]

    def _single_batch(self) -> StoredBatch:
        return self._control_pairs()[: self.prepared.controls.single]

    def _control_pairs(self) -> StoredBatch:
        controls, rows = self.prepared.controls, self.control_rows
        known = self._observed and len(rows) >= len(controls)
        return [*zip(controls, rows, strict=True)] if known else []

    def _late_controls(self) -> Iterator[StoredBatch]:
        """Those that were asked after the last pair of each shard."""
        late = self.prepared.late_controls
        if late is None or not self._observed:
            return
        for shard, found in groupby(self.store.late_controls(), lambda row: -row.pair // LATE):
            rows = [*found]
            if len(rows) == len(late):
                yield [*zip(late.late(shard), rows, strict=True)]

    def _check(self, batch: StoredBatch) -> ControlCheck:
        if not batch:
            return check_controls(None, self.prepared.ignores_context)
        scores = self.releaser.control_scores(batch)
        shown = [(reply_of(row.member), reply_of(row.nonmember)) for _, row in batch]
        read = self.design.replies and "replies" in self.prepared.estimator.reads
        replies = shown if read else []
        exempt = self.prepared.ignores_context
        return check_controls(scores, exempt, replies, self._two_sided, by_length=self._alike_long)

    @property
    def _alike_long(self) -> bool:
        # both contexts of a staged pair have one record at most, whatever follows how much there is
        return self.prepared.pairs.staged is not None

    def channel_controls(self) -> dict[str, ControlCheck]:
        if not (batch := self.control_batch()):
            return {}
        late = [self._by_channel(batch) for batch in self._late_controls()]
        single = self._by_channel(self._single_batch())
        return {
            name: self._beside(
                check.followed_by([checks[name] for checks in late]), single[name], name
            )
            for name, check in self._by_channel(batch).items()
        }

    def _beside(self, full: ControlCheck, single: ControlCheck, name: str) -> ControlCheck:
        if self.prepared.pairs.staged is not None:  # the first tenant beside the second one
            return replace(full, single=single.combined)
        return full.beside(single, *self.told.by_score(name))

    def _by_channel(self, batch: StoredBatch) -> dict[str, ControlCheck]:
        scores = self.releaser.control_scores(batch)
        return check_channels(batch, scores, self.design.channels, by_length=self._alike_long)

    def changes(self) -> tuple[ChangeTest, ...]:
        """What the replies to each attack show of a single canary, the audit's own first."""
        prepared = self.prepared
        least, claim = wanted_change(prepared.spec), self.design.claim
        found = [self.told.changed(least, LEVEL / MOST)]
        for other in prepared.others:
            rows = self.store.others(other.pairs.place, len(other.pairs))
            if len(rows) < len(other.pairs):
                break
            batch = [*zip(other.pairs, rows, strict=True)]
            reader = Releaser(
                prepared.task, prepared.mechanism, other.attack.score, prepared.spec.design.seed,
                pilot=0, draws=1, answers=1, reads=frozenset(),
            )  # fmt: skip
            scores = reader.control_scores(batch)
            found.append(change_between(scores, replies_in(batch), least, claim, LEVEL / MOST))
        return tuple(found)

    def quoting(self) -> Iterator[tuple[int, int, str]]:
        """Replies that quote records, of how many; those to the audit's questions `state` finds."""
        yield self.tally.quotes.own, 2 * self.seen, ""
        others, epsilon = self.prepared.others, self.design.claim.epsilon
        for asked in (*(one.pairs for one in others), *self.prepared.repeats):
            rows, found = self.store.others(asked.place, len(asked)), _Quotes(epsilon)
            for at in range(0, len(rows), asked.times):
                found.add(rows[at : at + asked.times])
            other = found.other * many_quotes(found.other, 2 * len(rows), self._alike(found.other))
            if number := max(found.own, other):  # a reply may be both
                named = [one.name for one in others if one.pairs is asked]
                what = f" to {''.join(named) or 'questions that are asked again'}"
                yield number, 2 * len(rows), what

    def digest(self, blind: bool) -> ContextDigest | None:
        """The reading of replies that is a function of the context, where that was asked; of an
        attack that sees the canary, one of two values may be its answer."""
        repeated = [self._with_replies(one) for one in self.prepared.repeats]
        if not all(repeated) or not (names := self._readings_apart(blind)):
            return None
        return context_digest(repeated[0], repeated[-1], names, self.design.claim)

    def _readings_apart(self, blind: bool) -> tuple[str, ...]:
        """Readings that seem to be functions of the context, in the first that were asked again."""
        first = [one for each in self.prepared.repeats[:1] for one in self._with_replies(each)]
        return readings_apart(first, 2 if blind else 3) if first else ()

    def _with_replies(self, asked: OtherPairs) -> list[StoredBatch]:
        """Each pair with its replies; none until all are stored."""
        rows = self.store.others(asked.place, len(asked))
        if len(rows) < len(asked):
            return []
        told = [*zip(asked, rows, strict=True)]
        return [told[at : at + asked.times] for at in range(0, len(told), asked.times)]

    def left(self, other_attacks: bool, blind: bool) -> tuple[OtherPairs, ...]:
        """What is not asked yet of what is asked before an audit ends without a violation."""
        attacks = self._plan.others[: len(self.prepared.others)] if other_attacks else ()
        repeats = self.prepared.repeats[: 2 if self._readings_apart(blind) else 1]
        wanted = (*attacks, *repeats)
        stored = self.store.others
        return tuple(one for one in wanted if len(stored(one.place, len(one))) < len(one))

    def state(self) -> StateCheck | None:
        if self.prepared.mechanism.needs or self.prepared.pairs.staged is not None:
            return None  # what trials share is what is tested
        other = self.tally.quotes.other
        return self.releaser.state.check(other, self._alike(other))

    def _alike(self, other: int) -> float:
        return self._plan.known.alike if self._plan.known and other else 0.0

    def profile(self) -> Profile | None:
        return self._profile.profile() if self._profile is not None else None

    def estimates(self) -> dict[Estimator, tuple[Estimate, ...]]:
        planned = self.design.pairs
        whole = self.seen == planned and not self.prior.other_sizes(planned)
        found = {one: observer.bounds() for one, observer in self.observers.items()}
        for one in found:
            if _reads_distribution(one) and not self.prepared.exact_decides:
                found[one] = tuple(_no_bound(bound, GIVEN) for bound in found[one])
            if not (whole or one.anytime):  # what is left of bounds for a number fixed beforehand
                found[one] = tuple(
                    bound if bound.kind == "point_estimate" else _no_bound(bound, CHOSEN)
                    for bound in found[one]
                )
        return {one: _name_of(one, bounds) for one, bounds in found.items()}


def _begin(deciding: Estimator, design: TrialDesign) -> Iterator[tuple[Estimator, Observer]]:
    """The deciding estimator and those that are reported beside it; of channels the first alone."""
    if "channels" in deciding.reads:
        yield deciding, deciding.begin(design)
        return
    if not any(_alike(one, deciding) for one in REPORTED):
        yield deciding, deciding.begin(design)
    for one in (deciding if _alike(one, deciding) else one for one in REPORTED):
        with suppress(UsageError):
            one.check(replace(design, early_stop=False))
            yield one, one.begin(design)


def _reads_distribution(estimator: Estimator) -> bool:
    return "distribution" in estimator.reads


def _alike(one: Estimator, other: Estimator) -> bool:
    """Whether two estimators have the same name and options, wherever their classes are."""
    if one.name != other.name or not is_dataclass(one) or not is_dataclass(other):
        return False
    return asdict(one) == asdict(other)


def _name_of(estimator: Estimator, bounds: tuple[Estimate, ...]) -> tuple[Estimate, ...]:
    """Estimates of an estimator that is not of this package carry its name: methods are unique."""
    if any(_alike(one, estimator) for one in REPORTED):
        return bounds
    return tuple(
        replace(bound, method=f"{estimator.name}:{bound.method}" if at else estimator.name)
        for at, bound in enumerate(bounds)
    )


def _no_bound(found: Estimate, note: str) -> Estimate:
    assumptions = (note, *found.assumptions)
    return replace(found, kind="point_estimate", confidence=None, assumptions=assumptions)


def _has_reason(reason: str, aggregate: Aggregate) -> bool:
    reply = aggregate.reply
    if isinstance(reply, ReplyFeatures):
        return f"finish:{reason}" in reply.strings
    return reply is not None and reply.finish_reason == reason
