"""Audits between tenants: one plants a record and uses it, the other one asks."""

from __future__ import annotations

import asyncio
import json
import statistics
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from stores import DISPOSABLE, NearestStore, documents
from tenants import CHANNELS, CROWDS, DEFECTS, LOADED, NOTHING, Desk, DeskSession, nearest

import leakbound
from leakbound.auditing import prepare
from leakbound.auditing.prepare.build import Handed
from leakbound.auditing.spec.audit_spec import make_spec
from leakbound.errors import DataError, TargetError, UsageError
from leakbound.gating.gate import Gate, check_gate
from leakbound.report import summary
from leakbound.systems import SystemMechanism, load_system
from leakbound.systems.staged import StagedContext
from leakbound.tasks import Example


def run(system: object, out: Path, **parameters: Any) -> leakbound.AuditResult:
    given = {"pairs": 40, "simulations": 100, "calls": DISPOSABLE, **parameters}
    rows = given.pop("rows", None)
    return leakbound.audit(rows, system=system, design="tenants", out=out, **given)


def of_defect(desk: Desk, out: Path, **parameters: Any) -> leakbound.AuditResult:
    return run(desk, out, channels=CHANNELS.get(desk.defect), **parameters)


class Streaming(Desk):
    """Its sessions' `ask` may yield pieces, and is counted."""

    asked = 0

    def open_tenant(self, tenant: str) -> Any:
        session = super().open_tenant(tenant)
        inner = getattr(session, self.defect)

        def ask(query: str) -> Any:
            self.asked += 1
            yield from [inner(query)] if self.defect != "mixed_stream" else inner(query)

        session.ask = ask  # type: ignore[method-assign]
        return session


def rejected_at(result: leakbound.AuditResult) -> int:
    found = result.e_values.rejected_at if result.e_values and result.verdict == "violation" else 0
    return found or 10_000


@pytest.mark.parametrize("defect", DEFECTS)
def test_each_defect_is_found_and_its_isolated_twin_passes(defect: str, tmp_path: Path) -> None:
    desk, twin = Desk(defect), Desk(defect, isolated=True)
    result = of_defect(desk, tmp_path / "desk")
    assert (result.verdict, result.claim.epsilon, result.claim.delta) == ("violation", 0, 0)
    assert rejected_at(result) <= 40
    passed = of_defect(twin, tmp_path / "twin")
    assert (passed.verdict, passed.reason) == ("no_violation", None)
    assert passed.use is not None
    assert passed.use.change < 0.7
    assert passed.use.share < 0.5
    assert "Each tenant sees its own record" in passed.sentences[0]
    assert not desk.records
    assert not twin.records


@pytest.mark.parametrize("defect", CROWDS)
def test_what_several_clients_see_together_or_under_load(defect: str, tmp_path: Path) -> None:
    """An answer that is shared once it was asked for often, and answers that concurrent requests
    of two tenants exchange."""
    desk, twin = Streaming(defect), Streaming(defect, isolated=True)
    alone = run(Streaming(defect), tmp_path / "alone", controls=4, rows=documents(200))
    assert alone.verdict != "violation"
    many: dict[str, Any] = {"settings": {"clients": 3}, "controls": 4, "simulations": 0}
    many["rows"] = documents(200)
    result = run(desk, tmp_path / "desk", **many)
    assert result.verdict == "violation"
    assert rejected_at(result) <= 40
    passed = run(twin, tmp_path / "twin", **many)
    assert (passed.verdict, passed.reason) == ("no_violation", None)
    assert not desk.records
    asked = leakbound.plan(many.pop("rows"), system=twin, design="tenants", pairs=40, **many)
    assert asked.model_calls == passed.counts["model_calls"] == twin.asked


class Locked(Desk):
    """A desk in an event loop, whose requests wait for a lock that belongs to the loop."""

    lock: asyncio.Lock | None = None

    def open_tenant(self, tenant: str) -> Any:
        session = super().open_tenant(tenant)

        async def ask(query: str) -> str:
            self.lock = self.lock or asyncio.Lock()
            self.last = tenant
            async with asyncio.timeout(5), self.lock:
                await asyncio.sleep(0.002)
            whose = session.tenant if self.isolated else self.last
            return nearest(session.texts(whose), query) or NOTHING

        session.ask = ask  # type: ignore[method-assign, assignment]
        return session


