"""A finished run: loaded, verified by its digests, and computed again; no model is asked.

Against an edit by whoever owns the run, and rebuilds its digests, only a digest that is kept
elsewhere helps: that of the commitment, or the anchor of the finished run.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from leakbound.auditing.collect.collect import CollectionPlan
from leakbound.auditing.decide.decide import decide
from leakbound.auditing.observe.controls import ControlCheck
from leakbound.auditing.observe.one_pass import OnePass
from leakbound.auditing.one_run.prepare import prepare_one_run
from leakbound.auditing.one_run.run import assemble_one_run
from leakbound.auditing.prepare.build import model_of_run
from leakbound.auditing.prepare.identity import PLACES
from leakbound.auditing.prepare.prepare import prepare
from leakbound.auditing.result.assemble import assemble
from leakbound.auditing.result.audit_result import VERSION, AuditResult
from leakbound.auditing.spec.audit_spec import AuditSpec, make_spec
from leakbound.auditing.store import chain
from leakbound.auditing.store.commitments import COMMITMENT, Commitment, load_commitment
from leakbound.auditing.store.folder import (
    DIGITS,
    KEY,
    TRIALS,
    Settings,
    is_keyed,
    is_run,
    key_hash,
    load_manifest,
    stable_json,
)
from leakbound.auditing.store.run_store import (
    EditedEvidence,
    RunStore,
    UnfinishedRun,
    has_tables,
    is_unfinished,
    open_trials,
    require_intact,
)
from leakbound.errors import (
    LeakboundError,
    StoreError,
    UsageError,
    findable,
    reason_of,
    why_no_file,
)
from leakbound.estimators import PairedScores
from leakbound.estimators.error_counts import TrialLog
from leakbound.tasks import Context, Example

FILES = ("manifest.json", "record.json")
FEWEST = 16  # digits of an anchor: fewer could be met by trying


@dataclass(frozen=True, slots=True)
class Verification:
    run: str
    problems: tuple[str, ...]
    finished: bool
    anchor: str
    commitment: str | None
    earlier: dict[str, str]


def verify_run(folder: Path, anchors: Sequence[str] = ()) -> Verification:
    finished, stored = not is_unfinished(folder), (folder / TRIALS).is_file()
    if finished and not stored:
        raise StoreError(
            f"{str(folder)!r} holds no {TRIALS}, so there is nothing to verify; give the folder of "
            "a run."
        )
    files = {name: _bytes(folder / name) for name in FILES[: 1 + finished]}
    made, unreadable, anchor = None, list[str](), ""
    try:
        made = load_commitment(folder)
    except StoreError as error:
        unreadable = [str(error)]
    found = unreadable
    if stored:
        with open_trials(folder) as db:
            begun = has_tables(db, folder)  # it may have been stopped before the first of them
            if finished and not begun:
                raise StoreError(f"{str(folder / TRIALS)!r} holds no trials; it was emptied.")
            if begun:
                known = _head(db, folder, files) if finished else ()
                fault = chain.fault(db)
                trials = [] if fault is None else [f"the stored trials: {fault}"]
                found = [*trials, *_files(db, files), *known, *unreadable]
                digests = [chain.whole_digest(db), None if made is None else made.digest]
                anchor = chain.text_digest(json.dumps(digests).encode())
    found += [] if unreadable else _commit(folder, made, files)
    found += _anchor(anchors, anchor, made)
    digest, earlier = (None, {}) if made is None else (made.digest, made.earlier)
    return Verification(folder.name, tuple(found), finished, anchor, digest, earlier)


def _bytes(file: Path) -> bytes | None:
    return file.read_bytes() if file.is_file() else None


def _files(db: sqlite3.Connection, files: dict[str, bytes | None]) -> Iterator[str]:
    for name, text in files.items():
        if text is None:
            yield f"{name} is missing"
        elif _parse(text) is None:
            yield f"{name} is no JSON object any more"
        elif changed := chain.fields_changed(db, name, text):
            yield from (f"{name}: {field} was edited" for field in changed)
        elif not _as_written(db, name, text):
            yield f"{name}: its text is not what the audit wrote"


def _as_written(db: sqlite3.Connection, name: str, text: bytes) -> bool:
    """Whether every byte is that of the audit, which writes equal fields in one way."""
    if name == "record.json":
        return chain.text_digest(text) in chain.records_of(db)
    return text == stable_json(_parse(text) or {}).encode()


def _parse(text: bytes | None) -> Settings | None:
    try:
        found = None if text is None else json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _head(db: sqlite3.Connection, folder: Path, files: dict[str, bytes | None]) -> Iterator[str]:
    """The record against the trials and the rows that it says it is of."""
    record, manifest = (_parse(files[name]) for name in ("record.json", "manifest.json"))
    try:
        pairs, known = record["counts"]["pairs"], record["provenance"]  # type: ignore[index]
        head, data = known["evidence"], known["data_fingerprint"]
        rows = str(manifest["data"])  # type: ignore[index]
        spec = dict(manifest["spec"])  # type: ignore[index]
        other = [key for key, value in spec.items() if record["spec"][key] != value]  # type: ignore[index]
    except (KeyError, TypeError, ValueError):
        yield "record.json and manifest.json do not say what they are of"
        return
    if not is_keyed(folder, chain.head_of(db, pairs), head):
        yield "the stored trials and key are not those that record.json was computed from"
    if key_hash(folder, rows)[:DIGITS] != data:
        yield "the data digests of record.json and manifest.json are not of the same rows"
    yield from (f"record.json and manifest.json differ in {key}" for key in other)


def _commit(folder: Path, made: Commitment | None, files: dict[str, bytes | None]) -> Iterator[str]:
    record, manifest = (_parse(files.get(name)) for name in ("record.json", "manifest.json"))
    stated = (record or {}).get("provenance", {})
    stated = stated.get("commitment") if isinstance(stated, dict) else None
    if made is None:
        if stated is not None:
            yield "commitment.json is missing, and record.json says that there was one"
        return
    if _bytes(folder / COMMITMENT) != made.text.encode():
        yield f"{COMMITMENT}: its text is not what plan --commit wrote"
    if "record.json" in files and stated != made.digest:
        yield "commitment.json is not the one that record.json names"
    if manifest is None:
        return
    done = manifest.get("spec")
    for key, value in made.settings.items():
        if not isinstance(done, dict) or done.get(key) != value:
            yield f"commitment.json: {key} is not what was run"
    same = {
        "system": made.system == chain.text_digest(str(manifest.get("system")).encode()),
        "model": made.model == manifest.get("model"),
        "data": made.data == key_hash(folder, str(manifest.get("data"))),
        "version": made.version == manifest.get("version"),
    }
    yield from (f"commitment.json: {key} is not what was run" for key, ok in same.items() if not ok)


def _anchor(anchors: Sequence[str], anchor: str, made: Commitment | None) -> Iterator[str]:
    known = [anchor] if made is None else [anchor, made.digest]
    for one in anchors:
        given = one.strip().lower()
        if len(given) < FEWEST or set(given) - set("0123456789abcdef"):
            raise UsageError(
                f"the anchor is {one!r}; it must be at least {FEWEST} hexadecimal digits, as "
                "`leakbound verify` and `leakbound plan --commit` print them."
            )
        if not any(digest.startswith(given) for digest in known):
            yield f"the anchor {given[:FEWEST]}… is neither that of the run nor of its commitment"


def load_result(path: str | Path) -> AuditResult:
    """The result in a run folder, or in a record.json file.

    Raises:
        UsageError: If `path` is not a path, or longer than the file system allows.
        UnfinishedRun: If the audit was interrupted, or is still running.
        StoreError: If there is none, if it cannot be read, if it was edited, or if the trials that
            are stored beside it are not those that it was computed from. A result without trials
            beside it loads as it is.
    """
    if not isinstance(path, str | Path):
        raise UsageError(f"path is {path!r}; it must be a run folder or a record.json, as text.")
    file = Path(path) / "record.json" if findable(path).is_dir() else Path(path)
    if not file.is_file() and file.name == "record.json" and is_run(file.parent):
        raise _no_record(file.parent)
    if not file.is_file():
        what = "holds no record.json" if Path(path).is_dir() else why_no_file(file)
        raise StoreError(
            f"{str(path)!r} {what}; give the folder of a finished run, or run the audit to its end."
        )
    found = _record(file)
    try:
        result = AuditResult.model_validate_json(json.dumps(found))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _no_result(file, reason_of(error)) from None
    if file.name == "record.json":
        version, manifest = found["schema_version"], load_manifest(file.parent)
        if manifest and manifest["schema_version"] != version:
            raise StoreError(
                f"{str(file.parent)!r} holds a manifest.json of schema version "
                f"{manifest['schema_version']} and a record.json of version {version}; both must "
                "be of one run. Restore them from a copy, or run the audit again."
            )
        if manifest.get("data"):
            result.know_data(manifest["data"])
        head = found["provenance"].get("evidence", "")
        written = (file.parent / "record.json").read_bytes()
        require_intact(file.parent, found["counts"]["pairs"], head, written)
    return result


def _no_record(folder: Path) -> StoreError:
    if is_unfinished(folder):
        return UnfinishedRun(
            f"{str(folder)!r} is unfinished: the audit was interrupted, or is still running. Run "
            "the same command again to finish it; shards are finished by `leakbound merge`."
        )
    if not (folder / TRIALS).is_file():
        return EditedEvidence(
            f"{str(folder)!r} has neither {TRIALS} nor record.json, so nothing tells whether its "
            "audit was finished. Restore them from a copy, or run the audit again."
        )
    return EditedEvidence(
        f"the audit in {str(folder)!r} was finished, and its record.json was removed. Restore it "
        "from a copy, or run the audit again, which writes it anew from the stored trials."
    )


def _record(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise StoreError(
            f"{str(file)!r} is damaged, or not a record ({reason_of(error)}); it must be the "
            "record.json that an audit wrote. Run the audit again: its trials are stored, so the "
            "model is not asked again."
        ) from None
    version = found.get("schema_version") if isinstance(found, dict) else None
    if isinstance(version, int) and version > VERSION:
        raise StoreError(
            f"{str(file)!r} was written by a newer version of leakbound (schema version {version}; "
            f"this one reads {VERSION}); load it with that version."
        )
    if version != VERSION:
        what = (
            "it has no schema_version" if version is None else f"its schema_version is {version!r}"
        )
        raise _no_result(file, what)
    return dict(found)


def _no_result(file: Path, why: str) -> StoreError:
    return StoreError(
        f"{str(file)!r} is not a result of schema version {VERSION}: {why}. Restore it from a "
        "copy, or run the audit again."
    )


ROWS = "left-out-rows.json"  # of a folder of runs whose rows may not be in it: their labels
NO_TEXTS = frozenset({"example_prompt", "trials"})  # which show lengths of rows
NEEDED = ("manifest.json", TRIALS, KEY, "record.json")
# keys of a manifest that have to be the same, and what it means where one is not
SAME = {
    "data": "the rows are not those that were audited.",
    "version": "the run was written by another version of leakbound.",
    "system": "the system is not the one that was audited.",
    "looks": "its contexts depend on the model (its tokenizer, or a judge), which is not loaded.",
}
OF_ROWS = frozenset({"data", "looks"})


@dataclass(frozen=True, slots=True)
class Recomputed:
    differ: tuple[str, ...] = ()
    why_not: str = ""
    without_rows: bool = False  # from their labels alone


def recompute(folder: Path) -> Recomputed:
    """Compute bounds and verdict again from the stored trials. Beside a `left-out-rows.json`, other
    rows take the place of those audited, unless the canary is one."""
    try:
        kept, manifest = load_result(folder), load_manifest(folder)
        rows = _stand_ins(folder, manifest)
        spec = _spec(kept, manifest, rows is None)
        with TemporaryDirectory() as space:
            again = _compute(spec, _copy(folder, Path(space)), manifest, rows)
    except (LeakboundError, KeyError, ImportError, OSError) as error:
        return Recomputed(why_not=" ".join(str(error).split()))
    one, two = (json.loads(result.results()) for result in (kept, again))
    two["spec"] = {key: two["spec"].get(key) for key in one["spec"]}  # others came later
    compared = one.keys() - (NO_TEXTS if rows else frozenset())
    differ = tuple(key for key in one if key in compared and one[key] != two.get(key))
    return Recomputed(differ, without_rows=rows is not None)


def is_store(folder: Path) -> bool:
    """Whether runs in a folder are computed again without their rows."""
    return (folder / ROWS).is_file()


def _stand_ins(folder: Path, manifest: Settings) -> Context | None:
    """Rows without texts, with the labels that the file of their folder gives for their digest."""
    if not is_store(folder.parent):
        return None
    file = folder.parent / ROWS
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        version, data = found["schema_version"], found["data"].get(manifest["data"])
        labels = [] if data is None else [data["labels"][int(at)] for at in data["of_each_row"]]
    except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise StoreError(f"{str(file)!r} cannot be read ({reason_of(error)}).") from None
    if version != 1:
        raise StoreError(f"{str(file)!r} has schema version {version!r}, not 1.")
    return tuple(Example(f"row {n}", label) for n, label in enumerate(labels)) or None


def trial_scores(folder: Path) -> tuple[PairedScores, ControlCheck]:
    """Scores of the single outputs of a run's paired trials, and what its controls showed."""
    kept, manifest = load_result(folder), load_manifest(folder)
    if not (folder / TRIALS).is_file():
        raise StoreError(f"{str(folder)!r} holds no {TRIALS}; give the folder of a whole run.")
    spec = _spec(kept, manifest)
    if spec.design.layout == "one_run":
        raise UsageError(f"{kept.name} is of a one_run design, which has no paired trials.")
    with TemporaryDirectory() as space:
        seen = _pass_over(spec, _copy(folder, Path(space)), manifest)
        log = next(one for one in seen.observers.values() if isinstance(one, TrialLog))
        return log.trials.part(slice(seen.design.pilot, None)), seen.controls()


