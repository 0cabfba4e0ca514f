"""The README's table: `python bench/subj_table.py <folder>/subj/train.jsonl`.

Twenty examples, T = 10, hex canary, membership.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from leakbound.auditing import make_spec, prepare, run_audit
from leakbound.auditing.result.sentences import system_name
from leakbound.models import open_model
from leakbound.report.words import verdict_text
from leakbound.stats import cut

LABELS = ("objective", "subjective")
UNDEFENDED: list[dict[str, Any]] = [
    {"mechanism": "few_shot"}, {"mechanism": {"kind": "prompt_defense", "level": 1}},
    {"mechanism": {"kind": "prompt_defense", "level": 2}},
]  # fmt: skip
PRIVATE: list[dict[str, Any]] = [
    {"mechanism": "report_noisy_max", "epsilon": e, "pairs": 200} for e in (1, 2, 4, 8)
]


def main() -> None:
    model = open_model("pocket")
    print(
        "| system | claim ε (δ = 1e-5) | paired trials | model calls | ε ≥ | μ ≥ | guaranteed μ | "
        "verdict |"
    )
    print("| --- " * 8 + "|")
    for kind in UNDEFENDED + PRIVATE:
        rows = {"data": sys.argv[1], "labels": LABELS}
        spec = make_spec({**rows, "pairs": 40, "seed": 12, **kind})
        r, _ = run_audit(prepare(spec, model), Path("runs/subj"))
        mu = "none" if r.guarantee.mu is None else f"{r.guarantee.mu:.3f}"
        print(
            f"| {system_name(r)} | {r.claim.epsilon:g} | {r.counts['pairs']} | "
            f"{r.counts['model_calls']} | "
            f"{cut(r.bound.epsilon)} | "
            f"{cut(r.mu_bound.mu, 3)} | {mu} | {verdict_text(r.verdict)} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
