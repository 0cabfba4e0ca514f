"""A ledger, a state file or a model that fails: nobody pays for nothing, and no key is lost."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from services import ASK, TOKEN, private, send

from leakbound.errors import Interrupted, LimitReached, StoreError
from leakbound.privacy import PureDP
from leakbound.serving import AnswerLost, ServiceState, Tenant, Tenants, application
from leakbound.serving.http import state_file
from leakbound.serving.ledger import storage

pytest.importorskip("starlette")

TENANT = Tenant("a", TOKEN)
KEYED = {
    "json": ASK,
    "headers": {"idempotency-key": "k", "authorization": f"Bearer {TOKEN}"},
}


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "WAIT", 0.05)
    monkeypatch.setattr(state_file, "WAIT", 0.05)


@contextmanager
def held(path: Path, *statements: str) -> Iterator[None]:
    """Another process is at the file."""
    other = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        other.execute(statement)
    yield
    other.close()


def ask(served: Any, state: ServiceState) -> int:
    (reply,) = send(served, KEYED, tenants=Tenants([TENANT]), state=state)
    assert ("x-should-retry" in reply.headers) == (reply.status_code == 500)
    return reply.status_code


def failing(*args: Any) -> Any:
    raise StoreError("disk full")


@pytest.mark.parametrize("methods", [("spend",), ("spend", "forget")])
def test_a_state_file_that_fails_once_leaves_the_key_free(
    methods: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reply said that nothing was spent, and every retry of the key was HTTP 409."""
    served, state = private(tmp_path, 9.0), ServiceState()
    app = application(served, tenants=Tenants([TENANT]), state=state)
    with monkeypatch.context() as patch:
        for name in methods:
            patch.setattr(state, name, failing)
        (first,) = send(app, KEYED)
    (again,) = send(app, KEYED)
    assert (first.status_code, again.status_code) == (503, 200)
    assert (state.answers(TENANT), served.state.answers) == (1, 1)


def test_a_ledger_that_fails_before_the_spend_costs_a_tenant_nothing(tmp_path: Path) -> None:
    """The tenant was charged and the ledger was not, and the reply said that both stay spent."""
    served, state = private(tmp_path, 9.0), ServiceState()
    with held(tmp_path / "ledger", "BEGIN IMMEDIATE"):
        assert ask(served, state) == 503
    assert (state.answers(TENANT), served.state.answers) == (0, 0)
    assert ask(served, state) == 200
    assert (state.answers(TENANT), served.state.answers) == (1, 1)


def test_a_ledger_that_fails_after_the_spend_charges_both(tmp_path: Path) -> None:
    served, state = private(tmp_path, 9.0), ServiceState()
    with held(tmp_path / "ledger.key", "BEGIN IMMEDIATE"):
        assert ask(served, state) == 500
        with pytest.raises(AnswerLost, match="counts as paid for"):
            served.answer("another")
    assert (state.answers(TENANT), served.state.answers) == (1, 2)


def test_a_refund_that_fails_is_not_called_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served, state = private(tmp_path, 9.0), ServiceState()
    monkeypatch.setattr(state, "refund", failing)
    with held(tmp_path / "ledger", "BEGIN IMMEDIATE"):
        assert ask(served, state) == 500
    assert (state.answers(TENANT), served.state.answers) == (1, 0)


def test_a_commit_that_fails_spends_nothing_and_blocks_no_other(tmp_path: Path) -> None:
    """The transaction stayed open, and every later one failed."""
    state = ServiceState(tmp_path / "state")
    with held(tmp_path / "state", "BEGIN", "SELECT * FROM spends"), pytest.raises(StoreError):
        state.spend(TENANT, PureDP(1.0), 0.0)
    state.spend(TENANT, PureDP(1.0), 0.0)
    assert state.answers(TENANT) == 1


@pytest.mark.parametrize("error", [LimitReached("dollars"), Interrupted("stopped"), ValueError()])
@pytest.mark.parametrize("number", [1, 2], ids=["before", "after"])
def test_whoever_stops_the_model_before_the_spend_costs_nothing(
    error: Exception, number: int, tmp_path: Path
) -> None:
    """A limit that struck before the spend charged the tenant, and not the ledger."""
    asked: list[str] = []

    def stopping(prompt: str) -> str:
        asked.append(prompt)
        if len(asked) == number:
            raise error
        return "odd"

    served, state = private(tmp_path, 9.0, complete=stopping), ServiceState()
    paid = 500 if type(error) is Interrupted else 200  # the others are failures of one call
    assert ask(served, state) == (503 if number == 1 else paid)
    assert (state.answers(TENANT), served.state.answers) == (number - 1, number - 1)
