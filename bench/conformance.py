"""The whole conformance matrix: planted, shipped and correct mechanisms.

    python bench/conformance.py docs/measured/conformance.md [--shipped]

Planted mechanisms at ten seeds; shipped and correct ones at seven epsilons; exact losses over
10,000 neighbouring pairs. It takes about half an hour on one core; with --shipped, the tables of
planted and of correct mechanisms are kept.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from broken_mechanisms import BROKEN
from correct_mechanisms import CORRECT
from leakbound_lab.conformance import INVARIANTS, conform
from leakbound_lab.conformance.exact import REACHED, SHORT
from leakbound_lab.conformance.outputs import FIRST, LEVEL, LOUD
from leakbound_lab.planted.planted_answers import NOT_MECHANISMS, PLANTED

from leakbound import mechanisms as shipped
from leakbound.tasks import Mechanism

SEEDS, EPSILONS, DELTA = range(10), (0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0), 1e-5
PAIRS = 10_000  # of exact losses
SOME = 60  # of the battery over all epsilons
BY_NAME = {one.name: one for one in INVARIANTS}

HEAD = f"""# Conformance

`leakbound_lab.conformance.assert_conforms` checks a mechanism with a scripted model: outputs and
texts against the declared distribution, two-sample tests over neighbouring contexts on everything
that is returned, examples replaced or removed at every place, near ties, the price of an answer
against its releases, fresh noise between calls. This page is made by
`python bench/conformance.py docs/measured/conformance.md`; a cross-section runs in the test suite.

Neighbouring contexts are tried under questions of many lengths and scripts, with few answers and
with many, a query's own among them. Replies may be unreadable, repeat words, fail, or say nothing
at a near tie. An example is replaced by a longer one, by another label, by an empty slot, and by a
row that stands in the context already. Gaussian noise of the generator is made {LOUD:g} times as
large to see where it is cut. Requests that show an example must set `alone`.

Of each token of a free answer, the exact distribution is derived in scripted contexts that push it
as far as possible, and the privacy loss of neighbours is compared with the charge for that token:
of every token of an answer of up to {SHORT} tokens, and of five places of a longer one. The
candidates of every token, and where an answer ends, are compared, too. The noise comes from a
generator by a script, which shows at which noise another token is chosen (its exponent to within
1e-6). A wrong rate, clip, temperature or candidate set is found where the excess is above 1e-5 and
the scripts reach the largest loss. This takes a mechanism that draws its noise from
`np.random.default_rng`, with one call of `gumbel`, `normal`, `standard_normal`, `choice` or
`random` for each token. Of any other mechanism with free answers, {FIRST:,} answers are sampled for
each context and tested against their charge, as are their first tokens, so a rare candidate or a
small excess may not be found. None of this sees a defect that only certain words of an example or a
question set off.

A mechanism that loses less than {REACHED:.0%} of what it declares, in the worst pair that the
scripts reach, is reported as loose (`tightness`). It may be correct: it only pays for more than it
loses.

The number of model calls is counted over neighbours, also where a row makes replies unreadable or
NaN, lets calls fail, or delays them by an hour of `time.time`, `monotonic` and `perf_counter`.

