"""How fast are the numbers? Every estimator once on 400,000 trials, bounds from votes, and releases
of the noisy maximum.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np
from leakbound_lab.studies.resampled import bootstrap_estimate

from leakbound.mechanisms import ReportNoisyMax
from leakbound.privacy import Gaussian
from leakbound.stats import (
    VoteScores,
    accuracy_bound,
    accuracy_log_odds,
    auroc,
    bonferroni,
    clopper_pearson,
    gdp,
    joint_beta,
    noise_goodness_of_fit,
    one_run,
    roc,
    tpr_at_fpr,
)
from leakbound.tasks import Votes

WORLD, SIGMA, DELTA, PAIRS = 200_000, 1.0, 1e-5, 200
LIMITS = {"all but joint_beta": 0.2, "joint_beta": 2.0, "releases": 0.1}


def timed(name: str, call: Callable[[], object], repeats: int = 5) -> float:
    """Best of a few runs: the machine may be busy."""
    took = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        took.append(time.perf_counter() - start)
    print(f"{name:<46} {1000 * min(took):8.1f} ms")
    return min(took)


def estimators(rng: np.random.Generator) -> dict[str, Callable[[], object]]:
    member, nonmember = rng.normal(1, 1, WORLD), rng.normal(0, 1, WORLD)
    votes = rng.binomial(4, 0.3, WORLD), rng.binomial(4, 0.1, WORLD)
    tp, fp = int((member >= 0.5).sum()), int((nonmember >= 0.5).sum())
    cells = tp, WORLD - tp, fp, WORLD - fp
    right, n = tp + WORLD - fp, 2 * WORLD
    return {
        "clopper_pearson": lambda: clopper_pearson(*cells, DELTA),
        "gdp": lambda: gdp(*cells, DELTA),
        "accuracy_log_odds": lambda: accuracy_log_odds(right, n),
        "accuracy_bound": lambda: accuracy_bound(right, n),
        "one_run": lambda: one_run(n, n, right, 1e-8),
        "bonferroni, 3 thresholds": lambda: bonferroni(
            gdp, member, nonmember, (0.0, 0.5, 1.0), DELTA
        ),
        "resampled": lambda: bootstrap_estimate(*votes, SIGMA, rng, DELTA),
        "auroc": lambda: auroc(member, nonmember),
        "tpr_at_fpr": lambda: tpr_at_fpr(member, nonmember, 0.01),
        "roc": lambda: roc(member, nonmember),
        "noise_goodness_of_fit": lambda: noise_goodness_of_fit(nonmember, 1.0),
        "joint_beta": lambda: joint_beta(*cells, DELTA),
    }


def e_process() -> None:
    scores = VoteScores.margin(10, SIGMA)
    process = scores.process(Gaussian(np.sqrt(2), SIGMA), horizon=PAIRS)
    process.extend(scores.exceedance(np.full(PAIRS, -8)), scores.exceedance(np.full(PAIRS, -10)))
    process.mu_lower_bound(DELTA)
    process.epsilon_lower_bound(DELTA)


def main() -> int:
    rng = np.random.default_rng(0)
    took = {name: timed(name, call) for name, call in estimators(rng).items()}
    beta = took.pop("joint_beta")
    print(f"{'all but joint_beta, together':<46} {1000 * sum(took.values()):8.1f} ms")
    timed(f"e_process, {PAIRS} pairs, both bounds", e_process)
    mechanism = ReportNoisyMax(SIGMA, 10)
    aggregate = Votes((1, 9, 0, 0, 0, 0, 0, 0, 0, 0))
    release = timed(
        "400,000 releases of RNM, 10 classes", lambda: mechanism.release(aggregate, 400_000, rng)
    )
    found = {"all but joint_beta": sum(took.values()), "joint_beta": beta, "releases": release}
    slow = [
        f"{name} took {found[name]:.2f} s of {limit:g} s"
        for name, limit in LIMITS.items()
        if found[name] > limit
    ]
    print(
        "; ".join(slow)
        if slow
        else "all within their limits: " + ", ".join(f"{k} {v:g} s" for k, v in LIMITS.items())
    )
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
