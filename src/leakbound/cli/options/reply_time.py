"""When an answer leaves: options of the commands that answer, and the one answer of a command."""

from __future__ import annotations

import math
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import click
from click.core import ParameterSource

from leakbound.cli.screen.help_pages import COUNT, option, together
from leakbound.errors import BudgetExhausted, UsageError
from leakbound.models import Endpoint
from leakbound.serving import Answer, AnswerLost, PrivateICL, ServiceState

AUTO, OFF = "auto", "off"
LONGEST = 86_400.0
LATE = (
    "the answer was not ready {:g} seconds after its payment (--reply-after), which could tell of "
    "the rows, so it is lost. What was paid for it stays spent; give more seconds."
)

reply_options = together(
    option(
        "--reply-after",
        "seconds after its payment at which every answer leaves, so that its time tells nothing of "
        f"the rows; {AUTO} measures made-up rows as long as the model allows, {OFF} sends each as "
        f"soon as it is made [default: {AUTO} of serve; {OFF} with --budget inf, and of answer]",
        metavar=f"SECONDS|{AUTO}|{OFF}",
    ),
    option(
        "--longest-row",
        f"most bytes of a row, a public limit for --reply-after {AUTO} [default: what the model "
        "allows]",
        COUNT,
    ),
)


def usual_state(ledger: str) -> Path:
    # in this folder where the ledger is a database server's
    return Path("leakbound-service.sqlite" if "://" in ledger else f"{ledger}.service")


def for_private_rows(endpoint: Endpoint, chosen: str) -> Endpoint:
    """The endpoint with separate requests; with a time also without retries, unless some are asked
    for: waits between those of a call that fails for one row would make the answer late, and
    whether it is late tells of the row."""
    endpoint = replace(endpoint, separate=True)
    source = click.get_current_context().get_parameter_source
    given = source("retries") not in (None, ParameterSource.DEFAULT)
    return endpoint if chosen == OFF or given else replace(endpoint, retries=0)


def seconds_of(chosen: str, longest_row: int | None, private: PrivateICL) -> float | None:
    # None for as soon as an answer is made
    if longest_row is not None and chosen != AUTO:
        raise UsageError(
            f"--longest-row is for --reply-after {AUTO}, which is {chosen}; leave it out."
        )
    if chosen == OFF:
        return None
    with suppress(ValueError):
        if 0 < (seconds := float(chosen)) <= LONGEST:
            return seconds
    if chosen != AUTO:
        raise UsageError(
            f"--reply-after got {chosen!r}; it must be seconds up to a day, such as 2, or {AUTO} "
            f"or {OFF}."
        )
    try:
        return private.slowest(longest_row)
    except UsageError as error:
        hidden = private.mechanism.guarantee.relation == "add_remove"
        needs = "the number of rows" if hidden else "--longest-row"
        raise UsageError(
            f"{error} --reply-after {AUTO} needs {needs}; SECONDS or {OFF} does not."
        ) from None


def answer_on_time(private: PrivateICL, query: str, seconds: float | None, ledger: str) -> Answer:
    """The answer, or that it is lost, so many seconds after its payment; a refusal at once."""
    if seconds is None:
        return private.answer(query)
    state = ServiceState(usual_state(ledger))
    state.require_more(seconds)
    found: list[Answer | BaseException] = []
    begun, ended, leaves = threading.Event(), threading.Event(), [math.inf]

    def pay() -> None:
        leaves[0] = time.monotonic() + seconds
        begun.set()

    def make() -> None:
        try:
            found.append(private.answer(query, pay))
        except BaseException as error:  # a system may end the process, for one row alone
            found.append(error)
        ended.set()
        begun.set()

    threading.Thread(target=make, daemon=True).start()  # one that is late ends with the process
    begun.wait()
    if not ended.wait(max(0.0, min(leaves[0] - time.monotonic(), threading.TIMEOUT_MAX))):
        state.note_late(seconds)
        raise AnswerLost(LATE.format(seconds))
    if math.isfinite(leaves[0]) and not isinstance(found[0], BudgetExhausted):
        time.sleep(max(0.0, leaves[0] - time.monotonic()))
    if isinstance(found[0], Answer):
        return found[0]
    raise found[0]
