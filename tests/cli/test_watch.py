"""One test over the audits of a year: its size, its power, and the file that remembers it."""

from __future__ import annotations

import json
import math
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from commands import cli, launch
from hypothesis import given
from hypothesis import strategies as st
from leakbound_hosts.watch import NOTHING, YEAR, WatchEntry, WatchState, next_entry, standing
from limits import PATIENCE

from leakbound.errors import DataError, StoreError
from leakbound.privacy import ApproxDP
from leakbound.stats import EProcess
from leakbound.systems.journal import PathLock

pytestmark = pytest.mark.process

APP = """
import os, random, time
def answer(rows, query):
    if os.path.exists("down"):
        raise ConnectionError("down")
    if os.path.exists("slow"):
        time.sleep(0.05)
    words = set(query.lower().split())
    if os.path.exists("leak") and rows:
        return max(rows, key=lambda row: len(words & set(row.input.lower().split()))).input
    return random.choice(["Thank you.", "Please call us.", "We will look into it."])
"""
FIRST = datetime(2026, 1, 1, tzinfo=UTC)
TOLD = {"verdict": "no_violation", "reason": None, "epsilon": 0.0, "facts": {}, "run": "r"}


def entries_of(logs: list[float], days: list[float], runs: int = 365) -> list[WatchEntry]:
    found: list[WatchEntry] = []
    for log_e, day in zip(logs, days, strict=True):
        now = FIRST + timedelta(days=day)
        found.append(next_entry(found, log_e, "claim", now, runs, 0.05, **TOLD))
    return found


@given(
    st.lists(st.tuples(st.floats(-5, 5), st.integers(0, 200)), min_size=1, max_size=12),
    st.integers(1, 6),
)
def test_the_standing_test_is_the_mean_of_tests_that_start_with_each_run(
    made: list[tuple[float, int]], runs: int
) -> None:
    days = sorted(day for _, day in made)
    logs = [log_e for log_e, _ in made]
    found = entries_of(logs, [*map(float, days)], runs)
    slow = math.fsum(
        one.weight * math.exp(math.fsum(logs[start:])) for start, one in enumerate(found)
    )
    assert math.isclose(math.exp(found[-1].log_standing), slow, rel_tol=1e-9, abs_tol=1e-300)
    assert math.fsum(one.weight for one in found) <= 1 + 1e-12


def test_a_year_and_another_claim_begin_anew() -> None:
    found = entries_of([3.0, 3.0], [0.0, 364.0])
    later = next_entry(found, 1.0, "claim", FIRST + YEAR, 365, 0.05, **TOLD)
    other = next_entry(found, 1.0, "another", FIRST + timedelta(days=364), 365, 0.05, **TOLD)
    alone = math.log(1 / 365) + 1.0
    assert math.isclose(later.log_standing, alone)
    assert math.isclose(other.log_standing, alone)
    assert later.year == (FIRST + YEAR).isoformat()
    assert standing(NOTHING, 0.0, 5.0) == NOTHING


def e_values(hit: float, alarm: float, days: int, pairs: int, seed: int) -> np.ndarray:
    """Logarithms of the e-values of days that the e-process of an audit gives, at claim 1."""
    rng, found = np.random.default_rng(seed), np.empty(days)
    for day in range(days):
        process = EProcess(ApproxDP(1.0, 1e-5), confidence=0.95)
        inside, outside = rng.random(pairs) < hit, rng.random(pairs) < alarm
        process.extend(inside[:, None].astype(float), outside[:, None].astype(float))
        found[day] = process.log_e_values[-1]
    return found


def years(logs: np.ndarray, number: int, seed: int, runs: int = 365) -> np.ndarray:
    """The run at which each year has its alarm; 0 for none."""
    rng, first = np.random.default_rng(seed), np.zeros(number, int)
    state = np.full(number, NOTHING)
    for run in range(1, runs + 1):
        state = np.logaddexp(state, -math.log(runs)) + rng.choice(logs, number)
        first[(first == 0) & (state >= math.log(20))] = run
    return first


@pytest.mark.slow
def test_a_year_of_daily_runs_has_at_most_one_false_alarm_in_twenty() -> None:
    """Randomised response at exactly the claim, whose e-values are as large as they may be."""
    share = math.e / (1 + math.e)
    logs = e_values(share, 1 - share, 3_000, 20, seed=1)
    alarmed = float(np.mean(years(logs, 10_000, seed=2) > 0))
    assert alarmed <= 0.05 + 5 * math.sqrt(0.05 * 0.95 / 10_000)


