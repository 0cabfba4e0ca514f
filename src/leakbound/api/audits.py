"""`audit` and `plan`: the public functions that audit, from objects or names to a result."""

from __future__ import annotations

import asyncio
import inspect
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Unpack, cast

from leakbound._catalogue import Component
from leakbound._members import require_members
from leakbound._sources import code_of
from leakbound.api.kinds import in_python, require_numbers, require_path
from leakbound.api.parameters import AuditParameters, Rows, UserSystem
from leakbound.attacks import Attack, AuditQuery, Canary, Score
from leakbound.auditing import AuditResult, AuditSpec, Claim, run_audit
from leakbound.auditing.collect.collect import runner_of
from leakbound.auditing.design.pairs import relation_of
from leakbound.auditing.one_run import plan_one_run, prepare_one_run, run_one_run
from leakbound.auditing.plan import Plan
from leakbound.auditing.plan import plan as plan_prepared
from leakbound.auditing.prepare.build import Handed, build_mechanism, is_named, open_models
from leakbound.auditing.prepare.prepare import prepare
from leakbound.auditing.prepare.prepared import Prepared
from leakbound.auditing.prepare.rows import public_task, require_public, rows_given
from leakbound.auditing.spec.audit_spec import COMPONENTS, catalogues, make_spec
from leakbound.errors import UsageError
from leakbound.estimators import Estimator
from leakbound.estimators.random_guessing import RANDOM_GUESSING, is_random_guessing
from leakbound.models import Model
from leakbound.models.address import require_model
from leakbound.privacy import Guarantee, NonPrivate
from leakbound.systems import CallOptions, SystemMechanism, as_system
from leakbound.tasks import Context, Task, require_mechanism


