"""Calls of a system that end without an answer, and where its code failed.

No message of an exception and no body of a reply is repeated: both may hold private text.
"""

from __future__ import annotations

import asyncio
import sysconfig
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType

from leakbound.errors import TargetError
from leakbound.models.http.window import retry_after

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
        alone: Whether no other call was answered since this one first failed, so that nobody knows
            yet whether this call or the whole system fails.
    """

    def __init__(
        self, sentence: str, kind: str = "", *, passes: bool = False,
        wait: float | None = None, counts: bool = True, alone: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(sentence)
        self.kind, self.passes, self.wait = kind, passes, wait
        self.counts, self.alone = counts, alone

    def after(self, retries: int, alone: bool) -> NoAnswer:
        """The same, for good.

        Args:
            retries: Further tries that were made.
            alone: Whether no other call was answered meanwhile.

        Returns:
            What is raised after the last of them.
        """
        told = f"{self} It was tried {retries + 1} times." if retries else str(self)
        return NoAnswer(told, self.kind, counts=self.counts, alone=alone and self.passes)


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
        """Describe an exception without its message.

        Args:
            error: What the code raised.
            name: Of the system.
            query: What it was asked (PRIVATE).

        Returns:
            The error to raise.
        """
        shown = "".join(traceback.format_exception(error))
        return cls(
            f"the system {name!r} raised {type(error).__name__}{place_of(error)}",
            "call it by itself to see why, or run `leakbound audit` with --debug, which keeps the "
            "query and the traceback in the run folder.",
            f"Query:\n{query}\n\n{shown}",
        )


def too_slow(name: str, seconds: float) -> NoAnswer:
    """Describe a call that takes too long."""
    return NoAnswer(
        f"the system {name!r} did not answer within {seconds:g} seconds; give it more with "
        "--timeout.",
        "timeout",
        passes=True,
    )


def failure_of(error: BaseException) -> NoAnswer | None:
    """What an exception says of a call that gave no output.

    Examples:
        >>> failure_of(TimeoutError()).kind
        'TimeoutError'
        >>> failure_of(KeyError("private text")) is None
        True
    """
    for one in _causes(error):
        if isinstance(one, NoAnswer):
            return one
        if isinstance(one, TargetError):
            return None
        status = _status(one)
        if status in RETRIED or (status is None and _passing(one)):
            kind = type(one).__name__ if status is None else f"status {status}"
            reached = not isinstance(one, ConnectionRefusedError)
            sentence = f"the system raised {type(one).__name__}{place_of(error)} ({kind})."
            return NoAnswer(sentence, kind, passes=True, wait=_wait(one), counts=reached)
    return None


def interrupts(error: BaseException) -> bool:
    """Whether an exception ends the audit from outside: it was not raised by the system."""
    if isinstance(error, asyncio.CancelledError):
        return _is_cancelled()
    return isinstance(error, KeyboardInterrupt | GeneratorExit)


def _is_cancelled() -> bool:
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no event loop runs here
        return False
    return task is not None and task.cancelling() > 0


def _causes(error: BaseException) -> Iterator[BaseException]:
    """An exception, and those that it was raised from."""
    found: BaseException | None = error
    while found is not None:
        yield found
        found = found.__cause__


def _passing(error: BaseException) -> bool:
    named = {kind.__name__ for kind in type(error).__mro__}
    return isinstance(error, TimeoutError | ConnectionError) or bool(named & PASSING)


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
    frames = [frame for frame in _frames(error.__traceback__) if not _within(frame[0], (PACKAGE,))]
    own = [frame for frame in frames if not _within(frame[0], LIBRARIES)] or frames
    if not own:
        return ""
    file, line, function = own[-1]
    return _show(file, line) + ("" if function[0] == "<" else f", in {function}")


def _frames(found: TracebackType | None) -> Iterator[tuple[Path, int, str]]:
    while found is not None:
        code = found.tb_frame.f_code
        if not code.co_filename.startswith("<frozen"):
            yield Path(code.co_filename), found.tb_lineno, code.co_name
        found = found.tb_next


def _within(file: Path, folders: tuple[Path, ...]) -> bool:
    return any(file.resolve().is_relative_to(folder) for folder in folders)


def _show(file: Path, line: int | None) -> str:
    """A path below the working directory, else a name. Code that is in no file may be called
    anything, even by a row."""
    if not _is_file(file):
        return f" in code of no file, line {line}"
    whole, here = file.resolve(), Path.cwd()
    name = whole.relative_to(here).as_posix() if whole.is_relative_to(here) else file.name
    return f" in {name}, line {line}"


def _is_file(file: Path) -> bool:
    try:
        return file.is_file()
    except OSError:  # a name that no file can have
        return False
