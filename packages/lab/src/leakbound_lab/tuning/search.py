"""The search for a better query, and what it leaves:

an attack file that `leakbound audit --config` takes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Unpack

import yaml

from leakbound._check import whole
from leakbound._files import write_private
from leakbound._sources import class_source
from leakbound._version import __version__
from leakbound.api.audits import require_relation
from leakbound.api.decisions import keys_and_objects
from leakbound.api.kinds import require_path
from leakbound.api.parameters import AuditParameters, Rows, UserSystem
from leakbound.auditing.collect.collect import SystemRunner, runner_of
from leakbound.auditing.one_run import prepare_one_run
from leakbound.auditing.prepare.build import Handed, open_models
from leakbound.auditing.prepare.prepare import prepare
from leakbound.auditing.prepare.prepared import Prepared
from leakbound.auditing.spec.audit_spec import AuditSpec, make_spec
from leakbound.auditing.store.folder import run_id
from leakbound.errors import StoreError, UsageError, reason_of
from leakbound.models import Complete, Endpoint, Model
from leakbound.models.address import open_shared
from leakbound.models.content import Content
from leakbound.systems import CallOptions
from leakbound_lab.tuning.pilot import (
    PERFECT,
    SPENT,
    OutOfCalls,
    Pilot,
    outputs_each,
    pilot_score,
    require_start,
)
from leakbound_lab.tuning.reflect import TOKENS, require_gepa, search_by_reflection
from leakbound_lab.tuning.words import first_text, place_of, with_wording, words_for

NONE = "none"
IRRELEVANT = {
    "data",
    "simulations",
    "confidence",
    "estimator",
    "threshold",
    "stop_when_rejected",
    "assume_hit",
    "assume_false_alarm",
    "store_text",
}  # what changes neither a question nor what the pilot reads of a release
ONE_RUN_ONLY = ("canaries", "claim_for", "threshold")  # what a session has not, or of another kind


@dataclass(frozen=True, slots=True)
class Tuned:
    """What a tuning found. `after` is the best of many on the pilot pairs, so it is optimistic: the
    audit tells what it is worth.

    scored: pilot accuracy of every query that was tried on all pilot pairs, in order; refused: how
    many could not be asked.
    """

    start: str
    best: str
    before: float
    after: float
    scored: dict[str, float]
    refused: int
    calls: int
    max_calls: int
    pairs: int
    ended: str
    reflection: str
    prepared: Prepared
    folder: Path

    @property
    def cost(self) -> str:
        """In money: no model of this package has a known price."""
        return "unknown"


def open_pilot(
    spec: AuditSpec,
    start: str,
    pairs: int,
    max_calls: int,
    out: Path,
    reflection: str = NONE,
    reflection_tokens: int = TOKENS,
    endpoint: Endpoint | None = None,
    handed: Handed | None = None,
    calls: CallOptions | None = None,
) -> Pilot:
    """The pilot of an audit; whatever can be known to be wrong is refused before any model call."""
    whole("pilot_pairs", pairs)
    whole("max_calls", max_calls)
    whole("reflection_tokens", reflection_tokens)
    place = "{" + place_of(spec.attack.query) + "}"
    if place not in start:
        raise UsageError(
            f"the starting query must hold {place}; give a text that holds it with --start."
        )
    given = handed or Handed()
    asked, planted = _with_trials(spec, given)
    wanted = with_wording(spec.attack.query, start).to_config()
    asked = make_spec({**asked.flat(), "rows": spec.design.rows, "query": wanted})
    prepared = prepare(asked, handed=given, opener=partial(open_models, endpoint=endpoint))
    runner = runner_of(prepared, calls)  # the system is called so wherever it is asked
    if isinstance(runner, SystemRunner):
        prepared = replace(prepared, mechanism=runner.mechanism)
    kept = {key: value for key, value in asked.flat().items() if key not in IRRELEVANT}
    identity = {
        "spec": kept,
        "pilot_pairs": pairs,
        "outputs": outputs_each(pilot_score(prepared.attack.score), prepared.mechanism),
        "reflection": [reflection, reflection_tokens],
        "system": prepared.identity["system"],
        "score": class_source(type(prepared.attack.score)),
        "data": prepared.data,
        "model": prepared.model.fingerprint,
        "version": __version__,
    }
    pilot = Pilot(prepared, pairs, max_calls, out / run_id("tune", identity), planted)
    require_start(pilot, start)
    return pilot


def _with_trials(spec: AuditSpec, given: Handed) -> tuple[AuditSpec, set[Content]]:
    """The spec of the pilot, and canaries that it must not plant: one run has no paired trials, so
    that of its store are sessions with one canary each."""
    if spec.design.layout != "one_run":
        return spec, set()
    one = prepare_one_run(spec, handed=given)
    unused = {key: AuditSpec().flat()[key] for key in ONE_RUN_ONLY}
    flat = {**spec.flat(), "rows": spec.design.rows, **unused, "layout": "session"}
    return make_spec(flat), {planted.record.input for planted in one.design.every}


def tune_spec(
    spec: AuditSpec,
    *,
    max_calls: int,
    pairs: int = 20,
    start: str = "",
    reflection: str | Model | None = None,
    reflection_tokens: int = TOKENS,
    out: Path = Path("runs"),
    tell: Callable[[str], None] = lambda line: None,
    endpoint: Endpoint | None = None,
    handed: Handed | None = None,
    calls: CallOptions | None = None,
) -> Tuned:
    """`tune` of a spec.

    reflection: a model, its address, "none" for the rewrites of this package, or None for the
    audited model itself. It reads the canaries of the pilot pairs, which may be private text, and
    what was replied to them. reflection_tokens: of its replies, at most.
    endpoint: where openai/... models are. calls: how a system is called. handed: objects that the
    spec does not name.
    """
    name = reflection if isinstance(reflection, str) else getattr(reflection, "name", "")
    if name != NONE:
        require_gepa()
    text = start or first_text(spec.attack.query)
    pilot = open_pilot(
        spec, text, pairs, max_calls, out, name, reflection_tokens, endpoint, handed, calls
    )
    reflector = _reflector(reflection, pilot.prepared, endpoint)
    tell(_title(pilot, reflector))
    try:
        ended = _search(pilot, text, reflector, reflection_tokens, tell)
        return _result(pilot, text, ended, reflector)
    finally:
        pilot.prepared.close()


def tune(
    settings: Mapping[str, object] | None = None,
    *,
    rows: Rows | None = None,
    system: UserSystem | None = None,
    max_calls: int = 2000,
    pilot_pairs: int = 20,
    start: str = "",
    reflection: str | Model | None = None,
    reflection_tokens: int = TOKENS,
    calls: CallOptions | None = None,
    out: str | Path = "runs",
    **parameters: Unpack[AuditParameters],
) -> Tuned:
    """Search a better query for `audit` with these parameters, on paired trials of its own.

    Args:
        settings: Any other key of a configuration file.
        rows: As in `audit`.
        system: As in `audit`.
        max_calls: Budget of model calls.
        pilot_pairs: Paired trials that score a wording.
        start: Wording to start from, with {canary} in it; empty: that of the audit.
        reflection: Model that proposes wordings and reads the canaries of the pilot and what was
            replied, or its address; "none" tries a list of rewrites; None: the audited model.
        reflection_tokens: Tokens of its replies, at most.
        calls: How a system is called, as in `audit`.
        out: Where tried wordings are kept.

    Returns:
        The best wording, and its accuracy on the pilot before and after.

    Raises:
        LeakboundError: With a sentence for whatever cannot be used.

    Reference:
        CL, section on query optimisation.
    """
    folder = require_path("out", out, "the folder of the runs, such as 'runs'")
    keys, handed = keys_and_objects("tune", rows, {**parameters, "system": system}, settings)
    spec = make_spec(keys, handed.query)
    require_relation(parameters.get("claim"), spec.attack.insertion)
    if handed.query is not None and not start:
        raise UsageError(
            f"query is {type(handed.query).__name__}, whose wording is not known; add start=, a "
            "text that holds {canary}."
        )
    return tune_spec(
        spec, max_calls=max_calls, pairs=pilot_pairs, start=start, reflection=reflection,
        reflection_tokens=reflection_tokens, out=folder, handed=replace(handed, query=None),
        calls=calls,
    )  # fmt: skip


def _reflector(
    reflection: str | Model | None, prepared: Prepared, endpoint: Endpoint | None
) -> Model | None:
    if reflection == NONE:
        return None
    if isinstance(reflection, str) and reflection != prepared.spec.system.model:
        return open_shared(reflection, endpoint=endpoint)
    found = prepared.model if reflection is None or isinstance(reflection, str) else reflection
    if found is prepared.model and not (prepared.mechanism.needs and Complete in found.supports):
        raise UsageError(
            f"{prepared.mechanism.name} has no language model that could reflect; name one with "
            "--reflection-model, or use --reflection-model none."
        )
    return found


def _title(pilot: Pilot, reflector: Model | None) -> str:
    who = (
        f"{reflector.name} reflects and reads the canaries of the pilot and the replies to them"
        if reflector
        else "no reflection model"
    )
    return (
        f"{len(pilot.pairs)} pilot pairs, {pilot.budget.limit} calls at most "
        f"({pilot.budget.spent} already spent), {who}"
    )


def _search(
    pilot: Pilot, start: str, reflector: Model | None, tokens: int, tell: Callable[[str], None]
) -> str:
    try:
        tell(_line("start", pilot.accuracy(start), pilot))
        if reflector is not None:
            return search_by_reflection(pilot, start, reflector, tokens)
        return _search_by_rewrites(pilot, tell)
    except OutOfCalls:
        return SPENT


def _search_by_rewrites(pilot: Pilot, tell: Callable[[str], None]) -> str:
    texts, _ = words_for(pilot.prepared.spec.attack.query)
    for number, text in enumerate(texts, 1):
        if pilot.perfect():
            return PERFECT
        tell(_line(f"rewrite {number} of {len(texts)}", pilot.accuracy(text), pilot))
    return "all rewrites were tried"


def _line(what: str, accuracy: float, pilot: Pilot) -> str:
    return (
        f"{what}: pilot accuracy {accuracy:.3f} ({pilot.budget.spent} of {pilot.budget.limit} "
        "calls)"
    )


def _result(pilot: Pilot, start: str, ended: str, reflector: Model | None) -> Tuned:
    scored = pilot.scored()
    if start not in scored:
        raise UsageError(
            f"the budget of {pilot.budget.limit} calls ran out before the starting query was "
            "scored; use more calls (--max-calls) or fewer pilot pairs (--pilot-pairs). What was "
            "asked is kept, and not asked again."
        )
    best = max(scored, key=lambda text: scored[text])
    name = reflector.name if reflector else NONE
    return Tuned(
        start, best, scored[start], scored[best], scored, pilot.refused(), pilot.budget.spent,
        pilot.budget.limit, len(pilot.pairs), ended, name, pilot.prepared,
        pilot.journal.path.parent,
    )  # fmt: skip


def attack_file(tuned: Tuned) -> str:
    """The tuned query as configuration of an audit, under a header that says how it was found."""
    spec = tuned.prepared.spec
    values = {"query": with_wording(spec.attack.query, tuned.best).to_config()}
    audited, model = tuned.prepared.mechanism.name, tuned.prepared.model.name
    header = (
        f"A query tuned by leakbound {__version__} on {audited} with {model}.",
        f"Pilot accuracy before: {tuned.before:.3f}, after: {tuned.after:.3f} ({tuned.pairs} pilot "
        f"pairs, the best of {len(tuned.scored)} queries, so too high for what it is worth).",
        f"Calls spent: {tuned.calls} of {tuned.max_calls}; cost: {tuned.cost}. Reflection model: "
        f"{tuned.reflection}.",
        f"Seed: {spec.design.seed}. An audit of this seed with at most {spec.design.pairs} pairs "
        "shares no random stream and no canary with it.",
    )
    told = "".join(f"# {' '.join(line.split())}\n" for line in header)
    return told + str(yaml.safe_dump(values, sort_keys=False, allow_unicode=True, width=1000))


def save_attack(tuned: Tuned, path: Path) -> None:
    """Write the attack file, whole or not at all, readable by its owner only."""
    try:
        write_private(path, attack_file(tuned))
    except OSError as error:
        raise StoreError(
            f"the attack file {str(path)!r} cannot be written ({reason_of(error)}); name another "
            "with --save."
        ) from None


def dspy_metric(pilot: Pilot) -> Callable[..., float]:
    """A metric for DSPy's optimisers, for those who would rather search with them; needs no extra.

    A DSPy program with an output field `query_text` proposes a wording; an example carries the
    place of a pilot pair as `pair`:

    pilot = open_pilot(spec, start, pairs=20, max_calls=2000, out=Path("runs")) trainset =
    [dspy.Example(pair=i).with_inputs() for i in range(len(pilot.pairs))]
    dspy.MIPROv2(metric=dspy_metric(pilot), ...).compile(program, trainset=trainset)

    The metric is the share of the outputs of the pair's two contexts that were called right: 0, a
    half or 1 for one output each; 0 for a wording that cannot be asked. If the audit's score has
    no fixed threshold, a wording is asked on all pilot pairs at once. Calls count in the pilot's
    budget, and what is known is not asked again. Raises OutOfCalls when the budget is spent.
    """

    def metric(example: Any, prediction: Any, *_: object, **__: object) -> float:
        return sum(pilot.outcome(str(prediction.query_text), int(example.pair))) / 2

    return metric