@in_python
def audit(
    rows: Rows | None = None,
    *,
    system: UserSystem | None = None,
    settings: Mapping[str, object] | None = None,
    calls: CallOptions | None = None,
    out: str | Path = "runs",
    **parameters: Unpack[AuditParameters],
) -> AuditResult:
    """Audit a system over private rows; the run is kept under `out` and resumed from there.

    A parameter that takes a name takes an object, too:
    `mechanism=ReportNoisyMax.calibrated(4, 1e-5)`, `canary=Hex(8)`, `model=open_model("pocket")`,
    `task=Task("mail", ("urgent", "other"))`.

    Args:
        rows: Examples, (input, label) pairs, mappings, or a data frame (PRIVATE), whose columns are
            found by usual names, or named by `input_field` and `label_field` in `settings`; None
            uses `data`, or the bundled task.
        system: A callable `(context, query) -> answer`, sync or async, an object with a method
            `answer`, a class of either, or an address such as "python:app.py:answer"; audited in
            place of a mechanism. A plain function or class is known by the file that defines it, so
            its run is resumed until that file changes; an object, a closure or a function with
            default values may hold anything, so its run is never resumed.
        mechanism: A mechanism, or its name in the catalogue; None: few_shot. By name, its noise is
            calibrated to the claim.
        model: A model, or its address; None: "pocket", the small model of this package.
        attack: Query, canary, score and insertion in one; excludes these parameters.
        query: What the attacker asks; None: membership.
        canary: The record that is inserted; None: hex.
        score: How outputs are scored; None: the strongest that the access allows.
        insertion: "replace" puts the canary in place of an example, "append" into its text, "add"
            adds one more example; None: "replace".
        access: What the attacker sees; None: all there is.
        channels: Channels of a system that are tested, each apart and all together: "answer",
            "seconds", "tool_calls", and names that its replies use, such as "logs"; ("all",) for
            each that there is. Without any, its replies are read as a whole.
        task: A task, or its name; None: inferred from the rows, but not for a mechanism with a
            guarantee, whose labels must be public (or `settings={"labels": [...]}`).
        data: A file of rows, in place of `rows`.
        claim: Epsilon and delta in one; excludes these parameters. Its relation must be that of the
            insertion: "add_remove" for "add", else "replace_one". "random-guessing" claims that no
            attack does better or worse than a coin: epsilon 0 at delta 0, tested on both sides;
            epsilon and delta then only calibrate the noise of a mechanism that is named.
        epsilon: The claim to test; None: 1.
        delta: Its delta, at least 0 and below 1; None: 1e-5.
        guarantee: What a system declares; None: nothing. A mechanism brings its own.
        estimator: What decides; None: e_process.
        threshold: A number, "split", "bonferroni" or "best"; None: the score's own rule.
        confidence: Of every bound, at least 0.5 and below 1.
        stop_when_rejected: End once the e-process has rejected what it tests.
        design: "paired" makes a context of its own for each trial. Two others need a store
            (`leakbound.systems.Store`, or an index that is known): "session" puts the canary of
            each trial into it and takes it out; "one_run" plants `canaries`, each by a fair coin,
            and asks about each once. "tenants" needs `open_tenant`: one tenant plants, one asks.
            "deletion" needs a store, or an object with plant, ask and remove: the canary is
            planted, used and deleted before the question.
        pairs: Paired trials.
        canaries: Canaries of a one_run design.
        shots: Examples in a context.
        answers: Outputs of one context that a trial sees.
        controls: Control pairs (canary everywhere, canary nowhere), and as many with one canary,
            which show whether the attack sees anything; 0: none, and then the verdict is never
            no_violation.
        state_check: Share of the pairs whose first query is asked again, to find a system that
            remembers; None: all, or a quarter where a system says that it keeps no state.
        seed: Root of all randomness.
        store_text: Which texts the run may keep.
        simulations: Simulated outputs, for the curves and for the part of the e-process that looks
            at noise of a wrong scale; they are not trials of their own.
        assume_hit: Probability that the model notices a canary in its context, for the power alone;
            where partitions answer, the context is that of one partition.
        assume_false_alarm: Probability that it signals a canary that is not there, for the power
            alone.
        batch_pairs: Paired trials collected at once; what an interruption can lose.
        settings: Any other key of a configuration file, such as {"canary.digits": 8}.
        calls: How a system is called, such as `CallOptions(connections=8, timeout=30)` of
            `leakbound.systems`: calls at once, time, retries, rate. It changes no result.
        out: Folder of the runs.

    Returns:
        The result; `print(result)` shows the verdict.

    Raises:
        LeakboundError: With a sentence, before the first model call, for whatever cannot be used.

    Example:
        >>> import leakbound
        >>> rows = [(f"message {i}", "ab"[i % 2]) for i in range(40)]
        >>> def leaks(context, query):
        ...     return "yes" if any(row.input in query for row in context) else "no"
        >>> import tempfile
        >>> result = leakbound.audit(rows, system=leaks, pairs=16, out=tempfile.mkdtemp())
        >>> result.verdict
        'violation'
    """
    folder = require_path("out", out, "the folder of the runs, such as 'runs'")
    spec, handed, context = _describe(rows, system, settings, parameters)
    if spec.design.layout == "one_run":
        asked = prepare_one_run(spec, rows=context, handed=handed)
        kept = (calls or CallOptions()).kept_at(asked.folder(folder))
        return run_one_run(replace(asked, mechanism=asked.mechanism.called(kept)), folder)[0]
    prepared = prepare(spec, rows=context, handed=handed)
    return run_audit(prepared, folder, ask=runner_of(prepared, calls, folder))[0]


async def audit_async(
    rows: Rows | None = None,
    *,
    system: UserSystem | None = None,
    settings: Mapping[str, object] | None = None,
    calls: CallOptions | None = None,
    out: str | Path = "runs",
    **parameters: Unpack[AuditParameters],
) -> AuditResult:
    """`audit` with these parameters in another thread, so that an event loop goes on meanwhile.

    Example:
        >>> import asyncio, leakbound, tempfile
        >>> rows = [(f"message {i}", "ab"[i % 2]) for i in range(40)]
        >>> async def silent(context, query):
        ...     return "no"
        >>> asyncio.run(
        ...     leakbound.audit_async(rows, system=silent, pairs=4, out=tempfile.mkdtemp())
        ... ).verdict
        'inconclusive'
    """
    return await asyncio.to_thread(
        audit, rows, system=system, settings=settings, calls=calls, out=out, **parameters
    )


@in_python
def plan(
    rows: Rows | None = None,
    *,
    system: UserSystem | None = None,
    settings: Mapping[str, object] | None = None,
    **parameters: Unpack[AuditParameters],
) -> Plan:
    """Compute what `audit` with these parameters will cost and can show, without a model call.

    Args:
        rows: As in `audit`.
        system: As in `audit`.
        settings: As in `audit`.

    Returns:
        Model calls, the largest certifiable epsilon, the power against true leakages.

    Raises:
        LeakboundError: As `audit` does.
    """
    spec, handed, context = _describe(rows, system, settings, parameters)
    if spec.design.layout == "one_run":
        return plan_one_run(prepare_one_run(spec, rows=context, handed=handed))
    return plan_prepared(prepare(spec, rows=context, handed=handed))