@pytest.mark.parametrize(
    ("kind", "defect"), [*((Desk, one) for one in LOADED), (Locked, "mixed_up")]
)
def test_what_shows_under_load_alone(kind: type[Desk], defect: str, tmp_path: Path) -> None:
    """What more than two requests at once share, whose came first, what has a score, what waits in
    an event loop, and who opened a session last."""
    many: dict[str, Any] = {"settings": {"clients": 3}, "controls": 4, "simulations": 0}
    many["rows"] = documents(200)
    assert run(kind(defect), tmp_path / "desk", **many).verdict == "violation"
    passed = run(kind(defect, isolated=True), tmp_path / "twin", **many)
    assert (passed.verdict, passed.reason) == ("no_violation", None)


def test_one_client_is_all_that_other_designs_have(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="clients is 2, and in a deletion design no other tenant"):
        leakbound.audit(system=Desk(), design="deletion", out=tmp_path, settings={"clients": 2})
    for layout in ("paired", "session", "one_run"):
        with pytest.raises(UsageError, match=f"clients is 2, and a {layout} design has one"):
            leakbound.audit(
                system=lambda context, query: "", design=layout, settings={"clients": 2}
            )


@pytest.mark.slow
@pytest.mark.parametrize("defect", ["no_filter", "semantic_cache", "citations", "forbidden"])
@pytest.mark.parametrize(("rate", "pairs"), [(0.5, 60), (0.2, 150)])
def test_a_defect_that_shows_seldom_is_found(
    defect: str, rate: float, pairs: int, tmp_path: Path
) -> None:
    found = [
        rejected_at(of_defect(Desk(defect, rate=rate, seed=seed), tmp_path / str(seed),
                              pairs=pairs, seed=seed))
        for seed in range(5)
    ]  # fmt: skip
    assert statistics.median(found) <= pairs


@pytest.mark.slow
def test_isolated_twins_are_seldom_accused(tmp_path: Path) -> None:
    """At most 6 of 60: at 5 %, more have probability 0.03."""
    found = Counter[str]()
    for seed in range(60):
        twin = Desk(DEFECTS[seed % len(DEFECTS)], isolated=True, seed=seed)
        found[of_defect(twin, tmp_path / str(seed), seed=seed).verdict] += 1
    assert found["violation"] <= 6
    assert found["no_violation"] >= 48


def test_the_verdict_says_what_would_not_have_been_seen(tmp_path: Path) -> None:
    result = run(Desk(isolated=True), tmp_path)
    assert result.use is not None
    told = summary(result, verbose=True)
    assert "where the other tenant had the record. The test (40 pairs) would have shown" in told
    assert f"fewer than {-(-100 * result.use.share // 1):.0f}%" in told
    assert "claim: ε = 0 at δ = 0 (isolation;" in told
    assert "the second tenant sees its own" in told
    assert "control: tenants see own records" in summary(result)
    assert result.use.limit in check_gate(result, Gate(max_epsilon=0.0)).why
    again = leakbound.AuditResult.model_validate_json(result.to_json())
    assert again.use == result.use


@pytest.mark.parametrize(("blind", "which"), [("a", "first"), ("b", "second")])
def test_who_does_not_see_its_own_records_is_no_sign_of_isolation(
    blind: str, which: str, tmp_path: Path
) -> None:
    class Ask(DeskSession):
        def ask(self, query: str) -> Any:
            return NOTHING if self.tenant == blind else super().ask(query)

    class Blind(Desk):
        def open_tenant(self, tenant: str) -> DeskSession:
            return Ask(self, tenant)

    result = run(Blind(isolated=True), tmp_path)
    assert (result.verdict, result.reason) == ("inconclusive", "attack_blind")
    assert f"the {which} tenant does not see its own records" in result.sentences[0]
    assert len(result.sentences) == 1


