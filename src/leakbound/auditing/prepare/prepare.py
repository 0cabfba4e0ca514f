"""From a spec to an audit that may start; what needs no model call to refuse is refused here."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields, replace
from itertools import chain

from leakbound.attacks.background_copies import VoteContexts, edge_copies
from leakbound.auditing.design.pairs import Copies, Pair, design, relation_of
from leakbound.auditing.prepare.build import (
    Handed,
    build_attack,
    build_estimator,
    build_mechanism,
    open_models,
    parts_without_name,
    repeat_share,
    text_tokens,
    with_channels,
)
from leakbound.auditing.prepare.identity import (
    manifest_of,
    objects_of,
    questions_of,
    run_name,
    same_trials_key,
    settings_without_places,
    sources_of,
)
from leakbound.auditing.prepare.prepared import (
    AuditParts,
    Prepared,
    cost_of,
    repeats_of,
    trial_design,
    with_others,
)
from leakbound.auditing.prepare.rows import (
    documents_and_task,
    public_fields,
    public_task,
    require_public,
    rows_and_task,
    share_staged,
    share_store,
)
from leakbound.auditing.spec.audit_spec import AuditSpec
from leakbound.auditing.spec.groups import Design
from leakbound.auditing.spec.staged import STAGED
from leakbound.errors import UsageError
from leakbound.estimators import REPORTED
from leakbound.estimators.base import ROUNDING, require_deciding
from leakbound.models import Model, Scripted, require
from leakbound.privacy import Gaussian, Guarantee, NonPrivate, self_compose
from leakbound.systems.stores import require_contexts
from leakbound.tasks import (
    Context,
    Example,
    Mechanism,
    PublicManifest,
    Task,
    Votes,
    require_mechanism,
)
from leakbound.tasks.facts import draws_early, exactness_of, parts_of, vote_noise_of
from leakbound.tasks.rows.datasets import fingerprint


def prepare(
    spec: AuditSpec,
    model: Model | None = None,
    *,
    rows: Context | None = None,
    handed: Handed | None = None,
    opener: Callable[[AuditSpec], Model] = open_models,
    own_test: bool = False,
) -> Prepared:
    """Load, design and check; `opener` makes a model that is not handed over, once the cheaper
    checks have passed. `own_test`: one of several that were fixed beforehand."""
    if spec.design.layout == "one_run":
        raise UsageError(
            "a one_run design has no paired trials; run it by itself with leakbound audit, or use "
            "--design paired or session."
        )
    require_used_counts(spec.design)
    given = handed or Handed()
    given = replace(given, model=model or given.model, rows=given.rows if rows is None else rows)
    prepared = _fill(_build(spec, given, opener), own_test)
    prepared = with_others(prepared)
    prepared = replace(prepared, repeats=repeats_of(prepared))
    late = () if prepared.late_controls is None else prepared.late_controls.late(1)
    asked = chain(prepared.pairs, prepared.controls, late)
    check(prepared.task, prepared.mechanism, asked, prepared.model)
    require_evidence(prepared)
    prepared.trial_design.require_pairs()
    require_deciding(prepared.estimator, prepared.trial_design)
    own = prepared.estimator
    if any(one.name == own.name and one.reads != own.reads for one in REPORTED):
        raise UsageError(
            f"the estimator {type(own).__name__} is called {own.name}, as one of leakbound that "
            "reads something else; records know bounds by their name: give it another one."
        )
    return prepared


def _build(spec: AuditSpec, given: Handed, opener: Callable[[AuditSpec], Model]) -> AuditParts:
    channels, shape = spec.attack.channels or (), spec.design
    mechanism = require_mechanism(given.mechanism or build_mechanism(spec))
    mechanism = with_channels(mechanism, channels)
    estimator = build_estimator(spec, given)
    fixed = given.task or public_task(shape, given.rows is not None)
    require_public(fixed, mechanism)
    # what an application answers from may have no labels, and examples of a model have one
    read = rows_and_task if mechanism.needs else documents_and_task
    data, task = read(shape, given.rows, given.task)
    attack = build_attack(spec.attack, mechanism, given)
    model = given.model if mechanism.needs else Scripted(name=mechanism.name)
    model = model or opener(spec)
    attack = replace(attack, canary=attack.canary.fit(data, text_tokens(model)))
    attack.require(mechanism)  # with the canary that is planted
    sources, beside = data, None
    staged = STAGED.get(shape.layout)
    staged = staged and replace(staged, clients=shape.clients)
    if shape.layout != "paired":
        share = share_store if staged is None else share_staged
        mechanism, sources, beside = share(spec, mechanism, data)
    elif (application := mechanism.application) is not None:
        require_contexts(application.system, application.name)
    shots = shape.shots if beside is None else len(beside)
    repeated = repeat_share(shape.state_check, mechanism)
    # the spec holds only the paths of what the canary read from files
    files = (Example(content, "") for content in attack.canary.file_contents)
    names = parts_without_name(given, spec)
    made = mechanism if mechanism.application is None else None
    parts = AuditParts(
        spec, task, mechanism, attack, estimator, model,
        design(sources, task, attack, shape.pairs, shots, shape.seed, repeated, beside=beside,
               staged=staged),
        data=fingerprint((*data, *files)), handed=names,
        objects=objects_of(given, names, task, attack, made, shape.task),
        public_labels=fixed.labels if fixed else (),
        inferred=fixed is None and bool(task.labels and mechanism.needs),
    )  # fmt: skip
    require_relation(parts)
    return replace(parts, pairs=parts.pairs.with_copies(background_copies(parts)))


def _fill(parts: AuditParts, own_test: bool) -> Prepared:
    trials = trial_design(parts)
    spec, task, mechanism, model = parts.spec, parts.task, parts.mechanism, parts.model
    cost, changes = cost_of(parts), model.may_change if mechanism.needs else True
    # nobody looked into a system
    ignores = mechanism.application is None and cost.epsilon(0.0) == 0
    controls = parts.pairs.controls(0 if ignores else spec.design.controls)
    sources = sources_of(mechanism, parts.data, model.fingerprint, parts.objects)
    questions = questions_of(parts, sources)
    evidence = questions if mechanism.needs else ""
    identity = {"spec": settings_without_places(spec), "evidence": evidence, **sources}
    identity |= {"own_test": True} if own_test else {}
    said = {"claim_source": spec.claim_source, "may_change": changes}
    return Prepared(
        **{field.name: getattr(parts, field.name) for field in fields(parts)},
        controls=controls,
        late_controls=controls.late(0) if changes and len(controls) else None,
        others=(),
        of_own_kind=True,
        repeats=(),
        trial_design=trials,
        exact_decides=exactness_of(mechanism) == "full",
        public=PublicManifest.of(task, mechanism, model, fields=public_fields(spec.design)),
        warnings=claim_warnings(spec, self_compose(cost, 1)),  # equal Gaussians as one
        ignores_context=ignores,
        own_test=own_test,
        name=run_name(mechanism, parts.attack.query.name, identity),
        identity=identity,
        manifest=manifest_of(spec, identity, same_trials_key(parts), parts.handed, **said),
        questions=questions,
        evidence=evidence,
    )


def check(task: Task, mechanism: Mechanism, pairs: Iterable[Pair], model: Model) -> None:
    """Refuse kinds of requests that a model does not take, and prompts that do not fit."""
    require(model, mechanism.needs, mechanism.name)
    for pair in pairs:
        for job in pair.in_order:
            model.check(mechanism.requests(task, job, pair.draw))


PartitionIndices = tuple[tuple[int, ...], ...]


def background_copies(audit: AuditParts) -> Copies:
    """The copies of the canary's text in both contexts, chosen before any model call."""
    # of the canary-in context, which has one example more if the canary is added
    added, design = audit.attack.insertion == "add", audit.spec.design
    wanted, parts = design.background_copies, parts_of(audit.mechanism, design.shots + added)
    if isinstance(wanted, int):
        if wanted and not parts:
            raise UsageError(
                f"background_copies is {wanted}, and {audit.mechanism.name} has no partitions that "
                "vote on the answer; leave it out."
            )
        if wanted and wanted >= len(parts):
            raise UsageError(
                f"background_copies is {wanted}, and {audit.mechanism.name} has {len(parts) - 1} "
                f"partitions beside that of the canary; use at most {len(parts) - 1}, or auto."
            )
        return Copies(wanted, parts)
    black_box = audit.attack.access == "black_box"
    query = audit.attack.query
    none = query.free or query.second_text  # which takes their place
    if len(parts) < 2 or none or not (wanted or black_box):
        return Copies()
    return Copies(_choose(audit, parts), parts)


