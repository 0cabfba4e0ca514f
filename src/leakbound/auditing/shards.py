"""Shards of one run joined into one folder, and the record that an unsharded run would have had."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from leakbound.attacks import CANARIES
from leakbound.auditing.audit import open_run, write_result
from leakbound.auditing.collect.collect import (
    BatchRunner,
    CollectionPlan,
    Progress,
    collect,
    late_left,
    run_ahead,
)
from leakbound.auditing.observe.one_pass import OnePass
from leakbound.auditing.prepare.build import model_of_run, open_models
from leakbound.auditing.prepare.prepare import prepare
from leakbound.auditing.prepare.prepared import Prepared
from leakbound.auditing.result.audit_result import AuditResult
from leakbound.auditing.spec.audit_spec import AuditSpec, make_spec
from leakbound.auditing.store.folder import VERSION, Settings, load_manifest, require_current
from leakbound.auditing.store.run_store import RunStore
from leakbound.errors import StoreError, UsageError
from leakbound.models import Model

Manifest = Settings
DERIVED = frozenset({"spec", "evidence", "looks"})  # differ where some other key does


def merge(folders: Sequence[Path], out: Path) -> tuple[AuditResult, Path]:
    """Join the run folders of shards and compute the record. No model is asked."""
    folders = [_run_in(folder) for folder in folders]
    manifests = []
    for folder in folders:
        manifest = load_manifest(folder)
        require_current(manifest, folder)
        if "beside" not in manifest or not (folder / "trials.sqlite").is_file():
            raise StoreError(
                f"{str(folder)!r} is not a run folder of this version; give the folders that "
                "`audit --shard` wrote."
            )
        manifests.append(manifest)
    for folder, manifest in zip(folders, manifests, strict=True):
        if _identity(manifest) != _identity(manifests[0]):
            raise StoreError(
                f"{str(folder)!r} is not of the same run as {str(folders[0])!r}: "
                f"{_difference(manifests[0], manifest)} differs. Merge shards of one command only."
            )
    manifest = manifests[0]
    # the parameters as they were given: a claim that nobody stated is left to its default
    values = {**manifest["spec"], **manifest["beside"]}
    values.pop("may_change", None)
    if values.pop("claim_source", "stated") == "default":
        del values["epsilon"]
    spec = make_spec(values)
    known = open_models if needs_tokenizer(spec) else lambda spec: model_of_run(spec, manifest)
    if manifest.get("handed"):
        raise UsageError(
            f"the shards audited Python objects ({' and '.join(manifest['handed'])}), which no "
            "configuration can name; put rows and systems into files to audit in shards."
        )
    prepared = prepare(spec, opener=known)
    if json.loads(json.dumps(prepared.identity)) != {
        key: manifest[key] for key in prepared.identity
    }:
        raise StoreError(
            f"the run's {_difference(manifest, {**prepared.manifest})} is not what it was when the "
            "shards were collected; bring its data, system and version of leakbound back."
        )
    shards = [RunStore(folder, manifest) for folder in folders]  # before anything is written
    joined = RunStore(prepared.folder(out), prepared.manifest)
    for shard in shards:
        joined.join(shard)
    asked = CollectionPlan.of(prepared)
    _require_whole(asked, joined)
    store, prior = open_run(prepared, out, reuse=False)
    return write_result(OnePass(prepared, store, asked, prior)), store.folder


def needs_tokenizer(spec: AuditSpec) -> bool:
    """Whether the canaries of an audit are made with the tokenizer of its model."""
    kind = spec.attack.canary.kind
    return kind in CANARIES and CANARIES[kind].needs_tokenizer


def replay_model(spec: AuditSpec, out: Path) -> Model:
    """The model of a spec, not opened, as earlier runs know it."""
    if needs_tokenizer(spec):
        raise UsageError(
            f"the canary {spec.attack.canary.kind} is made with the model's tokenizer, and "
            "--replay opens no model; leave --replay out."
        )
    folders = sorted(out.iterdir()) if out.is_dir() else []
    asked = ("model", "embedder", "judge_model")
    address = [getattr(spec.system, key) for key in asked]
    runs = {
        folder: run
        for folder, run in ((folder, load_manifest(folder)) for folder in folders)
        if run and [run["spec"].get(key) for key in asked] == address
    }
    found = {run["model"]: run for run in runs.values() if run["schema_version"] == VERSION}
    for folder, run in runs.items() if not found else ():
        require_current(run, folder)
    if len(found) != 1:
        many = (
            f"{len(found)} versions of the model {spec.system.model!r}; keep the runs of one"
            if found
            else "no run of this model"
        )
        raise StoreError(
            f"{str(out)!r} holds {many}. --replay needs the run that it replays; choose its "
            "folder with --out."
        )
    return model_of_run(spec, *found.values())


def _run_in(folder: Path) -> Path:
    if not folder.is_dir():
        raise StoreError(
            f"{str(folder)!r} is not a folder; give the folders that `audit --shard` wrote."
        )
    if load_manifest(folder):
        return folder
    inside = [one for one in sorted(folder.iterdir()) if load_manifest(one)]
    if len(inside) > 1:
        raise StoreError(
            f"{str(folder)!r} holds {len(inside)} runs; give the folder of the one to merge."
        )
    return inside[0] if inside else folder


def _identity(manifest: Manifest) -> str:
    """Where the data lay may differ from machine to machine; looks follow from the rest."""
    kept = {key: value for key, value in manifest.items() if key not in ("beside", "looks")}
    return json.dumps(kept, sort_keys=True)


def _difference(one: Manifest, other: Manifest) -> str:
    flat = [{**manifest, **manifest["spec"]} for manifest in (one, other)]
    return next(
        str(key)
        for key in flat[0] | flat[1]
        if key not in DERIVED and flat[0].get(key) != flat[1].get(key)
    )


def _require_whole(asked: CollectionPlan, store: RunStore) -> None:
    """Every batch is there; else the shards that lack some are named."""
    stored = store.batches()
    missing = [first for first in asked.batches() if first not in stored]
    if not missing:
        _require_late(asked, store)
        return
    total = max((total for _, total in store.shards()), default=1)
    names = sorted({first // asked.size % total + 1 if first >= 0 else 1 for first in missing})
    shards = " and ".join(f"{name}/{total}" for name in names)
    raise StoreError(
        f"{len(missing)} of {len(asked.batches())} batches are missing, of shard {shards}; collect "
        f"it to its end (audit --shard {names[0]}/{total}), then merge again with its folder."
    )


def _require_late(asked: CollectionPlan, store: RunStore) -> None:
    """Every shard has seen the controls after its last pair."""
    cut = [one for one in store.shards() or [(1, 1)] if late_left(asked, store, one)]
    if cut:
        number, total = cut[0]
        raise StoreError(
            f"shard {number}/{total} was not collected to its end: the controls after its last "
            f"pair are missing. Collect them (audit --shard {number}/{total}), then merge again "
            "with its folder."
        )


def run_shard(
    prepared: Prepared,
    shard: tuple[int, int],
    out: Path,
    progress: Progress = lambda done, total: None,
    reuse: bool = True,
    ask: BatchRunner = run_ahead,
) -> Path:
    if prepared.spec.decision.stop_when_rejected:
        raise UsageError(
            "stop_when_rejected looks at all pairs in their order, and a shard sees every Nth "
            "batch; leave one of the two out."
        )
    store, _ = open_run(prepared, out, reuse)
    try:
        collect(CollectionPlan.of(prepared), prepared.model, store, shard, ask, progress)
    finally:
        prepared.close()
    store.belongs_to(*shard)
    return store.folder
