"""Many runs on one page: what the list says, and who gets it."""

from __future__ import annotations

import http.client
import json
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from leakbound_hosts.view import View, runs_in
from leakbound_hosts.view.command import ViewServer

import leakbound
from leakbound.cli.main import main
from leakbound.errors import StoreError

ROWS = [(f"row {i}", "ab"[i % 2]) for i in range(40)]


def answer(context: Sequence[Any], query: str) -> str:
    return "yes" if any(query.split('"')[1] in one.text for one in context) else "no"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs")
    for pairs in (20, 24):
        leakbound.audit(ROWS, system=answer, pairs=pairs, out=out)
    return out


@pytest.fixture
def server(runs: Path) -> Iterator[ViewServer]:
    with ViewServer(View([runs])) as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.02,))
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def asked(
    server: ViewServer, path: str, host: str = "", method: str = "GET"
) -> tuple[int, dict[str, str], str]:
    made = http.client.HTTPConnection("127.0.0.1", server.server_port)
    with closing(made) as connection:
        connection.request(method, path, headers={"Host": host} if host else {})
        with connection.getresponse() as reply:
            return reply.status, dict(reply.getheaders()), reply.read().decode()


def test_the_list_has_every_run_and_links_to_its_pages(runs: Path, server: ViewServer) -> None:
    root = f"/{server.token}/"
    status, headers, text = asked(server, root)
    assert (status, headers["Cache-Control"]) == (200, "no-store")
    assert headers["Referrer-Policy"] == "no-referrer"  # the address holds the token
    for run in runs.iterdir():
        assert f"run-{run.name}" in text
    links = re.findall(r'href="((?:run|compare)-[^"]+)"', text)
    assert sum(one.startswith("compare-") for one in links) == 1
    for link in links:
        status, _, found = asked(server, root + link)
        assert (status, "<!doctype html>" in found) == (200, True)
    assert "<polyline" in text


def test_nobody_else_gets_a_page(server: ViewServer) -> None:
    root, port = f"/{server.token}/", server.server_port
    for path in ("/", "/x/", root + "run-nothing", root + "run-../../etc", f"{root}a/b"):
        assert asked(server, path)[0] == 404, path
    for host in ("evil.example", f"evil.example:{port}", "127.0.0.1", f"127.0.0.1:{port + 1}"):
        assert asked(server, root, host)[0] == 403, host
    assert asked(server, root, f"localhost:{port}")[0] == 200
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        assert asked(server, root, method=method)[0] == 501, method
    assert asked(server, root, method="HEAD")[2] == ""
    assert server.server_address[0] == "127.0.0.1"


def test_a_folder_that_grows_and_what_cannot_be_read(tmp_path: Path, runs: Path) -> None:
    out = tmp_path / "runs"
    out.mkdir()
    first, second = sorted(runs.iterdir())
    (out / "a").mkdir()
    (out / "a" / "record.json").write_bytes((first / "record.json").read_bytes())
    view = View([out])
    assert [one.name for one in view.runs()] == ["a"]
    for name, text in (("broken", "{"), ("other", "[]"), ("odd", '{"estimates": []}')):
        (out / name).mkdir()
        (out / name / "record.json").write_text(text)
    (out / "begun").mkdir()
    (out / "begun" / "manifest.json").write_text('{"schema_version": 2, "spec": {}}')
    assert sorted(one.name for one in view.runs() if one.verdict is None) == [
        "begun", "broken", "odd", "other",
    ]  # fmt: skip
    text = view.index()
    assert "unfinished" in text
    assert "cannot be read (JSONDecodeError)" in text
    found = json.loads((second / "record.json").read_text())
    (out / "b").mkdir()
    (out / "b" / "record.json").write_text(json.dumps({**found, "verdict": "no_violation"}))
    assert len([one for one in view.runs() if one.verdict]) == 2
    with pytest.raises(StoreError):
        View([out]).page("run-broken")
    twice = runs_in([out / "a", out / "a", runs, out / "a" / "record.json"])
    assert len({one.name for one in twice}) == len(twice) == 4


def test_static_pages_are_those_of_the_server(tmp_path: Path, runs: Path) -> None:
    def put(path: Path, text: str) -> None:
        path.write_text(text)

    assert View([runs], ".html").write(tmp_path, put) == 0
    served = View([runs])
    assert (tmp_path / "index.html").read_text().replace('.html"', '"') == served.index()
    links = re.findall(r'href="((?:run|compare)-[^"]+)"', served.index())
    assert {one.name for one in tmp_path.iterdir()} == {"index.html", *(f"{n}.html" for n in links)}
    for link in links:
        assert (tmp_path / f"{link}.html").read_text() == served.page(link)


def test_a_folder_that_does_not_exist_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A typo in a path showed an empty list, and the command ended with 0."""
    with pytest.raises(SystemExit) as ended:
        main(["view", str(tmp_path / "rusn"), "--out", str(tmp_path / "site")])
    assert ended.value.code == 2
    assert "rusn' does not exist; give a finished run" in capsys.readouterr().err
    assert not (tmp_path / "site").exists()
