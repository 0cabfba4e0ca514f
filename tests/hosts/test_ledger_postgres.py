"""The ledger on a real PostgreSQL server: the battery of all storages."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from ledger_battery import *  # noqa: F403
from ledger_battery import DELTA
from ledger_edits import edit_accounts
from ledger_schedules import PLAN, SETTINGS, FilePlace, Schedule
from limits import expires

from leakbound.errors import StoreError
from leakbound.privacy import PureDP
from leakbound.serving.ledger import Ledger
from leakbound.serving.ledger.inspection import problems
from leakbound.serving.ledger.storage import KeyFile

pytestmark = pytest.mark.hosts
psycopg = pytest.importorskip("psycopg")
TABLES = [f"leakbound_{name}" for name in ("total", "datasets", "accounts", "answers")]


def programs() -> Path | None:
    """Where Debian's package, or another installation, keeps initdb and pg_ctl."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"))
    other = shutil.which("pg_ctl")
    return found[-1].parent if found else Path(other).parent if other else None


@dataclass
class Server:
    """A server of this test session, on a Unix socket alone; root runs it as `postgres`."""

    folder: Path
    programs: Path

    def run(self, *command: str) -> None:
        user = "postgres" if os.getuid() == 0 else None
        command = (str(self.programs / command[0]), *command[1:])
        log = self.folder / "commands"  # no pipe, which the server would hold open
        with log.open("a") as file:
            done = subprocess.run(command, user=user, cwd="/", stdout=file, stderr=file)
        assert done.returncode == 0, log.read_text()

    def start(self, *options: str) -> None:
        words = ["-c listen_addresses=''", f"-c unix_socket_directories={self.folder}", *options]
        self.run("pg_ctl", "-D", str(self.folder / "data"), "-w", "-l", str(self.folder / "log"),
                 "-o", " ".join(words), "start")  # fmt: skip

    def stop(self, mode: str = "fast") -> None:
        self.run("pg_ctl", "-D", str(self.folder / "data"), "-w", "-m", mode, "stop")

    def url(self, schema: str) -> str:
        options = quote(f"-c search_path={schema}")
        return f"postgresql://postgres@/postgres?host={quote(str(self.folder))}&options={options}"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    found = programs()
    if found is None:
        pytest.skip("no PostgreSQL server is installed (Debian's package postgresql has one)")
    if os.getuid() == 0 and "postgres" not in {user.pw_name for user in pwd.getpwall()}:
        pytest.skip("PostgreSQL does not run as root, and there is no user postgres")
    with tempfile.TemporaryDirectory(prefix="pg-") as name:  # short: a socket has 107 characters
        Path(name).chmod(0o777)
        made = Server(Path(name), found)
        made.run("initdb", "-D", f"{name}/data", "-U", "postgres", "-A", "trust", "-E", "UTF8")
        made.start()
        try:
            yield made
        finally:
            made.stop("immediate")


@dataclass
class Schema:
    """A ledger in a schema of its own."""

    server: Server
    name: str
    key: Path

    @property
    def address(self) -> str:
        return self.server.url(self.name)

    def run(self, *statements: str) -> None:
        with psycopg.connect(self.address, autocommit=True) as db:
            for statement in statements:
                db.execute(statement)

    def copy(self, source: str, target: str) -> None:
        """All tables of one schema into another."""
        self.run(f"CREATE SCHEMA IF NOT EXISTS {target}", *(
            f"BEGIN; CREATE TABLE IF NOT EXISTS {target}.{one} (LIKE {one} INCLUDING ALL); "
            f"TRUNCATE {target}.{one}; INSERT INTO {target}.{one} TABLE {source}.{one}; COMMIT"
            for one in TABLES
        ))  # fmt: skip

    def snapshot(self) -> None:
        self.copy(self.name, f"{self.name}_backup")

    def restore(self) -> None:
        self.copy(f"{self.name}_backup", self.name)

    def lose(self) -> None:
        self.run(*(f"DROP TABLE {table}" for table in TABLES))


NUMBERS = count()


@pytest.fixture
def place(server: Server, tmp_path: Path) -> Schema:
    made = Schema(server, f"ledger_{next(NUMBERS)}", tmp_path / "place.key")
    made.run(f"CREATE SCHEMA {made.name}")
    return made


