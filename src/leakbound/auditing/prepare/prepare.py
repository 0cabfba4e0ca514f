"""From a spec to an audit that may start; what needs no model call to refuse is refused here."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields, replace
from itertools import chain

from leakbound.attacks.background_copies import VoteContexts, edge_copies
from leakbound.auditing.design.pairs import Copies, Pair, design
from leakbound.auditing.prepare.build import (
    Handed,
    build_attack,
    build_estimator,
    build_mechanism,
    deciding,
    open_models,
    repeated_share,
    text_tokens,
    unnamed_parts,
    with_channels,
)
from leakbound.auditing.prepare.documents import (
    beside_store,
    documents_and_task,
    split_rows,
    with_documents,
)
from leakbound.auditing.prepare.identity import (
    manifest_of,
    questions_of,
    run_name,
    same_trials_key,
    settings_without_places,
    sources_of,
)
from leakbound.auditing.prepare.prepared import AuditParts, Prepared
from leakbound.auditing.prepare.refusals import (
    of_named_claim,
    require_evidence,
    require_relation,
    require_used_counts,
    unsupported_claim,
)
from leakbound.auditing.prepare.rows import (
    public_fields,
    public_task,
    require_public,
    rows_and_task,
)
from leakbound.auditing.prepare.trial_design import cost_of, trial_design
from leakbound.auditing.spec.audit_spec import AuditSpec
from leakbound.errors import UsageError
from leakbound.estimators import TrialDesign, require_deciding
from leakbound.models import Model, Scripted, may_change, require
from leakbound.privacy import self_compose
from leakbound.systems import SystemMechanism
from leakbound.tasks import (
    Context,
    Example,
    Mechanism,
    PublicManifest,
    Task,
    Votes,
    require_mechanism,
)
from leakbound.tasks.mechanism import exactness_of
from leakbound.tasks.rows.datasets import fingerprint


def prepare(
    spec: AuditSpec,
    model: Model | None = None,
    *,
    rows: Context | None = None,
    handed: Handed | None = None,
    opener: Callable[[AuditSpec], Model] = open_models,
) -> Prepared:
    """Load, design and check; `opener` makes a model that is not handed over, once the cheaper
    checks have passed."""
    if spec.design.layout == "one_run":
        raise UsageError(
            "a one_run design has no paired trials; run it by itself with leakbound audit, or use "
            "--design paired or session."
        )
    require_used_counts(spec.design)
    given = handed or Handed()
    given = replace(given, model=model or given.model, rows=given.rows if rows is None else rows)
    parts = _built(spec, given, opener)
    prepared = _filled(parts, trial_design(parts))
    late = () if prepared.late_controls is None else prepared.late_controls.late(1)
    asked = chain(prepared.pairs, prepared.controls, late)
    check(prepared.task, prepared.mechanism, asked, prepared.model)
    require_evidence(prepared)
    prepared.trial_design.require_pairs()
    require_deciding(prepared.estimator, prepared.trial_design)
    return prepared


def _built(spec: AuditSpec, given: Handed, opener: Callable[[AuditSpec], Model]) -> AuditParts:
    """The objects of an audit, from the cheapest to make to the model."""
    channels, shape = spec.attack.channels or (), spec.design
    mechanism = require_mechanism(given.mechanism or build_mechanism(spec))
    mechanism = with_channels(mechanism, channels)
    estimator = of_named_claim(spec, build_estimator(spec, given), given)
    estimator = deciding(estimator, channels, shape.controls)
    fixed = given.task or public_task(shape, given.rows is not None)
    require_public(fixed, mechanism)
    # the documents of a store may have no labels
    read = rows_and_task if shape.layout == "paired" else documents_and_task
    data, task = read(shape, given.rows, given.task)
    attack = build_attack(spec.attack, mechanism, given)
    model = given.model if mechanism.needs else Scripted(name=mechanism.name)
    model = model or opener(spec)
    attack = replace(attack, canary=attack.canary.fit(data, text_tokens(model)))
    mechanism, sources, beside = _shared(spec, mechanism, data)
    shots = shape.shots if beside is None else len(beside)
    repeated = repeated_share(shape.state_check, mechanism)
    # the spec holds only the paths of what the canary read from files
    files = (Example(content, "") for content in attack.canary.file_contents)
    parts = AuditParts(
        spec, task, mechanism, attack, estimator, model,
        design(sources, task, attack, shape.pairs, shots, shape.seed, repeated, beside=beside),
        data=fingerprint((*data, *files)), handed=unnamed_parts(given, spec),
        inferred=fixed is None and bool(task.labels and mechanism.needs),
    )  # fmt: skip
    require_relation(parts)
    return replace(parts, pairs=parts.pairs.with_copies(background_copies(parts)))


def _filled(parts: AuditParts, trials: TrialDesign) -> Prepared:
    """What later stages need of an audit, as values."""
    spec, task, mechanism, model = parts.spec, parts.task, parts.mechanism, parts.model
    cost, changes = cost_of(parts), may_change(model) if mechanism.needs else True
    # nobody looked into a system
    ignores = not isinstance(mechanism, SystemMechanism) and cost.epsilon(0.0) == 0
    controls = parts.pairs.controls(0 if ignores else spec.design.controls)
    objects = repr(task) if "task" in parts.handed else ""
    sources = sources_of(mechanism, parts.data, model.fingerprint, objects)
    questions = questions_of(parts, sources)
    evidence = questions if mechanism.needs else ""
    identity = {"spec": settings_without_places(spec), "evidence": evidence, **sources}
    said = {"claim_source": spec.claim_source, "may_change": changes}
    return Prepared(
        **{field.name: getattr(parts, field.name) for field in fields(parts)},
        controls=controls,
        late_controls=controls.late(0) if changes and len(controls) else None,
        trial_design=trials,
        public=PublicManifest.of(task, mechanism, model, fields=public_fields(spec.design)),
        warnings=unsupported_claim(spec, self_compose(cost, 1)),  # equal Gaussians as one
        ignores_context=ignores,
        exact_decides=exactness_of(mechanism) == "full",
        name=run_name(mechanism, parts.attack.query.name, identity),
        identity=identity,
        manifest=manifest_of(spec, identity, same_trials_key(parts), parts.handed, **said),
        questions=questions,
        evidence=evidence,
    )


def _shared(
    spec: AuditSpec, mechanism: Mechanism, data: Context
) -> tuple[Mechanism, Context, Context | None]:
    """The store of a session design with its documents, the rows that are left for canaries, and
    the context of every pair beside the store; of other designs the mechanism and all rows.
    """
    if spec.design.layout == "paired":
        return mechanism, data, None
    documents, others = split_rows(spec, data)
    return with_documents(mechanism, documents), others, beside_store(spec.attack.insertion)


def check(task: Task, mechanism: Mechanism, pairs: Iterable[Pair], model: Model) -> None:
    """Refuse what can be refused without a model call: kinds of requests, prompts that do not
    fit.
    """
    require(model, mechanism.needs, mechanism.name)
    for pair in pairs:
        for job in pair.in_order:
            model.check(mechanism.requests(task, job, pair.draw))


PartitionIndices = tuple[tuple[int, ...], ...]


def background_copies(audit: AuditParts) -> Copies:
    """The copies of the canary's text in both contexts, chosen before any model call."""
    # of the canary-in context, which has one example more if the canary is added
    added, design = audit.attack.insertion == "add", audit.spec.design
    wanted, parts = design.background_copies, audit.mechanism.disjoint_parts(design.shots + added)
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
    return Copies(_chosen(audit, parts), parts)


