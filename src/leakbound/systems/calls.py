"""How a system is called: concurrency, timeouts, pace and retries.

A call that ends in an overload, a time-out or a lost connection gave no output, so it is made again
and changes nothing of a record. One that fails for good is an outcome like any other: what fails
may depend on the context, and then it tells contexts apart.
"""

from __future__ import annotations

import asyncio
import sysconfig
import threading
import time
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

from leakbound._check import positive, within
from leakbound.errors import TargetError, UsageError, kind_of
from leakbound.models.http.transport import backoff, retry_after
from leakbound.models.openai.account import require_time
from leakbound.systems.journal import FILE as JOURNAL
from leakbound.systems.journal import Journal

# Overload and gateways: the service itself did not answer, or says that it will later. 52x are the
# gateway errors of Cloudflare, 529 the overload of Anthropic.
RETRIED = frozenset({408, 425, 429, 502, 503, 504, 520, 521, 522, 523, 524, 529})
# Errors of the usual clients that derive from no built-in time-out or connection error.
PASSING = frozenset({
    "APIConnectionError", "APITimeoutError", "ClientConnectionError", "ConnectionError",
    "EndpointConnectionError", "ProtocolError", "RateLimitError", "ResourceExhausted",
    "ServiceUnavailable", "ServiceUnavailableError", "ThrottlingException", "Timeout",
    "TransportError",
})  # fmt: skip
CODES = ("status_code", "status", "code")  # attributes of an error or its response
PACKAGE = Path(__file__).parents[1]
LIBRARIES = tuple(
    Path(folder).resolve()
    for name, folder in sysconfig.get_paths().items()
    if name in ("stdlib", "platstdlib", "purelib", "platlib")
)


class NoAnswer(TargetError):
    """A call ended without an answer.

    Args:
        sentence: Where it happened and what came instead.
        kind: What came instead, in a few words: "status 503", "timeout".
        passes: Whether another try may be answered, because there was no output.
        wait: Seconds that the system asks to wait.
        counts: Whether it is an outcome of a trial; False if the system was not reached at all.
        alone: Whether no other call was answered since: nobody knows yet whether all would fail.
        body: What a user sees instead (PRIVATE); the message never holds it.
    """

    def __init__(
        self, sentence: str, kind: str = "", *, passes: bool = False,
        wait: float | None = None, counts: bool = True, alone: bool = False, body: bytes = b"",
    ) -> None:  # fmt: skip
        super().__init__(sentence)
        self.kind, self.passes, self.wait = kind, passes, wait
        self.counts, self.alone, self.body = counts, alone, body

    def after(self, retries: int, alone: bool) -> NoAnswer:
        """The same, for good, after retries; `alone` if no other call was answered meanwhile."""
        told = f"{self} It was tried {retries + 1} times." if retries else str(self)
        alone = alone and self.passes
        return NoAnswer(told, self.kind, counts=self.counts, alone=alone, body=self.body)


class SystemFailed(TargetError):
    """Code of a system raised an exception.

    Args:
        short: Which, and where; never its message.
        advice: What to do.
        details: Query and traceback (PRIVATE), for whoever runs the audit; never printed.
    """

    def __init__(self, short: str, advice: str = "", details: str = "") -> None:
        super().__init__(short, advice, details)
        self.short, self.advice, self.details = short, advice, details

    def __str__(self) -> str:
        return f"{self.short}; {self.advice}" if self.advice else self.short

    def __repr__(self) -> str:
        return f"SystemFailed({str(self)!r})"

    @classmethod
    def of(cls, error: BaseException, name: str, query: str) -> SystemFailed:
        """Describe what the code of a system raised over a query (PRIVATE), without its message."""
        shown = "".join(traceback.format_exception(error))
        return cls(
            f"the system {name!r} raised {kind_of(error)}{place_of(error)}",
            "call it by itself to see why, or run `leakbound audit` with --debug, which keeps the "
            "query and the traceback in the run folder.",
            f"Query:\n{query}\n\n{shown}",
        )


def too_slow(name: str, seconds: float) -> NoAnswer:
    return NoAnswer(
        f"the system {name!r} did not answer within {seconds:g} seconds; give it more with "
        "--timeout.",
        "timeout",
        passes=True,
    )


def failure_of(error: BaseException) -> NoAnswer | None:
    """What an exception says of a call that gave no output."""
    one: BaseException | None = error
    while one is not None:
        if isinstance(one, NoAnswer):
            return one
        if isinstance(one, TargetError):
            return None
        status, named = _status(one), {kind.__name__ for kind in type(one).__mro__}
        passing = isinstance(one, TimeoutError | ConnectionError) or bool(named & PASSING)
        if status in RETRIED or (status is None and passing):
            kind = kind_of(one) if status is None else f"status {status}"
            reached = not isinstance(one, ConnectionRefusedError)
            sentence = f"the system raised {kind_of(one)}{place_of(error)} ({kind})."
            return NoAnswer(sentence, kind, passes=True, wait=_wait(one), counts=reached)
        one = one.__cause__
    return None


