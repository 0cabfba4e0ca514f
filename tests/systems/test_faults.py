"""Calls that gave no output are made again and change nothing; those that fail for good count."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from limits import PATIENCE, expires
from loopback.faulty import faulty

import leakbound
from leakbound.auditing import AuditResult, make_spec, prepare, run_audit
from leakbound.auditing.collect.collect import SystemRunner
from leakbound.auditing.prepare.build import Handed
from leakbound.errors import TargetError, UsageError
from leakbound.models import Scripted
from leakbound.systems import CallOptions, NoAnswer, SystemFailed, SystemMechanism, load_system
from leakbound.systems.callable import as_system
from leakbound.systems.calls import failure_of
from leakbound.systems.protocol import AsyncSystem
from leakbound.tasks import Context, Example, Job, Query, Task, Vector, Votes, reply_of

TASK = Task("t", ("yes", "no"))
NONE = CallOptions(retries=0)


def job(text: str = "kite", query: str = "q") -> Job:
    return Job((Example(text, "a"),), Query(query))


def audited(
    folder: Path, rows: Context, pairs: int, share: float, calls: CallOptions
) -> tuple[AuditResult, SystemMechanism, Any]:
    """An audit of a service of which a share of the requests fails."""
    folder.mkdir()
    with faulty(share) as service:
        (folder / "desk.yaml").write_text(yaml.safe_dump(service.config()))
        given = {"system": f"http:{folder / 'desk.yaml'}", "pairs": pairs, "shots": 4}
        prepared = prepare(make_spec(given), rows=rows)
        assert isinstance(prepared.mechanism, SystemMechanism)
        runner = SystemRunner(prepared.mechanism, calls)
        result, _ = run_audit(prepared, folder / "runs", ask=runner)
    return result, runner.mechanism, service


@pytest.mark.parametrize(
    ("pairs", "share"), [(24, 0.2), pytest.param(1000, 0.05, marks=pytest.mark.slow)]
)
def test_faults_of_a_service_change_nothing_of_the_record(
    tmp_path: Path, rows: Context, pairs: int, share: float
) -> None:
    """On the first release the first fault ended the audit (exit 4), and again on each resume."""
    calls = CallOptions(connections=32, timeout=expires(1.0), retries=20)
    clean, *_ = audited(tmp_path / "clean", rows, pairs, 0.0, CallOptions(connections=32))
    found, mechanism, service = audited(tmp_path / "faulty", rows, pairs, share, calls)
    assert found.results() == clean.results()
    assert (found.verdict, found.counts["unparsable_answers"]) == ("violation", 0)
    faults = service.faults.total() - service.faults["none"]
    assert mechanism.caller.meter.retried.total() >= faults > share * pairs
    assert len([kind for kind in service.faults if service.faults[kind]]) == 6
    assert mechanism.caller.meter.lost.total() == 0


def audited_function(
    function: Any, pairs: int, calls: CallOptions, rows: Context, out: Path
) -> AuditResult:
    mechanism = SystemMechanism(function)
    spec, handed = make_spec({"pairs": pairs, "shots": 4}), Handed(mechanism=mechanism)
    prepared = prepare(spec, rows=rows, handed=handed)
    return run_audit(prepared, out, ask=SystemRunner(mechanism, calls))[0]


def failing(error: Callable[[], Exception], times: int) -> tuple[Any, list[int]]:
    """A function that raises so many times before each answer."""
    seen = [0]

    def answer(context: Context, query: str) -> str:
        seen[0] += 1
        if seen[0] % (times + 1):
            raise error()
        return "yes"

    return answer, seen


class Status(Exception):
    def __init__(self, status_code: int) -> None:
        super().__init__("private text")
        self.status_code = status_code


class ReadTimeout(Exception):
    """As of a client that derives from no built-in error."""


class APIConnectionError(ReadTimeout): ...


PASSES: list[tuple[Callable[[], Exception], bool]] = [
    (TimeoutError, True),
    (ConnectionResetError, True),
    (APIConnectionError, True),
    (lambda: Status(429), True),
    (lambda: Status(503), True),
    (lambda: Status(500), False),
    (lambda: Status(400), False),
    (lambda: KeyError("private text"), False),
]


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize(("error", "again"), PASSES)
def test_what_an_overload_raises_in_python_is_tried_again(
    error: Callable[[], Exception], again: bool, asynchronous: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr("leakbound.systems.calls.backoff", lambda tries: 0.0)
    answer, seen = failing(error, 2)

    async def later(context: Context, query: str) -> str:
        return str(answer(context, query))

    mechanism = SystemMechanism(later if asynchronous else answer)
    if again:
        assert mechanism.collect(TASK, [job()], [0], Scripted()) == [Votes((1, 0, 0))]
        assert (seen, mechanism.caller.meter.calls) == ([3], 3)
        return
    with pytest.raises(SystemFailed, match=r"raised .* in .*test_faults\.py, line") as told:
        mechanism.collect(TASK, [job()], [0], Scripted())
    assert "private text" not in str(told.value) + repr(told.value)
    assert "private text" in told.value.details or error is not PASSES[-1][0]
    assert seen == [1]


def test_an_error_that_was_raised_from_a_lost_connection_passes() -> None:
    try:
        try:
            raise ConnectionResetError
        except ConnectionResetError as error:
            raise RuntimeError("wrapped") from error
    except RuntimeError as error:
        found = failure_of(error)
    assert found is not None
    assert (found.kind, found.passes) == ("ConnectionResetError", True)


def test_a_call_that_fails_for_good_is_an_outcome_and_no_end() -> None:
    """Every query about an oar fails; nothing of that stops the others."""

    def answer(context: Context, query: str) -> str:
        if context[0].input == "oar":
            raise TimeoutError
        return "yes"

    one = SystemMechanism(answer, calls=NONE)
    found = one.collect(TASK, [job(), job("oar")], [0, 1], Scripted())
    assert found == [Votes((1, 0, 0)), Votes((0, 0, 1))]
    assert reply_of(found[1]).finish_reason == "error"  # type: ignore[union-attr]
    assert one.caller.meter.lost == {"TimeoutError": 1}
    scored = SystemMechanism(
        lambda context, query: {"text": answer(context, query), "scores": {"yes": 1, "no": 0}},
        scored=True, calls=NONE,
    )  # fmt: skip
    assert scored.collect(TASK, [job(), job("oar")], [0, 1], Scripted())[1] == Vector(
        (0.0, 0.0, 0.0, 0.0, 1.0)
    )


def test_a_system_that_answers_nothing_ends_the_audit() -> None:
    def down(context: Context, query: str) -> str:
        raise TimeoutError

    with pytest.raises(TargetError, match="None of 3 calls had an answer"):
        SystemMechanism(down, calls=NONE).collect(TASK, [job()] * 3, range(3), Scripted())


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("back", [7, 100])
def test_an_outage_is_no_outcome(back: int, together: bool, asynchronous: bool) -> None:
    """Calls that were lost while nothing was answered are made again once something is; if nothing
    is answered any more, the batch is not stored, and the same command asks it again.
    """
    calls = [0]

    def answer(context: Context, query: str) -> str:
        calls[0] += 1
        if 4 <= calls[0] < back:
            raise TimeoutError
        return "yes"

    async def later(context: Context, query: str) -> str:
        return answer(context, query)

    options = CallOptions(retries=0, connections=6 if together else None)
    one = SystemMechanism(later if asynchronous else answer, calls=options)
    draws = list(range(6)) if together else [0] * 6
    if back == 100:
        with pytest.raises(TargetError, match="raised TimeoutError"):
            one.collect(TASK, [job()] * 6, draws, Scripted())
        return
    assert one.collect(TASK, [job()] * 6, draws, Scripted()) == [Votes((1, 0, 0))] * 6
    assert one.caller.meter.lost.total() == 0


@pytest.mark.slow
def test_failures_that_depend_on_the_context_are_never_called_clean(
    tmp_path: Path, rows: Context
) -> None:
    """The system fails where the canary is: its errors tell the contexts apart."""

    def answer(context: Context, query: str) -> str:
        if any(f'"{row.input}"' in query for row in context):
            raise TimeoutError
        return "no"

    calls = CallOptions(retries=0, connections=8)
    result = audited_function(answer, 40, calls, rows, tmp_path)
    assert result.verdict != "no_violation"
    assert result.counts["unparsable_answers"] == 40


def test_a_wait_that_a_service_asks_for_holds_for_all_calls() -> None:
    times: list[float] = []

    class Waits(Exception):
        response = SimpleNamespace(status_code=429, headers={"Retry-After": "0.3"})

    def answer(context: Context, query: str) -> str:
        times.append(time.monotonic())
        if len(times) == 1:
            raise Waits
        return "yes"

    SystemMechanism(answer).collect(TASK, [job()] * 2, [0, 1], Scripted())
    assert times[1] - times[0] >= 0.3

    class WaitsLong(Exception):
        response = SimpleNamespace(status_code=429, headers={"retry-after": "3600"})

    def never(context: Context, query: str) -> str:
        raise WaitsLong

    with pytest.raises(TargetError, match="asks to wait 3600 seconds; what was finished is kept"):
        SystemMechanism(never).collect(TASK, [job()] * 2, [0, 1], Scripted())


class Counting:
    """Counts how many calls are inside at once; the first wait until so many are."""

    def __init__(self, expected: int = 12, stateful: bool = False) -> None:
        self.expected = expected
        self.inside = self.most = 0
        self.lock, self.stateful = threading.Lock(), stateful
        self.full = threading.Event()

    def answer(self, context: Context, query: str) -> str:
        with self.lock:
            self.inside += 1
            self.most = max(self.most, self.inside)
        if self.inside >= self.expected:
            self.full.set()
        self.full.wait(0.05 if self.stateful else PATIENCE)
        with self.lock:
            self.inside -= 1
        return "yes"


def test_synchronous_systems_run_in_as_many_threads_as_connections() -> None:
    """On the first release they ran one at a time, whatever was asked for."""
    many, alone = Counting(), Counting(stateful=True)
    for system, most, jobs in ((many, 12, 24), (alone, 1, 3)):
        one = SystemMechanism(system.answer, calls=CallOptions(connections=12))
        assert not one.stateless
        one.collect(TASK, [job()] * jobs, range(jobs), Scripted())
        assert system.most == most


@pytest.mark.slow
def test_more_calls_at_once_than_a_batch_has_pairs(tmp_path: Path, rows: Context) -> None:
    """On the first release a batch of 8 pairs was asked 8 times at once at most."""
    many = Counting()
    audited_function(many.answer, 16, CallOptions(connections=24), rows, tmp_path)
    assert many.most >= 12


def test_connections_of_an_asynchronous_system_may_be_more_or_fewer_than_64() -> None:
    for limit in (3, 100):
        inside = most = 0

        async def answer(context: Context, query: str) -> str:
            nonlocal inside, most
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0)
            inside -= 1
            return "yes"

        one = SystemMechanism(answer, calls=CallOptions(connections=limit))
        one.collect(TASK, [job()] * 200, range(200), Scripted())
        assert most == limit


def test_a_session_stays_in_one_thread_and_is_closed_there() -> None:
    """As a connection to SQLite has to."""
    threads: list[set[int]] = []

    class Opens:
        def open(self, context: Context) -> Any:
            mine = {threading.get_ident()}
            threads.append(mine)

            class Session:
                def ask(self, query: str) -> str:
                    mine.add(threading.get_ident())
                    return "yes"

                def close(self) -> None:
                    mine.add(threading.get_ident())

            return Session()

    one = SystemMechanism(Opens(), calls=CallOptions(connections=3))
    one.collect(TASK, [job()] * 9, range(9), Scripted())
    assert [len(found) for found in threads] == [1] * 9
    assert threading.get_ident() not in set().union(*threads)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_call_that_takes_too_long_is_left_and_made_again(asynchronous: bool) -> None:
    calls, held = [0], threading.Event()

    def answer(context: Context, query: str) -> str:
        calls[0] += 1
        if calls[0] == 1:
            held.wait()
        return "yes"

    async def later(context: Context, query: str) -> str:
        calls[0] += 1
        if calls[0] == 1:
            await asyncio.sleep(60)
        return "yes"

    one = SystemMechanism(
        later if asynchronous else answer, calls=CallOptions(timeout=expires(1.0))
    )
    assert one.collect(TASK, [job()], [0], Scripted()) == [Votes((1, 0, 0))]
    assert (calls[0], [*one.caller.meter.retried.items()]) == (2, [("timeout", 1)])
    held.set()
    with pytest.raises(TargetError, match=r"did not answer within 0\.01 seconds.*--timeout"):
        SystemMechanism(
            lambda context, query: time.sleep(0.5),
            calls=CallOptions(timeout=expires(0.01), retries=0),
        ).collect(TASK, [job()], [0], Scripted())


@pytest.mark.parametrize("asynchronous", [False, True])
def test_calls_begin_at_their_rate(asynchronous: bool) -> None:
    async def later(context: Context, query: str) -> str:
        return "yes"

    system: Any = later if asynchronous else lambda context, query: "yes"
    began = time.monotonic()
    one = SystemMechanism(system, calls=CallOptions(rate=50))
    one.collect(TASK, [job()] * 11, range(11), Scripted())
    assert time.monotonic() - began >= 10 / 50


def test_python_callers_set_the_same_limits(tmp_path: Path, rows: Context) -> None:
    many, calls = Counting(expected=2), CallOptions(connections=12)
    said = Scripted(complete=lambda prompt: "no")
    leakbound.audit(rows, system=many.answer, pairs=2, shots=4, calls=calls, out=tmp_path)
    assert many.most > 1
    wrong: Any = {"connections": 12}
    with pytest.raises(UsageError, match="calls is dict; it must be"):
        leakbound.audit(rows, system=many.answer, pairs=2, shots=4, calls=wrong, out=tmp_path)
    with pytest.raises(UsageError, match="calls are those of a system, and few_shot asks a model"):
        leakbound.audit(rows, model=said, pairs=2, shots=4, calls=calls, out=tmp_path)


@pytest.mark.parametrize(
    "wrong", [{"connections": 0}, {"timeout": 0.0}, {"retries": -1}, {"rate": -1.0}]
)
def test_limits_that_cannot_be_kept_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        CallOptions(**wrong)


def test_what_ends_without_an_answer_is_told_by_its_kind() -> None:
    assert isinstance(NoAnswer("a sentence.", "status 503"), TargetError)
    one = load_system("python:" + __file__ + ":Counting")
    assert one.caller.meter.line() == ""


class Stopped(BaseException):
    """What some libraries end their own loops with."""


def stops(context: Context, query: str) -> str:
    raise Stopped(f"private: {context[0].text}")


async def cancels(context: Context, query: str) -> str:
    raise asyncio.CancelledError(f"private: {context[0].text}")


@pytest.mark.parametrize("connections", [1, 2])
@pytest.mark.parametrize(("system", "kind"), [(stops, "Stopped"), (cancels, "CancelledError")])
def test_what_is_no_exception_is_a_failure_of_the_system_too(
    system: Any, kind: str, connections: int
) -> None:
    """It ended with exit 1, the code of a violation, and a traceback that held a row."""
    mechanism = SystemMechanism(system, calls=CallOptions(connections=connections))
    with pytest.raises(SystemFailed, match=rf"raised {kind} in .*test_faults\.py, line") as told:
        mechanism.collect(TASK, [job("kite"), job("lamp")], [1, 2], Scripted())
    assert "private" not in str(told.value)


def test_an_audit_that_is_cancelled_from_outside_is_no_failure_of_the_system() -> None:
    async def slow(context: Context, query: str) -> str:
        await asyncio.sleep(60)
        return "no"

    async def cancelled() -> None:
        mechanism, system = SystemMechanism(slow), as_system(slow, "slow")
        assert isinstance(system, AsyncSystem)
        asked = asyncio.create_task(mechanism._ask_together(system, [(job(), "q", 1)]))
        await asyncio.sleep(0.01)
        asked.cancel()
        await asked

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancelled())
