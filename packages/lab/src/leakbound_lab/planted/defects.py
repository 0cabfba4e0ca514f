"""Known defects, seen in public code or papers: what the auditor must find, and how fast."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy

from leakbound.privacy import (
    ApproxDP,
    Gaussian,
    Guarantee,
    PureDP,
    calibrate_gaussian,
    compose,
    gaussian_epsilon,
    pure_composition_epsilon,
)
from leakbound.stats import (
    CategoricalLaw,
    GaussianLaw,
    accuracy_bound,
    best_threshold,
    clopper_pearson,
)
from leakbound.stats.arrays import Floats
from leakbound.tasks import Context, Example
from leakbound.tasks.partition import split_by_position
from leakbound_lab.planted import mechanism_audits, whole_audits
from leakbound_lab.planted.auditor import (
    AuditorFinding,
    Fixture,
    Release,
    Rng,
    by_distribution,
    by_pairs,
    spread,
    worst,
)


def classical_sigma(broken: bool, rng: Rng) -> AuditorFinding:
    """The classical Gaussian formula at (10, 1e-5) and (8, 1e-3): exact epsilon 10.39 and 8.18."""
    method = "classical" if broken else "analytic"
    claims = ((10.0, 1e-5), (8.0, 1e-3))
    exact = [gaussian_epsilon(calibrate_gaussian(e, d, 1.0, method), 1.0, d) for e, d in claims]  # type: ignore[arg-type]
    wrong = any(found > e * (1 + 1e-6) for found, (e, _) in zip(exact, claims, strict=True))
    return AuditorFinding(wrong, 0, f"exact ε {exact[0]:.2f} and {exact[1]:.2f}, claimed 10 and 8")


def delta_once(broken: bool, rng: Rng) -> AuditorFinding:
    """delta counted once for 100 queries: they hold at 100 delta and guarantee nothing below."""
    composed = compose([ApproxDP(0.1, 1e-7)] * 100)
    claimed = 1e-7 if broken else 100 * 1e-7
    held = composed.epsilon(claimed) <= 10.0 * (1 + 1e-9)
    return AuditorFinding(
        not held,
        0,
        f"composition of 100 queries at δ={claimed:g}: ε = {composed.epsilon(claimed):g}",
    )


def seeded_noise(broken: bool, rng: Rng) -> AuditorFinding:
    """The noise generator is seeded anew on every call: the same query gives the same output."""

    def call() -> float:
        noise = np.random.default_rng(7) if broken else rng
        return float(noise.normal(0.0, 1.0))

    same = len({call() for _ in range(5)}) == 1
    return AuditorFinding(
        same, 0, "five outputs of one query are identical" if same else "outputs differ"
    )


def positional_split(broken: bool, rng: Rng) -> AuditorFinding:
    """A Poisson sample split by position: removing a record moves every later one."""
    rows: Context = tuple(Example(f"row {i}", "a") for i in range(40))
    if broken:
        before, after = split_by_position(rows, 8), split_by_position(rows[1:], 8)
    else:
        home = rng.integers(0, 8, len(rows))
        before, after = (
            [
                tuple(r for r, h in zip(rows, home, strict=True) if h == k and r in kept)
                for k in range(8)
            ]
            for kept in (set(rows), set(rows[1:]))
        )
    changed = sum(a != b for a, b in zip(before, after, strict=True))
    return AuditorFinding(
        changed > 1, 0, f"{changed} of 8 partitions change when one record is removed"
    )


def clip_to_zero(broken: bool, rng: Rng) -> AuditorFinding:
    """Log-probabilities below -C set to 0 instead: the impossible candidate gets the best score."""
    clip, experts = 2.0, 8
    logs = np.log(np.array([0.7, 0.3, 1e-9]))
    outside = np.where(logs < -clip, 0.0, logs) if broken else np.clip(logs, -clip, 0.0)
    wins = int(np.argmax(experts * outside)) == 2
    return AuditorFinding(
        wins, 0, f"utility: the candidate with p = 1e-9 {'wins' if wins else 'does not win'}"
    )


def padding(broken: bool, rng: Rng) -> AuditorFinding:
    """Left padding without a mask: a long example changes the other prompts' logits."""
    from leakbound.models import NextLogits, open_model

    model = open_model("pocket")
    short, long = "Input: a small lamp\nLabel:", "Input: " + "a very long record " * 40 + "\nLabel:"
    alone = model.answer([NextLogits(short)])[0][-1]
    batch = (
        _unmask(model, [short, long])
        if broken
        else model.answer([NextLogits(short), NextLogits(long)])[0][-1]
    )
    moved = float(np.abs(batch - alone).max())
    return AuditorFinding(
        moved > 1e-2, 0, f"logits of the short prompt move by {moved:.2g} beside a long one"
    )