def test_sessions_are_fresh_and_all_orders_are_drawn(tmp_path: Path) -> None:
    @dataclass
    class Watched(Desk):
        said: list[tuple[str, str]] = field(default_factory=list)
        closed: int = 0

        def open_tenant(self, tenant: str) -> DeskSession:
            self.opened.append(tenant)
            return Heard(self, tenant)

    class Heard(DeskSession):
        desk: Watched

        def ask(self, query: str) -> Any:
            self.desk.said.append((self.tenant, query))
            return super().ask(query)

        def close(self) -> None:
            self.desk.closed += 1

    desk = Watched(isolated=True)
    result = leakbound.audit(
        documents(200), system=desk, design="tenants", pairs=40, out=tmp_path, calls=DISPOSABLE
    )
    trials = desk.said[2 * 16 : -2 * 8]  # 16 controls come first, 8 last
    both = [*zip(trials[::2], trials[1::2], strict=True)]
    assert len(both) == 2 * 40
    assert all(owner != asker for (owner, _), (asker, _) in both)
    assert {owner for (owner, _), _ in both} == {"a", "b"}
    assert sum(one == other for (_, one), (_, other) in both) == 40  # asked about the same record
    # what one asks is asked by nobody else but, of the record itself, by its owner
    assert max(Counter(query for _, query in desk.said).values()) == 2
    assert len(desk.opened) == desk.closed == 2 * 2 * 40 + 2 * 24
    orders = {tuple(desk.opened[at : at + 2]) for at in range(32, 32 + 160, 2)}
    assert orders == {("a", "b"), ("b", "a")}
    assert result.counts["model_calls"] == len(desk.said)
    assert leakbound.plan(system=Desk(), design="tenants", pairs=40).model_calls == len(desk.said)


def test_either_context_may_have_any_row() -> None:
    """Rows have their parts by chance: else a cache that each tenant has for itself would tell the
    contexts apart once rows are used again."""
    spec = make_spec({"design": "tenants", "pairs": 300})
    rows = tuple(Example(f"row {i} with a few words of its own", "") for i in range(9))
    handed = Handed(mechanism=SystemMechanism(Desk()))  # type: ignore[arg-type]
    prepared = prepare(spec, rows=rows, handed=handed)
    place = Counter[tuple[str, str]]()
    for pair in prepared.pairs:
        member, nonmember = (job.context for job in pair.in_order[:: -1 if pair.out_first else 1])
        assert isinstance(member, StagedContext)
        assert isinstance(nonmember, StagedContext)
        place[member[0].input[:6], "in"] += 1
        place[nonmember[0].input[:6], "out"] += 1
        assert member[0] != nonmember[0]
        assert pair.member.query != pair.nonmember.query
        same = replace(member.steps, uses=nonmember.steps.uses)
        assert same == nonmember.steps
        assert "row" not in repr(pair.member)
        assert "row" not in repr(member.steps)
        assert member.steps.asker != member.steps.owner
    assert all(15 <= number <= 55 for number in place.values())
    assert len(place) == 18


class Interrupted(Desk):
    """Ends at a question with some error."""

    def __init__(self, error: BaseException, at: int = 50) -> None:
        super().__init__(isolated=True)
        self.error, self.left = error, at

    def open_tenant(self, tenant: str) -> DeskSession:
        return _Interrupting(self, tenant)


class _Interrupting(DeskSession):
    desk: Interrupted

    def ask(self, query: str) -> Any:
        self.desk.left -= 1
        if not self.desk.left:
            raise self.desk.error
        return super().ask(query)


@pytest.mark.parametrize("at", [50, 51])  # the owner's question, and the other one
@pytest.mark.parametrize(
    ("error", "raised"), [(KeyboardInterrupt(), KeyboardInterrupt), (KeyError("x"), TargetError)]
)
def test_planted_records_are_removed_whatever_happens(
    error: BaseException, raised: type[BaseException], at: int, tmp_path: Path
) -> None:
    desk = Interrupted(error, at)
    with pytest.raises(raised):
        run(desk, tmp_path)
    assert not desk.records
    assert desk.left == 0


def test_a_session_is_closed_where_the_other_one_does_not_open(tmp_path: Path) -> None:
    class Half(Desk):
        closed = 0

        def open_tenant(self, tenant: str) -> DeskSession:
            if len(self.opened) == 41:  # the second one of a trial
                raise KeyError(tenant)
            self.opened.append(tenant)
            return Closing(self, tenant)

    class Closing(DeskSession):
        desk: Half

        def close(self) -> None:
            self.desk.closed += 1

    desk = Half(isolated=True)
    with pytest.raises(TargetError, match="raised KeyError"):
        run(desk, tmp_path)
    assert desk.closed == len(desk.opened) == 41
    assert not desk.records


