"""Stored evidence is what was collected: an edit, a loss or another version gets a sentence, and
never a verdict. Results that were computed from it before are counted.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from threading import Thread
from typing import Any
from zlib import crc32

import pytest
from conftest import said

import leakbound
from leakbound.auditing import AuditResult, load_result, make_spec, prepare, run_audit
from leakbound.auditing.collect.collect import CollectionPlan, replay_only, run_serial
from leakbound.auditing.prepare.prepared import Prepared
from leakbound.auditing.shards import merge, run_shard
from leakbound.auditing.store.chain import row_digest
from leakbound.auditing.store.folder import key_hash
from leakbound.auditing.store.run_store import EvidenceRow, RunStore
from leakbound.cli import main
from leakbound.errors import StoreError, UsageError
from leakbound.models import Counted, Scripted
from leakbound.tasks import Context, Votes

SPEC = {"pairs": 12, "batch_pairs": 4, "simulations": 2000, "controls": 4}
CALLS = 2 * (12 + 2 * 4)  # as many controls with one canary
REBUILT = """
UPDATE evidence SET member = nonmember WHERE pair = 2;
UPDATE evidence SET digest = '{digest}' WHERE pair = 2;
"""
EDITS = {
    "an edited answer": ("UPDATE evidence SET member = nonmember WHERE pair = 5",
                         "pair 5 was edited"),
    "a control": ("UPDATE evidence SET member = nonmember WHERE pair = -3", "pair -3 was edited"),
    "a deleted row": ("DELETE FROM evidence WHERE pair = 5", "pair 5 is missing"),
    "the last row": ("DELETE FROM evidence WHERE pair = 11", "pair 11 is missing"),
    "swapped rows": ("UPDATE evidence SET pair = 100 WHERE pair = 2;"
                     "UPDATE evidence SET pair = 2 WHERE pair = 9;"
                     "UPDATE evidence SET pair = 9 WHERE pair = 100", "pair 2 was edited"),
    "a row with its digest": (REBUILT, "pairs 0 to 3 were replaced together"),
    "a deleted batch": ("DELETE FROM batches WHERE first = 4", "pair 4 belongs to no batch"),
    "a batch with its rows": ("DELETE FROM batches WHERE first = 4;"
                              "DELETE FROM evidence WHERE pair BETWEEN 4 AND 7",
                              "batch number 4, in the order of storing, is missing"),
    "the last batch": ("DELETE FROM batches WHERE first = 8;"
                       "DELETE FROM evidence WHERE pair > 7",
                       "batch number 5, in the order of storing, is missing"),
    "everything": ("DELETE FROM batches; DELETE FROM evidence",
                   "batch number 1, in the order of storing, is missing"),
    "a number of calls": ("UPDATE batches SET calls = 3 WHERE first = 4",
                          "the batch of pair 4, or its number of model calls, was edited"),
    "the head": ("UPDATE head SET link = 'x'", "the head of the chain was edited"),
    "no head": ("DELETE FROM head", "the head of the chain was edited"),
    "an edited look": ("UPDATE looks SET pairs = 24", "the list of the results .* was edited"),
    "a deleted look": ("DELETE FROM looks", "the list of the results .* was edited"),
    "no list of looks": ("DELETE FROM looks; DELETE FROM looks_digest",
                         "the list of the results .* was edited"),
    "looks without end": ("DROP TABLE looks; CREATE VIEW looks AS WITH RECURSIVE n(i) AS (SELECT 1"
                          " UNION ALL SELECT i + 1 FROM n) SELECT 'r' || i AS run, i AS pairs "
                          "FROM n", "a view or a trigger was added"),
    "a dropped list of looks": ("DROP TABLE looks_digest", "the digest of its looks is missing"),
}  # fmt: skip


def ready(rows: Context, model: Any, **values: Any) -> Prepared:
    return prepare(make_spec({**SPEC, **values}), model, rows=rows)


def finished(rows: Context, model: Any, out: Path, **values: Any) -> tuple[AuditResult, Path]:
    return run_audit(ready(rows, model, **values), out)


def change(folder: Path, script: str) -> None:
    with closing(sqlite3.connect(folder / "trials.sqlite")) as db, db:
        db.executescript(script)


def edited_digest(folder: Path) -> str:
    with closing(sqlite3.connect(folder / "trials.sqlite")) as db:
        (other,) = db.execute("SELECT nonmember FROM evidence WHERE pair = 2").fetchone()
    return row_digest((2, other, other, None))


@pytest.fixture(scope="module")
def done(rows: Context, tmp_path_factory: pytest.TempPathFactory) -> tuple[AuditResult, Path]:
    """A finished run, to be copied."""
    model = Scripted(complete=said, name="leaky")
    return finished(rows, model, tmp_path_factory.mktemp("done"))


@pytest.mark.parametrize("edit", EDITS)
def test_what_was_edited_is_named_and_gives_no_result(
    edit: str, rows: Context, leaky: Scripted, tmp_path: Path, done: tuple[AuditResult, Path]
) -> None:
    result, kept = done
    assert result.verdict == "violation"
    folder = shutil.copytree(kept, tmp_path / kept.name)
    script, what = EDITS[edit]
    change(folder, script.format(digest=edited_digest(folder)))
    with pytest.raises(StoreError, match=rf"is not what was stored: ({what}).*--fresh"):
        load_result(folder)
    with pytest.raises(StoreError, match=what):
        load_result(folder / "record.json")
    counted = Counted(leaky)
    prepared = ready(rows, counted)
    for ask in (run_serial, replay_only):
        with pytest.raises(StoreError, match=what):
            run_audit(prepared, tmp_path, ask=ask)
    with pytest.raises(StoreError, match=what):  # it would take over the batches
        finished(rows, counted, tmp_path, epsilon=3)
    assert counted.calls == 0
    assert (folder / "record.json").read_text() == result.to_json()


def ends(command: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    with pytest.raises(SystemExit) as ended:
        main(command.split())
    return int(ended.value.code or 0), capsys.readouterr().err


@pytest.mark.slow
def test_commands_end_with_2_and_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A deleted row gave a traceback and the exit code of a violation."""
    monkeypatch.chdir(tmp_path)
    system = "def answer(context, query):\n    return 'yes' if query.split('\"')[1] in "
    Path("system.py").write_text(f"{system}[row.input for row in context] else 'no'\n")
    audit = "audit --system python:system.py:answer --pairs 12 --out runs"
    assert ends(audit, capsys)[0] == 1
    (folder,) = Path("runs").iterdir()
    alone = tmp_path / "record.json"
    shutil.copy(folder / "record.json", alone)
    change(folder, "DELETE FROM evidence WHERE pair = 5")
    for command in (audit, f"{audit} --replay", f"report {folder}", "gate runs --max-epsilon 9",
                    f"gate {folder}/record.json --max-epsilon 9", f"merge {folder} --out merged",
                    f"export config {folder}"):  # fmt: skip
        code, said = ends(command, capsys)
        assert (code, "pair 5 is missing" in said) == (2, True), (command, said)
    assert ends(f"gate {alone} --max-epsilon 9", capsys)[0] == 1, "a record alone still loads"
    (folder / "manifest.json").unlink()
    code, said = ends("gate runs --max-epsilon 9", capsys)
    assert (code, "pair 5 is missing" in said) == (2, True), "no run is passed over"
    assert ends(f"{audit} --fresh", capsys)[0] == 1
    assert ends("gate runs --max-epsilon 9", capsys)[0] == 1