A check that depends on chance accuses a correct mechanism with probability {LEVEL:g} at most: its
p-values are binomial, hypergeometric and Kolmogorov tails, without approximation. One run of the
battery makes fewer than 200 such tests, so less than one run in 5 million accuses a correct
mechanism by chance. The other checks are exact.
"""


def shipped_at(epsilon: float) -> dict[str, Mechanism]:
    """Every mechanism with a guarantee and its variants, calibrated to a claim."""
    s, claim = shipped, (epsilon, DELTA)
    return {
        "zero_shot": s.ZeroShot(),
        "report_noisy_max": s.ReportNoisyMax.calibrated(*claim),
        "report_noisy_max, discrete noise": s.ReportNoisyMax.calibrated(
            *claim, noise="discrete_gaussian"
        ),
        "report_noisy_max, calibrated votes": s.ReportNoisyMax.calibrated(
            *claim, prior="content_free"
        ),
        "embedding_mean": s.EmbeddingMean.calibrated(*claim, candidates=3),
        "keyword_mean": s.KeywordMean.calibrated(*claim, candidates=3),
        "keyword_mean, 3 words of an answer, top 2": s.KeywordMean.calibrated(
            *claim, candidates=3, per_answer=3, top=2
        ),
        "keyword_mean, 2 words of an answer, top 2, discrete noise": s.KeywordMean.calibrated(
            *claim, candidates=3, per_answer=2, top=2, selection="discrete_gaussian"
        ),
        "keyword_mean, joint": s.KeywordMean.calibrated(
            *claim, candidates=3, selection="joint_exponential"
        ),
        "keyword_mean, joint, top 2": s.KeywordMean.calibrated(
            *claim, candidates=3, top=2, selection="joint_exponential"
        ),
        "product_of_experts": s.ProductOfExperts.calibrated(*claim, tokens=3),
        "product_of_experts, not calibrated": s.ProductOfExperts(epsilon, tokens=3),
        "product_of_experts, groups of 3": s.ProductOfExperts.calibrated(
            *claim, group_size=3, tokens=3
        ),
        "product_of_experts, add_remove": s.ProductOfExperts.calibrated(
            *claim, calibration="add_remove", tokens=3
        ),
        "product_of_experts, paper": s.ProductOfExperts.calibrated(
            *claim, calibration="paper", tokens=3
        ),
        "product_of_experts, calibrated votes": s.ProductOfExperts.calibrated(
            *claim, tokens=3, prior="content_free"
        ),
        "subsample_average": s.SubsampleAverage.calibrated(*claim, 4, 0.5),
        "synthetic_shots": s.SyntheticShots.calibrated(*claim, tokens=2, candidates=20),
        "context_influence_decoding, lam 0": s.ContextInfluenceDecoding(lam=0.0, tokens=3),
        "bounded_cid": s.BoundedCID.calibrated(*claim, tokens=3),
        "invisible_ink": s.InvisibleInk.calibrated(*claim, tokens=3),
        "invisible_ink, add_remove": s.InvisibleInk.calibrated(
            *claim, 12, 1.0, 3, 20, "add_remove"
        ),
        "dp_fusion": s.DPFusion.calibrated(*claim, tokens=3),
    }


def planted_rows() -> Iterator[str]:
    """At how many seeds each planted mechanism is found, and what it does."""
    for one in (*PLANTED, *BROKEN):
        check = BY_NAME[one.found_by]
        found = [check(one.make(), seed=seed) for seed in SEEDS]
        hits = sum(not each.passed for each in found)
        detail = next((each.detail for each in found if not each.passed), "not found")
        print(f"{one.id}: {hits} of {len(SEEDS)}", file=sys.stderr)
        yield f"| {one.id} | {hits} of {len(SEEDS)} | {one.found_by} | {_cell(detail)} |"


def matrix_rows(at: Callable[[float], dict[str, Mechanism]]) -> Iterator[str]:
    """Broken invariants of each mechanism at each epsilon; none is right."""
    found: dict[str, list[str]] = {}
    for epsilon in EPSILONS:
        for name, mechanism in at(epsilon).items():
            start = time.monotonic()
            broken = [
                f"{one.name}: {one.detail}"
                for one in conform(mechanism, pairs=SOME)
                if not one.passed
            ]
            found.setdefault(name, []).append(_cell("; ".join(broken)) or "conforms")
            spent = time.monotonic() - start
            print(f"{name} at {epsilon:g}: {broken or 'conforms'} ({spent:.1f} s)", file=sys.stderr)
    return (f"| {name} | {' | '.join(cells)} |" for name, cells in found.items())


def loss_rows(epsilon: float) -> Iterator[str]:
    """Exact losses over many pairs, and of the worst one."""
    for name, mechanism in shipped_at(epsilon).items():
        cells = [_cell(BY_NAME[check](mechanism, pairs=PAIRS).detail)
                 for check in ("loss", "tightness")]  # fmt: skip
        yield f"| {name} | {' | '.join(cells)} |"


def correct_at(epsilon: float) -> dict[str, Mechanism]:
    """The correct ones that were written to be accused."""
    made = (make(epsilon) for make in CORRECT)
    return {type(one).__name__: one for one in made}


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("_", "\\_")


def _table(head: tuple[str, ...], rows: Iterator[str]) -> str:
    return "\n".join((f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}", *rows, ""))


def sections() -> Iterator[tuple[str, bool, Callable[[], tuple[str, ...]]]]:
    """Title, whether it tells of shipped mechanisms, and what makes the text."""
    epsilons = tuple(f"ε = {epsilon:g}" for epsilon in EPSILONS)
    others = "\n".join(f"- {name}: {what}" for name, what in NOT_MECHANISMS.items())
    yield (
        "Planted mechanisms",
        False,
        lambda: (
            "Each has one defect of the catalogues; the invariant is one that finds it.\n",
            _table(
                ("defect", "found at seeds", "invariant", "finding at the first"), planted_rows()
            ),
            f"Rows of the catalogues that are about something else than a mechanism:\n\n{others}\n",
        ),
    )
    yield (
        "Shipped mechanisms",
        True,
        lambda: (_table(("mechanism", *epsilons), matrix_rows(shipped_at)),),
    )
    yield (
        "Correct mechanisms written for this purpose",
        False,
        lambda: (_table(("mechanism", *epsilons), matrix_rows(correct_at)),),
    )
    yield (
        f"Exact losses at ε = 2, δ = {DELTA:g}",
        True,
        lambda: (
            f"Over {PAIRS:,} pairs of neighbouring contexts that are scripted to hurt, and of the\n"
            "worst pair: one example turns one voter of a crowd. Where no output distribution is\n"
            "known in closed form, the two-sample tests above stand in its place.\n",
            _table(("mechanism", "largest loss", "worst pair"), loss_rows(2.0)),
        ),
    )


def main(path: Path, *only: str) -> None:
    """Write the page, or only what it tells of shipped mechanisms."""
    old = path.read_text(encoding="utf-8").split("\n## ")[1:] if only else []
    kept = dict(one.split("\n\n", 1) for one in old)
    parts = [HEAD]
    for title, of_shipped, make in sections():
        made = of_shipped or not only
        parts += [f"## {title}\n", *(make() if made else [kept[title].rstrip("\n") + "\n"])]
    path.write_text("\n".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
