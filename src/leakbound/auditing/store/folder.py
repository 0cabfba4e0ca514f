"""Names, manifests, versions and keys of run folders.

A plain hash of the rows tells whoever guesses them that the guess is right. So a result holds keyed
hashes; the key stays in the run folder, which only its owner can read. Runs in one folder share a
key, so that their results show whether they are of the same data.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Iterator
from contextlib import suppress
from datetime import date
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias

from leakbound._files import write_private
from leakbound.errors import StoreError, findable, reason_of

VERSION = 2  # of manifest and stored trials
TRIALS = "trials.sqlite"
MANIFEST = "manifest.json"
KEY = "key"  # name of the file
DIGITS = 16  # of a data fingerprint in a result: enough to tell data sets apart
Settings: TypeAlias = dict[str, Any]  # what a JSON or YAML file holds


def run_id(name: str, identity: Settings) -> str:
    """Name a run so that the same command finds and resumes it."""
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:10]
    return f"{name}-{digest}"


def run_folder(out: Path, name: str, data: str) -> Path:
    """Where a run is; a number, and no word of the data, tells runs over other data apart."""
    names = (name if number == 1 else f"{name}-{number}" for number in count(1))
    folders = (out / one for one in names)
    return next(f for f in folders if _manifest_or_nothing(f).get("data", data) == data)


def stable_json(found: Settings) -> str:
    """The one text of an object, so that any other text of it shows an edit."""
    return json.dumps(found, indent=2, sort_keys=True) + "\n"


def is_run(folder: Path) -> bool:
    """Whether a folder holds a run, whole or damaged, or nothing of it but its result."""
    return any((folder / name).is_file() for name in (MANIFEST, TRIALS, "record.json"))


def load_manifest(folder: Path) -> Settings:
    path = findable(folder / MANIFEST)
    if not path.is_file():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise damage_error(path, f"it cannot be read ({reason_of(error)})") from None
    known = isinstance(found, dict) and isinstance(found.get("schema_version"), int)
    if known and found["schema_version"] > VERSION:
        raise newer(path, found["schema_version"])
    if not known or not isinstance(found.get("spec"), dict):
        raise damage_error(path, f"it names no {'spec' if known else 'schema_version'}")
    return dict(found)


def runs_beside(folder: Path, key: str, value: str) -> Iterator[tuple[Path, Settings]]:
    """Other runs of this version in the same folder whose manifests agree on a key."""
    folders = sorted(folder.parent.iterdir()) if value and folder.parent.is_dir() else []
    for other in folders:
        found = _manifest_or_nothing(other)
        alike = found.get(key) == value and found["schema_version"] == VERSION
        if other != folder and alike and (other / TRIALS).is_file():
            yield other, found


def first_day(folder: Path, evidence: str) -> str | None:
    """Day on which the first run began whose outputs a run may use."""
    beside = [other for other, _ in runs_beside(folder, "evidence", evidence)]
    begun = [f / MANIFEST for f in (folder, *beside) if (f / TRIALS).is_file()]
    times = [path.stat().st_mtime for path in begun if path.is_file()]
    return date.fromtimestamp(min(times)).isoformat() if times else None


def _manifest_or_nothing(folder: Path) -> Settings:
    with suppress(StoreError):
        return load_manifest(folder)
    return {}


def require_current(manifest: Settings, folder: Path) -> None:
    """Refuse a run whose stored outputs were collected under an earlier schema."""
    if manifest and manifest["schema_version"] != VERSION:
        raise StoreError(
            f"{str(folder)!r} is a run of schema version {manifest['schema_version']}, and "
            f"this version reuses outputs of version {VERSION} only. Its result still loads; run "
            "the audit again, without --replay, to collect new outputs."
        )


def damage_error(path: Path, why: str) -> StoreError:
    return StoreError(
        f"{str(path)!r} is damaged: {why}; it must be the file that an audit wrote. Restore it "
        "from a copy, or move its folder away and run the audit again."
    )


def newer(path: Path, version: int) -> StoreError:
    return StoreError(
        f"{str(path)!r} was written by a newer version of leakbound (schema version {version}; "
        f"this one reads up to {VERSION}). Use that version, or another --out."
    )


def make_key(folder: Path) -> None:
    """Give a run folder its key, unless it has one: that of a run beside it, else a random one."""
    if (folder / KEY).is_file():
        return
    known = sorted(folder.parent.glob(f"*/{KEY}"))
    try:
        text = known[0].read_text(encoding="ascii") if known else secrets.token_hex(32)
        write_private(folder / KEY, text)
    except OSError as error:
        raise StoreError(
            f"the key of the run folder {str(folder)!r} cannot be written ({reason_of(error)}); "
            "choose another folder."
        ) from None


def key_hash(folder: Path, text: str) -> str:
    """A hash that only the owner of a run folder can compute."""
    if not (folder / KEY).is_file():
        return text
    return hmac.new((folder / KEY).read_bytes(), text.encode(), hashlib.sha256).hexdigest()


def is_keyed(folder: Path, text: str, shown: str) -> bool:
    return shown in (text, key_hash(folder, text))


def key_id(folder: Path) -> str:
    """Names the key of a run folder, and tells nothing of it."""
    return key_hash(folder, "key")[:DIGITS]
