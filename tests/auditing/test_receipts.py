"""Commitments, and runs that are verified: every edit that does not rebuild the digests is named,
and the others show where an anchor was kept elsewhere.
"""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from conftest import said
from in_process import run

from leakbound.auditing import load_result, make_spec, prepare, run_audit
from leakbound.auditing.prepare.prepared import Prepared
from leakbound.auditing.receipts import verify_run
from leakbound.auditing.store import chain
from leakbound.auditing.store.commitments import COMMITMENT, Commitment, load_commitment
from leakbound.auditing.store.commitments import commit as commit_to
from leakbound.auditing.store.folder import key_hash
from leakbound.errors import StoreError, UsageError
from leakbound.models import Scripted
from leakbound.tasks import Context

SPEC = {"pairs": 12, "batch_pairs": 4, "simulations": 50, "controls": 4, "threshold": 0.5}
SYSTEM = Path(__file__).parents[2] / "examples" / "user_system.py"
Edit = Callable[[Path, random.Random], str]


def ready(rows: Context, **values: Any) -> Prepared:
    model = Scripted(complete=said, name="leaky")
    return prepare(make_spec({**SPEC, **values}), model, rows=rows)


def commit(prepared: Prepared, out: Path) -> Commitment:
    return commit_to(prepared.folder(out), prepared.manifest)


