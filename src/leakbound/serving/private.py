"""PrivateICL: answers over one private context, each charged to the ledger before it is made."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import product

import numpy as np

from leakbound.errors import (
    BudgetExhausted,
    Interrupted,
    LeakboundError,
    TargetError,
    UsageError,
    kind_of,
)
from leakbound.mechanisms.parts.base import NO_ANSWER
from leakbound.mechanisms.parts.total_calls import TotalModel
from leakbound.models import Embed, Model, require
from leakbound.models.content import text_only
from leakbound.privacy import Guarantee, NonPrivate
from leakbound.serving.ledger import (
    DATASET,
    BudgetState,
    Ledger,
    PossiblySpent,
    RecordName,
    Spend,
    record_names,
)
from leakbound.tasks import (
    EMPTY_SLOT,
    AnyRequest,
    Context,
    Example,
    Job,
    Mechanism,
    PublicManifest,
    Query,
    Task,
    as_context,
    require_mechanism,
)
from leakbound.utility.at_best import at_best

LONGEST = 1000  # bytes of a query: a long paragraph, and little of any model's window
# texts that tokenizers split into few or into many tokens per byte
FILLERS = ("word ", "a.", "7", "Ω", "鿦", "𝔘")
SLOWEST = 1 << 20  # bytes of a row: where it fits, the model states no limit
MARGIN, LEDGER = 4.0, 0.5  # times as long beside other work, and seconds to pay
HIDDEN = (
    "how many rows there are is private under add_remove, so the time that an answer takes over as "
    "many cannot be measured."
)
DRAW_BITS = 128  # of the number that identifies the random draws of a call, token noise included
SEED_BITS = 128  # of the seed of the noise: no two answers ever share it


class AnswerLost(TargetError):
    """An answer was paid for but could not be made. What was spent stays spent.

    A client that tries again pays again, so a server should tell it not to retry automatically
    (`x-should-retry: false`). The message names only the type of the failure. If
    `PrivateICL.answer` raises any other error, it did so before the spend, and nothing was spent.
    """


class _AnswerInterrupted(AnswerLost, Interrupted):
    """An answer was paid for, and an interruption stopped it before it was made."""

    exit_code = Interrupted.exit_code


@dataclass(frozen=True, slots=True)
class Answer:
    """What a user gets (PUBLIC).

    Attributes:
        text: The released answer. Where `answered` is False: "(no answer)" or an empty text.
        spent: epsilon spent so far at `delta`, over all answers.
        remaining: epsilon that remains of the budget, never overstated.
        delta: Failure probability of the budget.
        answered: Whether the output is an answer. "No answer" is also an output: the same noisy
            choice releases it, and it costs the same.
        manifest: Digest of the public facts that were fixed before any row was read, for the
            operator.
    """

    text: str
    spent: float
    remaining: float
    delta: float
    answered: bool = True
    manifest: str = ""


def require_unlimited(mechanism: Mechanism, limits: Sequence[str]) -> None:
    """Refuse limits that count the tokens of private rows where the mechanism has a guarantee."""
    if limits and not isinstance(mechanism.guarantee, NonPrivate):
        raise UsageError(
            f"{' and '.join(limits)} would count the tokens of private rows, so one row could "
            f"decide whether {mechanism.name} answers; leave them out, and limit the number of "
            "answers with --budget or with the caps of a tenant."
        )


class PrivateICL:
    """Answers queries over a private context with a mechanism, within the budget of a ledger.

    Serving uses the same `collect`, `release` and `decode` that an audit tests. Whether a query is
    refused depends only on public facts: its length, the number of examples, and whether the model
    answers it without private rows. A refusal therefore costs nothing and reveals nothing. The
    constructor checks once that the private rows fit the model together with the longest query and
    all new tokens. After an answer is paid for, a model call that fails counts as a value that the
    mechanism declares (`TotalModel`), so no row decides whether there is an answer.

    Args:
        mechanism: The mechanism that answers; its parameters are public.
        context: Examples, or (input, label) pairs (PRIVATE).
        task: The task (public).
        model: An opened model.
        ledger: The ledger that every answer is charged to.
        name: The name of the service.
        longest: The most bytes (UTF-8) of a query.
        randbits: Returns an integer with the given number of random bits; by default from the
            operating system. Pass another source in tests only: anyone who can predict it can
            subtract the noise.
        dataset: Name of the data set (public). The budget refuses by the number of its answers.
        record_ids: An id for each example (PRIVATE), which identifies its account in the ledger;
            None to identify accounts by the content of the examples.
        fields: Template of the input and label field of the rows, for the manifest; None for each
            that was not named.

    Attributes:
        manifest: The public facts, fixed before any row was read.

    Raises:
        TargetError: If the model lacks what the mechanism needs, or the rows do not fit it.
        UsageError: If the ledger could never pay for an answer, or if the model's endpoint has a
            limit on money or time and the mechanism has a guarantee.

    Guarantee:
        All answers together satisfy the budget of the ledger, under the neighbouring relation of
        the mechanism's guarantee. Not covered: how long an answer takes (a service may let all
        replies leave at one time), the number of model calls, and the last bits of floating-point
        noise.
    """

    def __init__(
        self,
        mechanism: Mechanism,
        context: Iterable[Example | tuple[str, str]],
        task: Task,
        model: Model,
        ledger: Ledger,
        name: str = "leakbound",
        longest: int = LONGEST,
        randbits: Callable[[int], int] = secrets.randbits,
        dataset: str = DATASET,
        record_ids: Sequence[str] | None = None,
        fields: tuple[str | None, str | None] = (None, None),
    ) -> None:
        require_unlimited(mechanism, model.limits)
        self.mechanism, self.task, self.model, self.ledger = mechanism, task, model, ledger
        self.name, self.longest, self._randbits = name, longest, randbits
        self.manifest = PublicManifest.of(
            task, require_mechanism(mechanism), model, longest, fields
        )
        self._refused: tuple[Guarantee, ...] = ()  # prices that the budget no longer allows
        self._context = as_context(context)
        hidden = mechanism.guarantee.relation == "add_remove"
        self._public_shots = 1 if hidden else len(self._context)
        self.dataset, self._records = dataset, record_names(self._context, record_ids)
        self._names: RecordName = "content" if record_ids is None else "id"
        self._ready()

    def __repr__(self) -> str:
        return f"PrivateICL({self.mechanism.name} over private examples, {self.ledger!r})"

    @property
    def state(self) -> BudgetState:
        """The answers given from this data set, and what remains of its budget."""
        return self.ledger.state(self.dataset)

    def at_best(self) -> float | None:
        """`utility.at_best` of this service; None of a system, of what adds no noise, and where
        the number of examples, on which it depends, is private."""
        cost = self.mechanism.cost(self.task, Query("-"))
        hidden = isinstance(cost, NonPrivate) or cost.relation == "add_remove"
        if self.mechanism.application is not None or hidden:
            return None
        return at_best(self.mechanism, self.task, len(self._context), self.ledger.delta)

    def check(self, query: str | Query) -> Query:
        """Return the query if it can be answered. This is free and uses no private row.

        Raises:
            UsageError: If it is empty or too long.
            LeakboundError: If the mechanism or the model refuses the query over a context of blank
                examples.
        """
        checked = query if isinstance(query, Query) else Query(query)
        text = text_only(checked.text, "a service of private answers")
        try:
            size = len("".join((text, *checked.labels)).encode())  # its own answers need room, too
        except UnicodeEncodeError:
            raise UsageError(
                "the query holds half a character (a lone surrogate); it must be valid Unicode "
                "text."
            ) from None
        if not text.strip() or size > self.longest:
            raise UsageError(
                f"the query has {size} bytes; it must have text, and at most {self.longest} "
                "bytes. Send another."
            )
        self.model.check(self._public_requests(checked))
        return checked

    def _public_requests(self, query: Query, shots: int | None = None) -> list[AnyRequest]:
        """The requests for a context of blank examples: one, where their number is private."""
        blank = Example("-", self.task.labels[0] if self.task.labels else "-")
        job = Job((blank,) * (shots or self._public_shots), query)
        return self.mechanism.requests(self.task, job, 0)

    def slowest(self, longest_row: int | None = None) -> float:
        """Seconds after the payment within which an answer is made, even beside other work.

        Measured on made-up rows, as many as there are and as long as is allowed beside the longest
        query, of texts with few and with many tokens. So it depends on public facts alone.

        Args:
            longest_row: The most bytes of a row (public); None for what the model allows.

        Raises:
            UsageError: If a row is longer, the model states no limit and none is given, or how many
                rows there are is private (add_remove).
        """
        if self.mechanism.guarantee.relation == "add_remove":
            raise UsageError(HIDDEN)
        given = SLOWEST if longest_row is None else longest_row
        sizes = [len(row.text.encode()) for row in self._context]
        if long := [at for at, size in enumerate(sizes, 1) if size > given]:
            raise UsageError(
                f"{len(long)} of the rows have more than {given} bytes, such as row {long[0]}; "
                "allow longer ones, or leave these out."
            )
        longest = 0.0
        for filler, query in self._longest_queries():
            size = self._largest(filler, query, given)
            if size == SLOWEST:
                raise UsageError(
                    f"{self.model.name} states no limit to the length of a prompt, so how long an "
                    "answer may take cannot be measured."
                )
            begin = time.perf_counter()
            self._made(query, self._made_up(filler, size))
            longest = max(longest, time.perf_counter() - begin)
        return MARGIN * longest + LEDGER

    def _made_up(self, filler: str, size: int) -> Context:
        label, text = self.task.labels[0] if self.task.labels else "-", filler * size
        return as_context([Example(text[: size // len(filler[:1].encode())] or "-", label)]
                          * len(self._context))  # fmt: skip

    def _largest(self, filler: str, query: Query, most: int) -> int:
        """The most bytes of each row that fit the model, by halving."""
        fits, step = 0, 1 << most.bit_length() - 1
        while step:
            if fits + step <= most and self._fits(query, self._made_up(filler, fits + step)):
                fits += step
            step //= 2
        return fits

    def _fits(self, query: Query, context: Context) -> bool:
        try:
            self.model.check(self.mechanism.requests(self.task, Job(context, query), 0))
        except LeakboundError:
            return False
        return True

    def answer(self, query: str | Query, paying: Callable[[], None] = lambda: None) -> Answer:
        """Give one answer: check (free), spend (durable), collect, release once, decode.

        Args:
            query: A text, or a query with its own answers.
            paying: Called before the ledger is charged: what was done until then depends on no row.

        Raises:
            BudgetExhausted: If the budget does not allow another answer.
            LeakboundError: If `check` refuses the query, or the model fails on it without private
                rows. Nothing is spent.
            AnswerLost: If the mechanism fails or is interrupted after the spend, or the ledger
                fails while it commits. What was spent stays spent.

        Guarantee:
            The answer costs what the mechanism's `cost` says for this query, and the ledger is
            charged before the model sees a private row.
        """
        checked = self.check(query)
        cost = self.mechanism.cost(self.task, checked)
        if cost not in self._refused:
            self._require_answers(checked)
        paying()
        spend = self._spend(cost)
        paid = spend.state
        try:
            each = zip(self._context, spend.takes_part, strict=True)
            # the slot of a record that has spent its budget is empty
            text = self._made(checked, tuple(one if there else EMPTY_SLOT for one, there in each))
        except (Interrupted, KeyboardInterrupt):
            raise _AnswerInterrupted(
                "the answer was paid for, and was interrupted before it was made; what was spent "
                "stays spent."
            ) from None  # what it is raised from may hold a row
        except BaseException as error:
            raise AnswerLost(
                f"the answer was paid for and could not be made ({kind_of(error)}); what was "
                "spent stays spent, and asking again costs as much again."
            ) from None
        answered = text not in ("", NO_ANSWER)
        digest = self.manifest.digest
        return Answer(text, paid.epsilon, paid.remaining, paid.delta, answered, digest)

    def _require_answers(self, query: Query) -> None:
        """Send one public request of each kind, so that an endpoint that is down costs nothing."""
        kinds = {type(request): request for request in reversed(self._public_requests(query))}
        if Embed in self.mechanism.needs:
            kinds.setdefault(Embed, Embed("-"))
        for request in kinds.values():
            self.model.answer([request])

    def _spend(self, cost: Guarantee) -> Spend:
        try:
            return self.ledger.spend(self._records, cost, self.dataset, self._names)
        except BudgetExhausted:
            if cost not in self._refused:  # later requests are refused without a model call
                self._refused += (cost,)
            raise
        except PossiblySpent as error:
            raise AnswerLost(f"the answer counts as paid for, and was not made: {error}") from error

    def _made(self, query: Query, context: Context) -> str:
        model = TotalModel(self.model)
        draw, seed = self._randbits(DRAW_BITS), self._randbits(SEED_BITS)
        rng = np.random.default_rng(seed)
        (aggregate,) = self.mechanism.collect(self.task, [Job(context, query)], [draw], model)
        outputs = self.mechanism.release(aggregate, 1, rng)
        (text,) = self.mechanism.decode(self.task, query, outputs, model)
        return text

    def _ready(self) -> None:
        """Run every check that can refuse the service before the first query."""
        require(self.model, self.mechanism.needs, self.mechanism.name)
        self.ledger.check(self.mechanism.cost(self.task, Query("-")), self._names)
        for _, query in self._longest_queries():
            if not self._fits(query, self._context):
                raise TargetError(self._too_long(query))

    def _longest_queries(self) -> Iterator[tuple[str, Query]]:
        """Of few and of many tokens, and with free answers if any such query passes `check`."""
        kinds = [False]
        with suppress(LeakboundError):
            self.model.check(self._public_requests(Query("-", free=True)))
            kinds.append(True)
        for filler, kind in product(FILLERS, kinds):
            yield filler, Query(filler * (self.longest // len(filler.encode())), free=kind)

    def _too_long(self, query: Query) -> str:
        """The reason, from public facts only: the length of the private rows is not public."""
        reason = ""
        advice = (
            "leave long rows out, show fewer examples (--shots) or more and so smaller groups of "
            "them (the option partitions), "
        )
        try:
            self.model.check(self._public_requests(query, len(self._context)))
        except LeakboundError as error:
            reason, advice = f" Even with blank examples, {error}", ""
        return (
            f"beside some of the examples, a query of {self.longest} bytes and all new tokens may "
            f"not fit the model; {advice}allow fewer new tokens (the option tokens) or shorter "
            f"queries only (--longest-query), or use a model with a longer window.{reason}"
        )