def _unmask(model: Any, prompts: list[str]) -> Any:
    """Logits of the first prompt in a left-padded batch whose padding is attended to."""
    import torch

    rows = [list(model.encode(p)) for p in prompts]
    width = max(map(len, rows))
    ids = torch.tensor([[0] * (width - len(row)) + row for row in rows])
    with torch.inference_mode():
        return np.asarray(model.model(input_ids=ids).logits[0, -1].float().numpy())


CLAIM = ApproxDP(1.0, 1e-5)
NOISE = 1 / CLAIM.value  # Laplace scale of a count at epsilon 1


def event(name: str, broken: bool, rng: Rng) -> AuditorFinding:
    """Audit one of EVENTS: the claim is (1, 1e-5); the aggregate is 1 with the canary, else 0."""
    release = EVENTS[name](broken)
    return by_pairs(Fixture(np.ones(1), np.zeros(1), release, CLAIM, (0.5,)), rng, 49, outputs=20)


def propose_test_release(broken: bool) -> Release:
    """Top-2 tokens by count, released if the gap behind the cut is safe; broken: one rank too late.

    Counts 9, 5 + aggregate, 5, 1: a tie at the cut in one context. Score: the second token is the
    released one.
    """

    def release(aggregate: Floats, draws: int, rng: Rng) -> Floats:
        counts = np.array([9.0, 5.0 + aggregate[0], 5.5, 1.0])
        ranked = np.sort(counts)[::-1]
        gap = ranked[2] - ranked[3] if broken else ranked[1] - ranked[2]
        passed = gap + rng.laplace(0, NOISE, draws) > 1 + (0.5 if broken else math.log(1e5)) * NOISE
        return np.asarray(passed & (np.argsort(-counts)[1] == 1), float)

    return release


def noisy_inner_count(broken: bool) -> Release:
    """An inner count at epsilon = 10000 that the budget leaves out; correct: it costs epsilon 1."""

    def release(aggregate: Floats, draws: int, rng: Rng) -> Floats:
        count = aggregate[0] + rng.laplace(0, 1 / (10_000.0 if broken else CLAIM.value), draws)
        return np.asarray(count >= 0.5, float)

    return release


def ranking(broken: bool) -> Release:
    """Clusters ranked by exact size, sizes differing by one; correct: by noisy sizes, both paid."""

    def release(aggregate: Floats, draws: int, rng: Rng) -> Floats:
        scale = 0.0 if broken else 2 * NOISE
        first = 5 + aggregate[0] + rng.laplace(0, scale, draws)
        second = 5.5 + rng.laplace(0, scale, draws)
        return np.asarray(first > second, float)

    return release


def verbatim(broken: bool) -> Release:
    """A private text leaves as it is (label, keyword domain, fallback); correct: a public one."""

    def release(aggregate: Floats, draws: int, rng: Rng) -> Floats:
        public = ("a public answer", "another one")
        private = "the canary" if aggregate[0] else "a record"
        texts = [private if broken else public[i] for i in rng.integers(0, 2, draws)]
        return np.array([float("canary" in text) for text in texts])

    return release


EVENTS: dict[str, Callable[[bool], Release]] = {
    "ptr-off-by-one": propose_test_release,
    "huge-inner-epsilon": noisy_inner_count,
    "exact-ranking": ranking,
    "private-domain": verbatim,
    "raw-fallback": verbatim,
    "free-text-label": verbatim,
}


# Audits of a system without leakage, and the share of them that may find some: a defective auditor
# finds it in far more than twice as many, a correct one in 10 % of 200 with probability below 1e-2.
AUDITS, LIMIT = 200, 0.05


def _false_alarms(name: str, found: int) -> AuditorFinding:
    """Defective: finds leakage where there is none far more often than it says."""
    share = found / AUDITS
    return AuditorFinding(
        share > 2 * LIMIT,
        0,
        f"{name}: leakage found in {share:.0%} of {AUDITS} audits of a system without any",
    )


