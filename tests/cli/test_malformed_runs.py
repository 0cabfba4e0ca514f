"""Records, run folders and addresses that were damaged or mistyped, and outputs with no place."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from malformed import PRIVATE, mistaken, written

from leakbound.cli.main import main

APP = f"""
def leaky(context, query):
    canary = query.split('"')[1]
    return "yes" if any(row.input == canary for row in context) else "no"

def number(context, query):
    return 5

def boom(context, query):
    raise ValueError("{PRIVATE}")

def takes_one(context):
    return "x"

class Bare:
    pass
"""
ROWS = "".join(
    json.dumps({"text": f"{PRIVATE} item {i}", "label": "ab"[i % 2]}) + "\n" for i in range(40)
)
FILES: dict[str, str | bytes] = {
    "app.py": APP,
    "rows.jsonl": ROWS,
    "raises.py": f"raise RuntimeError('{PRIVATE}')\n",
    "syntax.py": "def f(:\n",
    "empty.py": "",
    "list.yaml": "- a\n",
    "no-url.yaml": "method: POST\n",
    "no-answer.yaml": "url: http://127.0.0.1:9/x\n",
    "folder/kept": "",
    "no-weights/config.json": "{}",
    "no-config/weights": "",
    "ledger.sqlite": "hello",
    "tenants.toml": "[[",
}
AUDIT = ("audit", "--data", "rows.jsonl", "--shots", "4", "--pairs", "4", "--controls", "0")
SERVE = ("serve", "--data", "rows.jsonl", "--labels", "a,b", "--mechanism",
         "report_noisy_max:partitions=4", "--shots", "8", "--budget", "4")  # fmt: skip
OPENAI = ("plan", "--model", "openai/x")
FORM = "is not of the form python:file.py:object, python:package.module:object or http:file.yaml."
COMMANDS: list[tuple[tuple[str, ...], int, str]] = [
    *[((*AUDIT, "--system", name), 2, FORM)
      for name in ("python:", "python::", "python:app.py", "http:", "ftp:x", "")],
    ((*AUDIT, "--system", "python:app.py:no.such"), 2, "'app.py' has no callable 'no.such'"),
    ((*AUDIT, "--system", "python:no.such:thing"), 2, "there is no module 'no' in this folder"),
    ((*AUDIT, "--system", "python:empty.py:f"), 2, "it must define f(context, query) -> str."),
    ((*AUDIT, "--system", "python:app.py:leaky:x"), 2, "is neither a file nor a module; give"),
    ((*AUDIT, "--system", "python:rows.jsonl:x"), 4, "is no Python file; give a file that ends"),
    ((*AUDIT, "--system", "python:app.py:takes_one"), 4, "takes (context); it must take (context,"),
    ((*AUDIT, "--system", "python:app.py:Bare"), 4, "which cannot be called; it must be callable"),
    ((*AUDIT, "--system", "http:///x"), 2, "describe its requests in a YAML file"),
    ((*AUDIT, "--system", "https://127.0.0.1:99999/x"), 2, "describe its requests in a YAML file"),
    ((*AUDIT, "--system", "http:list.yaml"), 2, "must hold keys and values, such as 'url: http"),
    ((*AUDIT, "--system", "http:rows.jsonl"), 2, "'rows.jsonl' is not YAML: line 2: expected"),
    ((*AUDIT, "--system", "http:folder"), 2, "'folder' of the system is a folder; name a file."),
    ((*AUDIT, "--system", "http:no-url.yaml"), 2, "has no 'url', which every request needs"),
    ((*AUDIT, "--system", "http:no-answer.yaml"), 2, "has no 'answer', which every request needs"),
    ((*AUDIT, "--system", "python:app.py:leaky", "--mechanism", "few_shot", "--shard", "3/2"), 2,
     "--shard got '3/2'; it must be i/N with 1 <= i <= N, such as 1/4."),
    ((*AUDIT, "--system", "python:app.py:leaky", "--rate", "nan"), 2, "rate is nan; it must be a"),
    ((*AUDIT, "--system", "python:app.py:leaky", "--out", "x" * 300), 2, "more than the file syst"),
    (("plan", "--model", "hf/no-weights"), 4, "has no weights; it must hold *.safetensors beside"),
    (("plan", "--model", "hf/no-config"), 4, "has no config.json; give a folder saved with save"),
    (("plan", "--model", "hf/./nowhere"), 4, "the model './nowhere' does not exist; give a"),
    (("plan", "--model", "gpt-4"), 2, "must be one of pocket, pocket-half, pocket-vision, "),
    (("plan", "--embedder", "/nowhere"), 4, "the folder '/nowhere' of the embedding model does no"),
    *[((*OPENAI, "--base-url", url), 2, "is not a web address; it must be like http://127.0.0.1")
      for url in ("http://", "127.0.0.1:8000", "http://127.0.0.1:99999/v1", "http://127.0.0.1:x/v1",
                  "ftp://host/v1", "https://[::1/v1", "https://my host/v1")],
    *[((*OPENAI, "--base-url", url), 2, "--base-url is empty; name the address of your server")
      for url in ("", ",")],
    ((*OPENAI, "--base-url", "https://user:pw@host/v1"), 2, "holds a user, a password, a query"),
    ((*OPENAI, "--key-env", f"sk-{PRIVATE}"), 2, "it may be the key itself); put the key into a v"),
    ((*OPENAI, "--max-cost", "$5"), 2, "'$5' is not a number."),
    ((*OPENAI, "--timeout", "nan"), 2, "timeout is nan; it must be a finite number above 0."),
    ((*OPENAI, "--price", "folder"), 2, "'folder' cannot be read; --price takes a JSON file."),
    ((*SERVE, "--port", "65536"), 2, "65536 is not in the range 0<=x<=65535."),
    ((*SERVE, "--host", ""), 2, "--host '' lets other machines in, and no token is set"),
    ((*SERVE, "--request-timeout", "nan"), 2, "nan is not in the range 0.1<=x<=3600."),
    ((*SERVE, "--tenants", "tenants.toml"), 2, "only its owner may read it. Run: chmod 600"),
    (("ledger", "show", "--ledger", "ledger.sqlite"), 2, "cannot be read or written (file is not"),
    (("ledger", "check", "--ledger", "nowhere.sqlite"), 2, "there is no ledger at 'nowhere.sql"),
    (("influence", "--text", "a b. c", "--by", "line", "--max-share", "nan"), 2,
     "nan is not in the range 0<=x<=1."),
    (("influence", "--text", "a", "--model", "pocket,nope"), 2, "the model address 'nope' is not"),
    (("influence", "--text", "a", "--memory", "4XB"), 2, "it must be a size such as 4GB or 512MB."),
    (("init", "rows.jsonl", "http://127.0.0.1:9/x"), 4, "could not be asked (no connection); st"),
    (("init", "rows.jsonl", "--save", "rows.jsonl"), 2, "exists; add --force, or name another fi"),
    (("init", "rows.jsonl", "app.py:lacking"), 2, "app.py"),
    (("init", "rows.jsonl", "app.py"), 2, "name the object in it that answers, as python:app.py:"),
    (("list", "mechanism"), 2, "Did you mean 'mechanisms'?"),
    (("reproduce", "contextleak/fig99"), 2, "Did you mean 'contextleak/fig9'?"),
    (("audits",), 2, "Did you mean 'audit'?"),
    (("",), 2, "the command '' is not known; it must be one of answer, audit,"),
    (("gate", "run", "--max-epsilon", "0,5"), 2, "Did you mean 0.5?"),
    (("gate", "run", "--max-epsilon", "nan"), 2, "max_epsilon is nan; it must be a number of at l"),
    (("gate", "run", "--max-epsilon", "1", "--junit", "a", "--sarif", "a"), 2,
     "--junit and --sarif both name 'a'; name two files."),
    (("verify", "run", "--anchor", "3f"), 2, "it must be at least 16 hexadecimal digits"),
    (("compare", "run"), 2, "compare got 1 run; give two or more, or use report for one."),
    (("export", "in-toto", "run", "--subject", "x@md5:00"), 2, "NAME@sha256: with 64 hexadecimal"),
    (("export", "opendp", "run", "--published", "2024-13-01", "--curator", "x"), 2, "YYYY-MM-DD"),
    (("bounds", "run", "--design", "one_run"), 2, "and trials of an audit are paired; leave it"),
    (("bounds", "run", "run"), 2, "'run' is given for members and for non-members"),
    (("bounds", "run", "rows.jsonl"), 2, "1 run and 1 other files are given; give the folder of"),
    (("merge", "folder", "--out", "merged"), 2, "is not a run folder of this version; give the"),
    *[((verb, "nowhere", *more), 2, "'nowhere' does not exist; give the folder of a finished run")
      for verb, more in (("report", ()), ("gate", ("--max-epsilon", "1")))],
]  # fmt: skip
Edit = Callable[[dict[str, Any]], object]
RECORDS: list[tuple[str, str | bytes | Edit, str]] = [
    ("empty", "", "is damaged, or not a record (it is empty)"),
    ("number", "5", "it has no schema_version. Restore it from a copy"),
    ("object", "{}", "it has no schema_version. Restore it from a copy"),
    ("mark", "\ufeff{}", "not a record (it begins with a byte order mark)"),
    ("joined", "{}{}", "not a record (no JSON at line 1: extra data)"),
    ("newer", lambda r: r.update(schema_version=99), "was written by a newer version of leakbound"),
    ("text", lambda r: r.update(schema_version="2"), "its schema_version is '2'."),
    ("claim", lambda r: r.pop("claim"), "it lacks 'claim'. Restore it from a copy"),
    ("verdict", lambda r: r.update(verdict="fine"), "verdict must be 'violation', 'no_violation'"),
    ("trials", lambda r: r.update(trials=5), "trials must be a list."),
    ("counts", lambda r: r.update(counts=None), "counts must be an object."),
    ("nan", lambda r: r["claim"].update(epsilon=float("nan")), "claim: epsilon is nan; it must be"),
]
STORES: list[tuple[str, Callable[[Path], object], str]] = [
    ("gone", lambda run: (run / "trials.sqlite").unlink(), "holds no trials.sqlite; give the fold"),
    ("junk", lambda run: (run / "trials.sqlite").write_bytes(b"x" * 999), "(file is not a databas"),
    ("half", lambda run: os.truncate(run / "trials.sqlite", 9000), "(database disk image is malfo"),
    ("emptied", lambda run: os.truncate(run / "trials.sqlite", 0), "pair 0 is missing. Restore"),
    (
        "bare",
        lambda run: (run / "manifest.json").unlink(),
        "manifest.json' is not what the audit wrote",
    ),
    ("broken", lambda run: (run / "manifest.json").write_text("{"), "manifest.json' is damaged: i"),
    ("keyless", lambda run: (run / "key").unlink(), "is not what was stored"),
]


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files with one thing wrong each, and a finished run."""
    folder = written(tmp_path_factory.mktemp("desk"), FILES)
    here = Path.cwd()
    os.chdir(folder)
    with pytest.raises(SystemExit):
        main([*AUDIT, "--system", "python:app.py:leaky", "--out", "runs", "-q"])
    os.chdir(here)
    shutil.move(next((folder / "runs").iterdir()), folder / "run")
    (folder / "runs").rmdir()
    for name, content, _ in RECORDS:
        record = json.loads((folder / "run" / "record.json").read_text())
        if callable(content):
            content(record)
        text = json.dumps(record) if callable(content) else content
        written(folder, {f"record-{name}/record.json": text})
    for name, damage, _ in STORES:
        damage(Path(shutil.copytree(folder / "run", folder / f"store-{name}")))
    return folder