@pytest.mark.slow
def test_a_leak_is_found_whenever_it_begins() -> None:
    """After 200 days within the claim, 95 % of systems that show nine copies of ten."""
    share = math.e / (1 + math.e)
    calm, leak = e_values(share, 1 - share, 1_000, 20, 3), e_values(0.9, 0.05, 1_000, 20, 4)
    rng, state = np.random.default_rng(5), np.full(2_000, NOTHING)
    for _ in range(200):
        state = np.logaddexp(state, -math.log(365)) + rng.choice(calm, 2_000)
    found = np.zeros(2_000, int)
    for run in range(1, 60):
        state = np.logaddexp(state, -math.log(365)) + rng.choice(leak, 2_000)
        found[(found == 0) & (state >= math.log(20))] = run
    assert np.all(found > 0)
    assert float(np.mean(found <= 5)) >= 0.95


def test_an_edited_state_is_refused_and_a_torn_line_is_no_run(tmp_path: Path) -> None:
    file = tmp_path / "watch.jsonl"
    state = WatchState(file)
    with pytest.raises(DataError, match="no run to accept"):
        state.acknowledge()
    for entry in entries_of([4.0, 9.0], [0.0, 1.0]):
        state.add(entry)
    assert [one.alarm for one in state.entries] == [False, True]
    again = WatchState(file)
    assert again.entries == state.entries
    again.acknowledge()
    assert not WatchState(file).entries[-1].alarm
    assert WatchState(file).accepted == state.entries[-1]
    with file.open("a") as torn:
        torn.write('{"number": 3, "at"')
    kept = WatchState(file)
    kept.add(next_entry(kept.entries, 0.5, "claim", FIRST + timedelta(2), 365, 0.05, **TOLD))
    assert len(WatchState(file).entries) == 3
    whole = file.read_text().splitlines(keepends=True)
    for spoiled in (
        [whole[0].replace('"log_e": 4.0', '"log_e": 0.1'), *whole[1:]],
        whole[1:],
        [whole[1], whole[0], *whole[2:]],
        [*whole, whole[-1]],
        ["[]\n"],
    ):
        file.write_text("".join(spoiled))
        with pytest.raises(StoreError, match="is not as a run wrote it"):
            WatchState(file)


def _is_locked(file: Path) -> bool:
    try:
        PathLock(file, "")
    except StoreError:
        return True
    return False


@pytest.mark.slow
def test_a_watch_from_one_release_to_the_next(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    rows = [{"text": f"ticket {i} about the printer on floor {i % 7} and code {i * 37}"}
            for i in range(120)]  # fmt: skip
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "audit.yaml").write_text(
        "system: {address: 'python:app.py:answer'}\nattack: {query: recall, canary: coded}\n"
        "design: {data: rows.jsonl, pairs: 10, controls: 4, shots: 6}\ndecision: {epsilon: 1}\n"
    )
    file, watch = tmp_path / "watch.jsonl", ("watch", "audit.yaml", "--prometheus", "w.prom")

    def run(*more: str) -> tuple[int, str, int]:
        done = cli(*watch, *more, cwd=tmp_path)
        lines = file.read_text().splitlines() if file.exists() else []
        return done.returncode, done.stdout + done.stderr, len(lines)

    code, said, kept = run()
    assert (code, kept) == (0, 1), said
    (tmp_path / "down").touch()
    assert run()[::2] == (4, 1)
    (tmp_path / "down").unlink()
    (tmp_path / "slow").touch()
    cut, end = launch(*watch, cwd=tmp_path), time.monotonic() + PATIENCE
    while not _is_locked(file):
        assert time.monotonic() < end
        time.sleep(0.05)
    assert "another watch" in run()[1]
    cut.kill()
    cut.communicate()
    (tmp_path / "slow").unlink()
    code, said, kept = run()
    assert (code, kept) == (0, 2), said
    assert len([*(tmp_path / "runs").iterdir()]) == 2  # the killed one was gone on with
    (tmp_path / "leak").touch()
    code, said, kept = run()
    assert (code, kept) == (1, 3), said
    assert "ALARM" in said
    assert "leakbound_alarm 1" in (tmp_path / "w.prom").read_text()
    (tmp_path / "leak").unlink()
    assert run()[::2] == (1, 4)  # an alarm stays
    assert run("--accept")[::2] == (0, 5)
    assert run()[::2] == (0, 6)
    file.write_text(file.read_text().replace('"alarm": true', '"alarm": false', 1))
    code, said, _ = run()
    assert (code, "line 3" in said) == (2, True), said
