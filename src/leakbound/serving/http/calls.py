"""From one request to one reply: fields, query, account, answer. This module knows no HTTP.

Nothing private is written anywhere. A reply holds the released text and the budget, an error is a
sentence made of public facts, and the log holds only the type of an exception.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from leakbound.errors import BudgetExhausted, Interrupted, LeakboundError, StoreError
from leakbound.mechanisms.parts.base import NO_ANSWER
from leakbound.models.content import whole
from leakbound.serving.http.formats import (
    AnswerFormat,
    Payload,
    ServedAnswer,
    check_fields,
    query_text,
)
from leakbound.serving.http.state_file import ServiceState
from leakbound.serving.http.tenants import RequestRate, Tenant
from leakbound.serving.private import AnswerLost, PrivateICL
from leakbound.tasks import Mechanism, Query, Task

LOG = logging.getLogger("leakbound.serving")
ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "insufficient_quota",
    404: "invalid_request_error",
    405: "invalid_request_error",
    408: "timeout_error",
    409: "idempotency_error",
    413: "invalid_request_error",
    422: "idempotency_error",
    429: "rate_limit_error",
    500: "server_error",
    503: "server_error",
}  # the error types of the OpenAI API
NO_RETRY: Mapping[str, str] = {"x-should-retry": "false"}  # the official clients obey it
SPENT = "the server could not answer; what was paid for it stays spent. Do not send it again."
UNSPENT = "the server cannot answer now; nothing was spent, so you may send the request again."
EXHAUSTED = (
    "the privacy budget of the data does not allow another answer at this price. Nothing was "
    "spent; ask the operator of the service."
)
LATE = (
    "an answer was not ready at the time when every answer leaves (--reply-after), which could "
    "tell of the rows. What was paid for it stays spent, and this service answers nothing until "
    "its operator starts it with more seconds."
)
UNDELIVERED = 1000  # answers to clients that disconnected: about 1 MB
UNDELIVERED_SECONDS = 600.0  # the official client gives up after ten minutes


def longest_answer(task: Task, mechanism: Mechanism) -> int | None:
    """The most tokens that an answer can have, from public facts."""
    given = task.answers(Query("-"))
    if given:
        return max(len(text.encode()) for text in (*given, NO_ANSWER))
    if mechanism.application is not None:
        return None
    own = mechanism.to_config().get("tokens")
    return max(task.max_answer_tokens, own) if isinstance(own, int) else task.max_answer_tokens


@dataclass(frozen=True, slots=True)
class Call:
    tenant: Tenant
    format: AnswerFormat
    payload: Payload
    digest: str
    key: str = ""
    retried: bool = False
    paying: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True)
class ServiceReply:
    status: int
    body: Payload
    headers: Mapping[str, str] = field(default_factory=dict)
    answer: ServedAnswer | None = None
    spent: bool = False


def request_digest(form: AnswerFormat, payload: Payload) -> str:
    text = json.dumps([form.path, payload], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def refusal(status: int, sentence: str, headers: Mapping[str, str] | None = None) -> ServiceReply:
    """An error in the shape of the OpenAI API."""
    error = {"message": sentence, "type": ERROR_TYPES[status], "param": None, "code": None}
    return ServiceReply(status, {"error": error}, headers or {})


class ServiceCalls:
    """Answers calls with one `PrivateICL`, one at a time.

    Guarantee:
        What is returned depends on the private rows only through released answers, whose guarantee
        was spent before. Status, headers and price are functions of public facts and of the
        released text, provided that the mechanism answers whatever a row holds.
    """

    def __init__(
        self,
        private: PrivateICL,
        state: ServiceState,
        ignored: Iterable[str] = (),
        several: bool = False,
        reply_after: float = math.inf,
    ) -> None:
        self.private, self.state, self.ignored = private, state, tuple(ignored)
        self._several = several  # tenants, of which none may know what the others asked
        self.stopped, self.reply_after = False, reply_after
        self._rates: dict[str, RequestRate] = {}
        self._unspent: set[tuple[str, str]] = set()  # keys that could not be deleted from the file
        self._undelivered: OrderedDict[tuple[str, str], tuple[float, ServiceReply]] = OrderedDict()

    def answer(self, call: Call) -> ServiceReply:
        """Answer one call. Raises nothing."""
        if self.stopped:
            return refusal(503, LATE, NO_RETRY)
        try:
            if self.state.was_late(self.reply_after):  # of another server, too
                self.stopped = True
                return refusal(503, LATE, NO_RETRY)
            longest = longest_answer(self.private.task, self.private.mechanism)
            ignored = check_fields(call.payload, call.format.fields, longest, self.ignored)
            query = self.private.check(query_text(call.format.messages(call.payload)))
            return self._once(call, query, ignored)
        except Exception as error:
            return self._refused(error)

    def stop(self, seconds: float, call: Call) -> ServiceReply:
        """After an answer that was late: whether there is another one would tell of the rows."""
        self.stopped = True
        LOG.error("an answer was not ready %g seconds after its payment; serving stopped", seconds)
        try:
            self.state.note_late(seconds)
            if call.key:  # or a retry would tell whether the late answer was made after all
                self.state.end(call.tenant.name, call.key, "")
        except StoreError as error:
            _log(error)
        return refusal(503, LATE, NO_RETRY)

    # --- retries

    def _once(self, call: Call, query: Query, ignored: tuple[str, ...]) -> ServiceReply:
        """A retry gets the reply of the first attempt and is not charged."""
        if not call.key:
            if call.retried:
                lost = self._undelivered.pop((call.tenant.name, call.digest), None)
                if lost and time.monotonic() - lost[0] <= UNDELIVERED_SECONDS:
                    return lost[1]
            return self._paid(call, query, ignored)
        name = call.tenant.name, call.key
        if name in self._unspent:  # a key is free again if nothing was spent for it
            self.state.forget(*name)
            self._unspent.remove(name)
        found = self.state.begin(*name, call.digest)
        if found is None:
            reply = self._paid(call, query, ignored)
            if not reply.spent:
                self._unspent.add(name)
                with suppress(StoreError):
                    self.state.forget(*name)
                    self._unspent.remove(name)
            return reply
        same, outcome = found
        if not same:
            return refusal(
                422, "this Idempotency-Key was used for another request; use a new one.", NO_RETRY
            )
        if outcome is None:
            return refusal(
                409,
                "an earlier request with this Idempotency-Key has not ended: another server is at "
                "it, or it was interrupted after it was paid for. Nothing was charged now; use a "
                "new key for a new answer.",
                NO_RETRY,
            )
        if not outcome:
            return refusal(500, SPENT, NO_RETRY)
        return _release(call, ServedAnswer.from_json(outcome))

    def keep(self, call: Call, reply: ServiceReply) -> None:
        """Store the outcome of a key as its reply leaves: when it was made tells of the rows."""
        if call.key and reply.spent:
            outcome = reply.answer.to_json() if reply.answer else ""
            try:
                self.state.end(call.tenant.name, call.key, outcome)
            except StoreError as error:
                _log(error)

    def keep_undelivered(self, call: Call, reply: ServiceReply) -> None:
        """Keep the reply to a client that disconnected, in case it asks again."""
        if call.key or not reply.spent:
            return
        self._undelivered[call.tenant.name, call.digest] = (time.monotonic(), reply)
        while len(self._undelivered) > UNDELIVERED:
            self._undelivered.popitem(last=False)

    # --- payment

    def _paid(self, call: Call, query: Query, ignored: tuple[str, ...]) -> ServiceReply:
        """Check the rate, charge the tenant's account, then the ledger, and answer."""
        name, tenant = call.tenant.name, call.tenant
        wait = self._rates.setdefault(name, RequestRate(tenant.rate)).take()
        if wait:
            sentence = f"this token may send {tenant.rate:g} requests a minute; wait, and retry."
            return refusal(429, sentence, {"retry-after": str(math.ceil(wait))})
        try:
            price = self.private.mechanism.cost(self.private.task, query)
            number = self.state.spend(tenant, price, self.private.ledger.delta)
        except Exception as error:
            return self._refused(error)
        try:
            return self._made(call, query, ignored, number)
        # every failure has one reply: its type may depend on a row, and a system may end for one
        except BaseException as error:
            _log(error)
            return replace(refusal(500, SPENT, NO_RETRY), spent=True)

    def _made(
        self, call: Call, query: Query, ignored: tuple[str, ...], number: int
    ) -> ServiceReply:
        """Make a paid answer; refund it unless `AnswerLost` says that the ledger was charged."""
        own, created = None, int(time.time())  # when an answer was made tells of the rows
        try:
            if self._several:
                own = self.state.epsilon(call.tenant, self.private.ledger.delta)
            answer = self.private.answer(query, call.paying)
        except AnswerLost:
            raise
        except Exception as error:
            self.state.refund(number)
            if isinstance(error, BudgetExhausted):
                return refusal(403, EXHAUSTED, NO_RETRY) if self._several else self._refused(error)
            _log(error)
            return refusal(503, UNSPENT)
        spent, remaining = answer.spent, answer.remaining
        if own is not None:
            spent, cap = own, call.tenant.epsilon
            remaining = math.inf if cap is None else max(0.0, cap - spent)
        served = ServedAnswer(
            secrets.token_hex(12),
            created,
            self.private.name,
            whole(answer.text),  # half a character cannot be sent
            # JSON cannot hold infinity
            spent if math.isfinite(spent) else None,
            remaining if math.isfinite(remaining) else None,
            answer.delta,
            answer.answered,
            ignored,
        )
        return _release(call, served.cut_before(call.payload.get("stop")))

    def _refused(self, error: Exception) -> ServiceReply:
        if isinstance(error, BudgetExhausted):
            return refusal(403, str(error), NO_RETRY)
        if isinstance(error, LeakboundError) and not isinstance(error, StoreError | Interrupted):
            return refusal(400, str(error))
        _log(error)
        return refusal(503, UNSPENT)


def _log(error: BaseException) -> None:
    """Log types only, which is all that a lost answer tells: a message may hold private text."""
    lost = f" ({error})" if isinstance(error, AnswerLost) else ""
    cause = f" ({type(error.__cause__).__name__})" if error.__cause__ else lost
    LOG.error("a request failed: %s%s", type(error).__name__, cause)


def _release(call: Call, answer: ServedAnswer) -> ServiceReply:
    return ServiceReply(200, call.format.body(answer, call.payload), {}, answer, spent=True)