def prepare_call(
    rows: Rows | None = None,
    *,
    system: UserSystem | None = None,
    settings: Mapping[str, object] | None = None,
    source: str = "",
    opener: Callable[[AuditSpec], Model] = open_models,
    **parameters: Unpack[AuditParameters],
) -> Prepared:
    """Prepare the audit of a call, without starting it."""
    spec, handed, context = _describe(rows, system, settings, parameters, source)
    return prepare(spec, rows=context, handed=handed, opener=opener)


def _describe(
    rows: Rows | None,
    system: UserSystem | None,
    settings: Mapping[str, object] | None,
    parameters: AuditParameters,
    source: str = "",
) -> tuple[AuditSpec, Handed, Context | None]:
    require_known(parameters)
    keys, handed = describe_call({**parameters, "system": system}, source)
    others = keys_of(settings)
    for key in others:  # one that is a parameter would be given twice
        if key in PARAMETERS:
            raise UsageError(
                f"settings has {key}, which is a parameter of its own; give it as {key}=..."
            )
    spec = make_spec({**others, **keys}, handed.query)
    require_relation(parameters.get("claim"), spec.attack.insertion)
    if rows is not None and not (handed.task or public_task(spec.design, own_rows=True)):
        require_public(None, handed.mechanism or build_mechanism(spec))
    return spec, handed, None if rows is None else rows_given(rows, spec.design)


def describe_call(
    parameters: Mapping[str, object], source: str = ""
) -> tuple[dict[str, object], Handed]:
    """The keys and the objects of a call."""
    given: _Values = {**dict.fromkeys(PARAMETERS), **parameters}
    require_numbers(given)
    if not isinstance(given["data"], str | Path | None):
        raise _wrong("data", given["data"], "the path of a file; rows themselves are `rows`")
    guarantee = cast("Guarantee | None", given.pop("guarantee"))
    _open_attack(given)
    handed, address = _open_system(given, guarantee, source)
    _open_claim(given)
    handed, named = _components(given, handed)
    empty = {key for key, value in parameters.items() if value is None and key in NEVER_EMPTY}
    rest = {key: value for key, value in given.items() if value is not None or key in empty}
    return {**address, **named, **rest}, handed


_Values = dict[str, object]  # of parameters, or of keys of a spec
PARAMETERS = ("system", *AuditParameters.__annotations__)
NEVER_EMPTY = {
    key
    for key, kind in AuditParameters.__annotations__.items()
    if "None" not in kind.__forward_arg__
}


def show_parameters(function: Callable[..., object]) -> None:
    """Let `help` and notebooks show the parameters of an audit, with their defaults."""
    own, flat = inspect.signature(function), make_spec({}).flat()
    named = [one for one in own.parameters.values() if one.kind is not one.VAR_KEYWORD]
    defaults: _Values = {"design": flat["layout"], "channels": ()}  # other keys, or none
    shared = (
        inspect.Parameter(
            key, inspect.Parameter.KEYWORD_ONLY, annotation=kind.__forward_arg__,
            default=(flat | defaults)[key] if key in NEVER_EMPTY else None,
        )
        for key, kind in AuditParameters.__annotations__.items()
    )  # fmt: skip
    function.__signature__ = own.replace(parameters=[*named, *shared])  # type: ignore[attr-defined]