def _chosen(audit: AuditParts, parts: PartitionIndices) -> int:
    """On edge where mu is tested or the noise is not known, else where epsilon is largest."""
    trials, answers = trial_design(audit), audit.task.answers(audit.pairs[0].asked.query)
    first, sigma = _member_first(audit, answers), _known_sigma(audit, parts, answers)
    if sigma is None or _tests_mu(audit, trials):
        return edge_copies(len(parts), first)
    reads = audit.estimator.reads
    return VoteContexts(len(parts), sigma, len(answers) + 1).best_copies(
        trials.claim.delta,
        max(1, trials.pairs - trials.pilot),
        trials.confidence,
        exact="chances" in reads and trials.known is not None,
        member_first=first,
    )


def _member_first(audit: AuditParts, answers: tuple[str, ...]) -> bool:
    asked = audit.pairs[0].asked
    if asked.nonmember is None:
        return True
    return answers.index(asked.member) < answers.index(asked.nonmember)


def _known_sigma(
    audit: AuditParts, parts: PartitionIndices, answers: tuple[str, ...]
) -> float | None:
    """The noise on each count, if the mechanism declares what it releases of counted votes."""
    counts = (1, len(parts) - 1, *(0 for _ in answers[1:]))
    noise = audit.mechanism.vote_noise
    if noise is None or noise.whole:
        return None
    known = audit.mechanism.output_distribution(Votes(counts))
    return None if known is None else noise.sigma


def _tests_mu(audit: AuditParts, trials: TrialDesign) -> bool:
    if trials.hypotheses[0] == "claim":
        return False
    return audit.estimator.largest_certifiable(trials, 1 + trials.pilot).mu is not None