class RateLimitError(Exception):
    status_code = 429


def test_a_rate_limit_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leakbound.systems.calls.backoff", lambda tries: 0.0)
    for at in (50, 51):
        desk = Interrupted(RateLimitError(), at)
        assert run(desk, tmp_path / str(at)).verdict == "no_violation"
        assert desk.left < 0
        assert not desk.records


def test_what_cannot_be_audited_is_refused_in_a_sentence(tmp_path: Path) -> None:
    class OneSession(Desk):
        def open_tenant(self, tenant: str) -> DeskSession:
            return self.shared  # type: ignore[attr-defined, no-any-return]

    one = OneSession()
    one.shared = DeskSession(one, "a")  # type: ignore[attr-defined]
    with pytest.raises(TargetError, match="one session for both tenants"):
        run(one, tmp_path)

    class NoPlant:
        def open_tenant(self, tenant: str) -> Any:
            return lambda query: NOTHING

    with pytest.raises(TargetError, match=r"has no plant; open_tenant.tenant. must"):
        run(NoPlant(), tmp_path)
    with pytest.raises(TargetError, match="has no open_tenant"):
        run(NearestStore(), tmp_path)
    with pytest.raises(UsageError, match='add design="tenants"'):
        leakbound.audit(system=Desk(), out=tmp_path)
    with pytest.raises(UsageError, match="adds records to the store"):
        run(Desk(), tmp_path, calls=None)
    with pytest.raises(DataError, match="takes 3 rows, and the data has 2"):
        leakbound.audit([("a b", ""), ("c d", "")], system=Desk(), design="tenants", out=tmp_path)
    with pytest.raises(UsageError, match="insertion is add"):
        run(Desk(), tmp_path, insertion="add")
    with pytest.raises(UsageError, match="documents is 5"):
        run(Desk(), tmp_path, settings={"documents": 5})
    with pytest.raises(UsageError, match=r"epsilon is 0\.0; it must be greater than 0"):
        leakbound.audit(system=Desk(), design="session", epsilon=0.0, out=tmp_path)


def test_a_budget_may_be_claimed_in_place_of_isolation(tmp_path: Path) -> None:
    desk = Desk("citations", rate=0.3)
    result = of_defect(desk, tmp_path, epsilon=3.0, pairs=60)
    assert (result.verdict, result.claim.epsilon) != ("violation", 3.0)
    assert result.claim_source == "stated"
    leaky = of_defect(Desk(), tmp_path, epsilon=3.0, pairs=60)
    assert leaky.verdict == "violation"


OWNERS = {"Bearer key-1": "acme", "Bearer key-2": "globex", "Bearer key-3": "globex"}


class Cloud(ThreadingHTTPServer):
    """A service for tenants with bearer tokens; its cache is keyed by the question alone."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, isolated: bool) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.isolated, self.records = isolated, dict[str, tuple[str, str]]()
        self.kept, self.refused = set[tuple[str, str]](), 0
        self.mixed, self.current = False, ""  # whose request it is, of all requests
        self.asked = Counter[str]()  # by credential

    def reply(self, owner: str, method: str, path: str, body: Any) -> tuple[Any, str]:
        if path.startswith("/records"):
            if method == "DELETE":
                self.records.pop(path.rpartition("/")[2])
            else:
                self.records[body["id"]] = (owner, body["text"])
            return {}, ""
        if self.mixed:
            self.current = owner
            time.sleep(0.005)
            owner = self.current
        texts = [text for one, text in self.records.values() if one == owner]
        key = (owner if self.isolated else "", body["question"])
        hit = key in self.kept
        self.kept.add(key)
        return {"answer": nearest(texts, body["question"]) or NOTHING}, "HIT" if hit else "MISS"


class _Handler(BaseHTTPRequestHandler):
    server: Cloud
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def _do(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        body = json.loads(self.rfile.read(length)) if length else None
        self.server.asked[key := self.headers.get("Authorization", "")] += self.path == "/ask"
        owner = OWNERS.get(key)
        status, reply, cached = 401, {}, ""
        if owner is not None:
            (reply, cached), status = self.server.reply(owner, self.command, self.path, body), 200
        content = json.dumps(reply).encode()
        self.send_response(status)
        self.send_header("X-Cache", cached)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_POST = do_DELETE = _do

    def log_message(self, *args: Any) -> None: ...


@pytest.fixture(params=[False, True], ids=["shared", "isolated"])
def cloud(request: pytest.FixtureRequest) -> Iterator[Cloud]:
    server = Cloud(request.param)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("mixed", [True, False])
@pytest.mark.parametrize("cloud", [True], indirect=True, ids=["isolated"])
def test_a_service_that_mixes_sessions_up_under_load(
    mixed: bool, service: str, cloud: Cloud, tmp_path: Path
) -> None:
    alone = run(service, tmp_path / "alone", controls=4, pairs=20)
    assert alone.verdict != "violation"
    cloud.mixed = mixed
    result = run(
        service, tmp_path / "load", controls=4, pairs=20, simulations=0, settings={"clients": 2}
    )
    assert (result.verdict == "violation") is mixed
    assert not cloud.records


FILE = """
url: {url}/ask
body: {{question: "{{query}}"}}
answer: answer
plant: {{url: "{url}/records", body: {{text: "{{input}}", id: "{{id}}"}}}}
remove: {{url: "{url}/records/{{id}}", method: DELETE}}
reply_headers: [x-cache]
tenants:
  acme: {{Authorization: "Bearer ${{KEY_1}}"}}
  globex: {{Authorization: "Bearer ${{KEY_2}}"}}
