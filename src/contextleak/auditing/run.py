"""An audit from its spec to its record: design, collect, release, estimate. The same call resumes an interrupted run."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contextleak.attacks import CANARIES, QUERIES, SCORES, Attack
from contextleak.auditing.bet import Bet
from contextleak.auditing.collect import check, collect
from contextleak.auditing.design import Pair, design
from contextleak.auditing.estimate import Claim, ceiling, decide, estimate, pilot_pairs
from contextleak.auditing.record import AuditRecord, GuaranteeData, curves, provenance
from contextleak.auditing.release import Trials, simulate, trials
from contextleak.auditing.seeds import generator
from contextleak.auditing.spec import AuditSpec
from contextleak.auditing.store import EvidenceRow, RunStore, run_id
from contextleak.errors import UsageError
from contextleak.icl import Context, Exemplar, Job, Mechanism, Task
from contextleak.icl.datasets import fingerprint, infer_task, read_rows, require_classes
from contextleak.icl.synthetic import HELP_DESK, help_desk
from contextleak.mechanisms import MECHANISMS, ReportNoisyMax, UserSystem, load_callable
from contextleak.models import Model, Scripted, open_model
from contextleak.privacy import ApproxDP, Gaussian
from contextleak.stats import Fixed, ThresholdRule

__all__ = ["Prepared", "build_attack", "build_mechanism", "load_data", "prepare", "run_audit"]

SYNTHETIC_ROWS = 400
Progress = Callable[[int, int], None]


def load_data(spec: AuditSpec) -> tuple[Context, Task]:
    """The private rows and their task, checked."""
    if spec.data is None:
        if spec.task not in (None, "help_desk"):
            raise UsageError(f"the task {spec.task!r} needs data; give a file with --data, or --task help_desk.")
        return help_desk(SYNTHETIC_ROWS, generator(spec.seed, "data")), HELP_DESK
    rows = read_rows(spec.data, spec.input_field, spec.label_field)
    task = infer_task(rows, spec.task)
    require_classes(task, rows)
    return rows, task


def build_mechanism(spec: AuditSpec) -> Mechanism:
    """The mechanism that a spec names, with its noise calibrated to the claim; or the user's own system."""
    if spec.system is not None:
        return load_callable(spec.system)
    if spec.mechanism == "report_noisy_max":
        if spec.partitions > spec.shots:
            raise UsageError(
                f"{spec.partitions} partitions need at least as many exemplars, and shots is {spec.shots}."
            )
        return ReportNoisyMax.calibrated(spec.epsilon, spec.delta, spec.partitions, spec.calibration)
    if spec.mechanism == "prompt_defense":
        return MECHANISMS["prompt_defense"](spec.level)  # type: ignore[no-any-return]
    return MECHANISMS[spec.mechanism]()  # type: ignore[no-any-return]


def build_attack(spec: AuditSpec, mechanism: Mechanism) -> Attack:
    """The attack that a spec names; refused here if the system does not release what it reads."""
    access = spec.access or ("white_box" if "white_box" in mechanism.access else "black_box")
    score = SCORES[spec.score or ("label_margin" if access == "white_box" else "said_member")]()
    options: dict[str, dict[str, Any]] = {
        "hex": {"digits": spec.digits}, "given": {"text": spec.canary_text, "label": spec.canary_label},
    }  # fmt: skip
    canary = CANARIES[spec.canary](**options.get(spec.canary, {}))
    attack = Attack(canary, QUERIES[spec.attack](), score, spec.insertion)
    if spec.access is not None and score.access == "white_box" and spec.access == "black_box":
        raise UsageError(
            f"the score {score.name} needs white_box access, and access is black_box; use --score said_member."
        )
    attack.require(mechanism)
    return attack


@dataclass(frozen=True, slots=True)
class Prepared:
    """An audit that has passed every check that needs no model call."""

    spec: AuditSpec
    task: Task
    mechanism: Mechanism
    attack: Attack
    model: Model
    pairs: tuple[Pair, ...]
    data: str
    warnings: tuple[str, ...]

    @property
    def rule(self) -> ThresholdRule:
        """How the threshold is chosen."""
        return self.attack.score.threshold if self.spec.threshold is None else Fixed(self.spec.threshold)

    @property
    def identity(self) -> dict[str, Any]:
        """What makes two runs the same run."""
        spec = self.spec.model_dump(exclude={"data", "simulations"})
        return {"spec": spec, "system": self.mechanism.name, "data": self.data, "model": self.model.fingerprint}

    @property
    def name(self) -> str:
        """Readable name of the run folder."""
        level = getattr(self.mechanism, "level", "")
        plain = re.sub(r"\W+", "_", f"{self.mechanism.name}{level}").strip("_")
        return run_id(f"{plain}-{self.spec.attack}", self.identity)


def prepare(
    spec: AuditSpec, model: Model | None = None, system: UserSystem | None = None, rows: Context | None = None
) -> Prepared:
    """Load, design and check; raises before the first model call whatever can be known to be wrong."""
    if rows is None:
        rows, task = load_data(spec)
    else:
        task = infer_task(rows, spec.task)
        require_classes(task, rows)
    mechanism: Mechanism = system or build_mechanism(spec)
    attack = build_attack(spec, mechanism)
    pairs = tuple(design(rows, task, attack, spec.pairs, spec.shots, spec.seed))
    if not mechanism.needs:
        model = Scripted(name=mechanism.name)
    opened = model or open_model(spec.model)
    check(task, mechanism, pairs, opened)
    prepared = Prepared(spec, task, mechanism, attack, opened, pairs, fingerprint(rows), _warnings(spec, mechanism))
    pilot_pairs(prepared.rule, spec.pairs)
    if spec.stop_when_refuted and spec.estimator != "e_process":
        raise UsageError("stop_when_refuted needs an anytime-valid estimator; add --estimator e_process.")
    return prepared


