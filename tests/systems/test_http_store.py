"""Stores behind HTTP, with setup and teardown, against a real server on loopback."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from commands import cli, launch
from limits import PATIENCE
from stores import DISPOSABLE, documents

import leakbound
from leakbound.errors import TargetError, UsageError
from leakbound.systems import CallOptions, fill_store, load_system, require_store
from leakbound.systems.journal import FILE
from leakbound.systems.stores import SharedStore
from leakbound.tasks import as_context

pytestmark = pytest.mark.process

ROWS = documents(120)


class Notes(ThreadingHTTPServer):
    """A search service: POST /notes, DELETE /notes/ID, POST /ask; it may fail in many ways."""

    daemon_threads = True
    request_queue_size = 128  # of 5, connections that find no place come again after a second

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.notes: dict[str, str] = {"owner": "a note of the owner"}
        self.asked: Counter[str] = Counter()
        self.stuck: set[str] = set()  # ids that are never removed
        self.answers: list[int] = []  # statuses of the next requests
        self.interrupted: list[tuple[str, int]] = []  # method, and number of such requests so far
        self.lock = threading.Lock()
        self.late = False  # whether a request is carried out only after Ctrl-C
        self.by_content = False  # whether a text has one id however often it is added

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, *about: Any) -> None:
        """A client that went away is what some tests are about."""

    def interrupt(self, method: str, path: str, late: bool) -> None:
        """Press Ctrl-C before the request is carried out, or else before it is answered."""
        with self.lock:
            number = self.asked[f"{method} /{path.split('/')[1]}"] + late
            due = [one for one in self.interrupted if one[0] == method and one[1] <= number]
            if late != self.late or not due:
                return
            self.interrupted.remove(due[0])
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        time.sleep(0.05)

    def reply(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        self.asked[f"{method} /{path.split('/')[1]}"] += 1
        if self.answers and (status := self.answers.pop(0)) != 200:
            return status, {"private text": body}
        if method == "DELETE":
            key = path.rpartition("/")[2]
            if key in self.stuck:
                return 500, {}
            return (404 if self.notes.pop(key, None) is None else 200), {}
        if path == "/notes":
            own = f"h{hash(body['text'])}" if self.by_content else str(sum(self.asked.values()))
            key = body.get("id") or own
            self.notes[key] = body["text"]
            return 201, {"note": {"id": key}}
        if path == "/ask":
            words = set(body["question"].split())
            best = max(self.notes.values(), key=lambda text: len(words & set(text.split())))
            return 200, {"answer": best}
        return 200, {}


class Handler(BaseHTTPRequestHandler):
    server: Notes
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # headers and body are two packets: the second waits 40 ms

    def _do(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        body = json.loads(self.rfile.read(length)) if length else None
        self.server.interrupt(self.command, self.path, late=True)
        status, reply = self.server.reply(self.command, self.path, body)
        self.server.interrupt(self.command, self.path, late=False)
        content = json.dumps(reply).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_POST = do_DELETE = _do

    def log_message(self, *args: Any) -> None: ...


@pytest.fixture
def notes() -> Iterator[Notes]:
    server = Notes()
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def values(notes: Notes, **changed: Any) -> dict[str, Any]:
    found = {
        "url": f"{notes.url}/ask", "body": {"question": "{query}"}, "answer": "answer",
        "plant": {"url": f"{notes.url}/notes", "body": {"text": "{input}"}, "id": "note.id"},
        "remove": {"url": f"{notes.url}/notes/{{id}}", "method": "DELETE"}, **changed,
    }  # fmt: skip
    return {key: value for key, value in found.items() if value is not None}


def address(notes: Notes, folder: Path, **changed: Any) -> str:
    (folder / "notes.yaml").write_text(yaml.safe_dump(values(notes, **changed)))
    return f"http:{folder / 'notes.yaml'}"


def store(notes: Notes, folder: Path, retries: int = 0, **changed: Any) -> Any:
    found = load_system(
        address(notes, folder, **changed), calls=CallOptions(retries=retries, disposable=True)
    )
    return require_store(found.system, "notes")


def test_a_service_is_audited_in_one_run_and_left_as_it_was(notes: Notes, tmp_path: Path) -> None:
    result = leakbound.audit(
        ROWS, system=address(notes, tmp_path), design="one_run", canaries=40, controls=4,
        epsilon=2, settings={"claim_for": "run", "documents": 30}, out=tmp_path / "runs",
        calls=DISPOSABLE,
    )  # fmt: skip
    assert result.verdict == "violation"
    assert notes.notes == {"owner": "a note of the owner"}
    assert not [*tmp_path.glob(f"runs/*/{FILE}")]
    planted = 30 + 4 + result.counts["planted"]
    assert notes.asked == {"POST /notes": planted, "DELETE /notes": planted, "POST /ask": 48}


@pytest.mark.parametrize("design", ["paired", "session", "one_run"])
def test_a_service_that_is_not_given_up_is_left_as_it_was(
    notes: Notes, tmp_path: Path, design: Any
) -> None:
    """Before, rows that it held already were deleted at the end."""
    rows = [(text, "ab"[at % 2]) for at, (text, _) in enumerate(ROWS)]
    size: dict[str, Any] = {"canaries": 10} if design == "one_run" else {"pairs": 6}
    with pytest.raises(UsageError, match=r"so with calls=CallOptions\(disposable=True\)"):
        leakbound.audit(
            rows, system=address(notes, tmp_path), design=design, epsilon=1, out=tmp_path, **size
        )
    assert not notes.asked


@pytest.mark.slow
def test_a_service_is_audited_in_a_session(notes: Notes, tmp_path: Path) -> None:
    setup = {"url": f"{notes.url}/begin", "body": {}}
    result = leakbound.audit(
        ROWS, system=address(notes, tmp_path, setup=setup, teardown=setup), design="session",
        pairs=12, controls=2, state_check=0, settings={"documents": 20}, out=tmp_path / "runs",
        calls=CallOptions(retries=1, timeout=PATIENCE, disposable=True), epsilon=0.2,
    )  # fmt: skip
    assert result.verdict == "violation"
    assert notes.notes == {"owner": "a note of the owner"}
    assert notes.asked["POST /begin"] == 2  # once around all pairs
    assert notes.asked["POST /notes"] == notes.asked["DELETE /notes"] >= 20 + 12 + 2


def test_the_service_may_take_ids_and_all_documents_at_once(notes: Notes, tmp_path: Path) -> None:
    plant = {"url": f"{notes.url}/notes", "body": {"text": "{input}", "id": "{id}"}}
    setup = {"url": f"{notes.url}/begin", "body": {"all": "{rows}"}}
    found = store(notes, tmp_path, plant=plant, setup=setup)
    record, *context = as_context(ROWS[:4])
    with fill_store(found, [record], tuple(context), DISPOSABLE) as session:
        (key,) = set(notes.notes) - {"owner"}
        assert key.startswith("leakbound-")
        assert session.ask(str(record.input)).text == record.input
        assert notes.asked["POST /notes"] == 1
    assert list(notes.notes) == ["owner"]


def test_requests_that_gave_no_output_are_sent_again(notes: Notes, tmp_path: Path) -> None:
    notes.answers = [503, 200, 429, 200]
    found = store(notes, tmp_path, retries=2)
    key = found.plant(as_context(ROWS)[0])
    found.remove(key)
    assert list(notes.notes) == ["owner"]
    notes.answers = [200, 503, 404]  # the first removal was carried out, and not answered
    key = found.plant(as_context(ROWS)[0])
    found.remove(key)


def test_records_that_stay_are_named_by_their_ids(notes: Notes, tmp_path: Path) -> None:
    found, records = store(notes, tmp_path), as_context(ROWS[:5])
    told = pytest.raises(TargetError)
    with told as error, fill_store(found, records, (), DISPOSABLE):
        notes.stuck = {"2", "4"}
    sentence = str(error.value)
    assert "2 of 5 records that were planted in the store could not be removed" in sentence
    assert sentence.endswith("Remove them by hand: 4, 2.")
    assert set(notes.notes) == {"owner", "2", "4"}  # the others are gone
    assert not any(word in sentence for word in str(records[1].input).split())


def test_documents_that_stay_are_named_beside_what_ended_the_run(
    notes: Notes, tmp_path: Path
) -> None:
    session = store(notes, tmp_path).open(as_context(ROWS[:3]))
    notes.stuck = {next(iter(notes.notes.keys() - {"owner"}))}
    with pytest.raises(TargetError) as error:
        session.close(TargetError("the model is gone."))
    assert str(error.value).startswith("the model is gone. 1 of 3 records")
    assert next(iter(notes.stuck)) in str(error.value)


def test_a_service_that_takes_only_some_documents_is_emptied(notes: Notes, tmp_path: Path) -> None:
    notes.answers = [200] * 2 + [400]
    shared = SharedStore(store(notes, tmp_path), as_context(ROWS[:20]), calls=DISPOSABLE)
    with pytest.raises(TargetError, match="No record was added"):
        shared.open(())
    assert list(notes.notes) == ["owner"]


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"remove": None}, "has no remove"),
        ({"plant": None}, "has no plant"),
        ({"body": {"question": "{query}", "rows": "{rows}"}}, "are planted"),
        ({"plant": {"url": "{url}/notes", "body": {"text": "{input}"}}}, 'either "{id}"'),
        ({"plant": {"url": "{url}/notes", "body": {"text": "x"}, "id": "id"}}, '"{input}" in'),
        ({"remove": {"url": "{url}/notes"}}, '"{id}" in its url'),
        ({"remove": {"url": "http://127.0.0.1:1/{id}"}}, "same host and port"),
    ],
    ids=["no_remove", "no_plant", "rows", "no_id", "no_input", "remove_all", "other_host"],
)
def test_what_makes_no_store_is_refused(
    notes: Notes, tmp_path: Path, changed: dict[str, Any], says: str
) -> None:
    for call in changed.values():
        if isinstance(call, dict) and "url" in call:
            call["url"] = call["url"].replace("{url}", notes.url)
    with pytest.raises(UsageError, match=says):
        store(notes, tmp_path, **changed)
    assert not notes.asked


def test_a_reply_without_an_id_is_told(notes: Notes, tmp_path: Path) -> None:
    plant = {"url": f"{notes.url}/notes", "body": {"text": "{input}"}, "id": "note.key"}
    with pytest.raises(TargetError, match=r"has no id at 'note.key'.* The record is in the store"):
        store(notes, tmp_path, plant=plant).plant(as_context(ROWS)[0])


def test_ids_that_may_be_texts_are_not_shown() -> None:
    """A store of the user may use the text itself as the id."""

    class Sticky:
        def plant(self, record: Any) -> str:
            return str(record.input)

        def remove(self, record_id: str) -> None:
            raise OSError(record_id)

        def open(self, context: Any) -> Any:
            return self

        def close(self) -> None: ...

    with (
        pytest.raises(TargetError) as error,
        fill_store(Sticky(), as_context(ROWS[:2]), (), DISPOSABLE),
    ):
        pass
    assert "2 with ids that may hold text of the record" in str(error.value)
    assert "w1" not in str(error.value)
    assert "OSError" in str(error.value)


def test_equal_records_that_a_store_knows_by_one_id_are_removed_once() -> None:
    """The second removal used to fail, and the store was said to hold the record still."""

    class ByText:
        def __init__(self) -> None:
            self.texts: set[str] = set()

        def plant(self, record: Any) -> str:
            self.texts.add(record.input)
            return str(record.input)

        def remove(self, record_id: str) -> None:
            self.texts.remove(record_id)

        def open(self, context: Any) -> Any:
            return self

        def close(self) -> None: ...

    store = ByText()
    row = as_context(ROWS)[0]
    with fill_store(store, [row, row, *as_context(ROWS[:3])], (), DISPOSABLE):
        assert len(store.texts) == 3
    assert not store.texts


def with_own_ids(notes: Notes, folder: Path) -> Any:
    plant = {"url": f"{notes.url}/notes", "body": {"text": "{input}", "id": "{id}"}}
    teardown = {"url": f"{notes.url}/end", "body": {}}
    return store(notes, folder, plant=plant, teardown=teardown)


@pytest.mark.parametrize(
    "pressed",
    [[("POST", 5)], [("POST", 14)], [("DELETE", 2)], [("DELETE", 9)], [("POST", 5), ("DELETE", 3)]],
    ids=["documents", "records", "removal of records", "removal of documents", "twice"],
)
def test_an_interrupt_leaves_nothing_at_the_service(
    notes: Notes, tmp_path: Path, pressed: list[tuple[str, int]]
) -> None:
    """84 of 100 documents stayed, without a word and without teardown; a record that was gone was
    said to be there still."""
    notes.interrupted = [*pressed]
    found, rows = with_own_ids(notes, tmp_path), as_context(ROWS[:16])
    with pytest.raises(KeyboardInterrupt), fill_store(found, rows[12:], rows[:12], DISPOSABLE):
        pass
    assert list(notes.notes) == ["owner"]
    assert notes.asked["POST /end"] == 1


@pytest.mark.parametrize("own", [True, False], ids=["ids of leakbound", "ids of the service"])
def test_a_record_that_is_added_after_an_interrupt_is_removed(
    notes: Notes, tmp_path: Path, own: bool
) -> None:
    """The removal came before the addition, or nobody knew the id."""
    notes.interrupted, notes.late = [("POST", 2)], True
    found = with_own_ids(notes, tmp_path) if own else store(notes, tmp_path)
    with pytest.raises(KeyboardInterrupt):
        found.open(as_context(ROWS[:12]))
    assert list(notes.notes) == ["owner"]
    notes.interrupted = [("POST", notes.asked["POST /notes"] + 1)]
    with pytest.raises(KeyboardInterrupt):
        found.plant(as_context(ROWS)[0])
    assert list(notes.notes) == ["owner"]


def test_an_interrupt_while_the_first_one_is_obeyed_names_what_stays(
    notes: Notes, tmp_path: Path
) -> None:
    notes.interrupted = [("DELETE", 9), ("DELETE", 20)]
    session = with_own_ids(notes, tmp_path).open(as_context(ROWS[:40]))
    planted = notes.notes.keys() - {"owner"}

    def closed() -> None:
        try:
            session.close()
        finally:  # a removal that is under way would interrupt whatever runs next
            notes.interrupted = []

    with pytest.raises(TargetError, match=r"of 40 records .*KeyboardInterrupt") as told:
        closed()
    named = {key for key in planted if key in str(told.value)}
    assert named  # on a busy machine, a removal under way may still be obeyed
    assert notes.notes.keys() - {"owner"} <= named


def test_a_record_whose_reply_was_lost_is_removed(notes: Notes, tmp_path: Path) -> None:
    """Its id was in a message, and the record in the store."""
    notes.answers = [500]
    with pytest.raises(TargetError, match="may have been added, so it is removed"):
        with_own_ids(notes, tmp_path).plant(as_context(ROWS)[0])
    assert notes.asked == {"POST /notes": 1, "DELETE /notes": 1}


def killed(command: tuple[str, ...], folder: Path, service: Notes) -> None:
    """An audit that is killed while records of it are in the store."""
    process, end = launch(*command, cwd=folder), time.monotonic() + PATIENCE
    while service.asked["POST /ask"] < 5 or len(service.notes) < 5:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.01)
    process.kill()
    process.communicate()


@pytest.mark.slow
@pytest.mark.parametrize("own", [False, True])
def test_what_a_killed_audit_left_is_removed_first(notes: Notes, tmp_path: Path, own: bool) -> None:
    """Before, 20 documents and a canary stayed, and the same command planted them again."""
    plant = {"url": f"{notes.url}/notes", "body": {"text": "{input}", "id": "{id}"}}
    system = address(notes, tmp_path, **({"plant": plant} if own else {}))
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps({"text": text}) + "\n" for text, _ in ROWS[:60]))
    command = (
        "audit", str(rows), system, "--design", "session", "--pairs", "12", "--controls", "2",
        "--epsilon", "0.2", "--set", "documents=20", "--disposable-store", "--out", "runs",
    )  # fmt: skip
    killed(command, tmp_path, notes)
    assert len(notes.notes) > 20
    (journal,) = (tmp_path / "runs").glob(f"*/{FILE}")
    assert journal.stat().st_mode & 0o077 == 0
    done = cli("cleanup", "runs", "--json", cwd=tmp_path)
    (told,) = json.loads(done.stdout)["runs"]
    assert (done.returncode, told["left"]) == (0, told["removed"]), done.stderr
    assert list(notes.notes) == ["owner"]
    assert not journal.exists()
    notes.asked["POST /ask"] = 0
    killed(command, tmp_path, notes)
    done = cli(*command, cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert "was killed while records that it had planted" in done.stderr.replace("\n", " ")
    assert list(notes.notes) == ["owner"]
    assert not journal.exists()


def test_the_command_of_an_audit_is_planned_by_its_verb_alone(notes: Notes, tmp_path: Path) -> None:
    """`plan` refused --disposable-store, --rate and --out."""
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps({"text": text}) + "\n" for text, _ in ROWS[:60]))
    done = cli(
        "plan", str(rows), address(notes, tmp_path), "--design", "session", "--pairs", "12",
        "--disposable-store", "--rate", "5", "--out", "runs", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert not notes.asked
