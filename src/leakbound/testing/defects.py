"""Known defects, seen in public code or papers: what the auditor must find, and how fast."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from leakbound.testing import auditors, mechanism_audits, noisy, whole_audits, wiring
from leakbound.testing.auditor import AuditorFinding, Rng
from leakbound.testing.leaks import event

DefectCheck = Callable[[bool, Rng], AuditorFinding]


@dataclass(frozen=True, slots=True)
class Defect:
    """One defect and the audit that finds it.

    Attributes:
        id: Short name.
        what: What is wrong, in a sentence.
        check: `check(True, rng)` audits the broken fixture, `check(False, rng)` its correct
            reference.
        repeats: How many seeded audits of the correct reference a self-test makes.
    """

    id: str
    what: str
    check: DefectCheck
    repeats: int = 0


def _described(check: DefectCheck) -> str:
    return (check.__doc__ or "").split("\n")[0]


def _noisy(name: str, check: DefectCheck, repeats: int) -> Defect:
    return Defect(name, _described(check), check, repeats)


DEFECTS: tuple[Defect, ...] = (
    _noisy("half-noise", noisy.half_noise, 40),
    Defect(
        "half-noise (releases only)",
        "The same, seeing one output of each context.",
        noisy.half_noise_releases_only,
        10,
    ),
    _noisy("one-class-noise", noisy.one_class_noise, 20),
    _noisy("l1-as-l2", noisy.l1_as_l2, 10),
    _noisy("esa-unit-sensitivity", noisy.antipodal_embeddings, 20),
    _noisy("classical-sigma", wiring.classical_sigma, 1),
    _noisy("replace-vs-monotone", noisy.monotone_experts, 1),
    _noisy("clip-to-zero", wiring.clip_to_zero, 1),
    Defect(
        "ptr-off-by-one",
        "The gap is tested one rank after the cut.",
        partial(event, "ptr-off-by-one"),
        10,
    ),
    _noisy("delta-once", wiring.delta_once, 1),
    _noisy("wrong-em-curve", noisy.exponential_votes, 1),
    _noisy("public-seed", noisy.public_seed, 10),
    _noisy("seeded-noise", wiring.seeded_noise, 5),
    Defect(
        "private-domain",
        "The keyword domain comes from private answers.",
        partial(event, "private-domain"),
        5,
    ),
    Defect(
        "huge-inner-epsilon",
        "An inner count at ε = 10000 is left out.",
        partial(event, "huge-inner-epsilon"),
        10,
    ),
    Defect(
        "exact-ranking", "Clusters are ranked by exact size.", partial(event, "exact-ranking"), 10
    ),
    _noisy("same-sample", noisy.same_sample, 1),
    Defect(
        "raw-fallback",
        "The private answer leaves when no candidate survives.",
        partial(event, "raw-fallback"),
        5,
    ),
    _noisy("retry-until", noisy.retry_until, 1),
    _noisy("positional-split", wiring.positional_split, 5),
    _noisy("padding-contamination", wiring.padding, 1),
    Defect(
        "free-text-label", "A “public” label is private text.", partial(event, "free-text-label"), 5
    ),
    Defect(
        "with-replacement", "Partitions are sampled with replacement.", noisy.shared_records, 10
    ),
    Defect("overlap", "Partitions overlap by one example.", noisy.shared_records, 10),
    _noisy("threshold-reuse", auditors.threshold_reuse, 1),
    _noisy("resample-then-cp", auditors.resample_then_cp, 1),
    _noisy("index-shift", auditors.index_shift, 1),
    _noisy("first-token-drop", auditors.first_token_drop, 1),
    _noisy("claim-not-tested", whole_audits.claim_not_tested, 1),
    _noisy("free-text-channel", whole_audits.free_text, 1),
    *(Defect(name, what, check, repeats) for name, what, check, repeats in whole_audits.WHOLE),
    *(Defect(*row) for row in mechanism_audits.MECHANISMS),
)
