"""--json, --quiet and --verbose: every command takes them, and --json prints one JSON value."""

from __future__ import annotations

import io
import json
import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from in_process import run
from limits import PATIENCE

import leakbound
from leakbound.cli.main import group
from leakbound.cli.screen.output import escape
from leakbound.models import Scripted
from leakbound.serving.ledger import Ledger

SYSTEM = """
def answer(context, query):
    quoted = query.split('"')[1] if '"' in query else "-"
    return "yes" if any(quoted in row.text for row in context) else "no"
"""
AUDIT = ("audit", "--system", "python:app.py:answer", "--pairs", "16", "--simulations", "0")
FLAGS = ("--json", "-q", "--quiet", "-v", "--verbose")


def leaves(command: click.Command, *path: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command that is no group, with its words."""
    if not isinstance(command, click.Group):
        yield path, command
        return
    ctx = click.Context(command)
    for name in command.list_commands(ctx):
        found = command.get_command(ctx, name)
        assert found is not None
        yield from leaves(found, *path, name)


LEAVES = dict(leaves(group))


def facts(*args: str, code: int = 0) -> Any:
    """What a command prints with --json: one JSON value and nothing else."""
    done = run(*args, "--json")
    assert (done.exception, done.return_value or 0) == (None, code)
    return json.loads(done.stdout)


@pytest.fixture(autouse=True)
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("app.py").write_text(SYSTEM)
    return tmp_path


def test_the_walk_sees_groups_and_their_commands() -> None:
    assert {("audit",), ("ledger", "show"), ("export", "config")} <= set(LEAVES)
    assert len(LEAVES) >= 28


@pytest.mark.parametrize("path", LEAVES, ids=" ".join)
def test_every_command_takes_json_quiet_and_verbose(path: tuple[str, ...]) -> None:
    flags = [flag for param in LEAVES[path].params for flag in param.opts]
    assert {flag: flags.count(flag) for flag in FLAGS} == dict.fromkeys(FLAGS, 1)
    assert LEAVES[path].context_settings["auto_envvar_prefix"] == "LEAKBOUND"


def test_init_prints_its_file_its_plan_and_the_next_command() -> None:
    rows = [f"a note about {n},{['work', 'home'][n % 2]}" for n in range(60)]
    Path("private.csv").write_text("\n".join(["text,label", *rows]))
    found = facts("init", "private.csv", "python:app.py:answer")
    assert (found["config"], found["answers"]) == ("audit.yaml", "words")
    assert found["next"] == "leakbound audit --config audit.yaml"
    assert found["plan"]["pairs"] == 100
    written = yaml.safe_load(Path("audit.yaml").read_text())
    assert found["settings"]["attack"] == written["attack"]


def test_a_merge_of_shards_prints_its_record() -> None:
    for number in (1, 2):
        assert run(*AUDIT, "--shard", f"{number}/2", "--out", f"part{number}").return_value == 0
    found = facts("merge", "part1", "part2", "--out", "whole", code=1)
    assert (found["exit_code"], found["record"]["verdict"]) == (1, "violation")
    assert (Path(found["folder"]) / "record.json").is_file()


def test_a_shard_prints_where_it_is_and_that_it_has_no_verdict() -> None:
    found = facts(*AUDIT, "--shard", "1/2")
    assert found["shard"] == [1, 2]
    assert Path(found["folder"]).is_dir()
    swept = facts("sweep", *AUDIT[1:], "--grid", "shots=3,4", "--shard", "1/2", code=1)
    assert (swept["shard"], len(swept["record"]["points"])) == ([1, 2], 1)


@pytest.mark.slow
def test_a_report_prints_its_files_and_records() -> None:
    run(*AUDIT)
    found = facts("report", "runs", "--html", "page.html")
    assert found["report"] == "page.html"
    assert [one["verdict"] for one in found["records"]] == ["violation"]
    run("sweep", *AUDIT[1:], "--grid", "shots=3,4")
    found = facts("report", "sweep", "--figures", "svg")
    assert len(found["record"]["points"]) == 2
    assert all(Path(file).is_file() for file in found["files"])
    assert {Path(file).suffix for file in found["files"]} == {".html", ".csv", ".svg"}


@pytest.mark.slow
def test_a_comparison_is_the_one_of_the_python_interface() -> None:
    run(*AUDIT)
    run(*AUDIT, "--seed", "1")
    assert len(facts("compare", "runs")["runs"]) == 2


@pytest.mark.slow
def test_exports_print_the_values_that_they_write() -> None:
    run(*AUDIT)
    (folder,) = map(str, Path("runs").iterdir())
    for words in (("config",), ("cyclonedx",), ("in-toto", "--subject", "app.py")):
        shown = run("export", words[0], folder, *words[1:]).stdout
        assert facts("export", words[0], folder, *words[1:]) == yaml.safe_load(shown)
        assert run("export", words[0], folder, *words[1:], "-q").output == ""
    assert "--subject (commandline)" in run("export", "in-toto", folder, *words[1:], "-v").stderr


def test_an_entry_for_opendp_is_json_too() -> None:
    rows = [(f"row {i}", "ab"[i % 2]) for i in range(40)]
    leakbound.audit(rows, mechanism="report_noisy_max", model=Scripted(complete=lambda p: "no"),
                    pairs=6, simulations=0, settings={"labels": "a,b"})  # fmt: skip
    (folder,) = map(str, Path("runs").iterdir())
    words = ("opendp", folder, "--published", "2026-01-31", "--curator", "Help desk")
    assert facts("export", *words) == json.loads(
        json.dumps(yaml.safe_load(run("export", *words).stdout), default=str)
    )


def test_a_ledger_keeps_its_silence_and_says_who_asked() -> None:
    Ledger("book", 1.0, 1e-5)
    for name in ("show", "history", "check"):
        assert facts("ledger", name, "--ledger", "book") is not None
        done = run("ledger", name, "--ledger", "book", "-q", "-v")
        assert done.stdout == ""
        assert "--ledger (commandline)" in done.stderr


def test_a_broken_ledger_is_json_and_a_sentence() -> None:
    Ledger("book", 1.0, 1e-5)
    Path("book.key").unlink()
    done = run("ledger", "check", "--ledger", "book", "--json")
    assert json.loads(done.stdout)["problems"]
    assert "has problems" in str(done.exception)


@pytest.mark.slow
def test_a_count_of_generations_is_json() -> None:
    Path("all.csv").write_text("context,response\na b c,a b c\nx y z,none of it\n")
    assert facts("score-generations", "all.csv")["generations"] == 2


def test_the_list_of_recipes_is_json() -> None:
    assert "tight/calibration" in [one["name"] for one in facts("reproduce", "--list")]


@pytest.mark.torch
@pytest.mark.slow
def test_a_demo_prints_its_report_and_four_records() -> None:
    found = facts("demo", "--pairs", "5")
    assert Path(found["report"]).is_file()
    assert len({run["folder"] for run in found["runs"]}) == 4
    verdicts = [one["record"]["verdict"] for one in found["runs"]]
    assert verdicts.count("violation") == found["violations"]


def test_tuning_prints_its_queries_and_its_file() -> None:
    found = facts("tune", "--system", "python:app.py:answer", "--pilot-pairs", "3", "--max-calls",
                  "40", "--reflection-model", "none")  # fmt: skip
    assert found["attack"] == "attack.yaml"
    assert found["scored"][found["query"]] == found["after"] >= found["before"]
    assert 0 < found["model_calls"] <= found["max_calls"] == 40


@pytest.mark.torch
def test_influence_prints_what_it_wrote() -> None:
    words = ("--text", "The code is 4711.", "--question", "Code?", "--max-tokens", "2")
    found = facts("influence", *words, "--redact")
    assert Path(found["report"]).is_file()
    (model,) = found["models"]
    assert model["model"] == "pocket"
    assert model["record"] == json.loads((Path(model["folder"]) / "influence.json").read_text())


@pytest.mark.torch
@pytest.mark.slow
def test_a_study_prints_its_files_and_its_record() -> None:
    found = facts("influence-study", "temperature", "--values", "1", "--contexts", "1",
                  "--max-tokens", "2")  # fmt: skip
    assert all(Path(file).is_file() for file in found["files"])
    assert found["record"] == json.loads(Path("influence-temperature/study.json").read_text())


def test_a_server_prints_where_it_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    """The value comes once clients can connect; the port is the one that was taken."""
    pytest.importorskip("uvicorn")
    import uvicorn

    serve, seen = uvicorn.Server.startup, []

    async def once(self: Any, sockets: Any = None) -> None:
        await serve(self, sockets)
        seen.append(self.servers[0].sockets[0].getsockname()[1])
        self.should_exit = True

    monkeypatch.setattr(uvicorn.Server, "startup", once)
    assert threading.current_thread() is threading.main_thread()
    found = facts("serve", "--mechanism", "report_noisy_max", "--model", "openai/m", "--budget",
                  "4", "--port", "0", "--base-url", "http://127.0.0.1:9/v1",
                  "--reply-after", "2")  # fmt: skip
    assert found["port"] == seen[0] > 0
    assert (found["budget"], found["tls"]) == (4.0, False)
    assert found["reply_after"] == 2.0
    assert found["epsilon_of_one_answer"] == pytest.approx(1.0, abs=1e-3)
    assert found["answers_left"] >= 4


@pytest.mark.parametrize(("options", "quiet"), [((), False), (("-q",), True)])
def test_a_quiet_server_prints_warnings_only(
    monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], quiet: bool
) -> None:
    """It printed its price, its start and each request."""
    pytest.importorskip("uvicorn")
    import httpx
    import uvicorn

    serve = uvicorn.Server.startup
    uvicorn.Config(lambda: None, log_level="critical")  # of another server in this process

    async def once(self: Any, sockets: Any = None) -> None:
        await serve(self, sockets)
        port = self.servers[0].sockets[0].getsockname()[1]
        async with httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE
        ) as client:
            assert (await client.get("/health")).status_code == 200
        logging.getLogger("uvicorn.error").warning("a warning")
        self.should_exit = True

    monkeypatch.setattr(uvicorn.Server, "startup", once)
    done = run("serve", "--mechanism", "report_noisy_max", "--model", "openai/m", "--budget", "4",
               "--port", "0", "--base-url", "http://127.0.0.1:9/v1", "--reply-after", "2",
               *options)  # fmt: skip
    said = [line.split(":")[0] for line in done.stderr.splitlines()]
    assert said.count("WARNING") == 1
    assert (said == ["WARNING"]) == quiet
    assert ("GET /health" in done.stdout) == bool(done.stdout) != quiet
    assert ("One answer of" in done.stderr) != quiet
    assert (
        "contention that concurrent requests see, power and memory are not" in done.stderr
    ) != quiet


def test_a_server_leaves_log_handlers_and_their_streams_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A library's handler closes its stream with itself, which may be that of the terminal."""

    class Closing(logging.StreamHandler[Any]):
        def close(self) -> None:
            self.stream.close()
            super().close()

    handler = Closing(io.StringIO())
    try:
        test_a_server_prints_where_it_listens(monkeypatch)
        assert not handler.stream.closed
    finally:
        handler.close()


def test_no_character_of_json_commands_a_terminal() -> None:
    text = json.dumps({"name": "a\u009bb\u202ec\ud800 ü\n"}, ensure_ascii=False, indent=1)
    assert escape(text).isprintable() or "\n" in escape(text)
    assert not {"\u009b", "\u202e", "\ud800"} & set(escape(text))
    assert json.loads(escape(text)) == json.loads(text)