@pytest.fixture(scope="module")
def done(rows: Context, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was committed to, beside an earlier commitment for the same system."""
    out = tmp_path_factory.mktemp("runs")
    commit(ready(rows, epsilon=2), out)
    prepared = ready(rows)
    commit(prepared, out)
    return run_audit(prepared, out)[1]


# --- edits that do not rebuild what they change, each with what has to be named


def sql(folder: Path, script: str, *values: object) -> None:
    with closing(sqlite3.connect(folder / "trials.sqlite")) as db, db:
        db.execute("PRAGMA synchronous=OFF")
        db.execute(script, values)


def drawn(folder: Path, query: str, rng: random.Random) -> tuple[Any, ...]:
    with closing(sqlite3.connect(folder / "trials.sqlite")) as db:
        return tuple(rng.choice(db.execute(query).fetchall()))


def other(value: object, rng: random.Random) -> Any:
    """Another value of the same kind."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + rng.choice((-1, 1, 1e-6))
    return f"{value}x" if isinstance(value, str) else 1


def places(value: object, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where the values of a JSON object stand."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(
        value, list) else ()  # fmt: skip
    for key, one in inner:
        yield from places(one, (*at, key))
    if not isinstance(value, dict | list):
        yield at


def edit_at(file: Path, at: tuple[Any, ...], rng: random.Random) -> None:
    found = json.loads(file.read_text())
    inner = found
    for key in at[:-1]:
        inner = inner[key]
    inner[at[-1]] = other(inner[at[-1]], rng)
    file.write_text(json.dumps(found, indent=2))


def edit_field(name: str) -> Edit:
    def edit(folder: Path, rng: random.Random) -> str:
        at = rng.choice(list(places(json.loads((folder / name).read_text()))))
        edit_at(folder / name, at, rng)
        if name == COMMITMENT:
            return f"{name}: {at[1]} is not what was run" if at[0] == "settings" else name
        return f"{name}: {at[0]}"

    return edit


def edit_this(name: str, *at: str) -> Edit:
    def edit(folder: Path, rng: random.Random) -> str:
        edit_at(folder / name, at, rng)
        return f"{name}: {'.'.join(at)} was edited"

    return edit


def edit_answer(folder: Path, rng: random.Random) -> str:
    side = rng.choice(("member", "nonmember"))
    pair, text = drawn(folder, f"SELECT pair, {side} FROM evidence", rng)
    at = rng.randrange(len(text))
    sql(folder, f"UPDATE evidence SET {side} = ? WHERE pair = ?", f"{text[:at]}~{text[at:]}", pair)
    return f"pair {pair} was edited"


def edit_digest(folder: Path, rng: random.Random) -> str:
    (pair,) = drawn(folder, "SELECT pair FROM evidence", rng)
    sql(folder, "UPDATE evidence SET digest = ? WHERE pair = ?", rng.randbytes(32).hex(), pair)
    return f"pair {pair} was edited"


def delete_row(folder: Path, rng: random.Random) -> str:
    (pair,) = drawn(folder, "SELECT pair FROM evidence", rng)
    sql(folder, "DELETE FROM evidence WHERE pair = ?", pair)
    return f"pair {pair} is missing"


def edit_batch(folder: Path, rng: random.Random) -> str:
    first, calls = drawn(folder, "SELECT first, calls FROM batches", rng)
    sql(folder, "UPDATE batches SET calls = ? WHERE first = ?", calls + 1, first)
    return f"the batch of pair {first}, or its number of model calls, was edited"


def edit_head(folder: Path, rng: random.Random) -> str:
    sql(folder, "UPDATE head SET link = ?", rng.randbytes(32).hex())
    return "the head of the chain was edited"


def edit_kept_digest(folder: Path, rng: random.Random) -> str:
    table = rng.choice(("fields", "records"))
    (row,) = drawn(folder, f"SELECT rowid FROM {table}", rng)
    sql(folder, f"UPDATE {table} SET digest = ? WHERE rowid = ?", rng.randbytes(32).hex(), row)
    return "the list of the results that were computed from it was edited"


def edit_key(folder: Path, rng: random.Random) -> str:
    (folder / "key").write_text(rng.randbytes(32).hex())
    return "the stored trials and key"


def delete_file(folder: Path, rng: random.Random) -> str:
    name = rng.choice(("record.json", "manifest.json", COMMITMENT))
    (folder / name).unlink()
    return f"{name} is missing"


EDITS: list[Edit] = [
    edit_answer, edit_answer, edit_digest, delete_row, edit_batch, edit_head, edit_kept_digest,
    edit_key, delete_file, edit_field("record.json"), edit_field("manifest.json"),
    edit_field(COMMITMENT), edit_this("record.json", "claim", "epsilon"),
    edit_this("record.json", "threshold"), edit_this("record.json", "spec", "threshold"),
    edit_this("manifest.json", "spec", "epsilon"), edit_this("manifest.json", "data"),
    edit_this("record.json", "provenance", "data_fingerprint"),
]  # fmt: skip


def unnamed(done: Path, space: Path, seeds: range) -> list[tuple[int, str, tuple[str, ...]]]:
    """Edits that were not found, or not named."""
    missed, kept = [], {path.name: path.read_bytes() for path in done.iterdir()}
    folder = space / done.name
    folder.mkdir()
    for seed in seeds:
        for path in folder.iterdir():
            path.unlink()
        for name, content in kept.items():
            (folder / name).write_bytes(content)
        rng = random.Random(seed)
        expected = EDITS[seed % len(EDITS)](folder, rng)
        found = verify_run(folder).problems
        if not any(expected in problem for problem in found):
            missed.append((seed, expected, found))
    return missed


def edit_bytes(text: bytes, rng: random.Random) -> bytes:
    """Other bytes; most of them mean the same JSON."""
    line = rng.randrange(1, text.count(b"\n"))
    lines = text.split(b"\n")
    kinds = [
        text + b"\n", text[:-1], text.replace(b"\n", b"\r\n"), b" " + text,
        b"\n".join([*lines[:line], b"  " + lines[line], *lines[line + 1 :]]),
        text.replace(b"{", b'{"schema_version": 9,', 1),  # the last of two equal keys counts
        text[: (at := rng.randrange(len(text)))] + rng.randbytes(2) + text[at:],
    ]  # fmt: skip
    return rng.choice([kind for kind in kinds if kind != text])


@pytest.mark.parametrize("name", ["record.json", "manifest.json", COMMITMENT])
def test_other_bytes_of_the_same_json_are_named(done: Path, tmp_path: Path, name: str) -> None:
    folder = shutil.copytree(done, tmp_path / done.name)
    text = (folder / name).read_bytes()
    for seed in range(40):
        (folder / name).write_bytes(edit_bytes(text, random.Random(seed)))
        found = verify_run(folder).problems
        assert any(name in problem for problem in found), (seed, found)


def test_every_kind_of_edit_is_found_and_named(done: Path, tmp_path: Path) -> None:
    assert verify_run(done).problems == ()
    assert unnamed(done, tmp_path, range(6 * len(EDITS))) == []


@pytest.mark.slow
def test_a_thousand_edits_are_found_and_named(done: Path, tmp_path: Path) -> None:
    """All of 1,000 edits that do not rebuild the chain; 15 seconds of CPU time."""
    assert unnamed(done, tmp_path, range(1000)) == []


def rebuild(folder: Path) -> None:
    """What the owner of a run can do: every digest fits again."""
    with closing(sqlite3.connect(folder / "trials.sqlite")) as db, db:
        db.execute("UPDATE evidence SET member = nonmember WHERE pair = 3")
        rows = db.execute("SELECT pair, member, nonmember, again FROM evidence").fetchall()
        digests = {row[0]: chain.row_digest(row) for row in rows}
        for pair, digest in digests.items():
            db.execute("UPDATE evidence SET digest = ? WHERE pair = ?", (digest, pair))
        batches = db.execute("SELECT first, calls, pairs FROM batches ORDER BY number").fetchall()
        db.execute("DELETE FROM batches")
        db.execute("UPDATE head SET number = 0, link = ?", (chain.START,))
        for first, calls, pairs in batches:
            listed = [digests[pair] for pair in range(first, first + pairs)]
            chain.append(db, (first, calls, pairs, chain.rows_digest(listed)))
        head = key_hash(folder, chain.head_of(db, 12))
        record = json.loads((folder / "record.json").read_text())
        record["provenance"]["evidence"] = head
        text = json.dumps(record, indent=2)
        (folder / "record.json").write_text(text)
        db.execute("DELETE FROM records")
        chain.note_record(db, chain.text_digest(text.encode()))
        manifest = (folder / "manifest.json").read_bytes()
        chain.note_fields(db, {"record.json": text.encode(), "manifest.json": manifest})


def test_a_rebuilt_run_shows_against_its_anchor_alone(done: Path, tmp_path: Path) -> None:
    before = verify_run(done)
    folder = shutil.copytree(done, tmp_path / done.name)
    assert verify_run(folder, [before.anchor, str(before.commitment)]).problems == ()
    rebuild(folder)
    assert verify_run(folder).problems == ()
    (problem,) = verify_run(folder, [before.anchor[:20]]).problems
    assert "neither that of the run nor of its commitment" in problem
    assert verify_run(folder, [str(before.commitment)]).problems == ()


def test_another_commitment_after_the_fact_shows_against_the_first(
    done: Path, rows: Context, tmp_path: Path
) -> None:
    first = str(verify_run(done).commitment)
    later = commit(ready(rows, epsilon=9), tmp_path)
    folder = shutil.copytree(done, tmp_path / "copy")
    (folder / COMMITMENT).write_text(later.text)
    found = verify_run(folder, [first]).problems
    assert "commitment.json is not the one that record.json names" in found
    assert "commitment.json: epsilon is not what was run" in found
    assert any("neither that of the run" in problem for problem in found)


def test_the_result_carries_its_commitment_and_earlier_ones(done: Path, rows: Context) -> None:
    made, result = load_commitment(done), load_result(done)
    assert made is not None
    assert result.provenance["commitment"] == made.digest
    ((_, earlier),) = made.earlier.items()
    assert result.provenance["earlier_commitments"] == earlier
    assert verify_run(done).earlier == made.earlier
    assert made.settings["threshold"] == 0.5
    assert made.data not in (ready(rows).data, "")


def test_a_commitment_comes_before_the_first_call(rows: Context, tmp_path: Path) -> None:
    prepared = ready(rows)
    run_audit(prepared, tmp_path)
    with pytest.raises(UsageError, match="a commitment is made before the first call"):
        commit(prepared, tmp_path)
    with pytest.raises(UsageError, match="a commitment is made before the first call"):
        commit(ready(rows, epsilon=3), tmp_path)  # it would use the same answers
    commit(ready(rows, seed=1), tmp_path)


def test_what_cannot_be_verified_is_a_sentence(done: Path, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is nothing to verify"):
        verify_run(tmp_path)
    with pytest.raises(UsageError, match="at least 16 hexadecimal digits"):
        verify_run(done, ["abc"])


@pytest.mark.slow
def test_a_run_is_committed_to_and_verified_without_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, system = str(tmp_path / "runs"), f"python:{SYSTEM}:answer"
    audit = ("--system", system, "--pairs", "16")
    planned = json.loads(run("plan", *audit, "--commit", "--out", out, "--json").stdout)
    assert run("audit", *audit, "--out", out, "-q").return_value == 1
    for name in ("torch", "transformers"):
        monkeypatch.setitem(sys.modules, name, None)
    done = run("verify", out, "--anchor", planned["commitment"])
    assert done.return_value == 0, (done.output, done.exception)
    assert "computed again from the stored trials, are the same" in done.output
    guessed = json.loads(run("bounds", out, "--claim", "random-guessing", "--json").stdout)
    assert (guessed["verdict"], guessed["bounds"]["design"]) == ("violation", "paired")
    assert guessed["bounds"]["counts"]["member"] == 16
    (folder,) = Path(out).iterdir()
    edit_at(folder / "record.json", ("verdict",), random.Random(0))
    found = json.loads(run("verify", out, "--json").stdout)
    assert found["exit_code"] == 1
    assert found["runs"][0]["verification"]["problems"] == ["record.json: verdict was edited"]
