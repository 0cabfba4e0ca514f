"""Paths that cannot be meant: empty ones, devices, names that are too long, files in the way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from in_process import run

import leakbound
from leakbound.attribution import load_influence
from leakbound.auditing.shards import merge
from leakbound.errors import StoreError, UsageError, findable
from leakbound.serving.ledger import Ledger
from leakbound.sweeping import has_shards, load_sweep, merge_sweeps

LONG = "x" * 5000
DEVICE = Path("/dev/null")
ANSWER = "def answer(context, query): return 'no'\n"


@pytest.fixture(autouse=True)
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("app.py").write_text(ANSWER)


@pytest.mark.parametrize(
    "words",
    [
        ("audit", "--out", ""),
        ("sweep", "--out="),
        ("report", ""),
        ("gate", "runs", "", "--max-epsilon", "1"),
        ("export", "config", ""),
        ("influence", "--context", "note.txt", "--context", ""),
    ],
    ids=" ".join,
)
def test_an_empty_path_is_not_this_folder(words: tuple[str, ...]) -> None:
    error = run(*words).exception
    assert "it is empty; name a file or folder" in str(error)
    assert error is not None
    assert error.exit_code == 2  # type: ignore[attr-defined]
    assert sorted(Path().iterdir()) == [Path("app.py")]


def test_the_python_interface_refuses_an_empty_folder_too() -> None:
    rows = [(f"row {n}", "ab"[n % 2]) for n in range(40)]
    with pytest.raises(UsageError, match="out is empty; it must be"):
        leakbound.audit(rows, system=lambda context, query: "no", pairs=4, out="")


def test_a_merge_of_a_device_is_refused() -> None:
    """It ended as an internal error."""
    error = run("merge", str(DEVICE), "--out", "whole").exception
    assert isinstance(error, StoreError)
    assert "'/dev/null' is not a folder; give the folders that `audit --shard` wrote" in str(error)
    with pytest.raises(StoreError, match="is not a folder"):
        merge([DEVICE], Path("whole"))
    assert not has_shards(DEVICE)
    with pytest.raises(StoreError, match="holds no shard of a sweep"):
        merge_sweeps([DEVICE], Path("whole"))


LOADS: dict[str, Callable[[str], object]] = {
    "load_result": leakbound.load_result,
    "a file in a folder": lambda path: leakbound.load_result(f"{path}/record.json"),
    "load_sweep": load_sweep,
    "load_influence": load_influence,
    "verify": leakbound.verify,
    "compare": lambda path: leakbound.compare([path, path]),
    "gate": leakbound.gate,
    "a ledger": lambda path: Ledger(path, 1.0, 1e-5),
    "a model": leakbound.open_model,
    "a system": lambda path: leakbound.plan(system=f"python:{path}.py:answer"),
    "a service": lambda path: leakbound.plan(system=f"http:{path}.yaml"),
    "a run folder": lambda path: leakbound.audit(
        [(f"row {n}", "ab"[n % 2]) for n in range(40)], out=path, pairs=4,
        system=lambda context, query: "no",
    ),
}  # fmt: skip


@pytest.mark.parametrize("load", LOADS.values(), ids=LOADS)
def test_a_path_that_is_too_long_has_a_sentence(load: Callable[[str], object]) -> None:
    with pytest.raises(UsageError, match=r"more than the file system allows; name a shorter one"):
        load(LONG)


def test_a_path_that_can_be_looked_for_is_returned_as_it_is() -> None:
    assert findable("nowhere/at/all") == Path("nowhere/at/all")
    assert findable("app.py/below/a/file") == Path("app.py/below/a/file")
    with pytest.raises(UsageError, match="holds a null character"):
        findable("a\0b")


def test_tuning_overwrites_no_attack_file_that_is_there() -> None:
    words = ("tune", "--system", "python:app.py:answer", "--pilot-pairs", "3", "--max-calls",
             "40", "--reflection-model", "none", "-q")  # fmt: skip
    Path("attack.yaml").write_text("mine")
    assert "'attack.yaml' exists; add --force, or name another" in str(run(*words).exception)
    assert not Path("runs").exists()
    assert Path("attack.yaml").read_text() == "mine"
    assert run(*words, "--force").return_value == 0
    assert "query" in Path("attack.yaml").read_text()