def require_known(parameters: Mapping[str, object], what: str = "audit") -> None:
    """Refuse what is not a parameter of `audit`."""
    from difflib import get_close_matches

    for name in parameters:
        if name not in PARAMETERS:
            near = get_close_matches(name, PARAMETERS, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else " Other keys go into settings={...}."
            raise UsageError(f"{what} has no parameter {name!r}.{hint}")


def _exclude(whole: str, given: Mapping[str, object], parts: tuple[str, ...]) -> None:
    both = [name for name in parts if given[name] is not None]
    if both:
        raise UsageError(f"{whole} holds {both[0]}, and {both[0]} is given too; leave one out.")


def keys_of(settings: object) -> _Values:
    """The keys of `settings`."""
    if not isinstance(settings, Mapping | None):
        raise _wrong("settings", settings, 'a mapping of keys, such as {"canary.digits": 8}')
    return {str(key): value for key, value in (settings or {}).items()}


def _open_attack(given: _Values) -> None:
    attack = given.pop("attack")
    if attack is None:
        return
    if not isinstance(attack, Attack):
        raise _wrong("attack", attack, "an Attack, such as Attack(Hex(16), Membership())")
    parts = ("query", "canary", "score", "insertion")
    _exclude("attack", given, parts)
    given.update({name: getattr(attack, name) for name in parts})


def _open_claim(given: _Values) -> None:
    claim = given.pop("claim")
    if claim is None:
        return
    if claim == RANDOM_GUESSING:
        given["claim"] = claim
        return
    if not isinstance(claim, Claim):
        raise _wrong("claim", claim, f"a Claim, such as Claim(1.0, 1e-5), or "
                     f"{RANDOM_GUESSING!r}; a number is epsilon")  # fmt: skip
    _exclude("claim", given, ("epsilon", "delta"))
    if is_random_guessing(claim):
        given["claim"] = RANDOM_GUESSING
        return
    given.update(epsilon=claim.epsilon, delta=claim.delta)


def require_relation(claim: Claim | str | None, insertion: str) -> None:
    """Refuse a claim under another relation than that of the contexts."""
    relation = relation_of(insertion)
    if not isinstance(claim, Claim) or claim.relation == relation:
        return
    other = "add" if claim.relation == "add_remove" else "replace"
    raise UsageError(
        f"the claim is stated under {claim.relation}, and insertion={insertion!r} changes contexts "
        f"by {relation}; use insertion={other!r}, or a Claim with relation={relation!r}."
    )


def _wrong(name: str, value: object, must: str) -> UsageError:
    shown = repr(value) if isinstance(value, str | float) else type(value).__name__
    return UsageError(f"{name} is {shown}; it must be {must}.")


def _open_system(
    given: _Values, guarantee: Guarantee | None, source: str
) -> tuple[Handed, _Values]:
    """A callable becomes a mechanism; an address is a key of the spec."""
    system = given.pop("system")
    if guarantee is not None and system is None:
        raise UsageError(
            "guarantee is what a system declares, and a mechanism brings its own; leave it out."
        )
    if system is None:
        return Handed(), {}
    if given["mechanism"] is not None:
        raise UsageError("system is audited in place of a mechanism; leave one of them out.")
    if isinstance(system, str):
        return Handed(), {"address": system}
    name, scored = system_name(system), given["access"] == "white_box"
    user, code = as_system(system, name), source or code_of(system) or uuid.uuid4().hex
    declared = guarantee or NonPrivate()
    return Handed(mechanism=SystemMechanism(user, name, declared, scored, code)), {}


def _components(given: _Values, handed: Handed) -> tuple[Handed, _Values]:
    """Names are keys of the spec, and so are objects that a name with options makes."""
    values: _Values = {}
    for key in ("mechanism", "query", "canary", "score", "estimator", "model", "task"):
        thing = given.pop(key)
        if isinstance(thing, str):
            values[key] = thing
        elif thing is not None:
            _require_usable(key, thing)
            if key in COMPONENTS:
                values[key] = Component.of(thing, catalogues()[key])
            elif key == "model":
                values[key] = require_model(thing).name
            if not is_named(values.get(key), key, thing):
                handed = handed.including(key, thing)
    return handed, values


# what an object must satisfy to stand for a component, and where users import that from
_PROTOCOLS: dict[str, tuple[type[object], str]] = {
    "query": (AuditQuery, "leakbound.attacks.AuditQuery"),
    "canary": (Canary, "leakbound.attacks.Canary"),
    "score": (Score, "leakbound.attacks.Score"),
    "estimator": (Estimator, "leakbound.estimators.Estimator"),
}


def _require_usable(key: str, thing: object) -> None:
    if key == "mechanism":
        require_mechanism(thing)
    elif key in _PROTOCOLS:
        require_members(key, thing, *_PROTOCOLS[key])
    elif key == "task" and not isinstance(thing, Task):
        raise _wrong(key, thing, 'a name, or a Task, such as Task("mail", ("urgent", "other"))')


def system_name(system: object) -> str:
    return str(getattr(system, "__name__", "system"))


show_parameters(audit)
show_parameters(audit_async)
show_parameters(plan)
