"""An audit as plain data: the objects that it runs, and what follows from them before a call."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from leakbound.attacks import ScoredAttack
from leakbound.auditing.design.pairs import Controls, Pairs
from leakbound.auditing.spec.audit_spec import AuditSpec
from leakbound.auditing.store.folder import Settings, run_folder
from leakbound.estimators import Estimator, TrialDesign
from leakbound.models import Model
from leakbound.systems import SharedStore, SystemMechanism
from leakbound.systems.threads import end_left_sessions
from leakbound.tasks import Mechanism, PublicManifest, Task


@dataclass(frozen=True, slots=True)
class AuditParts:
    """The objects that an audit runs, and the pairs that it asks about."""

    spec: AuditSpec
    task: Task
    mechanism: Mechanism
    attack: ScoredAttack
    estimator: Estimator
    model: Model
    pairs: Pairs
    data: str  # fingerprint of the rows
    handed: tuple[str, ...]
    inferred: bool  # whether private rows have told the labels


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared(AuditParts):
    """An audit that has passed every check that needs no model call."""

    controls: Controls  # (PRIVATE)
    late_controls: Controls | None  # where what answers may have changed after the last pair
    trial_design: TrialDesign
    public: PublicManifest  # the public facts that were fixed before a row was read
    warnings: tuple[str, ...]  # what the accountant knows before any trial
    ignores_context: bool  # 0-DP: then no attack can, or has to, see anything
    exact_decides: bool  # the exact loss of a pair is the system's, given nothing that was drawn
    name: str  # of the run; it does not depend on private rows
    identity: Settings  # what makes two runs the same run
    manifest: Settings  # what the run folder says of itself
    questions: str  # names what is asked and kept
    evidence: str  # the same where other runs may share the answers; empty: never

    def folder(self, out: Path) -> Path:
        """Where the run is, or will be."""
        return run_folder(out, self.name, self.data)

    def close(self) -> None:
        """Wait for sessions that were left, and take the documents out of a shared store."""
        system = self.mechanism.system if isinstance(self.mechanism, SystemMechanism) else None
        try:
            end_left_sessions()
        finally:
            if isinstance(system, SharedStore):
                system.close()
