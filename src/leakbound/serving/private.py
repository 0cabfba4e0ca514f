"""PrivateICL: answers over one private context, each paid for in the ledger before it is made."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from leakbound.errors import LeakboundError, TargetError, UsageError
from leakbound.models import Model, require
from leakbound.models.content import text_only
from leakbound.serving.ledger import BudgetState, Ledger
from leakbound.tasks import (
    Example,
    Job,
    Mechanism,
    Query,
    Task,
    as_context,
    require_mechanism,
)
from leakbound.tasks.datasets import fingerprint

__all__ = ["Answer", "PrivateICL"]

LONGEST = 1000  # bytes of a query: a long paragraph, and little of any model's window
# texts that tokenizers cut into few or into many tokens a byte
FILLERS = ("word ", "a.", "7", "Ω", "鿦", "𝔘")
DRAW_BITS = 62  # of the number that names the random draws of a call: it fits a signed integer
SEED_BITS = 128  # of the noise: no second answer ever shares it


@dataclass(frozen=True, slots=True)
class Answer:
    """What a user gets (PUBLIC).

    Attributes:
        text: The released answer.
        spent: epsilon spent so far at `delta`, over all answers.
        remaining: epsilon that remains of the budget, never overstated.
        delta: Failure probability of the budget.
    """

    text: str
    spent: float
    remaining: float
    delta: float


def _bytes(text: str) -> int:
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        raise UsageError(
            "the query holds half a character (a lone surrogate); it must be whole Unicode text."
        ) from None


class PrivateICL:
    """Answers queries over a private context through a mechanism, within the budget of a ledger.

    What is served is what is audited: the same `collect`, `release` and `decode`. Whether a query
    is refused depends on public facts only (its length, the number of examples), so a refusal
    costs nothing and reveals nothing. That the private rows fit the model beside the longest query
    is checked here, once.

    Args:
        mechanism: What answers; its parameters are public.
        context: Examples, or (input, label) pairs (PRIVATE).
        task: The task (public).
        model: An opened model.
        ledger: Where every answer is paid for.
        name: The name of the service.
        longest: The most bytes (UTF-8) of a query.
        randbits: Gives an integer of so many random bits, by default of the operating system. Give
            another source in tests only: whoever can predict it can subtract the noise.

    Raises:
        TargetError: If the model lacks what the mechanism needs, or the rows do not fit it.
        UsageError: If the ledger could never take what an answer costs.

    Guarantee:
        All answers together satisfy the budget of the ledger, under the neighbouring relation of
        the mechanism's guarantee. Not covered: how long an answer takes, and the last bits of
        floating-point noise.
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
    ) -> None:
        self.mechanism, self.task, self.model, self.ledger = mechanism, task, model, ledger
        self.name, self.longest, self._randbits = name, longest, randbits
        self._context = as_context(context)
        self._key = fingerprint(self._context)
        self._ready()

    def __repr__(self) -> str:
        return (
            f"PrivateICL({self.mechanism.name} over {len(self._context)} private examples, "
            f"{self.ledger!r})"
        )

    @property
    def state(self) -> BudgetState:
        """What this context has spent, and what remains."""
        return self.ledger.state(self._key)

    def check(self, query: str | Query) -> Query:
        """The query, if it can be answered; free, and decided without the private rows.

        Args:
            query: A text, or a query with its own answers.

        Returns:
            The query that `answer` takes.

        Raises:
            UsageError: If it is empty or too long.
            LeakboundError: Whatever the mechanism or model refuse of it where every example is a
                blank one.
        """
        checked = query if isinstance(query, Query) else Query(query)
        text = text_only(checked.text, "a service of private answers")
        size = _bytes(text)
        if not text.strip() or size > self.longest:
            raise UsageError(
                f"the query has {size} bytes; it must have text, and at most {self.longest} "
                "bytes. Send another."
            )
        blank = Example("-", self.task.labels[0] if self.task.labels else "-")
        self.model.check(
            self.mechanism.requests(self.task, Job((blank,) * len(self._context), checked), 0)
        )
        return checked

    def answer(self, query: str | Query) -> Answer:
        """One answer: check (free), spend (durable), collect, release once, decode.

        Args:
            query: A text, or a query with its own answers.

        Returns:
            The released answer and what remains of the budget.

        Raises:
            BudgetExhausted: If the budget does not allow another answer.
            LeakboundError: What `check` and the model raise; what was spent by then stays spent.

        Guarantee:
            The mechanism's `cost` of the query, spent before the model is called.
        """
        checked = self.check(query)
        paid = self.ledger.spend(self._key, self.mechanism.cost(self.task, checked))
        draw, seed = self._randbits(DRAW_BITS), self._randbits(SEED_BITS)
        rng = np.random.default_rng(seed)
        (aggregate,) = self.mechanism.collect(
            self.task, [Job(self._context, checked)], [draw], self.model
        )
        outputs = self.mechanism.release(aggregate, 1, rng)
        (text,) = self.mechanism.decode(self.task, checked, outputs, self.model)
        return Answer(text, paid.epsilon, paid.remaining, paid.delta)

    def _ready(self) -> None:
        """Everything that can be refused before the first query."""
        require_mechanism(self.mechanism)
        require(self.model, self.mechanism.needs, self.mechanism.name)
        self.ledger.check(self.mechanism.cost(self.task, Query("-")))
        for filler in FILLERS:
            query = Query(filler * (self.longest // len(filler.encode())))
            requests = self.mechanism.requests(self.task, Job(self._context, query), 0)
            try:
                self.model.check(requests)
            except LeakboundError as error:
                raise TargetError(
                    f"beside these examples, a query of {self.longest} bytes may not fit the "
                    f"model: {error} "
                    "Or allow shorter queries only (--longest-query)."
                ) from None
