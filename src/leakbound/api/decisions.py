"""`sweep`, `compare`, `gate`: many audits, and decisions over finished ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Unpack

from leakbound._catalogue import Component
from leakbound.api.audits import (
    describe_call,
    keys_of,
    require_known,
    require_relation,
    system_name,
)
from leakbound.api.kinds import in_python, require_path
from leakbound.api.parameters import AuditParameters, Rows, UserSystem
from leakbound.attacks import Attack
from leakbound.attribution import (
    InfluenceComparison,
    InfluenceRecord,
    compare_influences,
    load_influence,
)
from leakbound.auditing import AuditResult, Claim, load_result
from leakbound.auditing.collect.collect import runner_of
from leakbound.auditing.prepare.build import Handed, open_models
from leakbound.auditing.prepare.rows import FIELD_KEYS, rows_given
from leakbound.auditing.receipts import Verification, verify_run
from leakbound.auditing.spec.audit_spec import COMPONENTS, catalogues, flat_keys, make_spec
from leakbound.errors import UsageError, findable
from leakbound.gating.compare import Comparison, compare_results
from leakbound.gating.gate import MAX_DELTA, Gate, GateResult, check_gate
from leakbound.models import Model
from leakbound.sweeping import (
    CachingOpener,
    Described,
    Sweep,
    SweepComparison,
    SweepObjects,
    SweepRecord,
    compare_sweeps,
    merge_grids,
    plan_sweep,
)
from leakbound.systems import CallOptions
from leakbound.tasks import Task

# keys whose values may be objects; an attack and a claim are several keys at once
OBJECTS = frozenset({*COMPONENTS, "system", "model", "task", "attack", "claim"})
BESIDE = ("guarantee", "access")  # parameters of a system, also where the grid lists systems
CLEARED: dict[str, dict[str, object]] = {  # keys of the base that an object of the grid overrides
    "attack": {"score": None},
    "system": {"address": None},
}
_Keys = dict[str, object]


def keys_and_objects(
    what: str, rows: Rows | None, parameters: Mapping[str, object], settings: object
) -> tuple[_Keys, Handed]:
    """Keys and objects of a call that may give any key in `settings`."""
    require_known(parameters, what)
    others = keys_of(settings)
    objects = {key: value for key, value in others.items() if _is_object(key, value)}
    plain = {key: value for key, value in others.items() if key not in objects}
    twice = sorted({*others} & {key for key in parameters if parameters[key] is not None})
    if twice:
        raise UsageError(f"{what} is given {twice[0]}, and settings has it too; leave one out.")
    keys, handed = describe_call({**parameters, **objects})
    flat = flat_keys({**plain, **_mergeable(keys)})
    if rows is not None:
        named = {key: flat[key] for key in FIELD_KEYS if key in flat}
        handed = handed.including("rows", rows_given(rows, make_spec(named).design))
    return flat, handed


def of_all_points(grid: object, parameters: Mapping[str, object]) -> Mapping[str, object]:
    """The parameters that speak of all points alike."""
    if isinstance(grid, Mapping) and "system" in grid:
        return {key: value for key, value in parameters.items() if key != "guarantee"}
    return parameters


def name_objects(grid: object) -> object:
    """A grid with a name in place of each object."""
    if not isinstance(grid, Mapping):
        return grid
    return {
        key: [_name(str(key), one) if _is_object(key, one) else one for one in _list_all(values)]
        for key, values in grid.items()
    }


def describe_grid(
    grid: object, shared: Handed, parameters: Mapping[str, object], base: Mapping[str, object]
) -> SweepObjects:
    """What the objects of a grid stand for."""
    listed = grid if isinstance(grid, Mapping) else {}
    _require_one_answerer(listed, base, shared)
    return SweepObjects(shared, {
        (key, _name(key, one)): _describe(key, one, parameters)
        for key, values in listed.items()
        for one in _list_all(values)
        if _is_object(key, one)
    })  # fmt: skip


def _require_one_answerer(
    grid: Mapping[str, object], base: Mapping[str, object], shared: Handed
) -> None:
    """Refuse a system beside a mechanism, wherever the two are given."""
    named = {key.partition(".")[0] for key in (*map(str, grid), *base)}
    own = shared.mechanism is not None and shared.mechanism.application is not None
    system = own or named & {"system", "address"}
    if system and "mechanism" in named:
        raise UsageError("system is audited in place of a mechanism; leave one of them out.")


def _describe(key: str, thing: object, parameters: Mapping[str, object]) -> Described:
    beside = {name: parameters[name] for name in BESIDE if name in parameters and key == "system"}
    keys, handed = describe_call({key: thing, **beside})
    found = Described({**CLEARED.get(key, {}), **_mergeable(keys)}, handed)
    if isinstance(thing, Claim):
        return replace(found, check=lambda spec: require_relation(thing, spec.attack.insertion))
    return found


def _mergeable(keys: Mapping[str, object]) -> _Keys:
    """Components that a file could hold become mappings, so that a grid may change an option."""
    return {
        key: value.to_config() if isinstance(value, Component) and value.python is None else value
        for key, value in keys.items()
    }


def _list_all(values: object) -> list[object]:
    return list(values) if isinstance(values, list | tuple) else [values]


def _is_object(key: object, value: object) -> bool:
    plain = value is None or isinstance(value, str | int | float | Mapping | list)
    return key in OBJECTS and not plain


def _name(key: str, thing: object) -> str:
    """What stands for an object in the record: its kind, and the options that are not defaults."""
    if isinstance(thing, Attack):
        parts = {"canary": thing.canary, "query": thing.query, "score": thing.score}
        named = [_name(part, one) for part, one in parts.items() if one is not None]
        return "+".join([*named, *([] if thing.insertion == "replace" else [thing.insertion])])
    if isinstance(thing, Claim):
        return f"({thing.epsilon:g}, {thing.delta:g})"
    if isinstance(thing, Model | Task):
        return thing.name
    if key not in COMPONENTS:
        return system_name(thing)
    found = Component.of(thing, catalogues()[key])
    kind = found.kind if found.python is None else type(thing).__name__
    options = ", ".join(f"{name}={value!r}" for name, value in _options(thing))
    return f"{kind}({options})" if options else kind


def _options(thing: object) -> list[tuple[str, object]]:
    if not dataclasses.is_dataclass(thing) or isinstance(thing, type):
        return []
    shown = [field for field in dataclasses.fields(thing) if field.init and field.repr]
    values = [(field.name, getattr(thing, field.name), field.default) for field in shown]
    return [(name, value) for name, value, usual in values if value != usual]


Result = AuditResult | str | Path


@in_python
def sweep(
    grid: Mapping[str, Sequence[object]],
    settings: Mapping[str, object] | None = None,
    *,
    rows: Rows | None = None,
    system: UserSystem | None = None,
    repeats: int = 1,
    queries: int = 0,
    skip_invalid: bool = False,
    calls: CallOptions | None = None,
    out: str | Path = "sweep",
    **parameters: Unpack[AuditParameters],
) -> SweepRecord:
    """Audit every combination of a grid, else with equal parameters, those of `audit`.

    Points that differ only in noise share model calls.

    Args:
        grid: Values by key, such as {"epsilon": [1, 2, 4], "mechanism.partitions": [5, 10]};
            objects or names, as in {"canary": [Hex(8), "natural"]}. The record names an object by
            its kind and options.
        settings: Any other key that all points share, as in a configuration file.
        rows: As in `audit`.
        system: As in `audit`.
        repeats: Seeds of each combination.
        queries: Held-out queries that measure utility; 0: none.
        skip_invalid: Skip points that cannot be run, instead of refusing the sweep.
        calls: How a system is called, as in `audit`.
        out: Folder of the runs.

    Returns:
        The record of all points.

    Raises:
        LeakboundError: With every sentence at once, before any model call, for points that cannot
            be run.

    Examples:
        >>> import leakbound, tempfile
        >>> rows = [(f"message {i}", "ab"[i % 2]) for i in range(40)]
        >>> def leaks(context, query):
        ...     return "yes" if any(row.input in query for row in context) else "no"
        >>> record = leakbound.sweep(
        ...     {"canary": [leakbound.canaries.Hex(8), leakbound.canaries.Hex(12)]},
        ...     rows=rows, system=leaks, pairs=8, out=tempfile.mkdtemp(),
        ... )
        >>> [point.changes["canary"] for point in record.points]
        ['hex(digits=8)', 'hex(digits=12)']
    """
    folder = require_path("out", out, "the folder of the runs, such as 'sweep'")
    opens, claim = CachingOpener(open_models), parameters.get("claim")
    given = {**parameters, "system": system}
    base, shared = keys_and_objects("sweep", rows, of_all_points(grid, given), settings)
    objects = describe_grid(grid, shared, given, base)
    planned = plan_sweep(
        base, merge_grids(name_objects(grid)), opens, repeats, queries, skip_invalid,
        lambda spec: require_relation(claim, spec.attack.insertion), objects,
    )  # fmt: skip
    return Sweep(planned, folder, opens, lambda prepared: runner_of(prepared, calls, folder)).run()


@in_python
def compare(
    results: Sequence[Result | InfluenceRecord],
) -> Comparison | SweepComparison | InfluenceComparison:
    """Compare finished audits, two sweeps or two influence records: what differs, and whether the
    difference is more than noise.

    Args:
        results: Results, or their run folders; or two folders of sweeps, whose common points are
            compared; or two influence records, or their folders, whose common contexts are.

    Returns:
        A row for each audit, and a test for each pair of rates that may be compared; of sweeps such
        a comparison for each point, of influence an interval for each measure.

    Raises:
        UsageError: For fewer than two results, for more than two sweeps or influence records, and
            for two kinds.
    """
    one = isinstance(results, str | Path | AuditResult | InfluenceRecord)
    if one or not isinstance(results, Iterable):
        shown = repr(results) if isinstance(results, str) else type(results).__name__
        raise UsageError(f"results is {shown}; it must be a list of results or run folders.")
    results = tuple(results)
    if len(results) < 2:
        raise UsageError(f"results holds {len(results)}; it must hold two results or more.")
    kinds = {kind_of_record(one) for one in results}
    if kinds <= {"audit"}:
        return compare_results([_load(one) for one in results])  # type: ignore[arg-type]
    if len(kinds) > 1 or len(results) != 2:
        raise UsageError(
            f"compare got {len(results)} records of {' and '.join(sorted(kinds))}; two sweeps or "
            "two influence records can be compared, or any number of audits."
        )
    first, second = results
    if kinds == {"influence"}:
        return compare_influences(_influence(first), _influence(second))
    return compare_sweeps(Path(str(first)), Path(str(second)))


def kind_of_record(one: object) -> str:
    """The kind of record that a result is, for `compare`."""
    if isinstance(one, InfluenceRecord):
        return "influence"
    if not isinstance(one, str | Path):
        return "audit"
    for kind in ("sweep", "influence"):
        if Path(one).name == f"{kind}.json" or (findable(one) / f"{kind}.json").is_file():
            return kind
    return "audit"


def _influence(one: object) -> InfluenceRecord:
    return one if isinstance(one, InfluenceRecord) else load_influence(str(one))


@in_python
def gate(
    result: Result,
    *,
    max_epsilon: float | None = None,
    min_power: float | None = None,
    factor: float = 2.0,
    require_no_violation: bool = False,
    max_delta: float = MAX_DELTA,
    accuracy: float | None = None,
) -> GateResult:
    """Decide by lower bounds whether a finished audit passes; one that could show nothing does not.

    Args:
        result: A result, or its run folder.
        max_epsilon: Largest lower bound that passes; None: the claim of the audit.
        min_power: Least probability of rejecting the claim if the system leaks `factor` times as
            much; None: not required.
        factor: Above 1.
        require_no_violation: The verdict itself must be no_violation.
        max_delta: Largest delta of a claim that passes.
        accuracy: Where random guessing is claimed: how often an attack is right that `min_power`
            is about.

    Raises:
        UsageError: For a number out of range.
    """
    found = _load(result)
    most = found.claim.epsilon if max_epsilon is None else max_epsilon
    required = Gate(most, min_power, factor, require_no_violation, max_delta, accuracy)
    return check_gate(found, required)


def _load(result: Result) -> AuditResult:
    if isinstance(result, AuditResult):
        return result
    return load_result(require_path("a result", result, "an AuditResult, or its run folder"))


@in_python
def verify(run: str | Path, *, anchors: Sequence[str] = ()) -> Verification:
    """Compute every digest of a finished run again; no model is asked.

    Whoever owns a run can rebuild its digests: against that, keep the commitment and the anchor
    elsewhere. The command `leakbound verify` also computes the bounds again.

    Args:
        run: The run folder.
        anchors: Digests that were kept elsewhere, of the commitment or of the finished run.

    Returns:
        What was found: `problems` is empty where everything is as the audit wrote it.

    Raises:
        StoreError: If the folder holds no trials, or they cannot be read.
        UsageError: If an anchor is none.

    Example:
        >>> import tempfile, leakbound
        >>> rows = [(f"message {i}", "ab"[i % 2]) for i in range(40)]
        >>> out = tempfile.mkdtemp()
        >>> result = leakbound.audit(rows, system=lambda context, query: "no", pairs=4, out=out)
        >>> leakbound.verify(f"{out}/{result.name}").problems
        ()
    """
    return verify_run(require_path("run", run, "the folder of a run"), anchors)