def test_a_chain_that_was_rebuilt_does_not_fit_the_result(
    rows: Context, leaky: Scripted, tmp_path: Path
) -> None:
    """The answers of a silent model stored as if the leaky one had given them."""
    _, folder = finished(rows, leaky, tmp_path / "runs")
    prepared, silent = ready(rows, leaky), Scripted(complete=lambda prompt: "no", name="leaky")
    store = RunStore(tmp_path / "other", prepared.manifest)
    plan = CollectionPlan.of(prepared)
    for first in plan.batches():
        batch = plan.ask(first, silent)
        store.add(batch.first, batch.rows, batch.calls)
    shutil.copy(tmp_path / "other" / "trials.sqlite", folder)
    with pytest.raises(StoreError, match=r"fit each other, and not those of record\.json"):
        load_result(folder)
    with pytest.raises(StoreError, match=r"fit each other, and not those of record\.json"):
        finished(rows, leaky, tmp_path / "runs")
    (folder / "trials.sqlite").write_bytes(b"")
    with pytest.raises(StoreError, match="pair 0 is missing"):
        load_result(folder)
    (folder / "trials.sqlite").unlink()
    assert load_result(folder).verdict == "violation"


def test_the_head_of_a_result_does_not_depend_on_how_it_was_collected(
    rows: Context, leaky: Scripted, tmp_path: Path
) -> None:
    prepared, heads = ready(rows, leaky), {}
    for name, order in (("up", (-8, -4, 0, 4, 8)), ("down", (8, 4, 0, -4, -8))):
        store, plan = RunStore(tmp_path / name, prepared.manifest), CollectionPlan.of(prepared)
        for first in order:
            batch = plan.ask(first, leaky)
            store.add(batch.first, batch.rows, batch.calls)
        heads[name] = [store.head(pairs) for pairs in (8, 12)]
    assert heads["up"] == heads["down"]
    whole, folder = run_audit(prepared, tmp_path)
    assert whole.provenance["evidence"] == key_hash(folder, heads["up"][1])
    assert "evidence" not in json.loads(whole.results())


