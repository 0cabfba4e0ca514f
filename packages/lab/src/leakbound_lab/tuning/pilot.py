"""The pilot: what a wording of the query is worth on the pairs of the tuning, within a budget
of model calls.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from leakbound.attacks import QUERIES, SCORES, Score
from leakbound.auditing.design.pairs import Pair
from leakbound.auditing.observe.release import scores_of
from leakbound.auditing.prepare.prepare import check
from leakbound.auditing.prepare.prepared import Prepared
from leakbound.auditing.store.run_store import EvidenceRow
from leakbound.errors import LeakboundError, StoreError, UsageError, reason_of
from leakbound.models import Counted, Distinct, Model, Request
from leakbound.models.content import Content
from leakbound.stats import Fixed
from leakbound.stats.arrays import Floats
from leakbound.tasks import Aggregate, AnyRequest, Job, Mechanism, Vector, Votes, reply_of
from leakbound.witness import ReplyFacts
from leakbound_lab.tuning.streams import draw_pairs, tuning_root
from leakbound_lab.tuning.words import with_wording

NAME = "candidates.jsonl"


class _Journal:
    """Lines of three kinds:

    `scores` and replies of a candidate on some pairs, a finished `candidate`, a `proposal` of the
    reflection.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
        except OSError as error:
            raise self._broken(error) from None

    def lines(self) -> Iterator[dict[str, Any]]:
        """All whole lines; one that was cut off is passed over, and its question asked again."""
        try:
            text = self.path.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            raise self._broken(error) from None
        for line in text.splitlines():
            try:
                found = json.loads(line)
            except ValueError:
                continue
            if isinstance(found, dict) and {"kind", "calls"} <= found.keys():
                yield found

    def add(self, kind: str, **values: object) -> None:
        """Append a line durably, on a line of its own even where the last one was cut off."""
        try:
            with self.path.open("a+b") as file:
                file.write((self._gap() + json.dumps({"kind": kind, **values}) + "\n").encode())
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise self._broken(error) from None

    def _gap(self) -> str:
        with self.path.open("rb") as file:
            if not file.seek(0, os.SEEK_END):
                return ""
            file.seek(-1, os.SEEK_END)
            return "" if file.read(1) == b"\n" else "\n"

    def _broken(self, error: OSError) -> StoreError:
        where = str(self.path.parent)
        return StoreError(
            f"the tuning folder {where!r} cannot be used ({reason_of(error)}); choose another with "
            "--out."
        )


PERFECT = "a query was right on every pilot pair"
SPENT = "the next step did not fit the budget"
R = TypeVar("R")
PairOutcome = tuple[float, float]  # how often canary-in and canary-out context were called right
PairScores = tuple[list[float], list[float]]  # scores of their outputs
PairReplies = tuple[str, str]  # what was replied, as a reader would see it (PRIVATE)
SHOWN = 600  # characters of a reply
DRAWS = 50  # outputs of a context with noise, as many as CL (Appendix A.7) queries an example
PREDICTED = "predicted_member"


def pilot_score(score: Score) -> Score:
    """What the pilot reads of outputs."""
    return SCORES[PREDICTED]() if score.learns else score


def outputs_each(score: Score, mechanism: Mechanism) -> int:
    """How many outputs of a context are drawn."""
    return DRAWS if mechanism.needs and score.access == "white_box" else 1


def right_shares(member: Floats, nonmember: Floats, score: Score) -> tuple[Floats, Floats]:
    """How often contexts are called right.

    Examples:
        >>> from leakbound.attacks import SCORES
        >>> shares = right_shares(np.array([[3.0, 1.0]]), np.array([[0.0, 2.0]]),
        ...                       SCORES["label_margin"]())
        >>> [share.tolist() for share in shares]
        [[1.0], [0.5]]
    """
    rule = score.threshold
    at = rule.value if isinstance(rule, Fixed) else _best(member.ravel(), nonmember.ravel())
    return (member >= at).mean(1), (nonmember < at).mean(1)


def _best(member: Floats, nonmember: Floats) -> float:
    """The threshold that is right most often; the lowest of several."""
    levels = np.append(np.unique(np.concatenate([member, nonmember])), np.inf)
    missed = np.searchsorted(np.sort(member), levels) / member.size
    refused = np.searchsorted(np.sort(nonmember), levels) / nonmember.size
    return float(levels[np.argmax(refused - missed)])


class OutOfCalls(Exception):
    """What was to be asked does not fit the budget; nothing of it was sent."""


@dataclasses.dataclass(slots=True)
class _CallBudget:
    """Model calls that may be spent, over all commands that worked in one folder."""

    limit: int
    spent: int = 0

    def require(self, calls: int) -> None:
        """Raise OutOfCalls if so many calls are no longer left."""
        if self.spent + calls > self.limit:
            raise OutOfCalls

    def take(self, calls: int) -> None:
        """Count calls that are about to be made."""
        self.require(calls)
        self.spent += calls


