"""Laws of the pace: waits that servers ask for, the window of requests in flight, waits between
tries, giving up.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakbound.models.http import transport
from leakbound.models.http.transport import FIRST, LONGEST, backoff, retry_after
from leakbound.models.openai.client import START, AdaptiveWindow, ErrorBudget

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


@given(st.integers(-5, 10**6))
def test_both_forms_of_retry_after_say_the_same(seconds: int) -> None:
    date = format_datetime(NOW + timedelta(seconds=seconds), usegmt=True)
    assert retry_after(str(seconds), NOW) == retry_after(date, NOW) == max(0, seconds)


@given(
    st.one_of(
        st.none(),
        st.text(max_size=30),
        st.sampled_from(
            ["", "soon", "nan", "inf", "-inf", "Wed, 99 Foo 2026", "1 Jan 99999999999 00:00 GMT"]
        ),
    )
)
def test_a_header_that_says_nothing_is_no_wait(value: str | None) -> None:
    found = retry_after(value, NOW)
    assert found is None or 0 <= found < float("inf")


def test_a_date_without_a_zone_is_taken_as_utc() -> None:
    assert retry_after("Sun, 01 Mar 2026 12:00:07 -0000", NOW) == 7


@given(st.integers(1, 200), st.lists(st.sampled_from(["enter", "grow", "shrink"]), max_size=300))
def test_the_window_stays_between_one_and_the_most(most: int, steps: list[str]) -> None:
    window, tickets = AdaptiveWindow(most), [0]
    does: dict[str, Callable[[], object]] = {
        "grow": window.grow, "shrink": lambda: window.shrink(tickets[-1]),
        "enter": lambda: tickets.append(window.enter()) if window.free else None,
    }  # fmt: skip
    for step in steps:
        does[step]()
        assert 1 <= window.size <= most
        assert len(tickets) - 1 == window.busy <= most


def test_rounds_of_successes_double_until_the_server_is_too_busy() -> None:
    """So that 64 connections are in use after 56 answers; then a round adds about one."""
    window = AdaptiveWindow(64)
    for _ in range(64 - START):
        window.grow()
    assert window.size == 64
    window.shrink(window.enter())
    for _ in range(32):
        window.grow()
    assert 32.9 < window.size <= 33


@given(st.integers(2, 8))
def test_a_round_of_refusals_halves_once(failed: int) -> None:
    window = AdaptiveWindow(100)
    tickets = [window.enter() for _ in range(8)]
    for ticket in tickets[:failed]:
        window.shrink(ticket)
    assert window.size == START / 2
    window.shrink(window.enter())
    assert window.size == START / 4


@given(st.integers(1, 10_000))
def test_waits_between_tries_are_bounded(tries: int) -> None:
    with pytest.MonkeyPatch.context() as usual:  # tests wait less
        usual.setattr(transport, "FIRST", FIRST)
        found = backoff(tries)
    assert 0 <= found <= min(LONGEST, FIRST * 2 ** min(tries - 1, 20))


@given(st.lists(st.booleans(), max_size=80))
def test_the_error_budget_is_a_share_of_the_last(failed: list[bool]) -> None:
    budget = ErrorBudget()
    for one in failed:
        budget.add("timeout" if one else None)
    last = failed[-20:]
    assert budget.exhausted == (sum(last) >= 3 and sum(last) > 0.25 * len(last))
    assert budget.kinds.total() == sum(last)


@pytest.mark.parametrize("others", [0, 40])
def test_one_request_that_always_fails_ends_the_run(others: int) -> None:
    budget = ErrorBudget()
    for _ in range(others):
        budget.add(None)
    tries = next(n for n in range(1, 100) if (budget.add("HTTP 500"), budget.exhausted)[1])
    assert 3 <= tries <= 6
