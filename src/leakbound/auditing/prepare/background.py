"""Which partitions show the canary's text in both contexts of a pair, read from what will run;
and whether a second text, which takes the place of copies, is answered.
"""

from __future__ import annotations

from leakbound.attacks import EitherText
from leakbound.attacks.background_copies import VoteContexts, edge_copies
from leakbound.auditing.design.pairs import Copies
from leakbound.auditing.prepare.prepared import AuditParts
from leakbound.auditing.prepare.trial_design import trial_design
from leakbound.errors import UsageError
from leakbound.estimators import TrialDesign
from leakbound.tasks import Votes

PartitionIndices = tuple[tuple[int, ...], ...]


def background_copies(audit: AuditParts) -> Copies:
    """The copies of the canary's text in both contexts, chosen before any model call."""
    wanted, parts = audit.spec.design.background_copies, _parts(audit)
    if isinstance(wanted, int):
        _require_parts(wanted, parts, audit.mechanism.name)
        return Copies(wanted, parts)
    black_box = audit.attack.access == "black_box"
    query = audit.attack.query
    none = query.free or isinstance(query, EitherText)  # its second text takes their place
    if len(parts) < 2 or none or not (wanted or black_box):
        return Copies()
    return Copies(_chosen(audit, parts), parts)


def _parts(audit: AuditParts) -> PartitionIndices:
    """Of the canary-in context, which has one example more if the canary is added."""
    added = audit.attack.insertion == "add"
    return audit.mechanism.disjoint_parts(audit.spec.design.shots + added)


def _require_parts(copies: int, parts: PartitionIndices, name: str) -> None:
    if copies and not parts:
        raise UsageError(
            f"background_copies is {copies}, and {name} has no partitions that vote on the answer; "
            "leave it out."
        )
    if copies and copies >= len(parts):
        raise UsageError(
            f"background_copies is {copies}, and {name} has {len(parts) - 1} partitions beside "
            f"that of the canary; use at most {len(parts) - 1}, or auto."
        )


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