def test_two_writers_make_one_chain(tmp_path: Path) -> None:
    stores = [RunStore(tmp_path / "run", {"spec": {}}) for _ in range(2)]

    def write(store: RunStore, start: int) -> None:
        for first in range(start, 60, 4):
            store.add(first, [EvidenceRow(first + i, Votes((i,)), Votes((1,))) for i in (0, 1)], 4)

    threads = [Thread(target=write, args=(store, 2 * at)) for at, store in enumerate(stores)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(RunStore(tmp_path / "run", {"spec": {}}).batches()) == 30


MANIFESTS = [
    ("", "is damaged: it cannot be read"),
    ("{}", "is damaged: it names no schema_version"),
    ("[2]", "is damaged: it names no schema_version"),
    ('{"schema_version": 2}', "is damaged: it names no spec"),
    ('{"schema_version": 3}', "was written by a newer version of leakbound"),
    ('{"schema_version": 1, "spec": {}}', "version 1"),
]


@pytest.mark.parametrize(("text", "what"), MANIFESTS)
def test_another_manifest_is_refused(
    text: str, what: str, rows: Context, leaky: Scripted, tmp_path: Path,
    done: tuple[AuditResult, Path],
) -> None:  # fmt: skip
    folder = shutil.copytree(done[1], tmp_path / done[1].name)
    (folder / "manifest.json").write_text(text)
    for use in (lambda: finished(rows, leaky, tmp_path), lambda: load_result(folder),
                lambda: merge([folder], tmp_path / "merged")):  # fmt: skip
        with pytest.raises(StoreError, match=what):
            use()


def test_answers_beside_a_damaged_manifest_are_not_reused(
    rows: Context, leaky: Scripted, tmp_path: Path, done: tuple[AuditResult, Path]
) -> None:
    folder = shutil.copytree(done[1], tmp_path / done[1].name)
    (folder / "manifest.json").write_text("{}")
    counted = Counted(leaky)
    finished(rows, counted, tmp_path, epsilon=3)
    assert counted.calls == CALLS


def test_a_manifest_that_was_edited_or_lost_is_refused(
    rows: Context, leaky: Scripted, tmp_path: Path, done: tuple[AuditResult, Path]
) -> None:
    folder = shutil.copytree(done[1], tmp_path / done[1].name)
    path = folder / "manifest.json"
    kept = json.loads(path.read_text())
    for edit, what in ({"model": "x"}, "model"), ({"spec": {**kept["spec"], "pairs": 9}}, "pairs"):
        path.write_text(json.dumps(kept | edit))
        with pytest.raises(StoreError, match=f"its {what} is not that of the audit"):
            finished(rows, leaky, tmp_path)
        with pytest.raises(
            StoreError, match=r"manifest\.json. is not what the audit wrote"
        ):  # it passed a gate
            load_result(folder)
    path.unlink()
    with pytest.raises(StoreError, match=r"manifest\.json. is not what the audit wrote"):
        load_result(folder)
    with pytest.raises(StoreError, match="it is missing, and stored trials are there"):
        finished(rows, leaky, tmp_path)


@pytest.mark.parametrize(
    ("version", "what"), [(0, "schema version 1"), (1, "schema version 1"), (3, "a newer version")]
)
def test_trials_of_another_version_are_refused(
    version: int, what: str, rows: Context, leaky: Scripted, tmp_path: Path,
    done: tuple[AuditResult, Path],
) -> None:  # fmt: skip
    folder = shutil.copytree(done[1], tmp_path / done[1].name)
    change(folder, f"PRAGMA user_version = {version}")
    for use in (lambda: finished(rows, leaky, tmp_path), lambda: load_result(folder)):
        with pytest.raises(StoreError, match=what):
            use()


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "is damaged"),
        ('{"schema_version": 2', "is damaged"),
        ('{"schema_version": 3}', r"a newer version of leakbound \(schema version 3;"),
        ("{}", "is not a result of schema version 2: it has no schema_version"),
        ("[]", "is not a result of schema version 2"),
        ('{"schema_version": 2}', "is not a result of schema version 2: it lacks 'name'"),
        ('{"schema_version": 1}', "of schema version 2: its schema_version is 1"),
    ],
)
def test_a_record_that_cannot_be_read_is_one_sentence(text: str, what: str, tmp_path: Path) -> None:
    (tmp_path / "record.json").write_text(text)
    with pytest.raises(StoreError, match=what) as refused:
        load_result(tmp_path)
    assert "\n" not in str(refused.value)


