"""Paired trials as samples of inspect_ai, and what an audit says of their answers.

Nothing here imports inspect_ai. A sample's metadata names the audit and the pair, a score's
metadata holds the answers; both are plain values.
"""

from __future__ import annotations

import json
import shutil
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from tempfile import mkdtemp

from leakbound.auditing import AuditResult
from leakbound.auditing.audit import write_result
from leakbound.auditing.collect.collect import CollectionPlan
from leakbound.auditing.decide.decide import decide
from leakbound.auditing.design.pairs import LATE
from leakbound.auditing.observe.one_pass import OnePass
from leakbound.auditing.observe.release import scores_of
from leakbound.auditing.prepare.prepare import prepare
from leakbound.auditing.prepare.prepared import Prepared
from leakbound.auditing.result.assemble import assemble
from leakbound.auditing.spec.audit_spec import make_spec
from leakbound.auditing.store.run_store import EvidenceRow, RunStore
from leakbound.errors import StoreError, UsageError
from leakbound.estimators.e_process import EValues
from leakbound.models import Model, Unopened
from leakbound.models.content import readable
from leakbound.tasks import pack, unpack
from leakbound_hosts.inspect.model import fingerprint_of

KEY = "leakbound"  # of metadata
ONE_BY_ONE = 1  # pairs in a batch: a sample is complete or not, and an audit may end after any


@dataclass(frozen=True, slots=True, repr=False)
class PairAnswers:
    """What both contexts of a pair gave (PRIVATE as a run folder is)."""

    row: EvidenceRow
    calls: int

    def to_json(self) -> dict[str, object]:
        again = None if self.row.again is None else pack(self.row.again)
        return {
            "pair": self.row.pair, "canary_in": pack(self.row.member),
            "canary_out": pack(self.row.nonmember), "again": again, "calls": self.calls,
        }  # fmt: skip

    @classmethod
    def of_json(cls, found: Mapping[str, object]) -> PairAnswers:
        again = None if found["again"] is None else unpack(str(found["again"]))
        both = unpack(str(found["canary_in"])), unpack(str(found["canary_out"]))
        row = EvidenceRow(int(str(found["pair"])), *both, again)
        return cls(row, int(str(found["calls"])))


@dataclass(frozen=True, slots=True, repr=False)
class _PairSample:
    """A paired trial, or a control pair, as a sample."""

    name: str
    query: str
    metadata: dict[str, object]


@lru_cache(maxsize=8)
def prepare_audit(settings: str, model: str) -> Prepared:
    """The audit that a sample belongs to; no model is asked."""
    given = json.loads(settings)
    spec = make_spec({**given, "batch_pairs": ONE_BY_ONE, "model": f"inspect/{model}"})
    if spec.design.layout != "paired":
        raise UsageError(
            f"the design is {spec.design.layout}; samples of inspect_ai are paired trials, each "
            "with contexts of its own. Use design paired, or leakbound audit."
        )
    return prepare(spec, Unopened(f"inspect/{model}", fingerprint_of(model), True))


def pair_samples(settings: str, model: str) -> list[_PairSample]:
    """Control pairs, then paired trials, then late control pairs: one sample each."""
    prepared = prepare_audit(settings, model)
    plan = CollectionPlan.of(prepared)
    return [
        _sample(prepared, plan, settings, pair) for pair in (*plan.batches(), *plan.late_batches())
    ]


def _sample(prepared: Prepared, plan: CollectionPlan, settings: str, number: int) -> _PairSample:
    (pair,) = plan.pairs_of(number)
    query = readable(prepared.task.prompt((), pair.asked.query))
    about = {"audit": json.loads(settings), "data": prepared.data, "pair": number}
    return _PairSample(_name(number, prepared.controls.number), query, {KEY: about})