def _warnings(spec: AuditSpec, mechanism: Mechanism) -> tuple[str, ...]:
    """What the accountant knows before any trial."""
    promised = mechanism.guarantee.epsilon(spec.delta) if spec.delta > 0 else float("inf")
    if isinstance(mechanism.guarantee, Gaussian) and promised > spec.epsilon * (1 + 1e-6):
        return (
            f"the noise in force gives epsilon {promised:.3g} at delta {spec.delta:g}, not the claimed {spec.epsilon:g}: "
            "the claim is wrong before any trial (the classical formula does not hold for every epsilon above 1).",
        )
    return ()


def run_audit(prepared: Prepared, out: Path, progress: Progress = lambda done, total: None) -> tuple[AuditRecord, Path]:
    """Collect what is missing, then compute the record; returns it with the run's folder."""
    folder = out / prepared.name
    store = RunStore(folder, prepared.identity)
    collect(
        prepared.task, prepared.mechanism, prepared.pairs, prepared.model, store, prepared.spec.batch_pairs, progress,
        stop=lambda: prepared.spec.stop_when_refuted and _bet(prepared).play(_drawn(prepared, store.evidence())).refuted,
    )  # fmt: skip
    record = _record(prepared, store.evidence(), store.calls())
    store.write("record.json", record.to_json())
    return record, folder


def _bet(prepared: Prepared) -> Bet:
    spec, levels = prepared.spec, prepared.attack.score.levels(prepared.spec.partitions)
    return Bet(ApproxDP(spec.epsilon, spec.delta), prepared.mechanism.guarantee, levels, spec.confidence)


def _drawn(prepared: Prepared, evidence: list[EvidenceRow]) -> Trials:
    """Simulated releases of the collected pairs; as many a pair whether all pairs are in or not."""
    noisy = "white_box" in prepared.mechanism.access
    draws = prepared.spec.simulations // (2 * len(prepared.pairs)) if noisy else 1
    pairs, score = prepared.pairs[: len(evidence)], prepared.attack.score
    return simulate(prepared.task, prepared.mechanism, score, pairs, evidence, draws, prepared.spec.seed)


def _record(prepared: Prepared, evidence: list[EvidenceRow], calls: int) -> AuditRecord:
    spec, attack, claim = prepared.spec, prepared.attack, Claim(prepared.spec.epsilon, prepared.spec.delta)
    pairs = prepared.pairs[: len(evidence)]
    tested = trials(prepared.task, prepared.mechanism, attack.score, pairs, evidence, spec.seed)
    drawn = _drawn(prepared, evidence)
    estimates = estimate(drawn.part, tested, prepared.rule, claim, spec.confidence)
    reach = ceiling(sum(estimates[0].counts.values()) // 2, spec.delta, spec.confidence)
    if spec.estimator == "e_process":
        estimates += _bet(prepared).estimates(drawn)
        reach = _bet(prepared).ceiling(len(pairs))
    decision = decide(claim, prepared.mechanism.guarantee, estimates, len(pairs), reach, spec.estimator)
    return AuditRecord(
        name=prepared.name, spec=spec.model_dump(), claim=claim,
        guarantee=GuaranteeData.of(prepared.mechanism.guarantee, spec.delta),
        attack=_describe(attack, prepared.mechanism), counts=_counts(pairs, evidence, calls, drawn),
        estimates=tuple(estimates), decision=decision,
        curves=curves(drawn.member, drawn.nonmember), example_prompt=_example(prepared), warnings=prepared.warnings,
        provenance=provenance(
            model=prepared.model.name, model_fingerprint=prepared.model.fingerprint, data_fingerprint=prepared.data,
            seed=str(spec.seed),
        ),
    )  # fmt: skip


def _describe(attack: Attack, mechanism: Mechanism) -> dict[str, str]:
    return {
        "mechanism": mechanism.name, "canary": attack.canary.name, "query": attack.query.name, "score": attack.score.name,
        "access": attack.access, "insertion": attack.insertion,
    }  # fmt: skip


def _counts(pairs: tuple[Pair, ...], evidence: list[EvidenceRow], calls: int, drawn: Trials) -> dict[str, int]:
    unread = sum(row.member.counts[-1] + row.nonmember.counts[-1] for row in evidence)
    answers = sum(sum(row.member.counts) + sum(row.nonmember.counts) for row in evidence)
    return {
        "pairs": len(pairs), "model_calls": calls, "answers": answers, "unparsable_answers": unread,
        "simulated_releases": int(drawn.member.size + drawn.nonmember.size),
    }  # fmt: skip


def _example(prepared: Prepared) -> str:
    """The prompt that shows the canary of the first pair, with private text as `store_text` allows."""
    pair, keep = prepared.pairs[0], prepared.spec.store_text
    job = pair.member if keep == "all" else _redacted(pair, keep == "canary_only")
    asks = prepared.mechanism.asks(prepared.task, job, pair.draw)
    if not asks:
        return f"(context of {len(job.context)} exemplars)\n{job.query.text}"
    return str(asks[pair.position % len(asks)].prompt)  # type: ignore[attr-defined]


def _redacted(pair: Pair, keep_canary: bool) -> Job:
    rows = []
    for i, row in enumerate(pair.member.context):
        shown = keep_canary and i == pair.position and row == pair.canary
        rows.append(row if shown else Exemplar(f"[private, {len(row.input)} characters]", "[private]"))
    query = pair.member.query
    if not keep_canary:
        query = type(query)(query.text.replace(pair.canary.input, "[canary]"), query.labels)
    return Job(tuple(rows), query)