def _choose(audit: AuditParts, parts: PartitionIndices) -> int:
    """On edge where mu is tested or the noise is not known, else where epsilon is largest."""
    trials, answers = trial_design(audit), audit.task.answers(audit.pairs[0].asked.query)
    asked, sigma = audit.pairs[0].asked, _sigma_of(audit, parts, answers)
    no = None if asked.nonmember is None else answers.index(asked.nonmember)
    first = no is None or answers.index(asked.member) < no
    certifiable = audit.estimator.largest_certifiable(trials, 1 + trials.pilot)
    if sigma is None or (trials.hypotheses[0] != "claim" and certifiable.mu is not None):
        return edge_copies(len(parts), first)
    scenes, tested = VoteContexts(len(parts), sigma, len(answers) + 1), trials.pairs - trials.pilot
    exact = "chances" in audit.estimator.reads and trials.known is not None
    return scenes.best_copies(
        trials.claim.delta, max(1, tested), trials.confidence, exact=exact, member_first=first
    )


def _sigma_of(audit: AuditParts, parts: PartitionIndices, answers: tuple[str, ...]) -> float | None:
    counts = (1, len(parts) - 1, *(0 for _ in answers[1:]))
    noise = vote_noise_of(audit.mechanism)
    if noise is None or noise.whole:
        return None
    known = audit.mechanism.output_distribution(Votes(counts))
    return None if known is None else noise.sigma