class Metered(Counted):
    """Counts the requests that reach the model, and sends none that the budget does not cover."""

    def __init__(self, model: Model, budget: _CallBudget) -> None:
        super().__init__(model)
        self.budget = budget

    def answer(self, requests: Sequence[Request[R]], /) -> list[R]:
        """The model's answers, if the budget covers them all."""
        self.budget.take(len(requests))
        return super().answer(requests)


class Pilot:
    """Scores wordings by their auditing accuracy: the share of outputs that tell their context.

    The score is the audit's own (`pilot_score`), of outputs released by the mechanism's own code.
    Scores are kept in the journal of `folder`, and what is known there is never asked again.
    """

    def __init__(
        self, prepared: Prepared, pairs: int, max_calls: int, folder: Path,
        planted: Iterable[Content] = (),
    ) -> None:  # fmt: skip
        self.prepared = prepared
        self.score = pilot_score(prepared.attack.score)
        self.draws = outputs_each(self.score, prepared.mechanism)
        self.root = tuning_root(prepared.spec.design.seed)
        self.pairs = draw_pairs(prepared, pairs, planted)
        self.journal, self.budget = _Journal(folder), _CallBudget(max_calls)
        self.known: dict[str, dict[int, PairScores]] = {}
        self.replies: dict[str, dict[int, PairReplies]] = {}
        self.proposals: dict[str, str] = {}
        self._refused: dict[str, str] = {}
        self._remember()

    def _remember(self) -> None:
        for line in self.journal.lines():
            if line["kind"] == "scores":
                found = zip(
                    line["pairs"], zip(line["member"], line["nonmember"], strict=True), strict=True
                )
                self.known.setdefault(line["query_text"], {}).update(found)
                replied = zip(line["pairs"], map(tuple, line["replies"]), strict=True)
                self.replies.setdefault(line["query_text"], {}).update(replied)
            if line["kind"] == "proposal":
                self.proposals[line["asked"]] = line["reply"]
            self.budget.spent += line["calls"] if line["kind"] != "candidate" else 0

    def refusal(self, text: str) -> str:
        """Why a wording cannot be asked, in a sentence; empty if it can. Costs no call."""
        if text not in self._refused:
            try:
                of = self.prepared
                check(of.task, of.mechanism, self.asked(text), of.model)
                self._refused[text] = ""
            except LeakboundError as error:
                self._refused[text] = str(error)
        return self._refused[text]

    def asked(self, text: str, places: Sequence[int] | None = None) -> list[Pair]:
        """The pairs at these places (none given: all), with the wording as their query."""
        chosen = self.pairs if places is None else [self.pairs[i] for i in places]
        return [self._with(text, pair) for pair in chosen]

    def _with(self, text: str, pair: Pair) -> Pair:
        of = self.prepared
        query = QUERIES.build(with_wording(of.spec.attack.query, text))
        asked = query.render(pair.canary, of.task, *of.pairs.labels)
        member, nonmember = (Job(job.context, asked.query) for job in (pair.member, pair.nonmember))
        return dataclasses.replace(pair, asked=asked, member=member, nonmember=nonmember)

    def outcomes(self, text: str, places: Sequence[int]) -> list[PairOutcome]:
        """How often was each context of these pairs called right?

        Asks what is not known, and only if the budget covers all of it. A threshold that is not
        fixed is chosen on these pairs, so that wordings are compared on equal terms.
        """
        if self.refusal(text):
            return [(0.0, 0.0)] * len(places)
        known = self.known.setdefault(text, {})
        missing = [i for i in sorted(set(places)) if i not in known]
        size = self.prepared.spec.design.batch_pairs
        batches = [missing[i : i + size] for i in range(0, len(missing), size)]
        self.budget.require(sum(self._cost(self.asked(text, batch)) for batch in batches))
        for batch in batches:
            self._evaluate(text, batch)
        member, nonmember = (np.array([known[i][of] for i in places]) for of in (0, 1))
        shares = right_shares(member, nonmember, self.score)
        return list(zip(*(one.tolist() for one in shares), strict=True))

    def outcome(self, text: str, place: int) -> PairOutcome:
        """How often were the contexts of one pair called right?

        Asks this pair alone if the score's threshold is fixed, and else all pairs.
        """
        if isinstance(self.score.threshold, Fixed):
            return self.outcomes(text, [place])[0]
        return self.outcomes(text, range(len(self.pairs)))[place]

    def accuracy(self, text: str) -> float:
        """Auditing accuracy on all pilot pairs; 0 for a wording that cannot be asked."""
        found = self.outcomes(text, range(len(self.pairs)))
        return sum(map(sum, found)) / (2 * len(found))

    def cost(self, text: str) -> int:
        """Calls that scoring a wording takes (at least, for answers decided token by token)."""
        pairs, size = self.asked(text), self.prepared.spec.design.batch_pairs
        return sum(self._cost(pairs[i : i + size]) for i in range(0, len(pairs), size))

    def scored(self) -> dict[str, float]:
        """The accuracy of every wording that is known on all pilot pairs, in order."""
        return {
            text: self.accuracy(text)
            for text, known in self.known.items()
            if len(known) == len(self.pairs)
        }

    def perfect(self) -> bool:
        """Is there a wording that was right on all pilot pairs?"""
        return max(self.scored().values(), default=0.0) == 1.0

    def refused(self) -> int:
        """How many wordings could not be asked."""
        return sum(map(bool, self._refused.values()))

    def _jobs(self, pairs: Sequence[Pair]) -> tuple[list[Job], list[int]]:
        jobs = [job for pair in pairs for job in (pair.member, pair.nonmember)]
        return jobs, [pair.draw for pair in pairs for _ in range(2)]

    def _cost(self, pairs: Sequence[Pair]) -> int:
        jobs, draws = self._jobs(pairs)
        if not self.prepared.mechanism.needs:
            return len(jobs)
        requests: set[AnyRequest] = set()
        for job, draw in zip(jobs, draws, strict=True):
            requests.update(self.prepared.mechanism.requests(self.prepared.task, job, draw))
        return len(requests)

    def _evaluate(self, text: str, places: Sequence[int]) -> None:
        """Ask, release outputs of each context, and write down what was found before the rest."""
        prepared, pairs, before = self.prepared, self.asked(text, places), self.budget.spent
        rows = self._collected(pairs)
        found = scores_of(
            prepared.task, prepared.mechanism, self.score, pairs, rows, self.root, self.draws
        )
        replies = [
            (self._replied(pair, row.member), self._replied(pair, row.nonmember))
            for pair, row in zip(pairs, rows, strict=True)
        ]
        member, nonmember = (s.tolist() for s in (found.member, found.nonmember))
        self.journal.add(
            "scores", query_text=text, pairs=list(places), member=member, nonmember=nonmember,
            replies=replies, calls=self.budget.spent - before,
        )  # fmt: skip
        self.replies.setdefault(text, {}).update(zip(places, replies, strict=True))
        self.known[text].update(zip(places, zip(member, nonmember, strict=True), strict=True))
        if len(self.known[text]) == len(self.pairs):
            scored = [line for line in self.journal.lines() if line["kind"] == "scores"]
            calls = sum(line["calls"] for line in scored if line["query_text"] == text)
            accuracy = self.accuracy(text)
            self.journal.add("candidate", query_text=text, pilot_accuracy=accuracy, calls=calls)

    def _replied(self, pair: Pair, aggregate: Aggregate) -> str:
        """What the system said: its text, or else the votes and scores behind its release."""
        reply = reply_of(aggregate)
        if isinstance(reply, ReplyFacts):
            return reply.text[:SHOWN]
        answers = (*self.prepared.task.answers(pair.asked.query), "none of these")
        if isinstance(aggregate, Votes):
            counts = zip(answers, aggregate.counts, strict=True)
            said = [(answer, count) for answer, count in counts if count]
            return ", ".join(
                f"{answer} ({count} of {sum(aggregate.counts)})" for answer, count in said
            )
        if isinstance(aggregate, Vector) and len(aggregate.values) == len(answers) - 1:
            values = zip(answers, aggregate.values, strict=False)
            return ", ".join(f"{answer}: {value:.3g}" for answer, value in values)
        return "not a text"

    def _collected(self, pairs: Sequence[Pair]) -> list[EvidenceRow]:
        """The aggregates; calls of a batch that breaks off are counted too."""
        before = self.budget.spent
        try:
            return self._collect(pairs)
        except BaseException:
            self.journal.add("spent", calls=self.budget.spent - before)
            raise

    def _collect(self, pairs: Sequence[Pair]) -> list[EvidenceRow]:
        prepared = self.prepared
        jobs, draws = self._jobs(pairs)
        if not prepared.mechanism.needs:
            self.budget.take(len(jobs))
        model = Distinct(Metered(prepared.model, self.budget))
        aggregate = prepared.mechanism.collect(prepared.task, jobs, draws, model)
        return [
            EvidenceRow(p.index, m, n)
            for p, m, n in zip(pairs, aggregate[::2], aggregate[1::2], strict=True)
        ]


def require_start(pilot: Pilot, start: str) -> None:
    """Refuse, before any call, a starting query that cannot be asked or paid for."""
    refusal = pilot.refusal(start)
    if refusal:
        raise UsageError(f"the starting query cannot be used: {refusal}")
    needed = 0 if len(pilot.known.get(start, {})) == len(pilot.pairs) else pilot.cost(start)
    if needed > pilot.budget.limit:
        raise UsageError(
            f"max_calls is {pilot.budget.limit}, and scoring the starting query alone takes "
            f"{needed} model calls; use more calls (--max-calls) or fewer pilot pairs "
            "(--pilot-pairs)."
        )