def interrupts(error: BaseException) -> bool:
    """Whether an exception ends the audit from outside: it was not raised by the system."""
    if not isinstance(error, asyncio.CancelledError):
        return isinstance(error, KeyboardInterrupt | GeneratorExit)
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no event loop runs here
        return False
    return task is not None and task.cancelling() > 0


def _status(error: BaseException) -> int | None:
    """The HTTP status that an error of a client carries, or its response."""
    for thing in (error, getattr(error, "response", None)):
        for name in CODES:
            found = getattr(thing, name, None)
            if type(found) is int and 100 <= found < 600:
                return found
    return None


def _wait(error: BaseException) -> float | None:
    headers = getattr(getattr(error, "response", None), "headers", None)
    if not isinstance(headers, Mapping):
        return None
    found = next((v for k, v in headers.items() if str(k).lower() == "retry-after"), None)
    return retry_after(found) if isinstance(found, str) else None


def place_of(error: BaseException) -> str:
    """Where code of a user failed."""
    if isinstance(error, SyntaxError) and error.filename is not None:
        return _show(Path(error.filename), error.lineno)
    codes = ((frame.f_code, line) for frame, line in traceback.walk_tb(error.__traceback__))
    frames = [
        (Path(code.co_filename), line, code.co_name)
        for code, line in codes
        if not code.co_filename.startswith("<frozen")
        if not _within(Path(code.co_filename), (PACKAGE,))
    ]
    own = [frame for frame in frames if not _within(frame[0], LIBRARIES)] or frames
    if not own:
        return ""
    file, line, function = own[-1]
    return _show(file, line) + ("" if function[0] == "<" else f", in {function}")


def _within(file: Path, folders: tuple[Path, ...]) -> bool:
    return any(file.resolve().is_relative_to(folder) for folder in folders)


def _show(file: Path, line: int | None) -> str:
    """A path below the working directory, else a name; code in no file may have any name."""
    with suppress(OSError):  # a name that no file can have
        if file.is_file():
            whole, here = file.resolve(), Path.cwd()
            name = whole.relative_to(here).as_posix() if whole.is_relative_to(here) else file.name
            return f" in {name}, line {line}"
    return f" in code of no file, line {line}"


R = TypeVar("R")
PATIENCE = 600.0  # seconds: an audit that waits longer looks as if it hung, so it ends and says so


