"""Exact unconditional bounds: both error counts are tested together.

X of n canary-in trials and Y of m canary-out trials were called member, with unknown rates p (TPR)
and q (FPR). A claim allows the pairs (p, q) with q >= f(p), where f is non-decreasing.
Clopper-Pearson limits cover p and q separately, each at half of the error. The observed outcome is
far less likely at the corner of both limits than the error that they spend. Here one joint
confidence set of pairs (p, q) is used instead.

Outcomes are ordered by an approximate limit: the smallest claim that a likelihood-ratio test does
not reject. Let R be the region of outcomes that rank at least as high as the observed one. R does
not depend on the claim, so the test keeps the pairs {(p, q): P(R) > alpha - beta} within
Clopper-Pearson limits of both rates at beta (Berger and Boos). The bound is the smallest claim that
allows one of these pairs. It is Buehler's bound for that order.

The maximum over the nuisance rate is certified rather than searched for. R is upward closed in X
and downward closed in Y, so P(R) increases in p and decreases in q. Between two points a < b of a
grid of p, every kept pair lies below q(b), the largest q kept at b. Hence no kept pair requires a
smaller claim than (a, q(b)) does. Cells are halved until the smallest such claim lies within
`RESOLUTION` of one that is attained.

References: Barnard (Biometrika 1947); Buehler (JASA 1957); Berger and Boos (JASA 1994); Lloyd and
Kabaila (Statistics and Probability Letters 2003) for the order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy

from leakbound._check import confidence_level, count, delta_value, epsilon_value
from leakbound.privacy import gdp_epsilon
from leakbound.stats.arrays import Bools, Floats, Ints
from leakbound.stats.counts.bounds import FRESH, IID, binomial_lower, binomial_upper, error_counts
from leakbound.stats.estimate import IMPLIED, Estimate
from leakbound.stats.power import PERFECT, Assumption

NUISANCE_SHARE = 0.02  # share of alpha for the nuisance rates; Berger and Boos use 0.001 of 0.05
RESOLUTION = 5e-4  # in epsilon and mu: the largest gap from a bound to the smallest kept claim
CELLS = 4_000  # number of cells at which the search stops; the bound is then lower but still valid
MOST_TRIALS = 2**62
MOST_TESTED = 10**7  # of one context: two seconds; `clopper_pearson` is as good with more
FINE = 1e-6  # tolerance for a logit of q, far below the resolution
OUTWARDS = 1e-9  # margin of likelihood ratios and probabilities: 1,000 times their rounding error


@dataclass(frozen=True, slots=True)
class _Trials:
    """Numbers of trials: n canary-in with rate p of "member", and m canary-out with rate q."""

    n: int
    m: int


@dataclass(frozen=True, slots=True)
class _ApproxClaims:
    delta: float

    def smallest(self, p: Floats, q: Floats) -> Floats:
        return np.maximum(self._direction(p, q), self._direction(-q, -p))

    def _direction(self, p: Floats, q: Floats) -> Floats:
        above = scipy.special.expit(p) - self.delta
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(above > 0, np.log(above) - scipy.special.log_expit(q), -np.inf)

    def log_likelihood(self, x: Floats, y: Floats, trials: _Trials, claim: Floats) -> Floats:
        """On the edge of two line segments, which exchanging the two errors maps to each other."""
        n, m = trials.n, trials.m
        return np.maximum(
            self._part(x, n - x, y, m - y, claim), self._part(m - y, y, n - x, x, claim)
        )

    def corner(self, epsilon: float) -> float:
        """Where the two parts of the edge meet."""
        return epsilon + math.log1p(self.delta * math.exp(-epsilon)) - math.log1p(-self.delta)

    def edge(self, p: Floats, epsilon: float) -> Floats:
        """The smallest q that a claim allows for a given p."""
        first = math.exp(-epsilon) * (scipy.special.expit(p) - self.delta)
        second_not = math.exp(epsilon) * scipy.special.expit(-p) + self.delta
        q = np.where(second_not <= 1 - first, 1 - second_not, first)
        q_not = np.where(second_not <= 1 - first, second_not, 1 - first)
        tiny = scipy.special.expit(-LARGEST)
        return np.asarray(np.log(np.maximum(q, tiny)) - np.log(np.maximum(q_not, tiny)))

    def _part(self, x: Floats, x_not: Floats, y: Floats, y_not: Floats, claim: Floats) -> Floats:
        corner = (1 - self.delta) / (1 + np.exp(claim))  # where p = 1 - q
        return self.on_line(x, x_not, y, y_not, claim, corner)

    def on_line(
        self, x: Floats, x_not: Floats, y: Floats, y_not: Floats, claim: Floats, last: Floats
    ) -> Floats:
        """Largest log likelihood on p = e^epsilon q + delta, up to the last q."""
        slope = np.exp(claim)

        def rise(q: Floats) -> Floats:
            p = slope * q + self.delta
            return slope * (x / p - x_not / (1 - p)) + y / q - y_not / (1 - q)

        q = _peak(rise, np.zeros(np.broadcast(x, y, claim).shape), last)
        p = slope * q + self.delta
        return np.asarray(
            scipy.special.xlogy(x, p)
            + scipy.special.xlogy(x_not, 1 - p)
            + scipy.special.xlogy(y, q)
            + scipy.special.xlogy(y_not, 1 - q)
        )


@dataclass(frozen=True, slots=True)
class _GaussianClaims:
    def smallest(self, p: Floats, q: Floats) -> Floats:
        """Phi^-1(p) - Phi^-1(q)."""
        return _normal_quantile(p) - _normal_quantile(q)

    def log_likelihood(self, x: Floats, y: Floats, trials: _Trials, claim: Floats) -> Floats:
        """Largest log likelihood on p = Phi(a + mu), q = Phi(a)."""
        x_not, y_not = trials.n - x, trials.m - y

        def rise(a: Floats) -> Floats:
            b = a + claim
            return x * _mills(b) - x_not * _mills(-b) + y * _mills(a) - y_not * _mills(-a)

        shape = np.broadcast(x, y, claim).shape
        a = _peak(rise, np.full(shape, -LARGEST), LARGEST)
        b = a + claim
        return np.asarray(
            x * scipy.special.log_ndtr(b)
            + x_not * scipy.special.log_ndtr(-b)
            + y * scipy.special.log_ndtr(a)
            + y_not * scipy.special.log_ndtr(-a)
        )


# Families of claims, ordered from strong to weak; all curves are non-decreasing. `smallest` is the
# strongest that allows two rates, and `log_likelihood` the largest one on the edge of a claim.
_Claims = _ApproxClaims | _GaussianClaims
LARGEST = 40.0  # epsilon, mu or logit of a rate; no practical number of trials resolves larger ones
PEAK_HALVINGS = 30  # find a maximum to 1e-9 of an interval's length, which is enough for its value


def _normal_quantile(rate: Floats) -> Floats:
    """Normal quantile of a rate that is given as a logit, computed from its smaller tail."""
    return np.asarray(np.copysign(scipy.special.ndtri(scipy.special.expit(-np.abs(rate))), rate))


def _mills(a: Floats) -> Floats:
    return np.asarray(np.exp(-a * a / 2 - scipy.special.log_ndtr(a)) / math.sqrt(2 * math.pi))


def _peak(rise: Callable[[Floats], Floats], low: Floats, high: npt.ArrayLike) -> Floats:
    """Where a decreasing derivative changes sign; the nearer end if it does not."""
    high = np.broadcast_to(np.asarray(high, float), low.shape)
    for _ in range(PEAK_HALVINGS):
        middle = (low + high) / 2
        up = rise(middle) > 0
        low, high = np.where(up, middle, low), np.where(up, high, middle)
    return np.asarray((low + high) / 2)


def log_likelihood_ratio(
    x: Floats, y: Floats, trials: _Trials, claims: _Claims, claim: Floats
) -> Floats:
    """Twice the log likelihood ratio of unrestricted rates to the rates that a claim allows."""
    n, m = trials.n, trials.m
    free = _log_binomial(x, n) + _log_binomial(y, m)
    with np.errstate(invalid="ignore"):
        observed = claims.smallest(scipy.special.logit(x / n), scipy.special.logit(y / m))
    inside = (x * m <= y * n) | (observed <= claim)
    return np.where(inside, 0.0, 2 * (free - claims.log_likelihood(x, y, trials, claim)))


def _log_binomial(x: Floats, n: int) -> Floats:
    """Largest log likelihood of x successes in n trials, without the binomial coefficient."""
    return np.asarray(scipy.special.xlogy(x, x / n) + scipy.special.xlogy(n - x, 1 - x / n))


def critical(confidence: float) -> float:
    """The ratio at which a claim is rejected. Its value cannot make a bound invalid."""
    return float(scipy.special.ndtri(max(confidence, 0.75))) ** 2


def approximate_limit(x: int, y: int, trials: _Trials, claims: _Claims, confidence: float) -> float:
    """The largest claim that the likelihood ratio rejects. It orders the outcomes."""
    low, high = 0.0, LARGEST
    for _ in range(5):  # a resolution of 64^-5, below 1e-7 of the range
        grid = np.linspace(low, high, 65)
        ratio = log_likelihood_ratio(
            np.asarray(float(x)), np.asarray(float(y)), trials, claims, grid
        )
        rejected = int((ratio >= critical(confidence)).sum())
        if rejected == 0:
            return low
        low, high = grid[rejected - 1], grid[min(rejected, 64)]
    return low * (1 - OUTWARDS)


def unconditional(
    tp: int, fn: int, fp: int, tn: int, delta: float = 0.0, confidence: float = 0.95,
    threshold: str = "given",
) -> Estimate:  # fmt: skip
    """Lower bound on epsilon from an exact unconditional test of both error rates.

    Guarantee: exceeds the true epsilon(delta) with probability at most 1 - confidence, for numbers
    of trials fixed beforehand, under the relation between the two contexts.
    """
    counts = error_counts(tp, fn, fp, tn)
    value = _bound(counts, _ApproxClaims(delta_value(delta)), confidence_level(confidence))
    return Estimate(
        "unconditional", "lower_bound", value, delta, confidence, counts, (IID, FRESH),
        threshold=threshold,
    )  # fmt: skip


def unconditional_mu(
    tp: int, fn: int, fp: int, tn: int, delta: float = 1e-5, confidence: float = 0.95,
    threshold: str = "given",
) -> Estimate:  # fmt: skip
    """Lower bound on mu from an exact unconditional test of both error rates.

    Guarantee: exceeds the true mu of a mu-GDP mechanism with probability at most 1 - confidence,
    for numbers of trials fixed beforehand.
    """
    counts = error_counts(tp, fn, fp, tn)
    delta_value(delta)
    mu = _bound(counts, _GaussianClaims(), confidence_level(confidence))
    return Estimate(
        "unconditional_mu", "lower_bound", None, delta, confidence, counts, (IID, FRESH, IMPLIED),
        mu=mu, threshold=threshold, details={"implied_epsilon": gdp_epsilon(mu, delta)},
    )  # fmt: skip


DOUBTFUL = 1e-3  # probability of an outcome above which a power computes its bound


def unconditional_power(
    pairs: int, true_epsilon: float, epsilon: float, delta: float = 0.0, confidence: float = 0.95,
    assumption: Assumption = PERFECT,
) -> float:  # fmt: skip
    """Probability that `unconditional` rejects a claim.

    The system is assumed to leak like randomised response, and the model to notice canaries as
    `assumption` says. By default the model is perfect, and both error rates are
    1/(1 + e^true_epsilon). The sum over both counts leaves out 1e-6 of their mass. A grid of
    nuisance rates decides whether an outcome rejects. If the grid does not settle it, the bound
    decides; if the probability of the outcome is below `DOUBTFUL`, it counts as no rejection.
    """
    from scipy.stats import binom  # takes a second to import, and few audits need it

    epsilon_value(epsilon)
    delta_value(delta)
    confidence_level(confidence)
    if count("pairs", pairs) == 0 or epsilon >= LARGEST:
        return 0.0
    tpr, fpr = assumption.rates(true_epsilon)
    ends = (binom.ppf([5e-7, 1 - 5e-7], pairs, rate) for rate in (tpr, fpr))
    # a rate of 0 begins at -1
    xs, ys = (np.arange(max(0, low), high + 1).astype(np.int64) for low, high in ends)
    claims = _ApproxClaims(delta)
    sure, likely = _rejects(xs, ys, _Trials(pairs, pairs), claims, epsilon, confidence)
    chances = np.outer(binom.pmf(xs, pairs, tpr), binom.pmf(ys, pairs, fpr))
    total = float(chances[sure].sum())
    for row, column in np.argwhere(likely & ~sure & (chances > DOUBTFUL)):
        x, y = int(xs[row]), int(ys[column])
        bound = unconditional(x, pairs - x, y, pairs - y, delta, confidence).epsilon or 0.0
        total += float(chances[row, column]) * (bound > epsilon)
    return min(1.0, total)


def _bound(counts: dict[str, int], claims: _Claims, confidence: float) -> float:
    """The smallest claim in the confidence set, rounded down; 0 if nothing is shown."""
    x, y = counts["tp"], counts["fp"]
    trials = _Trials(
        count("the number of canary-in trials", x + counts["fn"], 1, MOST_TESTED),
        count("the number of canary-out trials", y + counts["tn"], 1, MOST_TESTED),
    )
    spent = NUISANCE_SHARE * (1 - confidence)
    kept = (1 - confidence) * (1 - NUISANCE_SHARE - OUTWARDS)
    limit = approximate_limit(x, y, trials, claims, confidence)
    if limit <= 0:
        return 0.0
    p, q = _limits(x, trials.n, spent / 4), _limits(y, trials.m, spent / 4)
    ys = _window(trials.m, q)
    edge = _edge(ys, trials, claims, limit, confidence)
    edge[ys <= y] = np.minimum(edge[ys <= y], x)  # keeps the observed outcome despite rounding
    region = _Region(trials, ys, edge)
    return max(0.0, _smallest_kept(region, claims, p, q, kept))


def _limits(x: int, n: int, alpha: float) -> tuple[float, float]:
    """Clopper-Pearson limits of a rate, as logits, each at alpha."""
    limits = (binomial_lower(x, n, alpha), binomial_upper(x, n, alpha))
    return float(scipy.special.logit(limits[0])), float(scipy.special.logit(limits[1]))


def _window(m: int, q: tuple[float, float]) -> Ints:
    """Counts with non-negligible probability between two logits (Bernstein: 1e-20)."""
    low, high = (float(scipy.special.expit(at)) * m for at in q)
    far = [40 + 10 * math.sqrt(mean * (1 - mean / m)) for mean in (low, high)]
    return np.arange(max(0, math.floor(low - far[0])), min(m, math.ceil(high + far[1])) + 1)


def _edge(
    ys: Ints, trials: _Trials, claims: _Claims, level: float, confidence: float,
    least: npt.ArrayLike = 0, most: npt.ArrayLike = MOST_TRIALS,
) -> Ints:  # fmt: skip
    """For each y, the smallest x whose limit reaches a level; n + 1 if there is none.

    Borderline outcomes are included and gaps are filled, because a larger region is still valid.
    `least` and `most` are edges of a lower and a higher level.
    """
    low = np.broadcast_to(np.asarray(least) - 1, ys.shape)
    high = np.broadcast_to(np.minimum(most, trials.n + 1), ys.shape)
    claim, enough = np.asarray(level), critical(confidence) * (1 - OUTWARDS) - OUTWARDS
    while (high - low > 1).any():
        middle = (low + high) // 2
        some = np.clip(middle, 0, trials.n).astype(float)
        ratio = log_likelihood_ratio(some, ys.astype(float), trials, claims, claim)
        inside = (ratio >= enough) & (middle >= 0)
        low, high = np.where(inside, low, middle), np.where(inside, middle, high)
    return np.minimum.accumulate(high[::-1])[::-1]


@dataclass(frozen=True, eq=False)
class _Region:
    """For each y, the outcomes with at least `edge` canary-in trials called member."""

    trials: _Trials
    ys: Ints
    edge: Ints

    def tails(self, p: Floats) -> Floats:
        """(points, ys) probability of the canary-in counts of the region."""
        n, edge = self.trials.n, self.edge
        some = np.clip(edge, 1, n)
        tails = scipy.special.betainc(some, n - some + 1, scipy.special.expit(p)[:, None])
        return np.where(edge > n, 0.0, np.where(edge < 1, 1.0, tails))

    def masses(self, q: Floats) -> Floats:
        """(points, ys) probability of each canary-out count."""
        m, y = self.trials.m, self.ys
        ways = (
            scipy.special.gammaln(m + 1)
            - scipy.special.gammaln(y + 1)
            - scipy.special.gammaln(m - y + 1)
        )
        q = q[:, None]
        return np.asarray(
            np.exp(ways + y * scipy.special.log_expit(q) + (m - y) * scipy.special.log_expit(-q))
        )

    def improbable(self, tails: Floats, q: Floats, kept: float) -> Bools:
        """Whether the region is too improbable, given its canary-in tails."""
        return np.asarray(np.einsum("py,py->p", tails, self.masses(q)) <= kept)

    def last_kept(self, p: Floats, low: Floats, high: Floats, kept: float) -> Floats:
        """For each p, the q in [low, high] above which the region is too improbable; `high` if it
        never is, and -inf if it already is at `low`."""
        tails = self.tails(p)
        nowhere, somewhere = (self.improbable(tails, q, kept) for q in (low, high))
        first, last = low, high
        while (last - first).max() > FINE:
            middle = (first + last) / 2
            over = self.improbable(tails, middle, kept)
            first, last = np.where(over, first, middle), np.where(over, middle, last)
        return np.where(nowhere, -np.inf, np.where(somewhere, last, high))


def _smallest_kept(
    region: _Region,
    claims: _Claims,
    p_limits: tuple[float, float],
    q_limits: tuple[float, float],
    kept: float,
) -> float:
    """A lower bound on the claims of all kept rates, over cells of p that are halved as needed."""
    least, most = max(q_limits[0], -LARGEST), min(q_limits[1], LARGEST)
    start, end = p_limits
    if math.isinf(end):
        ends = np.asarray(np.r_[np.linspace(start, start + 20.0, 65), math.inf])
    else:
        ends = np.linspace(start, end, 33)

    def last_kept(p: Floats, low: Floats, high: Floats) -> Floats:
        found = region.last_kept(p, np.maximum(low, least), np.maximum(high, least), kept)
        found = np.where(np.isneginf(found) & math.isinf(q_limits[0]), least, found)
        return np.where(found >= most, q_limits[1], found)

    q = last_kept(ends, np.full(ends.size, least), np.full(ends.size, most))
    attained, done = float(_claim_of(claims, ends, q).min()), math.inf
    a, b, low, high = ends[:-1], ends[1:], q[:-1], q[1:]
    while True:
        lower = _claim_of(claims, a, high)
        unsure = lower < attained - RESOLUTION
        done = min(done, float(lower[~unsure].min(initial=math.inf)))
        if not unsure.any() or a.size > CELLS or attained <= 0:
            return min(done, float(lower[unsure].min(initial=math.inf)))
        a, b, low, high = a[unsure], b[unsure], low[unsure], high[unsure]
        middle = np.where(np.isinf(b), a + 5.0, (a + b) / 2)
        at = last_kept(middle, low, np.minimum(high, most))
        attained = min(attained, float(_claim_of(claims, middle, at).min()))
        a, b, low, high = np.r_[a, middle], np.r_[middle, b], np.r_[low, at], np.r_[at, high]


def _claim_of(claims: _Claims, p: Floats, q: Floats) -> Floats:
    """Claim of rates; infinite where no q is kept."""
    with np.errstate(invalid="ignore"):
        return np.where(np.isneginf(q), np.inf, claims.smallest(p, q))


def rates_keep(x: int, y: int, trials: int, epsilon: float, delta: float, level: float) -> bool:
    """Do rates p and q, of x and y successes in so many trials each, certainly keep a claim?

    Guarantee: True with probability at most `level` if p or q, or 1 - p or 1 - q, is more than
    e^epsilon times the other, plus delta. Reference: Berger (Technometrics 1982).
    """
    both = x, y, trials - x, trials - y
    lines = ((both[i], both[j]) for i, j in ((0, 1), (1, 0), (2, 3), (3, 2)))
    return all(_below_line(*one, trials, epsilon, delta, level) for one in lines)


def _below_line(x: int, y: int, n: int, epsilon: float, delta: float, level: float) -> bool:
    # whether p >= slope q + delta is rejected
    slope, ys = math.exp(epsilon), np.arange(n + 1)
    if x >= slope * y + n * delta:
        return False
    last, claim, claims = (1 - delta) / slope, np.asarray(epsilon), _ApproxClaims(delta)

    def ratio(x: Floats, y: Floats) -> Floats:  # of unrestricted rates to those on the line
        on_line = claims.on_line(x, n - x, y, n - y, claim, np.asarray(last))
        return np.asarray(_log_binomial(x, n) + _log_binomial(y, n) - on_line)

    seen = ratio(np.asarray(float(x)), np.asarray(float(y))) * (1 - OUTWARDS)
    low, high = np.full(n + 1, -1), np.minimum(np.ceil(slope * ys + n * delta), n + 1).astype(int)
    while (high - low > 1).any():  # the most successes of p that rank as high beside each y
        middle = (low + high) // 2
        inside = (ratio(np.maximum(middle, 0.0), ys.astype(float)) >= seen) & (middle >= 0)
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    region = _Region(_Trials(n, n), ys, n - np.maximum.accumulate(low))  # by failures of p

    def chances(p: Floats, q: Floats) -> Floats:
        one, other = (np.clip(scipy.special.logit(rate), -LARGEST, LARGEST) for rate in (p, q))
        return np.asarray(np.einsum("py,py->p", region.tails(-one), region.masses(other)))

    ends = last * np.sin(np.linspace(0, math.pi / 2, 65)) ** 2
    a, b = ends[:-1], ends[1:]
    for _ in range(16):
        if (chances(slope * b + delta, b) > level).any():
            return False
        unsure = chances(slope * a + delta, b) > level * (1 - OUTWARDS)
        if not unsure.any():
            return True
        a, b = a[unsure], b[unsure]
        a, b = np.r_[a, (a + b) / 2], np.r_[(a + b) / 2, b]
    return False


POINTS, LEVELS = 256, 17  # for a power: nuisance rates, and levels in each of three passes


def _rejects(
    xs: Ints, ys: Ints, trials: _Trials, claims: _ApproxClaims, epsilon: float, confidence: float
) -> tuple[Bools, Bools]:
    """(xs, ys) whether the bound of an outcome surely, or very likely, exceeds a claim.

    It does if the outcome's level exceeds, at each edge point of the claim within the outcome's
    limits, the smallest level whose region is improbable there. If a limit falls between two
    points, "surely" checks both of them, and "very likely" only the inner one.
    """
    spent = NUISANCE_SHARE * (1 - confidence)
    kept = (1 - confidence) * (1 - NUISANCE_SHARE - OUTWARDS)
    boxes = [
        [scipy.special.logit(limit(k, n, spent / 4)) for limit in (binomial_lower, binomial_upper)]
        for k, n in ((xs, trials.n), (ys, trials.m))
    ]
    (p_low, p_high), (q_low, q_high) = boxes
    p, q = _edge_points(claims, epsilon, boxes)
    window = _window(trials.m, (float(q_low.min()), float(q_high.max())))
    with np.errstate(invalid="ignore", divide="ignore"):
        observed = claims.smallest(
            scipy.special.logit(xs / trials.n)[:, None], scipy.special.logit(ys / trials.m)
        )
    sure = (xs[:, None] * trials.m > ys * trials.n) & (observed > epsilon)
    likely = sure.copy()
    for at, edge in _critical_edges(p, q, window, trials, claims, confidence, kept):
        inside = xs[:, None] >= edge[np.searchsorted(window, ys)]
        for found, margin in ((sure, 1), (likely, 0)):
            below, above = np.maximum(at - margin, 0), np.minimum(at + margin, p.size - 1)
            asked_p = (p_low[:, None] <= p[above]) & (p[below] <= p_high[:, None])
            asked_q = (q_low[:, None] <= q[above]) & (q[below] <= q_high[:, None])
            found &= inside | ~(asked_p.astype(np.float32) @ asked_q.astype(np.float32).T > 0)
    return sure, likely


def _edge_points(
    claims: _ApproxClaims, epsilon: float, boxes: list[list[Floats]]
) -> tuple[Floats, Floats]:
    """Rates on the edge of a claim, as logits, that lie within the limits of some outcome."""
    (p_low, p_high), (q_low, q_high) = boxes
    p = np.linspace(max(p_low.min(), -LARGEST), min(p_high.max(), LARGEST), POINTS)
    p = np.sort(np.append(p, claims.corner(epsilon)))  # the likeliest point of many regions
    q = claims.edge(p, epsilon)
    some = (q >= q_low.min()) & (q <= q_high.max())
    return p[some], q[some]


def _critical_edges(
    p: Floats,
    q: Floats,
    window: Ints,
    trials: _Trials,
    claims: _Claims,
    confidence: float,
    kept: float,
) -> Iterator[tuple[Ints, Ints]]:
    """Groups of edge points with the largest region that is improbable at all of them."""
    low = np.zeros(p.size)
    top = approximate_limit(trials.n, 0, trials, claims, confidence)
    high = np.full(p.size, top * (1 + FINE))  # which no outcome reaches
    edges: dict[float, Ints] = {}
    for _ in range(3):
        for level in np.linspace(low.min(initial=0.0), high.max(initial=0.0), LEVELS):
            below = max((at for at in edges if at <= level), default=None)
            above = min((at for at in edges if at >= level), default=None)
            least = 0 if below is None else edges[below]
            most = MOST_TRIALS if above is None else edges[above]
            edge = _edge(window, trials, claims, level, confidence, least, most)
            edges[float(level)] = edge
            open_ = np.flatnonzero((low < level) & (level < high))
            region = _Region(trials, window, edge)
            small = region.improbable(region.tails(p[open_]), q[open_], kept)
            high[open_[small]], low[open_[~small]] = level, level
    for level in np.unique(high):
        nowhere = np.full(window.size, trials.n + 1)
        yield np.flatnonzero(high == level), edges.get(float(level), nowhere)
