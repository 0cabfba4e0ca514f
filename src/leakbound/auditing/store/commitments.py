"""Commitments: what an audit will do, written down before the first call.

A commitment holds every setting, and digests of system and data; that of the data has a key, so
that it confirms no guess about a row. Its own digest, kept elsewhere, shows that the claim, the
estimator, the threshold and the number of pairs were not chosen by the results.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from leakbound._files import make_folder, write_private
from leakbound.auditing.store.chain import text_digest
from leakbound.auditing.store.folder import (
    Settings,
    damage_error,
    first_day,
    key_hash,
    make_key,
    stable_json,
)
from leakbound.errors import UsageError

COMMITMENT = "commitment.json"
SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Commitment:
    settings: Settings
    system: str
    model: str
    data: str
    version: str
    earlier: dict[str, str]

    @property
    def text(self) -> str:
        return stable_json({"schema_version": SCHEMA, **asdict(self)})

    @property
    def digest(self) -> str:
        """64 hexadecimal digits, to be kept elsewhere."""
        return text_digest(self.text.encode())


def commit(folder: Path, manifest: Settings) -> Commitment:
    """Write down what the audit of a run folder will do, before it asks anything."""
    if before := load_commitment(folder):
        return before
    out, day = folder.parent, first_day(folder, manifest["evidence"])
    if day is not None:
        raise UsageError(
            f"answers to these questions have been stored in {str(out)!r} since {day}, and a "
            "commitment is made before the first call; use another folder, or another --seed."
        )
    make_folder(folder)
    make_key(folder)
    manifest = json.loads(json.dumps(manifest))
    system = text_digest(manifest["system"].encode())
    # commitments for the same system in the same folder of runs
    known = {path.parent.name: load_commitment(path.parent) for path in out.glob(f"*/{COMMITMENT}")}
    earlier = {
        name: one.digest for name, one in sorted(known.items())
        if one is not None and one.system == system
    }  # fmt: skip
    made = Commitment(
        manifest["spec"], system, manifest["model"], key_hash(folder, manifest["data"]),
        manifest["version"], earlier,
    )  # fmt: skip
    write_private(folder / COMMITMENT, made.text)
    return made


def load_commitment(folder: Path) -> Commitment | None:
    path = folder / COMMITMENT
    if not path.is_file():
        return None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if found.pop("schema_version") != SCHEMA:
            raise ValueError("its schema_version is not known")
        return Commitment(**found)
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise damage_error(path, f"it is not a commitment ({type(error).__name__})") from None


def commitment_of(folder: Path) -> dict[str, str]:
    """What the provenance of a result says of the commitment of its run."""
    made = load_commitment(folder)
    if made is None:
        return {}
    earlier = {"earlier_commitments": " ".join(made.earlier.values())} if made.earlier else {}
    return {"commitment": made.digest, **earlier}