@pytest.fixture(autouse=True)
def at_the_desk(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(desk)
    monkeypatch.setenv("OPENAI_API_KEY", "none")


@pytest.mark.parametrize(
    ("args", "code", "sentence"), COMMANDS, ids=[" ".join(args)[-40:] for args, _, _ in COMMANDS]
)
def test_commands(
    capsys: pytest.CaptureFixture[str], args: tuple[str, ...], code: int, sentence: str
) -> None:
    mistaken(capsys, args, code, sentence)


@pytest.mark.parametrize(("name", "content", "said"), RECORDS, ids=[one[0] for one in RECORDS])
def test_damaged_records(
    capsys: pytest.CaptureFixture[str], name: str, content: object, said: str
) -> None:
    for args in (("report",), ("gate", "--max-epsilon", "1"), ("export", "cyclonedx")):
        mistaken(capsys, (*args, f"record-{name}"), 2, said)


@pytest.mark.parametrize(("name", "damage", "said"), STORES, ids=[one[0] for one in STORES])
def test_damaged_run_folders(
    capsys: pytest.CaptureFixture[str], name: str, damage: object, said: str
) -> None:
    shown = mistaken(capsys, ("bounds", f"store-{name}", "--claim", "random-guessing"), 2, said)
    assert "disk space" not in shown
    if name not in ("gone", "emptied", "bare"):
        mistaken(capsys, ("merge", f"store-{name}", "--out", "merged"), 2, f"store-{name}")


@pytest.mark.parametrize("name", ["number", "boom"])
def test_a_system_that_fails_shows_no_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    with pytest.raises(SystemExit) as end:
        main([*AUDIT, "--system", f"python:app.py:{name}", "--out", str(tmp_path)])
    said = capsys.readouterr()
    assert end.value.code == 4
    assert PRIVATE not in said.out + said.err
    assert {"number": "returned int; it must return", "boom": "call it by itself to see why"}[
        name
    ] in said.err


def test_a_result_is_written_to_a_pipe_and_never_in_its_place(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(SystemExit):
        main(["gate", "run", "--max-epsilon", "1", "--junit", str(pipe)])
    assert pipe.is_fifo()
    assert b"<testsuite" in os.read(reader, 100_000)
    os.close(reader)


def test_a_record_by_its_file_is_its_run(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["bounds", "run/record.json", "--claim", "random-guessing", "--threshold", "0.5"])
    assert end.value.code in (1, 3), capsys.readouterr().err
