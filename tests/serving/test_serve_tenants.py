"""Several tenants: each with a token, a budget and a rate beneath the budget of the data."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from services import ASK, CHAT, TOKEN, private, send

from leakbound.errors import BudgetExhausted, StoreError, UsageError
from leakbound.privacy import Gaussian, PureDP
from leakbound.serving import ServiceState, Tenant, Tenants, application, load_tenants
from leakbound.serving.http.tenants import RequestRate

pytest.importorskip("starlette")

SMALL, LARGE = "small-" + "s" * 20, "large-" + "l" * 20
PRICE = Gaussian(1.0, 4.0)


def headers(token: str, **more: str) -> dict[str, Any]:
    return {"json": ASK, "headers": {"authorization": f"Bearer {token}", **more}}


def test_no_tenant_takes_the_budget_of_all(tmp_path: Path) -> None:
    """With one token for everybody, one client took the whole budget."""
    tenants = Tenants([Tenant("small", SMALL, answers=2), Tenant("large", LARGE)])
    served = private(tmp_path, 99.0)
    replies = send(served, *[headers(SMALL)] * 4, headers(LARGE), tenants=tenants)
    assert [reply.status_code for reply in replies] == [200, 200, 403, 403, 200]
    assert "is allowed 2 answers" in replies[2].text
    assert replies[2].headers["x-should-retry"] == "false"
    assert served.state.answers == 3


def test_a_cap_on_epsilon_is_one_on_the_composition(tmp_path: Path) -> None:
    """epsilon 3 at delta 1e-5 buys six answers of epsilon 1, and not three."""
    tenants = Tenants([Tenant("small", SMALL, epsilon=3.0)])
    served = private(tmp_path, 99.0)
    replies = send(served, *[headers(SMALL)] * 9, tenants=tenants)
    state = served.ledger.state(served.dataset)
    assert state.epsilon <= 3.0
    answered = sum(reply.status_code == 200 for reply in replies)
    assert answered == state.answers > 3
    assert "may spend epsilon 3" in replies[-1].text


def test_the_budget_of_the_data_stands_above_those_of_tenants(tmp_path: Path) -> None:
    """What the ledger refuses is not charged to the tenant."""
    tenant = Tenant("large", LARGE, answers=50)
    state = ServiceState()
    served = private(tmp_path, 1.0)
    replies = send(served, *[headers(LARGE)] * 3, tenants=Tenants([tenant]), state=state)
    assert [reply.status_code for reply in replies] == [200, 403, 403]
    assert state.answers(tenant) == 1


def test_a_tenant_learns_nothing_of_what_others_asked(tmp_path: Path) -> None:
    """The sentence of the ledger counted the answers of all, and each reply their epsilon."""
    tenants = Tenants([Tenant("small", SMALL, epsilon=4.0), Tenant("large", LARGE)])
    told = []
    for others in (0, 3):
        folder = tmp_path / str(others)
        folder.mkdir()
        replies = send(
            private(folder, 4.0), *[headers(LARGE)] * others, headers(SMALL), tenants=tenants
        )
        assert [reply.status_code for reply in replies] == [200] * (others + 1)
        told.append(replies[-1].json()["leakbound"])
    assert told[0] == told[1]
    assert told[0]["epsilon_spent"] == pytest.approx(1.0)
    assert told[0]["epsilon_remaining"] == pytest.approx(3.0)
    said = set()
    for others in (1, 2):
        folder = tmp_path / f"spent {others}"
        folder.mkdir()
        asked = [*[headers(LARGE)] * others, *[headers(SMALL)] * 12]
        last = send(private(folder, 2.0), *asked, tenants=tenants)[-1]
        assert last.status_code == 403
        said.add(last.text)
    assert len(said) == 1
    assert not any(letter.isdigit() for letter in said.pop())


def test_accounts_survive_a_restart_and_are_shared_by_processes(tmp_path: Path) -> None:
    tenant = Tenant("small", SMALL, answers=3)
    first, second = (ServiceState(tmp_path / "state") for _ in range(2))
    for state in (first, second, first):
        state.spend(tenant, PRICE, 1e-5)
    with pytest.raises(BudgetExhausted, match="has had 3"):
        ServiceState(tmp_path / "state").spend(tenant, PRICE, 1e-5)
    second.spend(Tenant("other", LARGE, answers=1), PRICE, 1e-5)
    assert (tmp_path / "state").stat().st_mode & 0o077 == 0


def test_caps_hold_when_several_servers_share_the_file(tmp_path: Path) -> None:
    tenant = Tenant("small", SMALL, answers=7)
    states = [ServiceState(tmp_path / "state") for _ in range(4)]

    def granted(number: int) -> bool:
        try:
            states[number % 4].spend(tenant, PRICE, 1e-5)
        except BudgetExhausted:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(granted, range(16))) == 7
    assert states[0].answers(tenant) == 7


def test_prices_of_all_kinds_add_up(tmp_path: Path) -> None:
    state, tenant = ServiceState(tmp_path / "state"), Tenant("small", SMALL, epsilon=2.0)
    state.spend(tenant, PureDP(1.5), 1e-5)
    with pytest.raises(BudgetExhausted, match=r"would make it 2\."):
        state.spend(tenant, PRICE, 1e-5)
    state.spend(tenant, PureDP(0.5), 1e-5)


def test_requests_faster_than_the_rate_wait_and_cost_nothing(tmp_path: Path) -> None:
    tenants = Tenants([Tenant("small", SMALL, rate=2), Tenant("large", LARGE)])
    served = private(tmp_path, 99.0)
    replies = send(served, *[headers(SMALL)] * 3, headers(LARGE), tenants=tenants)
    assert [reply.status_code for reply in replies] == [200, 200, 429, 200]
    assert 1 <= int(replies[2].headers["retry-after"]) <= 30
    assert served.state.answers == 3


def test_a_rate_refills_evenly() -> None:
    now = [0.0]
    rate = RequestRate(6, lambda: now[0])
    assert [rate.take() for _ in range(6)] == [0.0] * 6
    assert rate.take() == pytest.approx(10.0)
    now[0] = 10.0
    assert rate.take() == 0.0
    assert rate.take() > 0
    now[0] = 1e6
    assert [rate.take() for _ in range(7)][:6] == [0.0] * 6
    assert RequestRate(None).take() == 0.0


def test_only_the_whole_token_finds_its_tenant() -> None:
    tenants = Tenants([Tenant("a", SMALL), Tenant("b", LARGE)])
    found = [
        tenants.find(token) for token in (SMALL, LARGE, SMALL[:-1], SMALL + "s", "", "é\udce9")
    ]
    assert [one and one.name for one in found] == ["a", "b", None, None, None, None]


def written(folder: Path, text: str, name: str = "tenants.toml", mode: int = 0o600) -> Path:
    path = folder / name
    path.write_text(text)
    path.chmod(mode)
    return path


def test_a_file_names_the_tenants(tmp_path: Path) -> None:
    toml = f'[tenants.small]\ntoken = "{SMALL}"\nanswers = 5\nepsilon = 2\nrate = 0.5\n'
    found = load_tenants(written(tmp_path, toml + f'[tenants.large]\ntoken = "{LARGE}"\n'))
    assert found.all == (Tenant("small", SMALL, 5, 2, 0.5), Tenant("large", LARGE))
    assert SMALL not in repr(found.all)
    body = json.dumps({"tenants": {"large": {"token": LARGE}}})
    assert load_tenants(written(tmp_path, body, "t.json")).all == (Tenant("large", LARGE),)


BAD = [
    ('[tenants.a]\ntoken = "' + "x" * 15 + '"', "at least 16"),
    ('[tenants.a]\ntoken = "' + "x y" * 9 + '"', "visible ASCII"),
    ("[tenants.a]\nanswers = 5", "no token"),
    (f'[tenants.a]\ntoken = "{SMALL}"\nbudget = 5', "budget"),
    (f'[tenants.a]\ntoken = "{SMALL}"\nanswers = 1.5', "whole number"),
    (f'[tenants.a]\ntoken = "{SMALL}"\nanswers = true', "whole number"),
    (f'[tenants.a]\ntoken = "{SMALL}"\nepsilon = nan', "epsilon of the tenant a is nan"),
    (f'[tenants.a]\ntoken = "{SMALL}"\nrate = 0', "rate of the tenant a is 0"),
    (f'[tenants."a b"]\ntoken = "{SMALL}"', "the name 'a b'"),
    (f'[tenants.a]\ntoken = "{SMALL}"\n[tenants.b]\ntoken = "{SMALL}"', "the same token"),
    (f'token = "{SMALL}"', "has no tenants"),
    ("tenants = 1", "has no tenants"),
    (f"[tenants.a\ntoken = {SMALL}", "is not TOML"),
]


@pytest.mark.parametrize(("text", "sentence"), BAD, ids=[one[1] for one in BAD])
def test_mistakes_in_the_file_get_a_sentence_without_a_token(
    tmp_path: Path, text: str, sentence: str
) -> None:
    with pytest.raises(UsageError, match=sentence) as error:
        load_tenants(written(tmp_path, text))
    assert SMALL not in str(error.value)


def test_a_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, f'[tenants.a]\ntoken = "{SMALL}"', mode=0o640)
    with pytest.raises(UsageError, match="chmod 600"):
        load_tenants(path)
    with pytest.raises(UsageError, match="cannot be read"):
        load_tenants(tmp_path / "none")


def test_a_state_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("not a database" * 100)
    with pytest.raises(StoreError, match="--state"):
        ServiceState(tmp_path / "state")


def test_one_token_and_tenants_exclude_each_other(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="only one of them"):
        application(private(tmp_path), TOKEN, tenants=Tenants([Tenant("a", SMALL)]))


def test_health_and_unknown_paths_need_no_token_and_say_nothing(tmp_path: Path) -> None:
    tenants = Tenants([Tenant("a", SMALL)])
    paths = ("/health", "/healthz", "/v1/models", "/v1/models/x", CHAT)
    asked = [{"method": "GET", "url": path} for path in paths]
    replies = send(private(tmp_path), *asked, tenants=tenants)
    assert [reply.status_code for reply in replies] == [200, 200, 401, 401, 405]
    assert replies[0].json() == {"status": "ok"}