def _name(number: int, full: int) -> str:
    """Of a pair; control pairs have numbers below 0, and those with one canary the lowest."""
    if number >= 0:
        return f"pair-{number + 1}"
    if number <= -LATE:
        return f"late-control-{-number % LATE}"
    return f"control-{-number}" if number >= -full else f"single-control-{-number - full}"


def ask_pair(prepared: Prepared, number: int, model: Model) -> PairAnswers:
    """Ask both contexts of a pair."""
    batch = CollectionPlan.of(prepared).ask(number, model)
    return PairAnswers(batch.rows[0], batch.calls)


def trial_values(prepared: Prepared, answers: PairAnswers) -> dict[str, float]:
    """The score of one output of each context."""
    score, seed = prepared.attack.score, prepared.spec.design.seed
    if score.learns:
        return {}
    pairs = CollectionPlan.of(prepared).pairs_of(answers.row.pair)
    found = scores_of(prepared.task, prepared.mechanism, score, pairs, [answers.row], seed)
    return {"canary_in": float(found.member[0]), "canary_out": float(found.nonmember[0])}


class RunningAudit:
    """An audit that takes in pairs as they are answered, in whatever order.

    Pairs count in the order of the design, up to the first that is missing: which pairs have been
    answered by now may depend on what was answered, and the order of the design does not.
    """

    def __init__(self, settings: str, model: str, out: Path | None = None) -> None:
        self.settings, self.model = settings, model
        folder = Path(mkdtemp(prefix="leakbound-")) if out is None else out
        if out is None:
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self.prepared = prepare_audit(settings, model)
        run = self.prepared.folder(folder)
        self.store, prior = RunStore.open(run, self.prepared.manifest)
        self._seen = OnePass(self.prepared, self.store, CollectionPlan.of(self.prepared), prior)
        self._had = dict[int, PairAnswers]()

    def add(self, answers: PairAnswers) -> None:
        """Take in a pair; the first answers of a pair count."""
        number = answers.row.pair
        if number in self._had:
            return
        self._had[number] = answers
        self.store.add(number, [answers.row], answers.calls)
        self._seen()

    def agrees(self, answers: PairAnswers) -> bool:
        """Whether a pair is new, or was answered in the same way."""
        had = self._had.get(answers.row.pair)
        return had is None or had.to_json() == answers.to_json()

    @property
    def ended(self) -> bool:
        """Whether the audit is to stop at a rejection, and has rejected."""
        return self._seen.ended

    @property
    def pairs(self) -> int:
        """Paired trials that count: the first ones, up to the first that is missing."""
        return self._seen.seen

    @property
    def held(self) -> int:
        """Paired trials behind one that is missing, or behind the one that ended the audit."""
        return sum(number >= 0 for number in self._had) - self.pairs

    @property
    def e_value(self) -> float | None:
        """Evidence against what is tested; None for an estimator without e-values."""
        observer = self._seen.observers.get(self.prepared.estimator)
        return observer.process.e_value if isinstance(observer, EValues) else None

    def result(self) -> AuditResult | None:
        """What the pairs so far show."""
        if not self.pairs:
            return None
        return assemble(self._seen, decide(self._seen))

    def write(self) -> AuditResult:
        """The result, written into the run folder."""
        if not self.pairs:
            raise UsageError(
                f"of {len(self._had)} samples with answers, none is a paired trial that counts: "
                "control pairs and the first pairs must be there. Finish the evaluation (inspect "
                "eval-retry), and leave --sample-id out."
            )
        self._require_own()
        return write_result(self._seen)

    def _require_own(self) -> None:
        """Refuse a run folder that holds the answers of another evaluation."""
        store = self.store
        stored = {r.pair: r for r in (*store.controls(), *store.late_controls(), *store.evidence())}
        if stored != {number: one.row for number, one in self._had.items()}:
            raise StoreError(
                f"the run folder {str(store.folder)!r} holds the answers of another evaluation of "
                "the same audit; choose another folder (out), or delete that one."
            )
