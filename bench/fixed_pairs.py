"""Mean bounds on epsilon of a fixed number of pairs, by error counts, beside those at any time.

python bench/fixed_pairs.py: a table of docs/measured/statistics.md. Single answers, delta 1e-5,
95 %.
"""

from __future__ import annotations

import numpy as np

from leakbound.privacy import ApproxDP
from leakbound.stats import EProcess
from leakbound.stats.counts.unconditional import unconditional

PAIRS, AUDITS, DELTA = 200, 60, 1e-5
RATES = ((0.3, 0.1), (0.7, 0.3), (0.9, 0.05), (0.95, 0.05), (0.99, 0.01), (1.0, 0.0))


def main() -> None:
    rng = np.random.default_rng(1)
    print('| chances of "yes" with and without the canary | fixed number | at any time |')
    print("| --- | --- | --- |")
    for there, elsewhere in RATES:
        fixed, anytime = [], []
        for _ in range(AUDITS):
            x, y = (rng.random((PAIRS, 1)) < rate for rate in (there, elsewhere))
            tp, fp = int(x.sum()), int(y.sum())
            bound = unconditional(tp, PAIRS - tp, fp, PAIRS - fp, DELTA)
            process = EProcess(ApproxDP(1.0, DELTA), deltas=(DELTA,), horizon=PAIRS)
            process.extend(x.astype(float), y.astype(float))
            fixed.append(bound.epsilon or 0.0)
            anytime.append(process.epsilon_lower_bound(DELTA).epsilon or 0.0)
        means = f"{np.mean(fixed):.2f} | {np.mean(anytime):.2f}"
        print(f"| {there:g}, {elsewhere:g} | {means} |", flush=True)


if __name__ == "__main__":
    main()
