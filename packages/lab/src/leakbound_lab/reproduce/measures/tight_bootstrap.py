"""XL, Algorithm 1: outputs resampled from what a few calls collected, counted as trials."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from leakbound.auditing.prepare.prepared import Prepared
from leakbound.auditing.store.run_store import EvidenceRow
from leakbound.stats import gdp, roc
from leakbound_lab.reproduce.context import AuditKeys, RecipeContext
from leakbound_lab.reproduce.measures.tight import EPSILONS, PARTITIONS, PER_PARTITION, views
from leakbound_lab.reproduce.metrics import epsilon_sample
from leakbound_lab.reproduce.values import MeasuredValue, Quantity

REPEATS = 5  # the paper's
Floats = npt.NDArray[np.float64]


def bootstrap_audits(
    context: RecipeContext, audit: AuditKeys, black_box: AuditKeys | None = None
) -> Iterator[MeasuredValue]:
    """Algorithm 1 with both kinds of access at each ε, over the outputs of one audit.

    Args:
        context: Model, rows and scale.
        audit: Keys of the audit.
        black_box: Keys for black-box access; None to score the released label.

    Yields:
        The mean estimate of five repeats. Its ceiling is the mechanism's guarantee. Claims about it
        are tested by what each paired trial adds to such an estimate: repeats draw from the same
        few aggregates, so they are no trials.
    """
    sized = {"mechanism": {"partitions": PARTITIONS}, "shots": PARTITIONS * PER_PARTITION}
    for epsilon in EPSILONS:
        for access, view in views(black_box).items():
            prepared, rows = context.evidence(audit, view, sized, {"epsilon": epsilon})
            found = tuple(
                bootstrap_epsilon(prepared, rows, context.scale.simulations, seed)
                for seed in range(REPEATS)
            )
            shown = f"{np.mean(found):.2f}, sd {np.std(found):.2f} of {REPEATS} repeats"
            result = context.audit(audit, view, sized, {"epsilon": epsilon})
            guaranteed = prepared.trial_design.guarantee.epsilon(prepared.spec.decision.delta)
            yield MeasuredValue(
                f"ε = {epsilon}, {access}", Quantity.BOOTSTRAP, float(np.mean(found)), shown,
                epsilon_sample(result), guaranteed,
            )  # fmt: skip


def bootstrap_epsilon(
    prepared: Prepared, rows: Sequence[EvidenceRow], trials: int, seed: int
) -> float:
    """One repeat: aggregates drawn with replacement, noise, the best threshold, ε through μ."""
    rng, n = np.random.default_rng([seed, 17]), max(1, trials // 2)
    member, nonmember = (_resample(prepared, rows, of, n, rng) for of in (0, 1))
    fpr, tpr, _ = roc(member, nonmember)
    at = int((tpr - fpr).argmax())
    tp, fp = round(float(tpr[at]) * n), round(float(fpr[at]) * n)
    found = gdp(tp, n - tp, fp, n - fp, prepared.spec.decision.delta)
    return float(found.details["implied_epsilon"])


def _resample(
    prepared: Prepared, rows: Sequence[EvidenceRow], of: int, n: int, rng: np.random.Generator
) -> Floats:
    """(n,) scores of outputs whose aggregates are drawn with replacement."""
    drawn = rng.multinomial(n, np.full(len(rows), 1 / len(rows)))
    score, task, scores = prepared.attack.score, prepared.task, []
    for index, (row, count) in enumerate(zip(rows, drawn, strict=True)):
        asked = prepared.pairs[index].asked
        outputs = prepared.mechanism.release(row.both[of], int(count), rng)
        scores.append(score.score(outputs, asked, task.answers(asked.query)))
    return np.concatenate(scores)
