"""Known faults of mechanisms and of calls, audited from end to end as a user would."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from typing import Literal

from leakbound.api import audit, plan
from leakbound.errors import UsageError
from leakbound.mechanisms import ReportNoisyMax
from leakbound.models import Counted, Scripted
from leakbound.tasks.synthetic import HELP_DESK, help_desk
from leakbound_lab.planted.auditor import AuditorFinding, Rng
from leakbound_lab.planted.served_defects import (
    CachedNoise,
    CleanMajority,
    ConstantNoise,
    DataSeededNoise,
    EarlyNoise,
    FreshNoise,
    ReusedNoise,
    TruncatedNoise,
    UndeclaredMajority,
)

CLAIM, DELTA, PARTITIONS = 1.0, 1e-5, 10
NOISE_PAIRS = 60  # within which broken noise is to be rejected
DECLARED_PAIRS, UNDECLARED_PAIRS = 24, 12  # the same of votes without noise, in contexts on edge
FIRST = 8.0  # epsilon of the first of two runs


def _answer(prompt: str) -> str:
    quoted = prompt.rsplit('"', 2)[1]
    return "yes" if prompt.count(quoted) > 1 else "no"


def finds_canaries() -> Scripted:
    """A model that answers every membership query truthfully."""
    return Scripted(complete=_answer, name="finds_canaries")


def unstable(kind: type[FreshNoise], broken: bool, rng: Rng) -> AuditorFinding:
    """Audit noise that is right on average, and not as it is served."""
    return _audit(kind if broken else FreshNoise, "white_box", NOISE_PAIRS, rng)


def unnoised(kind: type[CleanMajority], pairs: int, broken: bool, rng: Rng) -> AuditorFinding:
    """Audit a majority without noise by its answers, in contexts on edge."""
    return _audit(kind if broken else ReportNoisyMax, "black_box", pairs, rng)


def stale_reuse(broken: bool, rng: Rng) -> AuditorFinding:
    """Noise is drawn while collecting, and the audit is run again with another epsilon."""
    kind, seed = EarlyNoise if broken else ReportNoisyMax, int(rng.integers(1 << 31))
    rows, model = help_desk(120, rng), Counted(finds_canaries())
    with tempfile.TemporaryDirectory() as out:
        for epsilon in (FIRST, CLAIM):
            before = model.calls
            audit(
                rows, mechanism=kind.calibrated(epsilon, DELTA, PARTITIONS), model=model,
                task=HELP_DESK, epsilon=epsilon, access="black_box", pairs=4, simulations=0,
                seed=seed, out=out,
            )  # fmt: skip
    asked = model.calls - before
    return AuditorFinding(asked > 0, 0, f"{asked} model calls for the second epsilon")


def shadowed_option(broken: bool, rng: Rng) -> AuditorFinding:
    """An option is given by its own name and again among the settings."""
    rows = help_desk(120, rng)
    try:
        plan(
            rows, system=lambda context, query: "no", epsilon=CLAIM,
            settings={"epsilon": FIRST} if broken else {"canary.digits": 8},
        )  # fmt: skip
    except UsageError as refused:
        return AuditorFinding(True, 0, f"refused: {refused}")
    return AuditorFinding(False, 0, "one of two values was used")


def _audit(
    kind: type[ReportNoisyMax], access: Literal["black_box", "white_box"], pairs: int, rng: Rng
) -> AuditorFinding:
    rows, seed = help_desk(120, rng), int(rng.integers(1 << 31))
    with tempfile.TemporaryDirectory() as out:
        result = audit(
            rows, mechanism=kind.calibrated(CLAIM, DELTA, PARTITIONS), model=finds_canaries(),
            task=HELP_DESK, access=access, epsilon=CLAIM, delta=DELTA, pairs=pairs,
            stop_when_rejected=True, simulations=30 * pairs, batch_pairs=20, seed=seed, out=out,
        )  # fmt: skip
    found = result.e_values
    at = found.rejected_at if found is not None else None
    return AuditorFinding.of(result, at or pairs)


MECHANISMS: tuple[tuple[str, str, Callable[[bool, Rng], AuditorFinding], int], ...] = (
    ("constant-seed", "Noise comes from a constant seed.", partial(unstable, ConstantNoise), 1),
    ("cached-noise", "Noise is drawn once and kept.", partial(unstable, CachedNoise), 0),
    ("reused-noise", "Each noise serves two answers.", partial(unstable, ReusedNoise), 0),
    ("data-seeded-noise", "The votes seed the noise.", partial(unstable, DataSeededNoise), 0),
    ("truncated-noise", "Noise is cut off at a third.", partial(unstable, TruncatedNoise), 0),
    ("unnoised-majority", "The majority is released without the declared noise.",
     partial(unnoised, CleanMajority, DECLARED_PAIRS), 1),
    ("unnoised-majority (undeclared)", "The same without a guarantee.",
     partial(unnoised, UndeclaredMajority, UNDECLARED_PAIRS), 0),
    ("stale-reuse", "Noise that was drawn for another epsilon is stored.", stale_reuse, 1),
    ("shadowed-option", "An option is given twice.", shadowed_option, 1),
)  # fmt: skip  # name, what is wrong, audit, audits of the correct reference
