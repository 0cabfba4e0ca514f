"""leakbound sweep as a user meets it: real processes that count, stop, go on and report."""

from __future__ import annotations

import json
import re
import signal
import time
from pathlib import Path

import commands
import pytest

from leakbound.cli import main

pytestmark = pytest.mark.process

SYSTEM = """
import os, time

def answer(context, query):
    canary = query.split('"')[1]
    with open("calls.txt", "a") as file:
        file.write(canary + "\\n")
    while os.path.exists("hold") and os.path.exists("stopped/sweep.json"):
        time.sleep(0.01)
    return "yes" if any(e.input == canary for e in context) else "no"
"""
LEAKY = ("--system", "python:system.py:answer", "--data", "rows.jsonl", "--pairs", "14", "--grid",
         "shots=3,4,5,6", "--batch-pairs", "2", "--controls", "0",
         "--state-check", "0")  # fmt: skip


def cli(cwd: Path, *args: str) -> tuple[int, str, str]:
    done = commands.cli(*args, cwd=cwd)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def folder(tmp_path: Path, data_file: Path) -> Path:
    (tmp_path / "system.py").write_text(SYSTEM)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "code"),
    [(signal.SIGINT, 130), pytest.param(signal.SIGKILL, -9, marks=pytest.mark.slow)],
)
def test_a_stopped_sweep_keeps_its_points_and_goes_on_to_the_same_bytes(
    folder: Path, how: signal.Signals, code: int
) -> None:
    """The system holds the run within its second point, until the signal comes."""
    hold = folder / "hold"
    hold.touch()
    process = commands.launch("sweep", *LEAKY, "--out", "stopped", cwd=folder)
    while not (folder / "stopped" / "sweep.json").is_file() and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(how)
    _, errors = process.communicate()
    hold.unlink()
    assert process.returncode == code
    assert "Traceback" not in errors
    partly = json.loads((folder / "stopped" / "sweep.json").read_text())
    assert 1 <= len(partly["points"]) < 4
    assert {one["cause"] for one in partly["missing"]} == {"not_reached"}
    if code == 130:
        assert "the same command resumes" in errors
    assert cli(folder, "sweep", *LEAKY, "--out", "stopped")[0] == 1
    assert cli(folder, "sweep", *LEAKY, "--out", "whole")[0] == 1
    one, other = (folder / out / "sweep.json" for out in ("stopped", "whole"))
    assert one.read_bytes() == other.read_bytes()
    asked = len((folder / "calls.txt").read_text().split())
    assert 2 * 4 * 28 <= asked <= 2 * 4 * 28 + 4, "a stop repeats at most the batch in flight"


@pytest.mark.slow
@pytest.mark.torch
def test_a_grid_of_a_file_asks_once_and_reports(folder: Path) -> None:
    (folder / "sweep.yaml").write_text(
        "mechanism: report_noisy_max\npairs: 5\nshots: 4\nmechanism.partitions: 2\n"
        "simulations: 2000\n"
        "grid:\n  epsilon: [1, 2]\n  estimator: [e_process, unconditional]\n"
    )
    command = (
        "sweep",
        "--config",
        "sweep.yaml",
        "--grid",
        "epsilon=1,2,4",
        "--queries",
        "3",
        "--out",
        "found",
    )
    code, out, err = cli(folder, *command, "-v")
    assert code == 3, err
    calls = re.search(r"Model calls of this command: (\d+)\.", out)
    assert calls is not None
    shared = f"{calls[1]} model calls for all points; {6 * int(calls[1])} if points shared none."
    assert shared in out
    assert re.search(r"point \d of 6, \d+ calls: 5/5 pairs", err)
    record = json.loads((folder / "found" / "sweep.json").read_text())
    assert [point["changes"]["epsilon"] for point in record["points"]] == [1, 1, 2, 2, 4, 4]
    assert int(calls[1]) == record["points"][0]["model_calls"] + 3 * 2 + 3 * 2

    code, again, _ = cli(folder, *command, "-v")
    assert code == 3
    assert "Model calls of this command: 0." in again
    page = (folder / "found" / "sweep.html").read_text()
    code, out, _ = cli(
        folder, "report", "found", "--html", "paper/sweep.html", "--figures", "svg,csv"
    )
    assert code == 0
    assert (folder / "paper" / "sweep.html").read_text() == page
    made = {file.name for file in (folder / "paper" / "figures").iterdir()}
    assert made == {
        f"{name}.{form}" for name in ("bound", "utility", "frontier") for form in ("svg", "csv")
    }
    assert len((folder / "found" / "sweep.csv").read_text().splitlines()) == 7


@pytest.mark.slow
def test_points_that_cannot_be_run_are_refused_or_listed(folder: Path) -> None:
    grid = (
        "sweep",
        *LEAKY[:6],
        "--shots",
        "3",
        "--stop-when-rejected",
        "--grid",
        "estimator=e_process,unconditional",
        "--out",
        "some",
    )
    code, _, err = cli(folder, *grid)
    assert code == 2
    assert "1 of 2 points of the sweep cannot be run" in err
    assert "estimator=unconditional: stop_when_rejected needs an anytime-valid estimator" in err
    assert not (folder / "calls.txt").exists()
    code, out, _ = cli(folder, *grid, "--skip-invalid")
    assert code == 1
    assert out.startswith("✗ SWEEP   python:system.py:answer")
    assert "1 violation, 1 refused · " in out


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("sweep",), "needs something to change"),
        (("sweep", "--grid", "epsilom=1,2"), "Did you mean 'epsilon'"),
        (("sweep", "--grid", "epsilon"), "KEY=VALUE,VALUE"),
        (
            ("sweep", "--grid", "epsilon=1,x", "--system", "python:system.py:answer"),
            "it must be a number",
        ),
        (
            ("sweep", "--grid", "epsilon=1,2", "--figures", "gif"),
            "must be a list of svg, pdf, png, csv",
        ),
        (("report", "none", "--figures", "svg"), "are those of a sweep"),
    ],
)
def test_mistakes_end_in_a_sentence(
    folder: Path,
    args: tuple[str, ...],
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder)
    with pytest.raises(SystemExit) as ended:
        main(list(args))
    assert ended.value.code == 2
    assert sentence in capsys.readouterr().err


def test_points_whose_server_is_gone_are_reported_with_the_code_of_the_failure(
    folder: Path,
) -> None:
    gone = (
        "--model",
        "openai/gone",
        "--base-url",
        "http://127.0.0.1:9/v1",
        "--retries",
        "0",
        "--data",
        "rows.jsonl",
    )
    code, out, err = cli(
        folder,
        "sweep",
        *gone,
        "--pairs",
        "5",
        "--shots",
        "3",
        "--grid",
        "epsilon=1,2",
        "--out",
        "gone",
    )
    assert code == 4, err
    assert out.startswith("? SWEEP   ")
    assert "   points           2 failed · " in out
    assert "2 failed" in (folder / "gone" / "sweep.html").read_text()
    record = json.loads((folder / "gone" / "sweep.json").read_text())
    assert (record["points"], len(record["missing"])) == ([], 2)