def test_more_pairs_after_a_look_need_an_anytime_estimator(
    rows: Context, leaky: Scripted, tmp_path: Path
) -> None:
    """Raising the pairs step by step accused a correct system in 14.5 % of cases."""
    estimator = "clopper_pearson"
    first, _ = finished(rows, leaky, tmp_path, estimator=estimator)
    assert first.counts["looks"] == 0
    counted = Counted(leaky)
    for pairs in (8, 16, 24):
        with pytest.raises(UsageError, match=rf"it is {pairs} here.*from 12 of these.*e_process"):
            finished(rows, counted, tmp_path, estimator=estimator, pairs=pairs)
    assert counted.calls == 0
    assert len(list(tmp_path.iterdir())) == 1, "a refused run leaves no folder"
    other, _ = finished(rows, leaky, tmp_path, estimator=estimator, pairs=16, seed=1)
    assert other.counts["looks"] == 0, "other pairs"
    again, _ = finished(rows, leaky, tmp_path, estimator=estimator)
    assert again.to_json() == first.to_json()


def test_looks_beside_a_run_cannot_be_edited_away(
    rows: Context, leaky: Scripted, tmp_path: Path
) -> None:
    _, folder = finished(rows, leaky, tmp_path)
    change(folder, "DELETE FROM looks")
    counted = Counted(leaky)
    for estimator in ("clopper_pearson", "e_process"):
        with pytest.raises(StoreError, match=rf"{folder.name}.* list of the results .* was edited"):
            finished(rows, counted, tmp_path, estimator=estimator, pairs=24)
    assert counted.calls == 0


@pytest.mark.slow
def test_looks_are_counted_and_a_finished_command_gives_the_same_result(
    rows: Context, leaky: Scripted, tmp_path: Path
) -> None:
    first, folder = finished(rows, leaky, tmp_path)
    more, _ = finished(rows, leaky, tmp_path, pairs=16)
    other, _ = finished(rows, leaky, tmp_path, epsilon=3)
    assert [one.counts["looks"] for one in (first, more, other)] == [0, 1, 2]
    assert finished(rows, leaky, tmp_path)[0].to_json() == first.to_json()
    assert finished(rows, leaky, tmp_path, pairs=16)[0].to_json() == more.to_json()
    assert more.bound.kind == "lower_bound", "it holds at any number of pairs"
    assert more.estimate("clopper_pearson").kind == "point_estimate"
    assert first.estimate("clopper_pearson").kind == "lower_bound"
    shutil.rmtree(folder)
    assert finished(rows, leaky, tmp_path, pairs=16)[0].to_json() == more.to_json()
    alone, _ = finished(rows, leaky, tmp_path / "alone")
    assert alone.results() == first.results()
    assert "looks" not in json.loads(alone.results())["counts"]


