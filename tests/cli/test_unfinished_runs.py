"""A run that was interrupted is unfinished; one whose result was removed was edited."""

from __future__ import annotations

import json
import shutil
import signal
import sqlite3
from pathlib import Path

import pytest
from commands import cli

pytestmark = pytest.mark.process

SYSTEM = """
import os, signal
from hashlib import sha256

left = int(os.environ.get("LAST", 10_000))

def leaky(context, query):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    canary = query.split('"')[1]
    return "yes" if any(row.input == canary for row in context) else "no"

def sound(context, query):
    leaky(context, query)  # and then randomised response with epsilon log 2
    text = query.split('"')[1]
    copies = sum(row.input == text for row in context)
    right = int(sha256(text.encode()).hexdigest(), 16) % 3 > 0
    return "yes" if copies > 2 or (copies > 0) == right else "no"

def gone(context, query):
    global left
    left -= 1
    if left < 9_960:
        raise ConnectionError("refused")
    return "no"
"""


def audit(folder: Path, out: str, *args: str, **environment: str) -> int:
    plain = ("--pairs", "24", "--batch-pairs", "2", "--out", out)
    return cli("audit", *plain, *args, cwd=folder, **environment).returncode


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of four runs: one was killed, and the target of another was gone after 40 calls."""
    desk = tmp_path_factory.mktemp("mixed")
    (desk / "app.py").write_text(SYSTEM)
    for name in ("sound", "leaky"):
        asked = ("--system", f"python:app.py:{name}", "--controls", "40")
        assert audit(desk, "runs", *asked) == (name == "leaky")
    killed = ("--system", "python:app.py:leaky", "--seed", "7")
    assert audit(desk, "runs", *killed, LAST="40") == -signal.SIGKILL
    assert audit(desk, "runs", "--system", "python:app.py:gone") == 4
    return desk / "runs"


def unfinished(runs: Path) -> list[str]:
    return sorted(p.name for p in runs.iterdir() if p.is_dir() and not (p / "record.json").exists())


@pytest.mark.slow
def test_a_folder_with_unfinished_runs_is_read(runs: Path) -> None:
    """Each command names them and goes on; a violation stays one."""
    names = unfinished(runs)
    assert len(names) == 2
    for command, code, word in (
        (("verify", "runs"), 0, "AS WRITTEN: "),
        (("report", "runs"), 0, "Report: "),
        (("compare", "-v", "runs"), 0, "differs in"),
        (("gate", "-v", "runs", "--max-epsilon", "1"), 1, "PASSED: "),
    ):
        done = cli(*command, cwd=runs.parent)
        assert done.returncode == code, (command, done.stdout, done.stderr)
        assert f"2 of 4 unfinished: {', '.join(names)}" in done.stderr
        assert word in done.stdout
        assert "edited" not in done.stdout + done.stderr
        assert "NOT AS WRITTEN" not in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("at", [0, 1])
def test_an_unfinished_run_that_is_named_decides_nothing(runs: Path, at: int) -> None:
    name, (one, *_) = (
        unfinished(runs)[at],
        sorted({p.parent.name for p in runs.glob("*/record.json")}),
    )
    for command in (("verify",), ("report",), ("gate", "--max-epsilon", "1"), ("compare", one)):
        done = cli(*command, name, cwd=runs)
        assert done.returncode == 3, (command, done.stdout, done.stderr)
        assert "unfinished: " in done.stderr
    shown = json.loads(cli("verify", name, "--json", cwd=runs).stdout)
    assert not shown["runs"][0]["verification"]["finished"]
    assert shown["runs"][0]["verification"]["problems"] == []


@pytest.mark.parametrize("size", [0, 4096], ids=["empty", "no_tables"])
def test_a_run_that_was_stopped_before_its_first_trial_is_unfinished(
    runs: Path, tmp_path: Path, size: int
) -> None:
    """Its store is a file without tables, as SQLite begins one; it was called edited."""
    mixed = shutil.copytree(runs, tmp_path / "runs")
    (name,) = [one for one in unfinished(mixed) if "gone" in one]
    for file in mixed.joinpath(name).iterdir():
        if file.name != "manifest.json":
            file.unlink()
    with sqlite3.connect(mixed / name / "trials.sqlite") as db:
        if size:  # what is left of a table that was taken away again
            db.execute("CREATE TABLE t (x)")
            db.execute("DROP TABLE t")
    db.close()
    assert (mixed / name / "trials.sqlite").stat().st_size >= size
    done = cli("verify", "runs", cwd=tmp_path)
    assert (done.returncode, "NOT AS WRITTEN" in done.stdout) == (0, False)
    alone = cli("verify", name, cwd=mixed)
    assert (alone.returncode, alone.stdout.splitlines()[0]) == (3, f"UNFINISHED: {name}")


@pytest.mark.slow
def test_a_finished_run_whose_record_was_removed_was_edited(runs: Path, tmp_path: Path) -> None:
    """Without its trials too: its key says that they were there."""
    mixed = shutil.copytree(runs, tmp_path / "runs")
    (record,) = [p for p in mixed.glob("*/record.json") if "sound" in p.parent.name]
    record.unlink()
    done = cli("verify", "runs", cwd=tmp_path)
    assert done.returncode == 1, done.stdout
    assert f"NOT AS WRITTEN: {record.parent.name}\n  record.json is missing" in done.stdout
    assert done.stdout.count("NOT AS WRITTEN") == 1
    why = f"{record.parent.name}' was finished, and its record.json was removed"
    done = cli("gate", "-v", "--max-epsilon", "1", "runs", cwd=tmp_path)
    assert (done.returncode, why in done.stdout) == (1, True)  # a violation of another run stays
    assert "VIOLATION: " in done.stdout
    done = cli("report", "runs", cwd=tmp_path)
    assert (done.returncode, why in done.stderr, "Report: " in done.stdout) == (2, True, True)
    done = cli("compare", "runs", cwd=tmp_path)  # one is left
    assert (done.returncode, why in done.stderr, done.stdout) == (2, True, "")
    for trials in record.parent.glob("trials.sqlite*"):
        trials.unlink()
    done = cli("verify", "runs", cwd=tmp_path)  # it stopped at such a run
    assert (done.returncode, done.stdout.count("NOT AS WRITTEN")) == (1, 1)
    assert "nothing to verify" in done.stdout
    assert done.stdout.count("\nAS WRITTEN") + done.stdout.startswith("AS WRITTEN") >= 1
    said = cli("gate", "--max-epsilon", "1", "runs", cwd=tmp_path).stderr
    assert "nothing tells whether its audit was finished" in said
    assert "was finished, and" not in said


def test_no_result_of_a_folder_is_passed_over(runs: Path, tmp_path: Path) -> None:
    """A violation stays one without its trials, and a record of something else is named."""
    mixed = shutil.copytree(runs, tmp_path / "runs")
    (record,) = [p for p in mixed.glob("*/record.json") if "leaky" in p.parent.name]
    for other in record.parent.iterdir():
        if other != record:
            other.unlink()
    sound = [p for p in mixed.iterdir() if "sound" in p.name or p == record.parent]
    for unwanted in set(mixed.iterdir()) - set(sound):
        shutil.rmtree(unwanted) if unwanted.is_dir() else unwanted.unlink()
    done = cli("gate", "-v", "runs", "--max-epsilon", "1", cwd=tmp_path)
    assert done.returncode == 1, (done.stdout, done.stderr)
    assert "GATE (1 violation, 1 passed)" in done.stdout
    record.write_text("{}")
    done = cli("gate", "-v", "runs", "--max-epsilon", "1", cwd=tmp_path)
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert record.parent.name in done.stderr
    assert "GATE (1 inconclusive, 1 passed)" in done.stdout
    (record.parent / "trials.sqlite").write_text("no database")
    record.unlink()
    for command, code in (("verify",), 1), (("report",), 2), (("gate", "--max-epsilon", "1"), 2):
        done = cli(*command, "runs", cwd=tmp_path)
        assert (done.returncode, "file is not a database" in done.stdout + done.stderr) == (
            code,
            True,
        )


def test_an_edit_in_an_unfinished_run_is_found(runs: Path, tmp_path: Path) -> None:
    """What it has stored is verified; the same command then refuses it as well."""
    (name,) = [one for one in unfinished(runs) if "leaky" in one]
    run = shutil.copytree(runs / name, tmp_path / name)
    manifest = run / "manifest.json"
    manifest.write_text(manifest.read_text() + "\n")
    done = cli("verify", name, cwd=tmp_path)
    assert (done.returncode, done.stdout.splitlines()[0]) == (1, f"NOT AS WRITTEN: {name}")


@pytest.mark.slow
def test_a_killed_run_is_finished_by_the_same_command(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs.parent, tmp_path / "desk")
    desk = tmp_path / "desk"
    assert audit(desk, "runs", "--system", "python:app.py:leaky", "--seed", "7") == 1
    done = cli("verify", "runs", cwd=desk)
    assert done.returncode == 0, done.stdout
    assert "1 of 4 unfinished: " in done.stderr
