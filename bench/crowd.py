"""Black-box audits of voting with background copies, on the pocket model and rows of your own.

The canary's text also stands in about half of the other partitions, in both contexts
(`background_copies: auto`), so that one vote decides. For each data set, T and claim: epsilon that
the default estimator certifies with 95 % confidence, beside epsilon of the ideal pair, in which
every partition answers rightly. Then the pair at which a vote without noise is rejected, as a
system without a declared distribution and as one with a declared Gaussian guarantee.

    python bench/crowd.py DATA [--names trec subj ...] [--pairs 200] [--seeds 1] [--json FILE]

DATA holds one folder of rows for each name, with a file train.jsonl. Outputs of the model are
collected once for each data set, T and seed.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from leakbound import audit
from leakbound.attacks.background_copies import VoteContexts
from leakbound.auditing import AuditResult
from leakbound.mechanisms import ReportNoisyMax
from leakbound.models import Model, open_model
from leakbound.privacy import NonPrivate
from leakbound.tasks import GaussianLaw, Outputs, Votes

NAMES = ("trec", "subj", "sarcasm", "agnews")
PARTITIONS, CLAIMS, DELTA, CLASSES = (10, 20, 40), (1.0, 2.0, 4.0, 8.0), 1e-5, 3
NOISELESS_PAIRS = 24  # in which a vote without noise has to be rejected; 12 without a guarantee
LEAST_SHOTS = 20  # examples in a context, the default of an audit; T = 40 takes 40


@dataclass(frozen=True, slots=True)
class CleanMajority(ReportNoisyMax):
    """Declares noise, and releases the clean majority."""

    name: ClassVar[str] = "clean_majority"

    def release(self, aggregate: Votes, draws: int, rng: np.random.Generator) -> Outputs:
        counts = np.tile(np.asarray(aggregate.counts, float), (draws, 1))
        return Outputs(counts.argmax(1), counts)

    def output_distribution(self, aggregate: Votes) -> GaussianLaw | None:  # type: ignore[override]
        return None


@dataclass(frozen=True, slots=True)
class UndeclaredMajority(CleanMajority):
    """The same without a guarantee."""

    name: ClassVar[str] = "undeclared_majority"

    @property
    def guarantee(self) -> Any:
        return NonPrivate()


@dataclass(frozen=True, slots=True)
class Cell:
    """One audit. `ideal` is epsilon of the ideal pair, `rejected_at` the pair of a rejection."""

    data: str
    system: str
    partitions: int
    claim: float
    seed: int
    copies: int
    verdict: str
    epsilon: float
    mu: float
    ideal: float
    rejected_at: int | None


def main() -> None:
    args = _arguments()
    model, cells = open_model("pocket"), []
    with tempfile.TemporaryDirectory() as out:
        for cell in _cells(args, model, Path(out)):
            print(json.dumps(asdict(cell)), flush=True)
            cells.append(cell)
    print(_table(cells))
    if args.json:
        args.json.write_text(json.dumps([asdict(cell) for cell in cells], indent=1) + "\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("data", type=Path)
    parser.add_argument("--names", nargs="+", default=NAMES)
    parser.add_argument("--partitions", nargs="+", type=int, default=PARTITIONS)
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--json", type=Path, default=None)
    return parser.parse_args()


def _cells(args: argparse.Namespace, model: Model, out: Path) -> Iterator[Cell]:
    for seed in range(args.seeds):
        for name in args.names:
            for partitions in args.partitions:
                for kind in (ReportNoisyMax, UndeclaredMajority, CleanMajority):
                    for claim in CLAIMS:
                        yield _cell(args, model, out, kind, name, partitions, claim, seed)


def _cell(
    args: argparse.Namespace, model: Model, out: Path, kind: type[ReportNoisyMax], name: str,
    partitions: int, claim: float, seed: int,
) -> Cell:  # fmt: skip
    sigma = ReportNoisyMax.calibrated(claim, DELTA).sigma
    noisy = kind is ReportNoisyMax
    result = audit(
        data=str(args.data / name / "train.jsonl"), mechanism=kind(sigma, partitions), model=model,
        access="black_box", epsilon=claim, delta=DELTA, seed=seed, out=out,
        pairs=args.pairs if noisy else min(args.pairs, NOISELESS_PAIRS),
        shots=max(LEAST_SHOTS, partitions), simulations=20_000, batch_pairs=24,
    )  # fmt: skip
    return _measured(result, name, partitions, sigma, seed)


def _measured(result: AuditResult, name: str, partitions: int, sigma: float, seed: int) -> Cell:
    copies, path = result.counts["background_copies"], result.e_values
    ideal = VoteContexts(partitions, sigma, CLASSES).epsilons(DELTA)[copies]
    return Cell(
        name, result.attack["mechanism"], partitions, result.claim.epsilon, seed, copies,
        result.verdict, result.bound.epsilon or 0.0, result.mu_bound.mu or 0.0, float(ideal),
        None if path is None else path.rejected_at,
    )  # fmt: skip


def _table(cells: list[Cell]) -> str:
    lines = ["| system | T | claim | copies | ideal ε | mean ε ≥ | rejected at (worst) |",
             "| --- | --- | --- | --- | --- | --- | --- |"]  # fmt: skip
    keys = dict.fromkeys((c.system, c.partitions, c.claim, c.copies) for c in cells)
    for key in keys:
        some = [c for c in cells if (c.system, c.partitions, c.claim, c.copies) == key]
        mean = sum(c.epsilon for c in some) / len(some)
        pairs = [c.rejected_at for c in some]
        worst = "never" if None in pairs else str(max(p for p in pairs if p is not None))
        system, partitions, claim, copies = key
        lines.append(f"| {system} | {partitions} | {claim:g} | {copies} | {some[0].ideal:.3f} | "
                     f"{mean:.2f} | {worst} |")  # fmt: skip
    return "\n".join(lines)


if __name__ == "__main__":
    main()
