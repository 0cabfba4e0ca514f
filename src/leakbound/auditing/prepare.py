"""From a spec to an audit that may start:

everything that can be refused without a model call is refused here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from leakbound._version import __version__
from leakbound.attacks import (
    Attack,
    Given,
    ReferenceDirection,
    Unigram,
)
from leakbound.auditing.build import build_attack, build_mechanism, open_models
from leakbound.auditing.collect import check
from leakbound.auditing.design import Pairs, design, relation_of
from leakbound.auditing.estimate import pilot_pairs, threshold_rule
from leakbound.auditing.post_hoc import post_hoc_keys
from leakbound.auditing.rows import load_data, task_of
from leakbound.auditing.spec import AuditSpec
from leakbound.auditing.store import run_id
from leakbound.auditing.verdict import Claim
from leakbound.errors import UsageError
from leakbound.estimators.bet import Bet
from leakbound.estimators.votes import has_votes
from leakbound.models import Model, Scripted
from leakbound.models.content import images_in
from leakbound.privacy import ApproxDP, Gaussian, Guarantee, NonPrivate, self_compose
from leakbound.stats import BestOnSameData, ThresholdRule
from leakbound.systems import UserSystem
from leakbound.tasks import Context, Example, Mechanism, Task
from leakbound.tasks.datasets import fingerprint

__all__ = ["Prepared", "build_attack", "build_mechanism", "open_models", "prepare", "voters"]

PLACES = {"data", "data_dir"}  # the rows themselves have a fingerprint


@dataclass(frozen=True, slots=True)
class Prepared:
    """An audit that has passed every check that needs no model call."""

    spec: AuditSpec
    task: Task
    mechanism: Mechanism
    attack: Attack
    model: Model
    pairs: Pairs
    data: str
    warnings: tuple[str, ...]

    @property
    def rule(self) -> ThresholdRule:
        """How the threshold is chosen."""
        return threshold_rule(self.spec.decision.threshold, self.attack.score.threshold)

    @property
    def claim(self) -> Claim:
        """What is claimed of all answers that a trial sees: k answers cost (k epsilon, k delta)."""
        k = self.spec.design.answers
        return Claim(
            k * self.spec.decision.epsilon,
            min(1 - 1e-12, k * self.spec.decision.delta),
            relation_of(self.spec.attack.insertion),
        )

    @property
    def guarantee(self) -> Guarantee:
        """The mechanism's own promise of as many answers."""
        return self_compose(self.mechanism.guarantee, self.spec.design.answers)

    @property
    def pilot(self) -> int:
        """Pairs that only teach the score its direction; they enter no bound."""
        return (
            max(1, self.spec.design.pairs // 5) if isinstance(self.attack.score, ReferenceDirection) else 0
        )

    @property
    def bet(self) -> Bet:
        """The anytime-valid bet against the promise."""
        spec, levels = self.spec, self.attack.score.levels(voters(self.spec, self.mechanism))
        horizon = None if spec.decision.stop_when_rejected else spec.design.pairs
        claim = ApproxDP(self.claim.epsilon, self.claim.delta, self.claim.relation)
        return Bet(claim, self.guarantee, levels, spec.decision.confidence, horizon)

    @property
    def identity(self) -> dict[str, Any]:
        """What makes two runs the same run."""
        spec = self.spec.model_dump(exclude=PLACES | {"simulations"})
        return {"spec": spec, "evidence": self.evidence, **self._sources}

    @property
    def manifest(self) -> dict[str, Any]:
        """What the run folder says of itself:

        its identity, and what a merge needs beside it to do the audit again.
        """
        return {**self.identity, "beside": self.spec.model_dump(include=PLACES | {"simulations"})}

    @property
    def evidence(self) -> str:
        """Names what is collected; runs that ask other questions of the same answers share it.

        Empty: never shared.
        """
        if not self.mechanism.needs:
            return ""
        cheap = post_hoc_keys(self.mechanism, self.task, self.pairs[0].asked.query)
        return run_id(
            "evidence",
            {"spec": self.spec.model_dump(exclude=cheap | PLACES | {"pairs"}), **self._sources},
        )

    @property
    def _sources(self) -> dict[str, str]:
        return {
            "system": self.mechanism.name + getattr(self.mechanism, "source", ""), "data": self.data,
            "model": self.model.fingerprint, "version": __version__,
        }  # fmt: skip

    @property
    def name(self) -> str:
        """Readable name of the run folder."""
        level = getattr(self.mechanism, "level", "")
        plain = re.sub(r"\W+", "_", f"{self.mechanism.name}{level}").strip("_")
        return run_id(f"{plain}-{self.spec.attack.query.kind}", self.identity)


def prepare(
    spec: AuditSpec,
    model: Model | None = None,
    system: UserSystem | None = None,
    rows: Context | None = None,
    opener: Callable[[AuditSpec], Model] = open_models,
) -> Prepared:
    """Load, design and check; raises before the first model call whatever can be known to be wrong.

    opener: makes the model where none is given and the system needs one; after the cheaper checks.
    """
    if rows is not None and (spec.design.data or spec.design.data_dir):
        raise UsageError("rows are handed over, and data names others; leave one of them out.")
    if rows is None:
        rows, task = load_data(spec)
    else:
        task = task_of(rows, spec.design.task)
    mechanism: Mechanism = system or build_mechanism(spec)
    attack = build_attack(spec, mechanism)
    _check_relation(spec, mechanism)
    if not mechanism.needs:
        model = Scripted(name=mechanism.name)
    opened = model or opener(spec)
    if isinstance(attack.canary, Unigram):
        attack = replace(attack, canary=attack.canary.fitted(rows, _tokenizer(opened)))
    pairs = design(rows, task, attack, spec.design.pairs, spec.design.shots, spec.design.seed)
    check(task, mechanism, pairs, opened)
    prepared = Prepared(
        spec,
        task,
        mechanism,
        attack,
        opened,
        pairs,
        fingerprint(_sources_of(rows, attack)),
        _warnings(spec, mechanism),
    )
    _check_estimator(prepared)
    return prepared


def _sources_of(rows: Context, attack: Attack) -> Context:
    """The rows, and the file that a given image came from: the spec holds its path only."""
    given = isinstance(attack.canary, Given) and images_in(attack.canary.text)
    return (*rows, Example(attack.canary.text, "")) if given else rows  # type: ignore[attr-defined]


def voters(spec: AuditSpec, mechanism: Mechanism | None) -> int:
    """How many answers the mechanism's aggregate counts or averages."""
    return int(getattr(mechanism, "partitions", getattr(mechanism, "subsamples", spec.partitions)))


def _check_relation(spec: AuditSpec, mechanism: Mechanism) -> None:
    """Worlds must differ as the guarantee says; guarantees under other relations are not
    comparable.
    """
    promised = mechanism.guarantee
    if not isinstance(promised, NonPrivate) and promised.relation != relation_of(spec.attack.insertion):
        other = "add" if promised.relation == "add_remove" else "replace"
        raise UsageError(
            f"{mechanism.name} promises under {promised.relation}, and insertion {spec.attack.insertion} "
            "changes worlds by "
            f"{relation_of(spec.attack.insertion)}; use --insertion {other}."
        )


def _check_estimator(prepared: Prepared) -> None:
    """Refuse what could give no bound, or could not be kept."""
    spec, rule = prepared.spec, prepared.rule
    if spec.design.answers > 1 and spec.decision.estimator.kind in ("vote_band", "joint_votes"):
        raise UsageError(
            f"{spec.decision.estimator.kind} speaks of one release; use --answers 1, or --estimator e_process."
        )
    if spec.design.answers > 1 and prepared.attack.query.free:
        raise UsageError(
            "a free answer is released once; use --answers 1, or a query with given answers."
        )
    if prepared.attack.query.free and spec.design.store_text == "none":
        raise UsageError(
            f"the answer to {spec.attack.query.kind} is a free text, and store_text is none; use "
            "--store-text canary_only, which keeps the "
            "canary's words of it."
        )
    if spec.attack.canary.kind == "given" and spec.design.store_text == "none":
        raise UsageError(
            "a run keeps its configuration, which holds the text of the canary 'given', and "
            "store_text is none; use --store-text "
            "canary_only, or another canary."
        )
    pilot_pairs(rule, spec.design.pairs)
    if prepared.pilot >= spec.design.pairs:
        raise UsageError(
            f"pairs is {spec.design.pairs}, and reference_direction learns on the first one; use at "
            "least 2 pairs."
        )
    if spec.decision.stop_when_rejected and spec.decision.estimator.kind != "e_process":
        raise UsageError(
            "stop_when_rejected needs an anytime-valid estimator; add --estimator e_process."
        )
    if isinstance(rule, BestOnSameData) and spec.decision.estimator.kind == "clopper_pearson":
        raise UsageError(
            "a threshold chosen on the tested trials carries no bound; use --threshold split or "
            "bonferroni."
        )
    if spec.decision.estimator.kind in ("vote_band", "joint_votes") and not has_votes(
        prepared.mechanism, prepared.pairs
    ):
        raise UsageError(
            f"{spec.decision.estimator.kind} needs votes under Gaussian noise and a query with two answers; use "
            "it with the mechanism "
            "report_noisy_max and the query membership or if_then_explicit, or use --estimator "
            "e_process."
        )


def _tokenizer(model: Any) -> Callable[[str], list[str]]:
    """The target's own tokens as texts, or words where it shows none."""
    while not hasattr(model, "encode_response") and hasattr(model, "model"):
        model = model.model
    if not hasattr(model, "encode_response"):
        return str.split
    return lambda text: [model.text((token,)) for token in model.encode_response(text)]


def _warnings(spec: AuditSpec, mechanism: Mechanism) -> tuple[str, ...]:
    """What the accountant knows before any trial."""
    promised = mechanism.guarantee.epsilon(spec.decision.delta) if spec.decision.delta > 0 else float("inf")
    if isinstance(mechanism.guarantee, Gaussian) and promised > spec.decision.epsilon * (1 + 1e-6):
        return (
            f"the noise in force gives epsilon {promised:.3g} at delta {spec.decision.delta:g}, not the "
            f"claimed {spec.decision.epsilon:g}: "
            "the claim is wrong before any trial (the classical formula does not hold for every "
            "epsilon above 1).",
        )
    return ()
