"""From a spec to an audit that may start; what needs no model call to refuse is refused here."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from leakbound._version import __version__
from leakbound.attacks import Attack, ScoredAttack
from leakbound.auditing.background import background_copies
from leakbound.auditing.build import (
    Handed,
    build_attack,
    build_estimator,
    build_mechanism,
    open_models,
    text_tokens,
    unnamed_parts,
)
from leakbound.auditing.channels import deciding, with_channels
from leakbound.auditing.collect import check
from leakbound.auditing.design import Controls, Pairs, design, relation_of
from leakbound.auditing.documents import documents_and_task
from leakbound.auditing.exact_scores import known_scores, simulated_draws
from leakbound.auditing.folder import run_folder
from leakbound.auditing.guessing import of_named_claim
from leakbound.auditing.look_key import look_key
from leakbound.auditing.post_hoc import collection_settings
from leakbound.auditing.refusals import (
    require_evidence,
    require_relation,
    require_used_counts,
    unsupported_claim,
)
from leakbound.auditing.rows import public_fields, public_task, require_public, rows_and_task
from leakbound.auditing.shared_store import beside_store, split_rows, with_documents
from leakbound.auditing.spec import AuditSpec, Design
from leakbound.auditing.state_check import repeated_share
from leakbound.auditing.store import Settings, run_id
from leakbound.auditing.verdict import Claim
from leakbound.errors import UsageError
from leakbound.estimators import Estimator, TrialDesign, threshold_rule
from leakbound.models import Model, Scripted, may_change
from leakbound.privacy import Gaussian, Guarantee, NonPrivate, self_compose
from leakbound.stats import Assumption, ThresholdRule
from leakbound.systems import SharedStore, SystemMechanism
from leakbound.systems.channels import ALL
from leakbound.systems.left_sessions import end_left_sessions
from leakbound.tasks import Context, Example, Mechanism, PublicManifest, Task, require_mechanism
from leakbound.tasks.mechanism import exactness_of
from leakbound.tasks.rows.datasets import fingerprint

__all__ = ["Handed", "Prepared", "open_models", "prepare"]

PLACES = frozenset({"data", "data_dir", "encoding"})  # the rows themselves have a fingerprint
MOST_PILOT = 200  # pairs that fit a score: they are held in memory, and more change no direction


@dataclass(frozen=True, slots=True)
class Prepared:
    """An audit that has passed every check that needs no model call."""

    spec: AuditSpec
    task: Task
    mechanism: Mechanism
    attack: ScoredAttack
    estimator: Estimator
    model: Model
    pairs: Pairs
    data: str
    handed: tuple[str, ...] = ()
    inferred: bool = False

    @property
    def public(self) -> PublicManifest:
        """The public facts that were fixed before a row was read."""
        fields = public_fields(self.spec.design)
        return PublicManifest.of(self.task, self.mechanism, self.model, fields=fields)

    @property
    def two_sided(self) -> bool:
        """Whether scores may be higher or lower with the canary: random guessing is claimed."""
        return self.spec.decision.claim is not None

    @property
    def rule(self) -> ThresholdRule:
        """How the threshold is chosen."""
        return threshold_rule(self.spec.decision.threshold, self.attack.score.threshold)

    @property
    def answers(self) -> int:
        """Answers that a trial sees: outputs of one context, or one to each question of a query."""
        return self.spec.design.answers * self.pairs[0].asked.query.calls

    @property
    def claim(self) -> Claim:
        """What is claimed of all answers that a trial sees: k answers cost (k ε, k δ)."""
        k, (epsilon, delta) = self.answers, self.spec.decision.each
        delta = min(1 - 1e-12, k * delta)  # a delta of 1 would claim nothing
        return Claim(k * epsilon, delta, relation_of(self.spec.attack.insertion))

    @property
    def cost(self) -> Guarantee:
        """What one answer to the query spends."""
        return self.mechanism.cost(self.task, self.pairs[0].asked.query)

    @property
    def guarantee(self) -> Guarantee:
        """What the mechanism guarantees for as many answers to this query."""
        return self_compose(self.cost, self.answers)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the accountant knows before any trial."""
        return unsupported_claim(self.spec, self_compose(self.cost, 1))  # equal Gaussians as one

    @property
    def exact_decides(self) -> bool:
        """Whether the exact loss of a pair is that of the system, not only given what was drawn."""
        return exactness_of(self.mechanism) == "full"

    @property
    def controls(self) -> Controls:
        """The control pairs (PRIVATE)."""
        return self.pairs.controls(0 if self.ignores_context else self.spec.design.controls)

    @property
    def late_controls(self) -> Controls | None:
        """Those that are asked after the last pair, where what answers may have changed by then."""
        return self.controls.late(0) if self._may_change and len(self.controls) else None

    @property
    def _may_change(self) -> bool:
        return may_change(self.model) if self.mechanism.needs else True

    def close(self) -> None:
        """Wait for sessions that were left, and take the documents out of a shared store."""
        system = self.mechanism.system if isinstance(self.mechanism, SystemMechanism) else None
        try:
            end_left_sessions()
        finally:
            if isinstance(system, SharedStore):
                system.close()

    @property
    def ignores_context(self) -> bool:
        """Whether the mechanism guarantees 0-DP: then no attack can, or has to, see anything."""
        own = not isinstance(self.mechanism, SystemMechanism)  # nobody looked into a system
        return own and self.cost.epsilon(0.0) == 0

    @property
    def pilot(self) -> int:
        """Paired trials that only fit the score; they enter no bound."""
        pairs = self.spec.design.pairs
        return max(1, min(pairs // 5, MOST_PILOT)) if self.attack.score.learns else 0

    @property
    def trial_design(self) -> TrialDesign:
        """What an estimator may know before the first model call, read from what will run."""
        spec, mechanism, named = self.spec, self.mechanism, self.spec.attack.channels
        voters, noise = mechanism.voters(spec.design.shots), mechanism.vote_noise
        return TrialDesign(
            claim=self.claim,
            guarantee=self.guarantee,
            confidence=spec.decision.confidence,
            pairs=spec.design.pairs,
            pilot=self.pilot,
            levels=tuple(self.attack.score.levels(voters).tolist()),
            rule=self.rule,
            early_stop=spec.decision.stop_when_rejected,
            answers=spec.design.answers,
            sigma=None if noise is None or noise.whole else noise.sigma,
            voters=None if isinstance(mechanism, SystemMechanism) else voters,
            two_answers=self.pairs[0].asked.nonmember is not None,
            known=known_scores(mechanism, self.attack.score, self.pairs[0].asked, spec, self.task),
            noise_levels=tuple(self._noise_levels(voters)),
            served=bool(mechanism.needs) and not isinstance(self.cost, NonPrivate),
            replies=self._shows_replies or bool(spec.attack.channels),
            channels=() if named is None or ALL in named else named,
            draws=simulated_draws(mechanism, spec),
            copies=self.pairs.copies.count,
            assumption=Assumption(spec.decision.assume_hit, spec.decision.assume_false_alarm),
        )

    @property
    def _shows_replies(self) -> bool:
        """Whether users see free texts; metadata beside labels show in the control replies."""
        system = isinstance(self.mechanism, SystemMechanism)
        return self.attack.query.free and (system or isinstance(self.cost, NonPrivate))

    def _noise_levels(self, voters: int) -> list[float]:
        mu = self.cost.mu if isinstance(self.cost, Gaussian) else None
        return list(self.attack.score.noise_levels(voters, mu).tolist())

    @property
    def identity(self) -> Settings:
        """What makes two runs the same run."""
        return {"spec": self._settings(PLACES), "evidence": self.evidence, **self._sources}

    @property
    def manifest(self) -> Settings:
        """What the run folder says of itself: its identity, and what a merge needs beside it."""
        flat, named = self.spec.flat(), {"looks": look_key(self), "handed": list(self.handed)}
        beside = {key: flat[key] for key in sorted(PLACES)}
        beside |= {"claim_source": self.spec.claim_source, "may_change": self._may_change}
        return {**self.identity, "beside": beside, **named}

    @property
    def evidence(self) -> str:
        """Names what is collected, so that runs over the same answers share them; empty: never."""
        return self.questions if self.mechanism.needs else ""

    @property
    def questions(self) -> str:
        """Names what is asked and kept, so that other runs may reuse the answers."""
        query = self.pairs[0].asked.query
        settings = collection_settings(self._settings(PLACES), self.mechanism, self.task, query)
        settings |= {"background_copies": self.pairs.copies.count}
        return run_id("evidence", {"spec": settings, **self._sources})

    def _settings(self, without: frozenset[str]) -> Settings:
        return {key: value for key, value in self.spec.flat().items() if key not in without}

    @property
    def _objects(self) -> str:
        """What the spec does not tell: the task where it was handed over."""
        return repr(self.task) if "task" in self.handed else ""

    @property
    def _sources(self) -> dict[str, str]:
        return {
            "system": self.mechanism.name + self.mechanism.source + self._objects,
            "data": self.data, "model": self.model.fingerprint, "version": __version__,
        }  # fmt: skip

    @property
    def name(self) -> str:
        """Readable name of the run; it does not depend on private rows."""
        plain = re.sub(r"\W+", "_", self.mechanism.name).strip("_")
        public = {k: v for k, v in self.identity.items() if k not in ("data", "evidence")}
        return run_id(f"{plain}-{self.attack.query.name}", public)

    def folder(self, out: Path) -> Path:
        """Where the run is, or will be."""
        return run_folder(out, self.name, self.data)


def prepare(
    spec: AuditSpec,
    model: Model | None = None,
    *,
    rows: Context | None = None,
    handed: Handed | None = None,
    opener: Callable[[AuditSpec], Model] = open_models,
) -> Prepared:
    """Load, design and check.

    Args:
        spec: The parameters of the audit.
        model: The opened model; None: the one that the spec names.
        rows: Examples (PRIVATE); None: those that the spec names.
        handed: Other objects that take the place of what the spec names.
        opener: Makes the model where none is handed over and the mechanism needs one; it is called
            after the cheaper checks.

    Returns:
        An audit that may start.

    Raises:
        LeakboundError: Before the first model call, for whatever can be known to be wrong.
    """
    if spec.design.layout == "one_run":
        raise UsageError(
            "a one_run design has no paired trials; run it by itself with leakbound audit, or use "
            "--design paired or session."
        )
    require_used_counts(spec.design)
    given = handed or Handed()
    given = replace(given, model=model or given.model, rows=given.rows if rows is None else rows)
    channels = spec.attack.channels or ()
    mechanism = require_mechanism(given.mechanism or build_mechanism(spec))
    mechanism = with_channels(mechanism, channels)
    estimator = of_named_claim(spec, build_estimator(spec, given), given)
    estimator = deciding(estimator, channels, spec.design.controls)
    fixed = given.task or public_task(spec.design, given.rows is not None)
    require_public(fixed, mechanism)
    data, task = _rows(spec.design, given)
    attack = build_attack(spec.attack, mechanism, given)
    opened = _model(spec, given, mechanism, opener)
    attack = replace(attack, canary=attack.canary.fit(data, text_tokens(opened)))
    mechanism, sources, beside = _shared(spec, mechanism, data)
    shots = spec.design.shots if beside is None else len(beside)
    repeated = repeated_share(spec.design.state_check, mechanism)
    pairs = design(
        sources, task, attack, spec.design.pairs, shots, spec.design.seed, repeated, beside=beside
    )
    prepared = Prepared(
        spec, task, mechanism, attack, estimator, opened, pairs,
        fingerprint(_sources_of(data, attack)), handed=unnamed_parts(given, spec),
        inferred=fixed is None and bool(task.labels and mechanism.needs),
    )  # fmt: skip
    require_relation(prepared)
    prepared = replace(prepared, pairs=pairs.with_copies(background_copies(prepared)))
    late = () if prepared.late_controls is None else prepared.late_controls.late(1)
    check(task, mechanism, chain(prepared.pairs, prepared.controls, late), opened)
    require_evidence(prepared)
    return prepared


def _rows(shape: Design, given: Handed) -> tuple[Context, Task]:
    """Rows and their task; the documents of a store may have no labels."""
    read = rows_and_task if shape.layout == "paired" else documents_and_task
    return read(shape, given.rows, given.task)


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


def _model(
    spec: AuditSpec, handed: Handed, mechanism: Mechanism, opener: Callable[[AuditSpec], Model]
) -> Model:
    if not mechanism.needs:
        return Scripted(name=mechanism.name)
    return handed.model or opener(spec)


def _sources_of(rows: Context, attack: Attack) -> Context:
    """The rows, and what the canary read from files: the spec holds their paths only."""
    return (*rows, *(Example(content, "") for content in attack.canary.file_contents))
