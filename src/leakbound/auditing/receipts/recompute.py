"""A result, or the scores of its trials, computed again from what is stored; no model is asked."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from leakbound.auditing.collect.collect import CollectionPlan
from leakbound.auditing.decide.decide import decide
from leakbound.auditing.observe.controls import ControlCheck
from leakbound.auditing.observe.one_pass import OnePass
from leakbound.auditing.one_run.prepare import prepare_one_run
from leakbound.auditing.one_run.run import assemble_one_run
from leakbound.auditing.prepare.build import model_of_run
from leakbound.auditing.prepare.identity import PLACES
from leakbound.auditing.prepare.prepare import prepare
from leakbound.auditing.receipts.verify import load_result
from leakbound.auditing.result.assemble import assemble
from leakbound.auditing.result.audit_result import AuditResult
from leakbound.auditing.spec.audit_spec import AuditSpec, make_spec
from leakbound.auditing.store.folder import KEY, TRIALS, Settings, load_manifest
from leakbound.auditing.store.run_store import RunStore
from leakbound.errors import LeakboundError, StoreError, UsageError, reason_of
from leakbound.estimators import PairedScores
from leakbound.estimators.error_counts import TrialLog
from leakbound.tasks import Context, Example

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
    """Compute bounds and verdict of a run again, from its stored trials.

    Beside a `left-out-rows.json`, rows without texts take the place of those that were audited:
    unless the canary is a row, bounds depend on their number and labels alone.
    """
    try:
        kept, manifest = load_result(folder), load_manifest(folder)
        rows = _stand_ins(folder, manifest)
        spec = _spec(kept, manifest, rows is None)
        with TemporaryDirectory() as space:
            again = _compute(spec, _copy(folder, Path(space)), manifest, rows)
    except (LeakboundError, KeyError, ImportError, OSError) as error:
        return Recomputed(why_not=" ".join(str(error).split()))
    one, two = (json.loads(result.results()) for result in (kept, again))
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
    """A pass over all stored pairs of a copy."""
    prepared = prepare(spec, rows=rows, opener=lambda spec: model_of_run(spec, manifest))
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