def threshold_reuse(broken: bool, rng: Rng) -> AuditorFinding:
    """The threshold is picked on the tested scores; the correct auditor picks it on others."""
    found = 0
    for _ in range(AUDITS):
        m, n, m0, n0 = rng.normal(size=(4, 100))
        found += _right(m, n, best_threshold(m, n) if broken else best_threshold(m0, n0))
    return _false_alarms("threshold on the tested data", found)


def _right(member: Floats, nonmember: Floats, tau: float) -> bool:
    """Does the accuracy bound speak of leakage?"""
    right = int((member >= tau).sum() + (nonmember < tau).sum())
    return (accuracy_bound(right, len(member) + len(nonmember)).epsilon or 0.0) > 0


def resample_then_cp(broken: bool, rng: Rng) -> AuditorFinding:
    """400,000 noisy trials from 200 collected votes count as independent (XL's bootstrap)."""
    found, n = 0, 200_000 if broken else 200
    for _ in range(AUDITS):
        votes = rng.binomial(4, 0.1, (2, 200)).astype(float)
        if broken:  # trials at or above 1: each is one of the votes, drawn anew, and fresh noise
            tp, fp = rng.binomial(n, scipy.special.ndtr(votes - 1.0).mean(1)).tolist()
        else:
            tp, fp = (votes + rng.normal(0, 1.0, votes.shape) >= 1.0).sum(1).tolist()
        found += (clopper_pearson(tp, n - tp, fp, n - fp).epsilon or 0.0) > 0
    return _false_alarms("resampled trials counted as collected ones", found)


TABLE = np.log(
    np.array([[0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1]])
)  # with and without the context


def index_shift(broken: bool, rng: Rng) -> AuditorFinding:
    """Token 0 is banned; removing its column before indexing reads the neighbour's probability."""
    token = 1
    want = abs(_banned(TABLE[0])[token] - _banned(TABLE[1])[token])
    if broken:
        short = [row[1:] - np.log(np.exp(row[1:]).sum()) for row in TABLE]
        got = abs(short[0][token] - short[1][token])
    else:
        got = abs(_banned(TABLE[0])[token] - _banned(TABLE[1])[token])
    return AuditorFinding(abs(got - want) > 1e-6, 0, f"τ = {got:.4f}, by hand {want:.4f}")


def _banned(row: Floats) -> Floats:
    masked = np.where(np.arange(4) == 0, -np.inf, row)
    return np.asarray(masked - np.log(np.exp(masked).sum()))


def first_token_drop(broken: bool, rng: Rng) -> AuditorFinding:
    """The first response token is dropped as if it were a start token: its influence is lost."""
    response = [3, 1, 2]
    each = [abs(float(TABLE[0][t] - TABLE[1][t])) for t in response]
    got = sum(each[1:]) if broken else sum(each)
    return AuditorFinding(
        abs(got - sum(each)) > 1e-6, 0, f"τ of the response = {got:.4f}, by hand {sum(each):.4f}"
    )


DELTA = 1e-5
ROOT2 = math.sqrt(2)
# T = 10: the canary's partition says yes, or not
VOTES = (np.array([1.0, 9.0]), np.array([0.0, 10.0]))


def margins(sigma: float, classes: tuple[bool, bool] = (True, True)) -> object:
    """A release that scores yes less no, with noise on the chosen classes."""

    def release(votes: Floats, draws: int, rng: Rng) -> Floats:
        noise = rng.normal(0.0, sigma, (draws, 2)) * np.asarray(classes, float)
        noisy = votes + noise
        return np.asarray(noisy[:, 0] - noisy[:, 1])

    return release


def _vote_fixture(sigma: float, claim: Guarantee, moved: int = 1) -> Fixture:
    member = np.array([float(moved), 10.0 - moved])
    return Fixture(member, VOTES[1], margins(sigma), claim, spread(-12, -8 + 2 * moved))  # type: ignore[arg-type]


def half_noise(broken: bool, rng: Rng, outputs: int = 100, budget: int = 60) -> AuditorFinding:
    """Half of the declared noise, at ε = 4."""
    sigma = calibrate_gaussian(4, DELTA, ROOT2)
    return by_pairs(
        _vote_fixture(sigma / 2 if broken else sigma, Gaussian(ROOT2, sigma)), rng, budget, outputs
    )


def half_noise_releases_only(broken: bool, rng: Rng) -> AuditorFinding:
    """The same, seeing one output of each context."""
    return half_noise(broken, rng, 1, 600)


