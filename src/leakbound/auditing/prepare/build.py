"""Build the objects that run from a spec: mechanism or system, models, attack, estimator.

Objects that were handed over take the place of what the spec names. What does not fit is refused
here, before any model call.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, cast

from leakbound._catalogue import Catalogue, Component, is_told
from leakbound.attacks import CANARIES, QUERIES, SCORES, AuditQuery, Canary, Score, ScoredAttack
from leakbound.auditing.spec.audit_spec import AuditSpec, catalogues
from leakbound.auditing.spec.groups import AttackSpec, SystemSpec
from leakbound.auditing.store.folder import Settings
from leakbound.errors import UsageError
from leakbound.estimators import ESTIMATORS, Estimator
from leakbound.estimators.random_guessing import RANDOM_GUESSING, two_sided
from leakbound.mechanisms import MECHANISMS, PublicFacts, service_options
from leakbound.mechanisms import build_mechanism as from_catalogue
from leakbound.models import (
    Endpoint,
    Local,
    Model,
    Unopened,
    WithEmbedder,
    WithJudge,
    open_embedder,
)
from leakbound.models.address import is_address, open_shared
from leakbound.systems import SystemMechanism, load_system
from leakbound.systems.channels import ALL
from leakbound.tasks import Context, Mechanism, Task


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Handed:
    """Objects that a caller hands over (rows are PRIVATE); None where the spec says what to use."""

    rows: Context | None = None
    task: Task | None = None
    model: Model | None = None
    mechanism: Mechanism | None = None  # or a system, behind its adapter
    query: AuditQuery | None = None
    canary: Canary | None = None
    score: Score | None = None
    estimator: Estimator | None = None

    def including(self, name: str, thing: object) -> Handed:
        return replace(self, **cast("dict[str, Any]", {name: thing}))

    def names(self) -> tuple[str, ...]:
        return tuple(f.name for f in fields(self) if getattr(self, f.name) is not None)


CLAIMS = 1.0, 4.0  # any two: what follows from a claim differs between them


def is_named(component: object, key: str, thing: object) -> bool:
    """Whether a configuration makes an equal object, so that nobody has to hand it over."""
    if not isinstance(component, Component) or component.python is not None or not is_told(thing):
        return False  # nor where `==` does not tell what it holds
    try:
        return all(_make(component, key, epsilon) == thing for epsilon in CLAIMS)
    except UsageError:  # the class takes no plain values for what the object holds
        return False


def _make(component: Component, key: str, epsilon: float) -> object:
    if key == "mechanism":
        return from_catalogue(component.kind, component.options, epsilon, 1e-5)
    return catalogues()[key].build(component)


def build_mechanism(spec: AuditSpec) -> Mechanism:
    """The mechanism that a spec names, or the application at its address."""
    if spec.system.address is not None:
        _require_alone(spec.system)
        scored = spec.attack.access == "white_box"
        return load_system(spec.system.address, scored, spec.system.system_options)
    if spec.system.system_options:
        raise UsageError(
            "system options are arguments of an application, and no --system is given; name it, "
            "or leave them out. A mechanism takes its options with its name, as in "
            "report_noisy_max:partitions=5."
        )
    named, claim = spec.system.mechanism, spec.decision
    if named.python is not None:
        _component(named, MECHANISMS)
    made = from_catalogue(named.kind, named.options, claim.epsilon, claim.delta)
    _require_examples(made, spec.design.shots)
    return made


def build_served(spec: AuditSpec, task: Task) -> Mechanism:
    """The mechanism of a service, with examples grouped by the public rule."""
    if spec.system.address is not None:
        return build_mechanism(spec)
    named, claim = spec.system.mechanism, spec.decision
    facts = PublicFacts(spec.design.shots, len(task.labels), claim.epsilon, claim.delta)
    grouped = Component(kind=named.kind, **service_options(named.kind, named.options, facts))
    system = spec.system.model_copy(update={"mechanism": grouped})
    return build_mechanism(spec.model_copy(update={"system": system}))


def _require_alone(system: SystemSpec) -> None:
    """Refuse a model, a mechanism or an option beside an application that answers by itself."""
    default, own = AuditSpec().system, f"the application {system.address!r} asks its own model"
    if system.model != default.model:
        raise UsageError(
            f"{own}, and the model {system.model} is named beside it; leave one of them out."
        )
    for name in ("embedder", "judge_model", "trust_remote_code"):
        if value := getattr(system, name):
            raise UsageError(f"{own}, and {name} is {value}, which would be ignored; leave it out.")
    named = system.mechanism
    if named.kind == default.mechanism.kind and named.options:
        raise UsageError(
            f"{next(iter(named.options))} is an option of a mechanism, and the application "
            f"{system.address!r} answers by itself; leave it out."
        )
    if named != default.mechanism:
        raise UsageError(
            f"the application {system.address!r} answers by itself, and the mechanism "
            f"{named.kind} is named beside it; leave one of them out."
        )


def _require_examples(mechanism: Mechanism, shots: int) -> None:
    parts = mechanism.to_config().get("partitions", 1)
    if mechanism.guarantee.relation == "add_remove":
        return  # partitions without an example answer, too: their number is not a public fact
    if isinstance(parts, int) and parts > shots:
        raise UsageError(
            f"{parts} partitions need at least as many examples, and shots is {shots}; use "
            f"partitions={shots} or fewer, or --shots {parts} or more."
        )


def open_models(
    spec: AuditSpec, endpoint: Endpoint | None = None, local: Local | None = None
) -> Model:
    """The model that a spec names, with embedder and judge beside it where they are named."""
    system = spec.system
    model = open_shared(system.model, system.trust_remote_code, endpoint, local)
    if system.embedder:
        model = WithEmbedder(model, open_embedder(system.embedder))
    if not system.judge_model:
        return model
    return WithJudge(
        model, open_shared(system.judge_model, system.trust_remote_code, endpoint, local)
    )


def build_estimator(spec: AuditSpec, handed: Handed) -> Estimator:
    """The one that decides: about a claim that has a name, and about each channel."""
    found = handed.estimator or cast(Estimator, _component(spec.decision.estimator, ESTIMATORS))
    if spec.decision.claim is not None:
        require_alone(spec, handed)
        found = two_sided(found)
    channels = spec.attack.channels
    return _by_channel(found, channels, spec.design.controls) if channels else found


ANY = (1.0, 1e-5), (4.0, 1e-5)  # any two: noise that is calibrated to a claim differs between them


def require_alone(spec: AuditSpec, handed: Handed) -> None:
    """Refuse settings that mean nothing beside a claim that has a name."""
    # beside this claim, epsilon and delta are what noise is calibrated to, and nothing else
    stated, named = spec.decision.model_fields_set & {"epsilon", "delta"}, spec.system.mechanism
    calibrated = handed.mechanism is None and spec.system.address is None and _calibrate(spec)
    if calibrated and "epsilon" not in stated:
        raise UsageError(
            f"the noise of {named.kind} is calibrated to epsilon, and the claim {RANDOM_GUESSING} "
            "says nothing about it; add --epsilon, which then calibrates the noise alone, or give "
            "the noise as an option of the mechanism."
        )
    if stated and not calibrated:
        raise UsageError(
            f"the claim {RANDOM_GUESSING} is epsilon 0 at delta 0, and {sorted(stated)[0]} is "
            "given too; leave one of them out."
        )
    decision = spec.decision
    if spec.attack.channels:
        raise UsageError(
            f"channels are tested against an epsilon, and the claim is {RANDOM_GUESSING}; leave "
            "--channels out, or state --epsilon in place of --claim."
        )
    if (decision.assume_hit, decision.assume_false_alarm) != (1.0, 0.0):
        raise UsageError(
            "the power of a test of random guessing is stated by the accuracy of an attack, so "
            "nothing reads assume_hit and assume_false_alarm; leave them out, or --pilot."
        )


def _calibrate(spec: AuditSpec) -> bool:
    """Does the noise of the mechanism depend on epsilon?"""
    named = spec.system.mechanism
    one, other = (from_catalogue(named.kind, named.options, *claim) for claim in ANY)
    return one.to_config() != other.to_config()


def build_attack(spec: AttackSpec, mechanism: Mechanism, handed: Handed) -> ScoredAttack:
    """The attack that a spec names; refused if the system does not release what it reads."""
    query: AuditQuery = _component(spec.query, QUERIES, handed.query)
    canary: Canary = _component(spec.canary, CANARIES, handed.canary)
    score: Score = _score(spec, query, mechanism) if handed.score is None else handed.score
    if spec.access == "black_box" and score.access != "black_box":
        raise UsageError(
            f"the score {score.name} needs {score.access} access, and access is black_box; "
            "use --score predicted_member."
        )
    attack = ScoredAttack(canary, query, score, spec.insertion)
    attack.require(mechanism)
    return attack


def _score(spec: AttackSpec, query: AuditQuery, mechanism: Mechanism) -> Score:
    if spec.score is not None:
        return cast(Score, _component(spec.score, SCORES))
    if query.free or query.score:
        return SCORES[query.score or "contains_canary"]()
    more = spec.access != "black_box" and mechanism.access > {"black_box"}
    return SCORES[(mechanism.strongest_score if more else None) or "predicted_member"]()


def _component(component: Component, catalogue: Catalogue[Any], handed: object = None) -> Any:
    """What was handed over, or an object of a catalogue; one that is only described is refused."""
    if handed is not None:
        return handed
    if component.python is not None:
        raise UsageError(
            f"{catalogue.what} {component.kind!r} is the Python object {component.python}, which a "
            "configuration cannot make; hand it over to leakbound.audit again."
        )
    return catalogue.build(component)


def parts_without_name(handed: Handed, spec: AuditSpec) -> tuple[str, ...]:
    """What a spec does not name, or does not keep: its own rows."""
    model, address = handed.model, spec.system.model
    named = model is not None and model.name == address and is_address(address)
    own = () if spec.design.rows is None else ("rows",)
    names = dict.fromkeys((*own, *handed.names()))
    return tuple(name for name in names if not (named and name == "model"))


def text_tokens(model: Any) -> Callable[[str], list[str]]:
    """What splits a text into the target's own tokens."""
    while not hasattr(model, "encode_response") and hasattr(model, "model"):
        model = model.model
    if not hasattr(model, "encode_response"):
        return str.split
    return lambda text: [model.text((token,)) for token in model.encode_response(text)]


