"""What a command ends with: a crash is no verdict, and SIGTERM interrupts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from leakbound.cli.main import group, main

HANGS = """
import pathlib, time
def answer(context, query):
    pathlib.Path("asked").touch()
    time.sleep(600)
"""


@pytest.mark.slow
@pytest.mark.process
def test_a_crash_ends_with_70_and_shows_no_message(tmp_path: Path) -> None:
    code = (
        "import leakbound.cli.verbs.start.list as listing\n"
        "from leakbound.cli import main\n"
        "listing.CATALOGUES = None\n"
        "main(['list'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 70
    assert "internal error: TypeError in list.py" in done.stderr
    assert "not a verdict" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.process
def test_a_crash_shows_its_traceback_where_that_is_asked_for(tmp_path: Path) -> None:
    code = (
        "import leakbound.cli.verbs.start.list as listing\n"
        "from leakbound.cli import main\n"
        "listing.CATALOGUES = None\n"
        "main(['list'])\n"
    )
    environment = {**os.environ, "LEAKBOUND_DEBUG": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 70
    assert "Traceback" in done.stderr


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize(
    "does",
    ["sys.stderr.close()", "sys.stdout.close()", "sys.stdout = open(os.devnull, 'w')",
     "os.chdir(os.sep)"],
)  # fmt: skip
def test_what_a_file_does_to_the_process_hides_no_verdict(tmp_path: Path, does: str) -> None:
    """It ended with 1, as a violation does, or with 70, or said nothing."""
    (tmp_path / "app.py").write_text(
        f"import os, sys\n{does}\ndef answer(context, query): return 'Hello.'\n"
    )
    rows = "\n".join(["text,label", *(f"a note of row {n},{'ab'[n % 2]}" for n in range(60))])
    (tmp_path / "rows.csv").write_text(rows)
    command = [sys.executable, "-m", "leakbound", "audit", "rows.csv", "app.py:answer"]
    done = subprocess.run(
        [*command, "--pairs", "10", "--out", "runs"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 3, done.stderr
    assert done.stdout.startswith("? INCONCLUSIVE")
    assert "unreadable answers: " in done.stdout
    assert (tmp_path / "runs").is_dir()


@pytest.mark.slow
@pytest.mark.process
def test_sigterm_ends_an_audit_with_130(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(HANGS, encoding="utf-8")
    command = [sys.executable, "-m", "leakbound", "audit", "--system", "python:slow.py:answer"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        while not (tmp_path / "asked").exists() and process.poll() is None:
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate()
    assert process.returncode == 130
    assert "the same command resumes" in errors


def test_what_is_no_exception_is_a_crash_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Odd(BaseException):
        pass

    def ends(*args: object, **options: object) -> None:
        raise Odd("row 7: kite")

    monkeypatch.setattr(group, "main", ends)
    with pytest.raises(SystemExit) as code:
        main(["list"])
    assert code.value.code == 70
    shown = capsys.readouterr().err
    assert "internal error: Odd in test_exit_codes.py" in shown
    assert "kite" not in shown


@pytest.mark.slow
@pytest.mark.process
def test_output_that_nobody_reads_is_no_verdict_either() -> None:
    """`leakbound audit | head -1` under pipefail; click makes an exit with 1 of it."""
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "leakbound", "list", "queries"]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")
