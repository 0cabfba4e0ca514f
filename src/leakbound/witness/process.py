"""The learned witness as an e-process over pairs of replies."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from leakbound._check import at_least, confidence_level, count, delta_value
from leakbound.errors import UsageError
from leakbound.privacy import ApproxDP, Guarantee
from leakbound.stats.arrays import Bools, Floats
from leakbound.stats.e_values.anytime import EValueTest
from leakbound.witness.features import COUNTED, SCALARS, as_features
from leakbound.witness.panel import Panel
from leakbound.witness.pool import Corpus
from leakbound.witness.stored import StoredReply, is_public

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

# added to the claimed epsilon in the weights; otherwise witnesses at its edge would get the stake
STRICTER = 0.25
# exponent of a witness's past payoff in its weight, about that of the likelihood ratio of a channel
# that is on in .3 of replies against .1
SHARPNESS = 0.7
# log odds that lower the confidence: even with a clear leader, the rest is noise in about one of
# three cases, in simulated systems that all leak; this affects only the size of early stakes
DOUBT = math.log(0.4)


class Record:
    """What the witnesses of one panel showed on the pairs so far."""

    def __init__(self, past: Bools, capacity: int) -> None:
        self._rows = np.zeros((2 * capacity, past.shape[1]), np.float32)
        self._rows[: len(past)] = past
        self.pairs = len(past) // 2
        x, y = past[0::2], past[1::2]
        self.only_in = (x & ~y).sum(0).astype(float)
        self.only_out = (~x & y).sum(0).astype(float)
        self.both = (x & y).sum(0).astype(float)

    def add(self, x: Bools, y: Bools) -> None:
        self._rows[2 * self.pairs : 2 * self.pairs + 2] = x, y
        self.only_in += x & ~y
        self.only_out += ~x & y
        self.both += x & y
        self.pairs += 1

    def gains(self, epsilon: float) -> Floats:
        """Sum of past payoffs x - e^epsilon y of each witness and direction."""
        odds = math.exp(epsilon)
        neither = self.pairs - self.only_in - self.only_out - self.both
        here, there = self.only_in - odds * self.only_out, self.only_out - odds * self.only_in
        on, off = (odds - 1) * self.both, (odds - 1) * neither
        return np.stack([here - on, there - on, there - off, here - off], 1)

    def shares(self, witness: int) -> tuple[float, float]:
        """Share of canary-in and of canary-out replies on which a witness is 1."""
        both, pairs = self.both[witness], max(self.pairs, 1)
        return (
            float(self.only_in[witness] + both) / pairs,
            float(self.only_out[witness] + both) / pairs,
        )

    def likeness(self, witness: int) -> Floats:
        """Similarity of all witnesses to one of them, over all replies."""
        rows = self._rows[: 2 * self.pairs]
        total = self.only_in + self.only_out + 2 * self.both
        share = total / len(rows)
        together = rows[:, witness] @ rows / len(rows)
        variance = share * (1 - share)
        covariance = together - share * share[witness]
        found = covariance / np.sqrt(variance * variance[witness] + 1e-12)
        return np.asarray(np.clip(found, 0, 1) ** 2)


@dataclass(frozen=True, slots=True)
class Portfolio:
    weights: Floats
    alike: float  # share of the weights on witnesses that agree with the leader

    @property
    def confidence(self) -> float:
        return 1 / (1 + math.exp(-DOUBT) * (1 - self.alike) / self.alike)

    @staticmethod
    def of(record: Record, log_prior: Floats, epsilon: float) -> Portfolio:
        """Weights proportional to prior times exp(past payoff)."""
        evidence = log_prior + SHARPNESS * record.gains(epsilon + STRICTER)
        weights = np.exp(evidence - evidence.max())
        weights /= weights.sum()
        leader, direction = divmod(int(evidence.argmax()), 4)
        alike = float(weights[:, direction] @ record.likeness(leader))
        alike = min(max(alike, 1e-9), 1 - 1e-9)
        return Portfolio(weights, alike)

    def payoff(self, x: Bools, y: Bools, odds: float) -> float:
        """Mean of x - odds y over the weights."""
        w = self.weights.T
        here = w[0] @ x + w[2] @ ~x - odds * (w[0] @ y + w[2] @ ~y)
        there = w[1] @ y + w[3] @ ~y - odds * (w[1] @ x + w[3] @ ~x)
        return float(here + there)


LARGEST = 0.999  # largest stake, as a share of the stake that could lose everything
SHARES = np.array([0, .1, .2, .3, .35, .4, .45, .5, .55, .6, .7, .8, .9, 1])  # fmt: skip
LOWEST, STEP = -5.0, 0.05  # grid of log e-values; below it there is nothing left to plan for
LOGITS = np.linspace(-3.0, 4.0, 11)  # grid of the confidence
RATES = (0.28, 0.11)  # rates of a witness of a leak at a claim of .25; others keep the margin
MARGIN = math.log(RATES[0] / RATES[1]) - 0.25
MOST = 0.9  # largest rate of a witness
NOISE = 0.2  # rate of a witness of noise
FOUND = 0.003  # probability per pair that a witness of the leak replaces one of noise
SOON, LATER = 0.6, 0.65  # a rejection after the share SOON of the pairs is worth LATER, not 1
PATIENCE = 0.999  # factor by which each further pair reduces the worth of a rejection
BEYOND = 0.5  # share staked after the planned number of pairs, at full confidence


@dataclass(frozen=True, slots=True)
class _StakePlan:
    log_e: Floats
    shares: npt.NDArray[np.float32]

    def share(self, left: int, log_e: float, confidence: float) -> float:
        if left <= 0:
            return BEYOND * confidence
        confidence = min(max(confidence, 1e-9), 1 - 1e-9)
        table = self.shares[min(left, len(self.shares) - 1)]
        at = np.interp(math.log(confidence / (1 - confidence)), LOGITS, np.arange(LOGITS.size))
        low = min(int(at), LOGITS.size - 2)
        column = table[:, low] * (1 - (at - low)) + table[:, low + 1] * (at - low)
        return float(np.interp(log_e, self.log_e, column))


@lru_cache(maxsize=32)
def plan_stakes(horizon: int, epsilon: float, delta: float, level: float) -> _StakePlan:
    points = np.append(np.arange(LOWEST, level, STEP), level)
    payoffs, leak, noise = _outcomes(epsilon, delta)
    moves = _moves(points, payoffs)
    sure = 1 / (1 + np.exp(-LOGITS))[:, None]
    chance = sure * leak + (1 - sure) * noise  # (confidence, outcomes)
    after = sure * leak / chance
    after += FOUND * (1 - after)
    blends = [_blend(after[:, o]) * chance[:, o] for o in range(len(payoffs))]
    shares = np.zeros((horizon + 1, points.size, LOGITS.size), np.float32)
    value = np.zeros((points.size, LOGITS.size))
    for left in range(1, horizon + 1):
        value[-1] = 1.0 if left > (1 - SOON) * horizon else LATER
        future = np.concatenate([value @ blend for blend in blends])
        mean = PATIENCE * (moves @ future).reshape(SHARES.size, points.size, -1)
        best = mean.argmax(0)
        shares[left] = SHARES[best]
        value = np.take_along_axis(mean, best[None], 0)[0]
    return _StakePlan(points, shares)


def _outcomes(epsilon: float, delta: float) -> tuple[Floats, Floats, Floats]:
    """Gains of the largest stake in the four outcomes, and their probabilities under each case."""
    odds = math.exp(epsilon)
    payoffs = LARGEST * (np.array([1.0, -odds, 1.0 - odds, 0.0]) - delta) / (odds + delta)
    high = min(MOST, RATES[1] * math.exp(epsilon + MARGIN))
    return payoffs, _pair(high, high / math.exp(epsilon + MARGIN)), _pair(NOISE, NOISE)


def _pair(x: float, y: float) -> Floats:
    return np.array([x * (1 - y), (1 - x) * y, x * y, (1 - x) * (1 - y)])


def _moves(points: Floats, payoffs: Floats) -> csr_matrix:
    """(shares * points, outcomes * points) matrix that interpolates at the next log e-values."""
    from scipy.sparse import csr_matrix  # keeps the import of leakbound fast

    reached = points[:, None] + np.log1p(SHARES[:, None, None] * payoffs)  # (S, n, O)
    at = np.interp(reached, points, np.arange(points.size))
    low = np.minimum(at.astype(int), points.size - 2)
    inside = reached >= points[0]
    rows = np.broadcast_to(np.arange(at[..., 0].size).reshape(*at.shape[:2], 1), at.shape)
    columns = low + points.size * np.arange(payoffs.size)
    weights = np.stack([(1 - (at - low)) * inside, (at - low) * inside])
    entries = (np.stack([rows, rows]).ravel(), np.stack([columns, columns + 1]).ravel())
    shape = (at[..., 0].size, payoffs.size * points.size)
    return csr_matrix((weights.ravel(), entries), shape=shape)


def _blend(confidence: Floats) -> Floats:
    """(from, to) matrix that interpolates a value at each of the new confidences."""
    logits = np.clip(np.log(confidence / (1 - confidence)), LOGITS[0], LOGITS[-1])
    at = np.interp(logits, LOGITS, np.arange(LOGITS.size))
    low = np.minimum(at.astype(int), LOGITS.size - 2)
    blend, to = np.zeros((LOGITS.size, LOGITS.size)), np.arange(LOGITS.size)
    blend[low, to], blend[low + 1, to] = 1 - (at - low), at - low
    return blend


FIRST = 8  # number of pairs before the first stake, which is that of the early process
PLANNED = 12  # before the first planned stake: fewer pairs show nothing of a leak at the claim
EARLY = 0.1  # weight of a process that stakes on a clear leader at once, beside the planned one
BOLD = 0.9  # share that it stakes on a leader that all others agree with
# claims whose rejection gives a lower bound on epsilon, in addition to the tested claim
SCAN = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0)
LARGEST_EPSILON = 700.0  # e^700 is about the largest float
# what a number counts, and that a reply has more of it, and less; averages of others say nothing
NEAR = 0.1  # by which a plain reading may tell fewer contexts apart than the one that leads
UNITS = {  # the plainest first
    "seconds": ("seconds", "slower", "faster"), "words": ("words", "longer", "shorter"),
    "chars": ("characters", "longer", "shorter"), "tokens": ("tokens", "longer", "shorter"),
    "sentences": ("sentences", "longer", "shorter"),
}  # fmt: skip


class WitnessProcess(EValueTest):
    """Anytime-valid test of a claim on whole replies. It can be read and stopped after any pair.

    For any function g of a reply with values in [0, 1], (epsilon, delta)-DP implies
    E g(X) <= e^epsilon E g(Y) + delta for the replies X, Y of neighbouring contexts, and the same
    with X and Y exchanged. The process stakes on many such functions at once, each a threshold on a
    number or the presence of a string, which it learns from earlier pairs.

    Guarantee: a claim that holds for every pair given the past is rejected with probability at most
    1 - confidence, at any stopping time.
    Reference: Ville (1939); Waudby-Smith and Ramdas (JRSS B 2024).
    """

    def __init__(
        self,
        claim: Guarantee,
        confidence: float = 0.95,
        horizon: int = 200,
        delta: float = 1e-5,
        scan: tuple[float, ...] = SCAN,
    ) -> None:
        self.claim, self.confidence = claim, confidence_level(confidence)
        self.horizon = max(1, count("horizon", horizon))
        self.delta = claim.delta if isinstance(claim, ApproxDP) else float(delta_value(delta))
        self.epsilon = _readable(claim, self.delta)
        self.scan = tuple(sorted({self.epsilon, *map(float, at_least("scan", scan, 0.0))}))
        level = self.log_threshold - math.log(1 - EARLY)
        plan = plan_stakes(self.horizon, self.epsilon, self.delta, level)
        self._tests = {
            e: _Test(e, self.delta, plan if e <= self.epsilon else None) for e in self.scan
        }
        self._corpus = Corpus()
        self._panel: Panel | None = None
        self._record = Record(np.zeros((0, 0), bool), 0)
        self._next_fit = FIRST
        self._favours: list[float] = []  # of the pairs with a stake: payoff less if exchanged

    def observe(self, reply_in: StoredReply, reply_out: StoredReply, canary: str = "") -> None:
        self._stake()
        pair = [self._corpus.encode(as_features(r, canary)) for r in (reply_in, reply_out)]
        if self._panel is not None:
            x, y = (self._panel.values(reply) for reply in pair)
            self._favours.append(self._tests[self.epsilon].favour(x, y))
            for test in self._tests.values():
                test.settle(x, y)
            self._record.add(x, y)
        self._corpus.replies += pair
        for test in self._tests.values():
            test.path.append(test.log_e)

    @property
    def pairs(self) -> int:
        return len(self._corpus) // 2

    @property
    def log_e_values(self) -> Floats:
        return np.array(self._tests[self.epsilon].path)

    def scan_log_e_values(self) -> dict[float, Floats]:
        """The e-processes of all tested claims, to be combined with others."""
        return {epsilon: np.array(test.path) for epsilon, test in self._tests.items()}

    def leaders(self, most: int = 5) -> tuple[tuple[str, float], ...]:
        """The witnesses with the largest shares of the next stake against the claim."""
        if self._panel is None:
            return ()
        share = Portfolio.of(self._record, self._panel.log_prior, self.epsilon).weights.sum(1)
        order = np.argsort(-share, kind="stable")[:most]
        return tuple((self._panel.names[j], float(share[j])) for j in order)

    def guesses(self) -> tuple[int, int]:
        """How often the stakes guessed which reply of a pair was the canary-in one."""
        signs = np.sign(self._favours)
        return int((signs > 0).sum() + (signs == 0).sum() // 2), signs.size

    def leads(self) -> str:
        """How replies differ in the first of `leaders`, in a sentence without private text."""
        if self._panel is None:
            return ""
        name = self._plainest()
        measure, _, threshold = name.partition(" > ")
        if measure in SCALARS:
            gaps = self._gaps(measure)
            if measure not in UNITS:
                larger, smaller = int((gaps > 0).sum()), int((gaps < 0).sum())
                how, of = ("higher", larger) if larger >= smaller else ("lower", smaller)
                counted = COUNTED.get(measure.partition("_set_")[0])
                what = f"measurement {measure.replace('_', ' ')!r}"
                if counted:
                    what = f"number of {counted} that a checksum puts into one half of all"
                return (
                    f"With the canary, the {what} is {how} in {of} of {gaps.size} pairs of replies."
                )
            more = float(gaps.mean())
            unit, higher, lower = UNITS[measure]
            how = higher if more > 0 else lower
            size = f"{abs(more):.3g}"
            unit = unit.removesuffix("s") if size == "1" else unit
            return f"Replies are {size} {unit} {how} when the canary is there, on average."
        at = self._panel.names.index(name)
        shares = self._record.shares(at)
        there, elsewhere = (1 - of if self._panel.flip[at] else of for of in shares)
        kind, _, text = measure.partition(":")  # an answer that is scored may be private
        shown = f"{kind} {text!r}" if is_public(name) else f"one {kind} that is not stored"
        if kind == "digest":
            shown = "one word or rule over several (such as an ending, or a sum), kept as a digest"
        if threshold and not text:
            shown = (
                f"{measure.replace('_beyond_', ' beyond what is usual for so many ')} > {threshold}"
            )
        shown = shown[:1].upper() + shown[1:]
        return (
            f"{shown}: {there:.0%} of the replies when the canary is there, "
            f"{elsewhere:.0%} of the others."
        )

    def _plainest(self) -> str:
        """What says most to a reader, of what tells contexts apart as well as the leading one."""
        names = self._panel.names if self._panel is not None else ()
        leading = self.leaders(1)[0][0]
        enough = self._apart(names.index(leading)) - NEAR
        for measure in UNITS:
            gaps = self._gaps(measure)
            if gaps.size and abs(np.sign(gaps).mean()) >= enough:
                return measure
        public = (at for at, name in enumerate(names) if is_public(name))
        return next((names[at] for at in public if self._apart(at) >= enough), leading)

    def _apart(self, at: int) -> float:
        there, elsewhere = self._record.shares(at)
        return abs(there - elsewhere)

    def _gaps(self, measure: str) -> Floats:
        """What a measurement of the canary-in reply has more, of the pairs in which both are."""
        values = np.array([r.scalars[SCALARS.index(measure)] for r in self._corpus.replies])
        pairs = values.reshape(-1, 2)
        return np.asarray((pairs[:, 0] - pairs[:, 1])[np.isfinite(pairs).all(1)])

    def _stake(self) -> None:
        """Refit if it is due, and fix the stakes for the next pair."""
        if self.pairs == self._next_fit:
            self._next_fit = max(self.pairs + 4, round(1.2 * self.pairs))
            panel, past = Panel.fit(self._corpus)
            self._panel = panel if panel.names else None  # all replies are equal: nothing to stake
            self._record = Record(past, self._next_fit)
        if self._panel is not None:
            for test in self._tests.values():
                test.stake(self._record, self._panel.log_prior, self.horizon - self.pairs)


class _Test:
    """The e-process of one claimed epsilon."""

    def __init__(self, epsilon: float, delta: float, plan: _StakePlan | None) -> None:
        self.odds, self.epsilon, self.delta, self.plan = math.exp(epsilon), epsilon, delta, plan
        self.path = list[float]()
        self._portfolio: Portfolio | None = None
        self._weights = np.log([1 - EARLY, EARLY])
        self._log_e, self._shares = np.zeros(2), np.zeros(2)  # of the planned process, and early

    @property
    def log_e(self) -> float:
        return float(np.logaddexp(*(self._weights + self._log_e)))

    def stake(self, record: Record, log_prior: Floats, left: int) -> None:
        """Fix the stakes for the next pair, from earlier pairs only."""
        self._portfolio = Portfolio.of(record, log_prior, self.epsilon)
        sure = self._portfolio.confidence
        planned = self.plan.share(left, self._log_e[0], sure) if self.plan else BEYOND * sure
        shares = planned if record.pairs >= PLANNED else 0.0, BOLD * self._portfolio.alike
        self._shares = np.array(shares) * LARGEST / (self.odds + self.delta)

    def favour(self, x: Bools, y: Bools) -> float:
        """The payoff of the pair, less that of the same pair with its contexts exchanged."""
        if self._portfolio is None:
            return 0.0
        of = self._portfolio.payoff
        return of(x, y, self.odds) - of(y, x, self.odds)

    def settle(self, x: Bools, y: Bools) -> None:
        if self._portfolio is None:
            raise ArithmeticError("a pair came before its stake was fixed.")
        factors = 1 + self._shares * (self._portfolio.payoff(x, y, self.odds) - self.delta)
        if not (factors > 0).all():
            raise ArithmeticError(
                f"e-values would be multiplied by {factors}; they must stay positive. A stake is "
                "too large or a witness lies outside [0, 1]."
            )
        self._log_e += np.log(factors)


def _readable(claim: Guarantee, delta: float) -> float:
    epsilon = claim.epsilon(delta)
    if not epsilon < LARGEST_EPSILON:
        raise UsageError(
            f"the claim ({claim.describe()}) states nothing at delta {delta:g} that a trial could "
            f"reject; state an epsilon below {LARGEST_EPSILON:g}, or a larger delta."
        )
    return float(epsilon)