def one_class_noise(broken: bool, rng: Rng) -> AuditorFinding:
    """Noise on the first class only: the attacker reads the other count."""
    sigma = calibrate_gaussian(1, DELTA, ROOT2)

    def second_count(votes: Floats, draws: int, rng: Rng) -> Floats:
        return np.asarray(-(votes[1] + rng.normal(0.0, 0.0 if broken else sigma, draws)))

    fixture = Fixture(*VOTES, second_count, Gaussian(ROOT2, sigma), spread(-12, -7))
    return by_pairs(fixture, rng, 60)


def l1_as_l2(broken: bool, rng: Rng) -> AuditorFinding:
    """Sensitivity 1 for the vote histogram in place of sqrt(2), at ε = 1."""
    sigma = calibrate_gaussian(1, DELTA, ROOT2)
    used = calibrate_gaussian(1, DELTA, 1.0) if broken else sigma
    claim = Gaussian(ROOT2, sigma)
    exact = by_distribution(GaussianLaw(VOTES[0], used), GaussianLaw(VOTES[1], used), claim, DELTA)
    pairs = by_pairs(_vote_fixture(used, claim), rng, 400)
    return pairs if exact.rejected else worst((exact, pairs))


def antipodal_embeddings(broken: bool, rng: Rng) -> AuditorFinding:
    """Unit sensitivity for the sum of unit embeddings: two antipodal answers move it by 2."""
    sigma = calibrate_gaussian(2, DELTA, 2.0)
    used = sigma / 2 if broken else sigma
    here, there = np.array([10.0, 0.0]), np.array([8.0, 0.0])
    exact = by_distribution(
        GaussianLaw(here, used), GaussianLaw(there, used), Gaussian(2.0, sigma), DELTA
    )

    def first_axis(mean: Floats, draws: int, rng: Rng) -> Floats:
        return np.asarray(mean[0] + rng.normal(0.0, used, draws))

    pairs = by_pairs(
        Fixture(here, there, first_axis, Gaussian(2.0, sigma), spread(5, 13)), rng, 200
    )
    return worst((exact, pairs))


def monotone_experts(broken: bool, rng: Rng) -> AuditorFinding:
    """Product of experts with lambda = ε/C: replacing an expert moves scores by 2C (2ε)."""
    epsilon, clip = 1.0, 2.0
    rate = epsilon / (clip if broken else 2 * clip)
    others = np.array([0.0, -clip * 6])  # the other experts: the second candidate is dominated
    outputs = [
        _exponential(rate * (others + own))
        for own in (np.array([-clip, 0.0]), np.array([0.0, -clip]))
    ]
    return by_distribution(outputs[0], outputs[1], PureDP(epsilon), 0.0)


def exponential_votes(broken: bool, rng: Rng) -> AuditorFinding:
    """Exponential mechanism on votes with the monotone curve: a moved vote changes two counts."""
    epsilon = 1.0
    rate = epsilon if broken else epsilon / 2
    outputs = [_exponential(rate * np.array(votes)) for votes in ((1.0, 9.0), (0.0, 10.0))]
    return by_distribution(outputs[0], outputs[1], PureDP(epsilon), 0.0)


def _exponential(scores: Floats) -> CategoricalLaw:
    weights = np.exp(scores - scores.max())
    return CategoricalLaw(weights / weights.sum())


def public_seed(broken: bool, rng: Rng) -> AuditorFinding:
    """Amplification by a subsample with a public seed: the attacker asks when the canary is in."""
    base, rate = 2.0, 0.1
    claim = PureDP(math.log1p(rate * math.expm1(base)))
    truth = 1 / (1 + math.exp(-base))

    def release(bit: Floats, draws: int, rng: Rng) -> Floats:
        seen = np.ones(draws, bool) if broken else rng.random(draws) < rate
        says_one = np.where(seen & (bit[0] > 0), truth, 1 - truth)
        return np.asarray(rng.random(draws) < says_one, float)

    return by_pairs(Fixture(np.ones(1), np.zeros(1), release, claim, (0.5,)), rng, 100)