def test_a_crash_of_the_server_gives_nothing_back(place: Schema) -> None:
    """The server dies without a checkpoint while three threads spend."""
    paid: list[str] = []

    def spend(number: int) -> None:
        ledger = Ledger(place.address, 9.0, DELTA, place.key)
        for step in range(200):
            try:
                ledger.spend([f"{number} {step}"], PureDP(0.01))
            except StoreError:
                return
            paid.append(f"{number} {step}")

    threads = [threading.Thread(target=spend, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    while len(paid) < 20:
        threads[0].join(expires(0.01))
    place.server.stop("immediate")
    for thread in threads:
        thread.join()
    place.server.start()
    ledger = Ledger(place.address, 9.0, DELTA, place.key)
    assert len(paid) <= ledger.state().answers <= len(paid) + 3
    assert problems(place.address, place.key) == []


def test_a_server_that_loses_commits_is_refused(place: Schema) -> None:
    place.server.stop()
    place.server.start("-c fsync=off")
    try:
        with pytest.raises(StoreError, match="Set fsync = on"):
            Ledger(place.address, 1.0, DELTA, place.key)
    finally:
        place.server.stop()
        place.server.start()


def test_a_database_that_commits_asynchronously_by_default_waits_all_the_same(
    place: Schema,
) -> None:
    place.run("ALTER DATABASE postgres SET synchronous_commit = off")
    try:
        ledger = Ledger(place.address, 1.0, DELTA, place.key)
        ledger.spend(["one"], PureDP(1.0))
        place.server.stop("immediate")
        place.server.start()
        assert ledger.state().answers == 1
    finally:
        place.run("ALTER DATABASE postgres RESET synchronous_commit")


def test_ledgers_of_one_database_and_key_file_are_told_apart(place: Schema) -> None:
    Ledger(place.address, 1.0, DELTA, place.key).spend(["one"], PureDP(1.0))
    other = Schema(place.server, f"{place.name}_other", place.key)
    other.run(f"CREATE SCHEMA {other.name}")
    assert Ledger(other.address, 1.0, DELTA, other.key).state().answers == 0


@pytest.mark.parametrize(
    "change",
    ["UPDATE leakbound_datasets SET spent = 0", "DELETE FROM leakbound_accounts",
     "UPDATE leakbound_total SET value = '9.0' WHERE name = 'capacity'",
     "CREATE RULE undo AS ON INSERT TO leakbound_answers DO ALSO SELECT 1",
     "CREATE INDEX old ON leakbound_answers (tag)"],
)  # fmt: skip
def test_an_edited_database_is_refused(place: Schema, change: str) -> None:
    ledger = Ledger(place.address, 1.0, DELTA, place.key)
    ledger.spend(["one", "two"], PureDP(0.5))
    Ledger(place.address, 1.0, DELTA, place.key)
    place.run(change)
    with pytest.raises(StoreError, match="changed by another hand"):
        Ledger(place.address, 1.0, DELTA, place.key)


def test_numbers_are_read_as_they_were_written(place: Schema) -> None:
    """A server that shows 15 digits made each second spend "changed by another hand"."""
    place.run("ALTER DATABASE postgres SET extra_float_digits = 0")
    try:
        ledger = Ledger(place.address, 2.0, DELTA, place.key)
        for _ in range(3):
            ledger.spend(["one", "two"], PureDP(1 / 3))
        assert Ledger(place.address, 2.0, DELTA, place.key).state().answers == 3
    finally:
        place.run("ALTER DATABASE postgres RESET extra_float_digits")


def test_no_message_holds_a_password(tmp_path: Path) -> None:
    url = "postgresql://me:hush@127.0.0.1:1/books?password=hush&sslmode=disable"
    with pytest.raises(StoreError) as caught:
        Ledger(url, 1.0, DELTA, tmp_path / "key")
    assert "hush" not in str(caught.value)
    assert "127.0.0.1" in str(caught.value)


# --- the schedules of crashes, lost connections and two writers


class SchemaPlace(FilePlace):
    """A ledger in a schema, with copies of it in others; its key file is faulty, too."""

    def __init__(self, server: Server, folder: Path) -> None:
        super().__init__(folder)
        self.schema = Schema(server, f"schedule_{next(NUMBERS)}", folder / "key")
        self.schema.run(f"CREATE SCHEMA {self.schema.name}")
        self.address = self.schema.address

    @contextmanager
    def faults(self) -> Iterator[None]:  # type: ignore[override]
        run = PLAN.around(psycopg.Connection.execute, psycopg.OperationalError)
        many = PLAN.around(psycopg.Cursor.executemany, psycopg.OperationalError)

        def execute(self: Any, sql: str, *args: Any) -> Any:
            """Another writer is refused and not waited for: it is this thread."""
            return run(self, sql.replace("lock_timeout = '60s'", "lock_timeout = '5ms'"), *args)

        with super().faults(), pytest.MonkeyPatch.context() as patched:
            patched.setattr(psycopg.Connection, "execute", execute)
            patched.setattr(psycopg.Cursor, "executemany", lambda *args: many(*args))
            yield

    def named(self, name: str) -> str:
        return self.schema.name if name == "ledger" else f"{self.schema.name}_{name}"

    def has(self, name: str = "ledger") -> bool:
        asked = f"SELECT to_regclass('{self.named(name)}.leakbound_total') IS NOT NULL"
        with psycopg.connect(self.address) as db:
            return db.execute(asked).fetchone() == (True,)

    def copy(self, source: str, target: str) -> None:
        self.schema.copy(self.named(source), self.named(target))

    def edit(self, change: Any) -> None:
        with psycopg.connect(self.address) as db:
            edit_accounts(db, change, "%s")

    def close(self) -> None:
        for name in ("ledger", "backup", "newest"):
            self.schema.run(f"DROP SCHEMA IF EXISTS {self.named(name)} CASCADE")
        super().close()


@pytest.mark.parametrize("broken", [False, True])
def test_no_schedule_overspends_or_loses_an_answer(
    server: Server, monkeypatch: pytest.MonkeyPatch, broken: bool
) -> None:
    """Broken: a high-water mark is never raised."""
    schedule = type("OnServer", (Schedule,), {"place_of": partial(SchemaPlace, server)})
    tried = {"max_examples": 15} if not broken else {"phases": [Phase.generate]}
    if broken:
        monkeypatch.setattr(KeyFile, "raise_to", lambda self, mark: None)
    found = pytest.raises(BaseException, match=r"DID NOT RAISE|old copy|lost")
    with found if broken else nullcontext():
        run_state_machine_as_test(schedule, settings=settings(SETTINGS, **tried))