def with_channels(mechanism: Mechanism, channels: tuple[str, ...]) -> Mechanism:
    """A system that keeps what goes through its channels."""
    if not channels:
        return mechanism
    application: SystemMechanism | None = mechanism.application
    if application is not None:
        return replace(application, channels=channels)
    raise UsageError(
        f"channels are those of an application, and {mechanism.name} is a mechanism, which has its "
        "answer alone; give an application with --system, or leave --channels out."
    )


def _by_channel(estimator: Estimator, channels: tuple[str, ...], controls: int) -> Estimator:
    found = estimator.by_channel()
    if found is None:
        raise UsageError(
            f"channels are tested by e-processes, and the estimator is {estimator.name}; use "
            "--estimator e_process, or leave --channels out."
        )
    if ALL in channels and not controls:
        raise UsageError(
            "channels is all, the replies of control pairs show which there are, and controls is "
            "0; name the channels, or leave controls=0 out."
        )
    return found


STATELESS_SHARE = 0.25  # enough to find a memory, and few calls where a system should have none


def repeat_share(share: float | None, mechanism: Mechanism) -> float:
    if mechanism.needs:
        if share:
            raise UsageError(
                f"state_check is {share:g}, and {mechanism.name} asks a model, which is asked an "
                "equal request once; leave state_check out."
            )
        return 0.0
    if share is not None:
        return share
    application = mechanism.application
    return STATELESS_SHARE if application and application.stateless else 1.0


def model_of_run(spec: AuditSpec, manifest: Settings) -> Unopened:
    """The model of a run, which is not opened."""
    changes = manifest["beside"].get("may_change", False)
    return Unopened(spec.system.model, manifest["model"], changes)