def _spec(kept: AuditResult, manifest: Settings, whole: bool = True) -> AuditSpec:
    if kept.handed:
        raise StoreError(
            f"the audit got Python objects ({', '.join(kept.handed)}), which no run keeps; name a "
            "system as python:file.py:object, and put rows into a file."
        )
    if not manifest:
        raise StoreError("the run has no manifest.json; restore it from a copy.")
    beside = manifest["beside"]
    places = {key: beside[key] for key in PLACES if beside.get(key) is not None}
    return make_spec(manifest["spec"] | (places if whole else {}))


def _copy(folder: Path, space: Path) -> Path:
    """The run in a folder of its own, because opening it writes."""
    copy = space / folder.name
    copy.mkdir(mode=0o700)
    for name in (*NEEDED, f"{TRIALS}-wal"):
        if (folder / name).is_file():
            shutil.copy(folder / name, copy / name)
    return copy


def _compute(
    spec: AuditSpec, folder: Path, manifest: Settings, rows: Context | None
) -> AuditResult:
    if spec.design.layout == "one_run":
        one_run = prepare_one_run(spec)
        _require_same(one_run.manifest, manifest)
        return assemble_one_run(one_run, *RunStore.open(folder, _identity(folder)))
    seen = _pass_over(spec, folder, manifest, rows)
    return assemble(seen, decide(seen))


def _pass_over(
    spec: AuditSpec, folder: Path, manifest: Settings, rows: Context | None = None
) -> OnePass:
    known, own_test = partial(model_of_run, manifest=manifest), manifest.get("own_test", False)
    prepared = prepare(spec, rows=rows, opener=known, own_test=own_test)
    if rows is not None and prepared.attack.canary.of_rows:
        raise StoreError("the canary is a row, and the rows were left out.")
    _require_same(prepared.manifest, manifest, frozenset() if rows is None else OF_ROWS)
    store, prior = RunStore.open(folder, _identity(folder))
    seen = OnePass(prepared, store, CollectionPlan.of(prepared), prior)
    seen()
    return seen


def _identity(folder: Path) -> Settings:
    return {key: value for key, value in load_manifest(folder).items() if key != "schema_version"}


def _require_same(found: Settings, audited: Settings, but: frozenset[str] = frozenset()) -> None:
    for key, what in SAME.items():
        if key not in but and found[key] != audited[key]:
            raise StoreError(what)