def doubtful(prompt: str) -> str:
    """Is wrong about two of five contexts."""
    right = said(prompt) == "yes"
    return "yes" if right != (crc32(prompt.encode()) % 5 < 2) else "no"


@pytest.mark.slow
def test_the_e_process_of_the_first_result_goes_on_after_a_look(
    rows: Context, tmp_path: Path
) -> None:
    """Stakes that aim at the planned pairs began anew at every look: with eight of them, 6.0 % of
    correct systems were accused, and 2 % with one. It is one e-process now.
    """
    model = Scripted(complete=doubtful, name="doubtful")
    audits = [
        finished(rows, model, tmp_path, pairs=n, epsilon=0.1, detect_change=0)[0]
        for n in (40, 96, 64, 8)
    ]
    first, more, less, least = (one.e_values.log_e_values for one in audits if one.e_values)
    assert (first, less, least) == (more[:40], more[:64], more[:8])
    alone, _ = finished(rows, model, tmp_path / "alone", pairs=96, epsilon=0.1, detect_change=0)
    assert alone.e_values is not None
    assert alone.e_values.log_e_values != more


def test_another_estimator_after_a_look_carries_a_warning(
    rows: Context, leaky: Scripted, tmp_path: Path
) -> None:
    finished(rows, leaky, tmp_path)
    found, _ = finished(rows, leaky, tmp_path, estimator="clopper_pearson")
    assert found.bound.kind == "lower_bound"
    assert found.warnings[0].startswith("1 result was computed from the same paired trials before")
    alone, _ = finished(rows, leaky, tmp_path / "alone", estimator="clopper_pearson")
    assert alone.warnings == ()


def test_resuming_is_no_look(rows: Context, leaky: Scripted, tmp_path: Path) -> None:
    prepared = ready(rows, leaky, estimator="clopper_pearson")
    run_shard(prepared, (1, 2), tmp_path)
    whole, _ = run_audit(prepared, tmp_path)
    assert whole.results() == run_audit(prepared, tmp_path / "alone")[0].results()
    assert whole.counts["looks"] == 0
    more = ready(rows, leaky, pairs=16, estimator="clopper_pearson")
    with pytest.raises(UsageError, match="fixed before any result"):
        run_shard(more, (1, 2), tmp_path)


@pytest.mark.slow
def test_answers_of_a_system_count_though_they_are_not_reused(
    rows: Context, tmp_path: Path, data_file: Path
) -> None:
    """It may give the same answers again."""
    system = tmp_path / "system.py"
    system.write_text("def answer(context, query):\n    return 'no'\n")
    known = {"data": str(data_file), "system": f"python:{system}:answer"}
    values: dict[str, Any] = {**SPEC, **known, "estimator": "clopper_pearson"}
    run_audit(prepare(make_spec(values)), tmp_path / "runs")
    with pytest.raises(UsageError, match="fixed before any result"):
        run_audit(prepare(make_spec({**values, "pairs": 24})), tmp_path / "runs")


@pytest.mark.slow
def test_points_of_a_plan_are_tests_of_their_own(
    rows: Context, leaky: Scripted, tmp_path: Path
) -> None:
    """As in a sweep: all numbers of pairs were fixed before the first result."""
    for looks, pairs in enumerate((24, 12, 16)):
        spec = make_spec({**SPEC, "pairs": pairs, "estimator": "clopper_pearson"})
        planned = prepare(spec, leaky, rows=rows, own_test=True)
        point, _ = run_audit(planned, tmp_path / "sweep")
        alone, _ = run_audit(prepare(spec, leaky, rows=rows), tmp_path / f"alone{pairs}")
        assert point.results() == alone.results()
        assert point.counts["looks"] == looks