def claim_warnings(spec: AuditSpec, cost: Guarantee) -> tuple[str, ...]:
    epsilon, delta = spec.decision.each
    guaranteed = cost.epsilon(delta)
    if isinstance(cost, NonPrivate) or guaranteed <= epsilon * (1 + ROUNDING):
        return ()
    if spec.decision.claim is not None:
        return (
            f"{cost.describe()} limits by how much outputs may differ with and without a record, "
            "and does not promise that they are the same: random guessing is not what this "
            "mechanism guarantees. Audit what it does with --epsilon in place of --claim.",
        )
    if isinstance(cost, Gaussian):
        return (
            f"the noise in force gives epsilon {guaranteed:.3g} at delta {delta:g}, not the "
            f"claimed {epsilon:g}: the claim is wrong before any trial (the classical formula does "
            "not hold for every epsilon above 1).",
        )
    return (
        f"the declared guarantee, {cost.describe()}, gives epsilon {guaranteed:.3g} at delta "
        f"{delta:g}, which does not support the claimed {epsilon:g}.",
    )


def require_used_counts(design: Design) -> None:
    default = Design()
    if design.canaries != default.canaries:
        raise UsageError(
            f"canaries is {design.canaries}, and a {design.layout} design has one canary for each "
            "paired trial; set their number with --pairs, or use --design one_run."
        )
    if design.documents is not None and design.layout == "paired":
        raise UsageError(
            f"documents is {design.documents}, and a paired design has no store to put documents "
            "into; leave --documents out, or use --design session or one_run."
        )


def require_relation(parts: AuditParts) -> None:
    """Contexts must differ as the guarantee says; other relations are not comparable."""
    guarantee, insertion = cost_of(parts), parts.spec.attack.insertion
    relation = relation_of(insertion)
    if not isinstance(guarantee, NonPrivate) and guarantee.relation != relation:
        other = "add" if guarantee.relation == "add_remove" else "replace"
        raise UsageError(
            f"{parts.mechanism.name} is guaranteed under {guarantee.relation}, and insertion "
            f"{insertion} changes contexts by {relation}; use --insertion {other}."
        )


def require_evidence(prepared: Prepared) -> None:
    """Refuse what could give no bound, or could not be kept."""
    shape = prepared.spec.design
    # a mechanism answers one query; a session of a system takes several questions
    asked = prepared.pairs[0].asked.query
    if asked.calls > 1 and prepared.mechanism.application is None:
        raise UsageError(
            f"the query {prepared.attack.query.name} has {asked.calls} questions, which are asked "
            f"in one session of a system, and {prepared.mechanism.name} is a mechanism, which "
            "answers one; use --query mba or s2, or give a system with --system."
        )
    if shape.answers > 1:
        # copies of one answer tell no more than it does, and the claim would be that of them all
        count, mechanism = prepared.spec.design.answers, prepared.mechanism
        if prepared.attack.query.free:
            raise UsageError(
                "a free answer is released once; use --answers 1, or a query with given answers."
            )
        if mechanism.answers_once or draws_early(mechanism, prepared.task, asked):
            raise UsageError(
                f"answers is {count}, and {mechanism.name} is asked once in each trial: its "
                f"further answers would be copies of the first, held against {count} times the "
                "claim. Use --answers 1."
            )
    if shape.store_text == "none":
        if prepared.spec.attack.channels:
            raise UsageError(
                "what goes through a channel is a free text, and store_text is none; use "
                "--store-text canary_only, which keeps the canary's words of it."
            )
        if prepared.attack.query.free:
            raise UsageError(
                f"the answer to {prepared.attack.query.name} is a free text, and store_text is "
                "none; use --store-text canary_only, which keeps the canary's words of it."
            )
        if prepared.attack.canary.fixed:
            raise UsageError(
                "a run keeps its configuration, which holds the text of the canary 'given', and "
                "store_text is none; use --store-text canary_only, or another canary."
            )