"""


@pytest.fixture
def service(cloud: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("KEY_1", "key-1")
    monkeypatch.setenv("KEY_2", "key-2")
    (tmp_path / "cloud.yaml").write_text(FILE.format(url=f"http://127.0.0.1:{cloud.server_port}"))
    return f"http:{tmp_path / 'cloud.yaml'}"


@pytest.mark.parametrize("channels", [None, ("all",)])
def test_a_cache_header_over_http_with_two_credentials(
    cloud: Cloud, service: str, channels: Any, tmp_path: Path
) -> None:
    result = run(service, tmp_path, channels=channels)
    assert result.verdict == ("no_violation" if cloud.isolated else "violation")
    assert not cloud.records
    assert not [*tmp_path.glob("**/planted.jsonl")]


@pytest.mark.parametrize("cloud", [True], indirect=True, ids=["isolated"])
def test_each_client_of_a_tenant_may_have_a_credential_of_its_own(
    cloud: Cloud, service: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "cloud.yaml"
    one = 'globex: {Authorization: "Bearer ${KEY_2}"}'
    file.write_text(file.read_text().replace(one, """globex:
    - {Authorization: "Bearer ${KEY_2}"}
    - {Authorization: "Bearer ${KEY_3}"}"""))  # fmt: skip
    monkeypatch.setenv("KEY_3", "key-2")
    with pytest.raises(UsageError, match="have the same credential"):
        run(service, tmp_path)
    monkeypatch.setenv("KEY_3", "key-3")
    many: dict[str, Any] = {"controls": 4, "pairs": 8, "simulations": 0}
    run(service, tmp_path, settings={"clients": 2}, **many)
    acme, *globex = (cloud.asked[f"Bearer key-{at}"] for at in (1, 2, 3))
    assert abs(globex[0] - globex[1]) <= 0.25 * acme
    assert sum(globex) > acme / 2
    assert not cloud.records
    file.write_text(file.read_text().replace("${KEY_3}", "key-3"))
    with pytest.raises(UsageError, match="holds its secret"):
        load_system(service)


def test_credentials_over_http_are_checked(
    cloud: Cloud, service: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEY_2", "key-1")
    with pytest.raises(UsageError, match="have the same credential"):
        run(service, tmp_path)
    monkeypatch.setenv("KEY_2", "wrong")
    with pytest.raises(TargetError, match=r"status 401.*right key"):
        run(service, tmp_path)
    assert not cloud.records
    file = tmp_path / "cloud.yaml"
    file.write_text(file.read_text().replace("${KEY_2}", "key-2"))
    with pytest.raises(UsageError, match="holds its secret"):
        load_system(service)
    file.write_text(file.read_text().replace('globex: {Authorization: "Bearer key-2"}', ""))
    with pytest.raises(UsageError, match="must name two tenants"):
        load_system(service)