@pytest.mark.slow
@pytest.mark.parametrize(
    "other", [{"controls": 5}, {"batch_pairs": 5}, {"store_text": "none"}, {"state_check": 0.1}]
)
def test_how_pairs_are_collected_hides_no_look(
    other: dict[str, Any], rows: Context, leaky: Scripted, tmp_path: Path
) -> None:
    """Control pairs and the like change no pair; with one of them, more pairs were accepted."""
    values: dict[str, Any] = {"estimator": "clopper_pearson"}
    if "state_check" in other:  # asks a system only
        values["address"] = f"python:{silent_system(tmp_path)}:answer"
    run_audit(prepare(make_spec({**SPEC, **values}), model_of(values, leaky), rows=rows), tmp_path)
    more = make_spec({**SPEC, **values, "pairs": 20, **other})
    with pytest.raises(UsageError, match=r"it is 20 here.*from 12 of these"):
        run_audit(prepare(more, model_of(values, leaky), rows=rows), tmp_path)
    same = make_spec({**SPEC, **values, **other})
    found, _ = run_audit(prepare(same, model_of(values, leaky), rows=rows), tmp_path)
    assert found.counts["looks"] == 1
    assert "1 result was computed from the same paired trials before" in found.warnings[0]


def silent_system(folder: Path) -> Path:
    (folder / "system.py").write_text("def answer(context, query):\n    return 'no'\n")
    return folder / "system.py"


def model_of(values: dict[str, Any], model: Scripted) -> Scripted | None:
    return None if "address" in values else model


class Client:
    """An application whose own state changes with each call."""

    def __init__(self) -> None:
        self.calls = 0

    def answer(self, context: Context, query: str) -> str:
        self.calls += 1
        return "no"


class Other(Client):
    def answer(self, context: Context, query: str) -> str:
        return "yes"


def held(word: str) -> Any:
    said = [word]
    return lambda context, query: said[-1]


@pytest.mark.slow
@pytest.mark.parametrize("made", [Client, lambda: Client().answer, lambda: held("no")])
def test_the_state_of_an_object_hides_no_look(
    made: Callable[[], Any], rows: Context, tmp_path: Path
) -> None:
    """Each call was taken for another system, so the pairs could be raised step by step."""
    known: dict[str, Any] = {"rows": rows, "estimator": "clopper_pearson", "out": tmp_path, **SPEC}
    system = made()
    leakbound.audit(system=system, **known)
    with pytest.raises(UsageError, match=r"it is 20 here.*from 12 of these"):
        leakbound.audit(system=system, **known | {"pairs": 20})
    with pytest.raises(UsageError, match=r"it is 20 here.*from 12 of these"):
        leakbound.audit(system=made(), **known | {"pairs": 20})
    other = leakbound.audit(system=Other(), **known | {"pairs": 20})
    assert other.counts["looks"] == 0, "other code answers"


RECORD_EDITS: dict[str, Callable[[dict[str, Any]], object]] = {
    "the verdict": lambda found: found.update(verdict="no_violation"),
    "the sentences": lambda found: found.update(sentences=["fine."]),
    "a bound": lambda found: [one.update(epsilon=0.0, mu=0.0) for one in found["estimates"]],
    "the claim": lambda found: found["claim"].update(epsilon=9.0),
    "spaces alone": lambda found: None,
}


@pytest.mark.parametrize("edit", RECORD_EDITS)
def test_an_edited_record_beside_its_trials_is_refused(
    edit: str, rows: Context, leaky: Scripted, tmp_path: Path, done: tuple[AuditResult, Path],
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """The verdict, the sentences and the bounds of a violation could be set so that it passed."""
    folder = shutil.copytree(done[1], tmp_path / done[1].name)
    path = folder / "record.json"
    found = json.loads(path.read_text())
    RECORD_EDITS[edit](found)
    path.write_text(json.dumps(found))
    with pytest.raises(StoreError, match=r"record\.json' is not what the audit wrote: it was edit"):
        load_result(folder)
    code, said = ends(f"gate {folder} --max-epsilon 9", capsys)
    assert (code, "it was edited" in said) == (2, True)
    counted = Counted(leaky)
    again, _ = finished(rows, counted, tmp_path)  # the record is computed again from the trials
    assert counted.calls == 0
    assert load_result(folder).to_json() == again.to_json() == done[0].to_json()


def test_the_digest_of_a_record_cannot_be_deleted(
    tmp_path: Path, done: tuple[AuditResult, Path]
) -> None:
    folder = shutil.copytree(done[1], tmp_path / done[1].name)
    for edit in "DELETE FROM records", "DROP TABLE records":
        change(folder, edit)
        with pytest.raises(StoreError, match=r"the list of the results .* was edited"):
            load_result(folder)