@dataclass(frozen=True, slots=True)
class CallOptions:
    """How a system is called. None of it changes a record.

    Attributes:
        connections: Most calls at once, of a system that keeps no state; None for as many as the
            system itself allows: 64 of an asynchronous one or a service, 1 of a synchronous one.
        timeout: Seconds for one call; None for no limit, or for the `timeout` of a YAML file.
        retries: Further tries of a call that gave no output.
        rate: Most calls begun in a second; None for no limit.
        disposable: Whether a store may lose whatever it holds: it is a copy. An audit adds records
            to no other store.
        journal: Where planted records stand until they are removed; None keeps nothing.
        max_minutes: Limit on the minutes since `began`, after which nothing is asked; None for no
            limit. What was put into a store is removed all the same.
        began: Start time on the monotonic clock.

    Raises:
        UsageError: For a value that cannot be used.
    """

    connections: int | None = None
    timeout: float | None = None
    retries: int = 5
    rate: float | None = None
    disposable: bool = False
    journal: Journal | None = field(default=None, compare=False, repr=False)
    max_minutes: float | None = None
    began: float = field(default_factory=time.monotonic, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.connections is not None:
            within("connections", self.connections, 1, 10_000)
        within("retries", self.retries, 0, 100)
        positives = {"timeout": self.timeout, "rate": self.rate, "max_minutes": self.max_minutes}
        for name, value in positives.items():
            if value is not None:
                positive(name, value)

    def kept_at(self, folder: Path) -> CallOptions:
        """The same, with a journal of what is planted in a run folder."""
        return replace(self, journal=Journal(folder / JOURNAL))

    def of_tenant(self, tenant: str) -> CallOptions:
        """The same, with what is planted noted as the tenant's."""
        return replace(self, journal=self.journal and self.journal.of(tenant))

    def require_time(self) -> None:
        """Refuse to begin a call when the time is up.

        Raises:
            LimitReached: After `max_minutes`.
        """
        require_time(self.began, self.max_minutes)

    def require_disposable(self, name: str) -> None:
        """Refuse to add records to a store, named in the message, that may not lose any.

        Raises:
            UsageError: Unless its owner has said that it may.
        """
        if not self.disposable:
            raise UsageError(
                f"this audit adds records to the store {name!r} and removes them again. Stores "
                "may merge, overwrite or delete similar records; the audit cannot see that. Audit "
                "a copy whose records may be lost, and say so with "
                "--disposable-store; in Python, calls=CallOptions(disposable=True)."
            )

    def at_once(self, allowed: int, stateful: bool) -> int:
        """How many calls are made at once, where the system itself allows so many."""
        return 1 if stateful else self.connections or allowed


class CallMeter:
    """What was called, tried again and never answered.

    Attributes:
        calls: Calls made, further tries included.
        retried: Further tries, by what made them necessary.
        lost: Calls without an answer, by what came instead.
    """

    def __init__(self) -> None:
        self.calls = 0
        self.retried: Counter[str] = Counter()
        self.lost: Counter[str] = Counter()

    def line(self) -> str:
        """What happened, for a terminal; empty if every call was answered at once.

        Examples:
            >>> meter = CallMeter()
            >>> meter.calls, meter.retried["status 503"] = 105, 5
            >>> meter.line()
            '105 calls of the system; 5 were tried again: status 503 (5).'
        """
        told = [
            f"{kinds.total()} {what}: "
            + ", ".join(f"{kind} ({number})" for kind, number in kinds.most_common())
            for what, kinds in (
                ("were tried again", self.retried),
                ("had no answer, which is an outcome that counts", self.lost),
            )
            if kinds
        ]
        return f"{self.calls} calls of the system; {'; '.join(told)}." if told else ""


class Caller:
    """Makes calls at their pace, and again where they gave no output. Used from any thread.

    Args:
        options: Pace and retries.
    """

    def __init__(self, options: CallOptions) -> None:
        self.options, self.meter = options, CallMeter()
        self._lock = threading.Lock()
        self._next = self._rests_until = self._answered = 0.0  # monotonic times
        self._in_vain = False  # nothing was answered while the last lost call was tried

    def call(self, attempt: Callable[[], R], counted: bool = True, limited: bool = False) -> R:
        """Make a call, after so many retries at most.

        Args:
            attempt: The call.
            counted: Whether it is a call of its own, for the pace and the meter.
            limited: Whether it is not made when the time is up; what takes something out of a
                store is made always.

        Raises:
            NoAnswer: If no try gave an output.
            LimitReached: If the time is up.
            TargetError: If the system asks to wait for more than ten minutes.
        """
        tries, failed = 0, 0.0
        while True:
            tries += 1
            while (seconds := self._pause(counted, limited)) > 0:
                time.sleep(seconds)
            try:
                found = attempt()
            except Exception as error:
                failed = failed or time.monotonic()
                seconds = self._failed(tries, error, failed)
            else:
                self._note_answer(counted)
                return found
            time.sleep(seconds)

    async def call_async(
        self, attempt: Callable[[], Awaitable[R]], counted: bool = True, limited: bool = False
    ) -> R:
        """As `call`, in an event loop."""
        tries, failed = 0, 0.0
        while True:
            tries += 1
            while (seconds := self._pause(counted, limited)) > 0:
                await asyncio.sleep(seconds)
            try:
                found = await attempt()
            except Exception as error:
                failed = failed or time.monotonic()
                seconds = self._failed(tries, error, failed)
            else:
                self._note_answer(counted)
                return found
            await asyncio.sleep(seconds)

    def forget(self, lost: NoAnswer) -> None:
        """Take a lost call out of the meter: it is made once more."""
        with self._lock:
            self.meter.lost[lost.kind] -= 1
            self.meter.lost += Counter()  # drops what is zero

    def _pause(self, counted: bool, limited: bool) -> float:
        """Seconds until it is worth asking again whether a call may begin; 0: it begins now."""
        if limited:
            self.options.require_time()
        with self._lock:
            now = time.monotonic()
            begins = max(self._next if counted else 0.0, self._rests_until)
            if begins > now:
                return begins - now
            if counted and self.options.rate is not None:
                self._next = now + 1 / self.options.rate
            self.meter.calls += counted
            return 0.0

    def _note_answer(self, counted: bool) -> None:
        """What only opens a session shows nothing of whether the system answers."""
        if counted:
            self._answered, self._in_vain = time.monotonic(), False

    def _failed(self, tries: int, error: Exception, first: float) -> float:
        """Seconds until the next try; raises where there is none. The first failed at `first`."""
        failure = failure_of(error)
        if failure is None:
            raise error
        # While nothing is answered, retries of every further call would only take time.
        most = 0 if self._in_vain else self.options.retries
        if not failure.passes or tries > most:
            final = failure.after(tries - 1, self._answered < first)
            self._in_vain |= final.alone
            with self._lock:
                self.meter.lost[failure.kind] += 1
            raise final from None
        with self._lock:
            self.meter.retried[failure.kind] += 1
        return self._wait(tries, failure)

    def _wait(self, tries: int, failure: NoAnswer) -> float:
        """A wait that the system asks for holds for all calls."""
        if failure.wait is None:
            return backoff(tries)
        if failure.wait > PATIENCE:
            raise TargetError(
                f"{failure} It asks to wait {failure.wait:.0f} seconds; what was finished is kept, "
                "so run the same command then."
            )
        with self._lock:
            self._rests_until = max(self._rests_until, time.monotonic() + failure.wait)
        return 0.0


@runtime_checkable
class Paced(Protocol):
    """A system that makes its calls at a given pace by itself."""

    def called(self, calls: CallOptions) -> Any: ...