def same_sample(broken: bool, rng: Rng) -> AuditorFinding:
    """One subsample for 200 queries, claimed as 200 fresh ones: all answers may see the canary."""
    queries, base, rate = 200, 0.5, 0.05
    fresh = math.log1p(rate * math.expm1(base))
    claim = ApproxDP(pure_composition_epsilon(fresh, queries, DELTA), DELTA)
    truth = 1 / (1 + math.exp(-base))

    def release(bit: Floats, draws: int, rng: Rng) -> Floats:
        if broken:
            hits = queries * (rng.random(draws) < rate)
        else:
            hits = rng.binomial(queries, rate, draws)
        hits = np.where(bit[0] > 0, hits, 0)
        found = rng.binomial(hits, truth) + rng.binomial(queries - hits, 1 - truth)
        return np.asarray(found, float)

    return by_pairs(Fixture(np.ones(1), np.zeros(1), release, claim, (100.0,)), rng, 1500)


def retry_until(broken: bool, rng: Rng) -> AuditorFinding:
    """Retrying until the answer is not empty conditions it on private text: the loss doubles."""
    epsilon, rare, common = 1.0, 0.002, 0.2
    out = np.array([rare, common, 1 - rare - common])
    into = np.array([rare * math.exp(epsilon), common * math.exp(-epsilon), 0.0])
    into[2] = 1 - into.sum()
    outputs = [CategoricalLaw(p[:2] / p[:2].sum() if broken else p) for p in (into, out)]
    return by_distribution(outputs[0], outputs[1], PureDP(epsilon), 0.0)


def shared_records(broken: bool, rng: Rng) -> AuditorFinding:
    """A record in two partitions (overlap, or sampling with replacement) moves two votes."""
    sigma = calibrate_gaussian(2, DELTA, ROOT2)
    claim = Gaussian(ROOT2, sigma)
    moved = 2 if broken else 1
    member = np.array([float(moved), 10.0 - moved])
    exact = by_distribution(GaussianLaw(member, sigma), GaussianLaw(VOTES[1], sigma), claim, DELTA)
    return worst((exact, by_pairs(_vote_fixture(sigma, claim, moved), rng, 200)))


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


def _noisy(name: str, check: DefectCheck, repeats: int) -> Defect:
    return Defect(name, (check.__doc__ or "").split("\n")[0], check, repeats)


def _of_event(name: str, what: str, repeats: int) -> Defect:
    return Defect(name, what, partial(event, name), repeats)


DEFECTS: tuple[Defect, ...] = (
    _noisy("half-noise", half_noise, 40),
    _noisy("half-noise (releases only)", half_noise_releases_only, 10),
    _noisy("one-class-noise", one_class_noise, 20),
    _noisy("l1-as-l2", l1_as_l2, 10),
    _noisy("esa-unit-sensitivity", antipodal_embeddings, 20),
    _noisy("classical-sigma", classical_sigma, 1),
    _noisy("replace-vs-monotone", monotone_experts, 1),
    _noisy("clip-to-zero", clip_to_zero, 1),
    _of_event("ptr-off-by-one", "The gap is tested one rank after the cut.", 10),
    _noisy("delta-once", delta_once, 1),
    _noisy("wrong-em-curve", exponential_votes, 1),
    _noisy("public-seed", public_seed, 10),
    _noisy("seeded-noise", seeded_noise, 5),
    _of_event("private-domain", "The keyword domain comes from private answers.", 5),
    _of_event("huge-inner-epsilon", "An inner count at ε = 10000 is left out.", 10),
    _of_event("exact-ranking", "Clusters are ranked by exact size.", 10),
    _noisy("same-sample", same_sample, 1),
    _of_event("raw-fallback", "The private answer leaves when no candidate survives.", 5),
    _noisy("retry-until", retry_until, 1),
    _noisy("positional-split", positional_split, 5),
    _noisy("padding-contamination", padding, 1),
    _of_event("free-text-label", "A “public” label is private text.", 5),
    Defect("with-replacement", "Partitions are sampled with replacement.", shared_records, 10),
    Defect("overlap", "Partitions overlap by one example.", shared_records, 10),
    _noisy("threshold-reuse", threshold_reuse, 1),
    _noisy("resample-then-cp", resample_then_cp, 1),
    _noisy("index-shift", index_shift, 1),
    _noisy("first-token-drop", first_token_drop, 1),
    _noisy("claim-not-tested", whole_audits.claim_not_tested, 1),
    _noisy("free-text-channel", whole_audits.free_text, 1),
    *(Defect(name, what, check, repeats) for name, what, check, repeats in whole_audits.WHOLE),
    *(Defect(*row) for row in mechanism_audits.MECHANISMS),
)
