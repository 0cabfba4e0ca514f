"""Is a run what its audit wrote? Digests alone say it, and no model is asked.

Against an edit by whoever owns the run, and rebuilds its digests, only a digest that is kept
elsewhere helps: that of the commitment, or the anchor of the finished run.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from leakbound.auditing.store import chain
from leakbound.auditing.store.commitments import COMMITMENT, Commitment, read_commitment
from leakbound.auditing.store.folder import DIGITS, TRIALS, Settings, is_keyed, keyed, stable_json
from leakbound.auditing.store.integrity import has_tables, is_unfinished, reading
from leakbound.errors import StoreError, UsageError

FILES = ("manifest.json", "record.json")
FEWEST = 16  # digits of an anchor: fewer could be met by trying


@dataclass(frozen=True, slots=True)
class Verification:
    """What the digests of a run say."""

    run: str
    problems: tuple[str, ...]
    finished: bool
    anchor: str
    commitment: str | None
    earlier: dict[str, str]


def verify_run(folder: Path, anchors: Sequence[str] = ()) -> Verification:
    """Compute every digest of a run again."""
    finished, stored = not is_unfinished(folder), (folder / TRIALS).is_file()
    if finished and not stored:
        raise StoreError(
            f"{str(folder)!r} holds no {TRIALS}, so there is nothing to verify; give the folder of "
            "a run."
        )
    files = {name: _bytes(folder / name) for name in FILES[: 1 + finished]}
    made, unreadable = _commitment(folder)
    found, anchor = unreadable, ""
    if stored:
        with reading(folder) as db:
            if finished and not has_tables(db, folder):
                raise StoreError(f"{str(folder / TRIALS)!r} holds no trials; it was emptied.")
            known = _head(db, folder, files) if finished else ()
            found = [*_trials(db), *_files(db, files), *known, *unreadable]
            digests = [chain.whole_digest(db), None if made is None else made.digest]
            anchor = chain.text_digest(json.dumps(digests).encode())
    found += [] if unreadable else _commit(folder, made, files)
    found += _anchor(anchors, anchor, made)
    digest, earlier = (None, {}) if made is None else (made.digest, made.earlier)
    return Verification(folder.name, tuple(found), finished, anchor, digest, earlier)


def _bytes(file: Path) -> bytes | None:
    return file.read_bytes() if file.is_file() else None


def _commitment(folder: Path) -> tuple[Commitment | None, list[str]]:
    try:
        return read_commitment(folder), []
    except StoreError as error:
        return None, [str(error)]


def _trials(db: sqlite3.Connection) -> Iterator[str]:
    if (what := chain.fault(db)) is not None:
        yield f"the stored trials: {what}"


def _files(db: sqlite3.Connection, files: dict[str, bytes | None]) -> Iterator[str]:
    """Each field of manifest and record that was edited, by its name."""
    for name, text in files.items():
        if text is None:
            yield f"{name} is missing"
        elif _parse(text) is None:
            yield f"{name} is no JSON object any more"
        elif changed := chain.changed_fields(db, name, text):
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
    if keyed(folder, rows)[:DIGITS] != data:
        yield "the data digests of record.json and manifest.json are not of the same rows"
    yield from (f"record.json and manifest.json differ in {key}" for key in other)


def _commit(folder: Path, made: Commitment | None, files: dict[str, bytes | None]) -> Iterator[str]:
    """The commitment against what was done."""
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
        "data": made.data == keyed(folder, str(manifest.get("data"))),
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
