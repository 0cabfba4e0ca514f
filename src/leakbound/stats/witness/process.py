"""The learned witness as an e-process over pairs of replies."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from leakbound._check import at_least, confidence_level, count, delta_value
from leakbound.errors import UsageError
from leakbound.privacy import ApproxDP, Guarantee
from leakbound.stats.estimate import Estimate
from leakbound.stats.witness.corpus import Corpus
from leakbound.stats.witness.features import SCALARS, ReplyFacts, ReplyFeatures, measured
from leakbound.stats.witness.horizon import BEYOND, LARGEST, StakePlan, plan_stakes
from leakbound.stats.witness.panel import Panel
from leakbound.stats.witness.stakes import Portfolio, Record
from leakbound.stats.witness.stored import is_public

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
FIRST = 12  # number of pairs before the first stake; fewer pairs show nothing
# claims whose rejection gives a lower bound on epsilon, in addition to the tested claim
SCAN = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0)
LARGEST_EPSILON = 700.0  # e^700 is about the largest float
# what a number counts, and that a reply has more of it, and less
UNITS = {
    "chars": ("characters", "longer", "shorter"), "words": ("words", "longer", "shorter"),
    "sentences": ("sentences", "longer", "shorter"), "tokens": ("tokens", "longer", "shorter"),
    "seconds": ("seconds", "slower", "faster"),
}  # fmt: skip
ASSUMES = ("pairs are independent, or drawn so that the claim holds for each given the past",)


class WitnessProcess:
    """Anytime-valid test of a claim on whole replies. It can be read and stopped after any pair.

    For any function g of a reply with values in [0, 1], (epsilon, delta)-DP implies
    E g(X) <= e^epsilon E g(Y) + delta for the replies X, Y of neighbouring contexts, and the same
    with X and Y exchanged. The process stakes on many such functions at once, each a threshold on a
    number or the presence of a string. It learns from earlier pairs which ones separate the
    contexts.

    Guarantee:
        If the claim holds for every pair given the past, it is rejected with probability at most
        1 - confidence, at any stopping time. Witnesses, weights and stakes of a pair are functions
        of earlier pairs only.

    Reference:
        Ville (1939); Waudby-Smith and Ramdas (JRSS B 2024).

    Examples:
        A system that refuses whenever the canary is in its context:

        >>> from leakbound.privacy import PureDP
        >>> process = WitnessProcess(PureDP(0.5), horizon=60, scan=())
        >>> for _ in range(60):
        ...     process.observe(ReplyFacts("I cannot answer that."), ReplyFacts("It is 12."))
        >>> process.rejected
        True
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
        plan = plan_stakes(self.horizon, self.epsilon, self.delta, self.log_threshold)
        self._tests = {e: _Test(e, self.delta, None) for e in self.scan}
        self._tests[self.epsilon].plan = plan
        self._corpus = Corpus()
        self._panel: Panel | None = None
        self._record = Record(np.zeros((0, 0), bool), 0)
        self._next_fit = FIRST
        self._favours: list[float] = []  # of the pairs with a stake: payoff less if exchanged

    def observe(
        self,
        reply_in: ReplyFacts | ReplyFeatures,
        reply_out: ReplyFacts | ReplyFeatures,
        canary: str = "",
    ) -> None:
        """Observe one pair."""
        self._stake()
        pair = [self._corpus.encode(measured(r, canary)) for r in (reply_in, reply_out)]
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
        """Pairs seen so far."""
        return len(self._corpus) // 2

    @property
    def e_value(self) -> float:
        """Current evidence against the claim. Under the claim its expectation is at most 1."""
        return math.exp(min(self.log_e_value, 700.0))  # e^700 is about the largest float

    @property
    def log_e_value(self) -> float:
        """Logarithm of the current e-value."""
        return self._tests[self.epsilon].log_e

    @property
    def log_e_values(self) -> Floats:
        """(pairs,) logarithm of the e-value after each pair."""
        return np.array(self._tests[self.epsilon].path)

    @property
    def log_threshold(self) -> float:
        """ln(1/alpha), the logarithm of the e-value at which the claim is rejected."""
        return -math.log(1 - self.confidence)

    @property
    def rejected(self) -> bool:
        """Whether the e-value has ever reached 1/alpha."""
        return self._reached(self.epsilon)

    @property
    def rejected_at(self) -> int | None:
        """Number of pairs after which the e-value first reached 1/alpha; None if it did not."""
        over = np.flatnonzero(self.log_e_values >= self.log_threshold)
        return int(over[0]) + 1 if over.size else None

    def rejects(self, claim: Guarantee) -> bool:
        """Whether the e-value of a claim has ever reached 1/alpha."""
        implied = [e for e in self.scan if e >= claim.epsilon(self.delta)]
        return bool(implied) and self._reached(implied[0])

    def scan_log_e_values(self) -> dict[float, Floats]:
        """The e-processes of all tested claims, to be combined with others."""
        return {epsilon: np.array(test.path) for epsilon, test in self._tests.items()}

    def epsilon_lower_bound(self) -> Estimate:
        """Largest epsilon in `scan` for which it and all smaller values in `scan` are rejected.

        Guarantee:
            Exceeds the true epsilon(delta) with probability at most 1 - confidence, at any
            stopping time. The claims are nested, so to exceed the truth it would have to reject the
            smallest true claim in `scan`.
        """
        bound = 0.0
        for epsilon in self.scan:
            if not self._reached(epsilon):
                break
            bound = epsilon
        return Estimate(
            method="witness",
            kind="lower_bound",
            epsilon=bound,
            delta=self.delta,
            confidence=self.confidence,
            counts={"pairs": self.pairs},
            assumptions=ASSUMES,
            threshold="chosen before each pair from earlier pairs",
        )

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
        name = self.leaders(1)[0][0]
        measure, _, threshold = name.partition(" > ")
        if measure in SCALARS:
            values = np.array([r.scalars[SCALARS.index(measure)] for r in self._corpus.replies])
            pairs = values.reshape(-1, 2)
            more = float((pairs[:, 0] - pairs[:, 1])[np.isfinite(pairs).all(1)].mean())
            unit, higher, lower = UNITS.get(measure, (measure.replace("_", " "), "more", "less"))
            how = higher if more > 0 else lower
            return f"Replies are {abs(more):.3g} {unit} {how} when the canary is there, on average."
        at = self._panel.names.index(name)
        shares = self._record.shares(at)
        there, elsewhere = (1 - of if self._panel.flip[at] else of for of in shares)
        kind, _, text = measure.partition(":")  # an answer that is scored may be private
        shown = f"{kind} {text!r}" if is_public(name) else f"one {kind} that is not stored"
        shown = name if threshold and not text else shown
        return (
            f"{shown}: {there:.0%} of the replies when the canary is there, "
            f"{elsewhere:.0%} of the others."
        )

    def _reached(self, epsilon: float) -> bool:
        return max(self._tests[epsilon].path, default=0.0) >= self.log_threshold

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

    def __init__(self, epsilon: float, delta: float, plan: StakePlan | None) -> None:
        self.odds, self.epsilon, self.delta, self.plan = math.exp(epsilon), epsilon, delta, plan
        self.log_e, self.path = 0.0, list[float]()
        self._portfolio: Portfolio | None = None
        self._share = 0.0

    def stake(self, record: Record, log_prior: Floats, left: int) -> None:
        """Fix the stake for the next pair, from earlier pairs only."""
        self._portfolio = Portfolio.of(record, log_prior, self.epsilon)
        sure = self._portfolio.confidence
        planned = self.plan.share(left, self.log_e, sure) if self.plan else BEYOND * sure
        self._share = planned * LARGEST / (self.odds + self.delta)

    def favour(self, x: Bools, y: Bools) -> float:
        """The payoff of the pair, less that of the same pair with its contexts exchanged."""
        if self._portfolio is None:
            return 0.0
        of = self._portfolio.payoff
        return of(x, y, self.odds) - of(y, x, self.odds)

    def settle(self, x: Bools, y: Bools) -> None:
        """Update the e-value with the payoff of the pair."""
        if self._portfolio is None:
            raise ArithmeticError("a pair came before its stake was fixed.")
        factor = 1 + self._share * (self._portfolio.payoff(x, y, self.odds) - self.delta)
        if not factor > 0:
            raise ArithmeticError(
                f"the e-value would be multiplied by {factor:g}; it must stay positive. A stake is "
                "too large or a witness lies outside [0, 1]."
            )
        self.log_e += math.log(factor)


def _readable(claim: Guarantee, delta: float) -> float:
    epsilon = claim.epsilon(delta)
    if not epsilon < LARGEST_EPSILON:
        raise UsageError(
            f"the claim ({claim.describe()}) states nothing at delta {delta:g} that a trial could "
            f"reject; state an epsilon below {LARGEST_EPSILON:g}, or a larger delta."
        )
    return float(epsilon)
