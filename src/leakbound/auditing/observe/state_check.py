"""Tests of whether an answer depends on earlier queries, separate from the verdict."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from leakbound.auditing.design.pairs import Pair
from leakbound.stats import rank_test, sign_test

# Error of all tests of an audit together. A false alarm makes a correct system inconclusive, and
# systems that remember are found at far smaller levels.
LEVEL = 0.01
# Replies that quote records of other contexts, from which on no chance is assumed.
FEW, SHARE = 3, 0.01


@dataclass(frozen=True, slots=True)
class StateTest:
    """One test of one way to depend on earlier queries."""

    name: str
    p_value: float


@dataclass(frozen=True, slots=True)
class StateCheck:
    """What the state check showed. It is a finding, and never a verdict."""

    repeats: int
    tests: tuple[StateTest, ...]
    level: float = LEVEL

    @property
    def found(self) -> StateTest | None:
        """The strongest test, if it rejects at its share of the level."""
        least = min(self.tests, key=lambda test: test.p_value, default=None)
        if least is None or least.p_value > self.level / len(self.tests):
            return None
        return least


@dataclass(frozen=True, slots=True)
class _Seen:
    """One pair; the last three are None where nothing was repeated."""

    out_first: bool
    member: float
    nonmember: float
    again: float | None
    same: bool | None
    neutral: int | None

    @property
    def change(self) -> float:
        """Score of the repeated query less that of the first."""
        return (self.again or 0.0) - (self.nonmember if self.out_first else self.member)


@dataclass(slots=True)
class StateTally:
    """Collects what the tests read, pair by pair."""

    seen: list[_Seen] = field(default_factory=list)

    def add(
        self, pair: Pair, member: float, nonmember: float, again: float | None, same: bool | None
    ) -> None:
        """Take in a pair."""
        neutral = len(pair.repeat) - 1 if pair.repeat else None
        self.seen.append(_Seen(pair.out_first, member, nonmember, again, same, neutral))

    def check(self, earlier: int = 0) -> StateCheck:
        """Run the tests; `earlier` replies quote a record of another context than their own."""
        repeated = [pair for pair in self.seen if pair.again is not None]
        tests = [*self._orders(), *(_repeats(repeated) if repeated else ())]
        if earlier >= max(FEW, SHARE * 2 * len(self.seen)):
            of = f"{earlier} of {2 * len(self.seen)}"
            tests.append(
                StateTest(f"{of} replies quote records that their context does not hold", 0)
            )
        return StateCheck(len(repeated), tuple(tests))

    def _orders(self) -> Iterator[StateTest]:
        """The order within pairs is drawn, and pairs are drawn alike."""
        out_first = [pair for pair in self.seen if pair.out_first]
        in_first = [pair for pair in self.seen if not pair.out_first]
        yield _ranks(
            "its answers to the canary-in context depend on whether that is asked first",
            [pair.member for pair in in_first], [pair.member for pair in out_first],
        )  # fmt: skip
        yield _ranks(
            "its answers to the canary-out context depend on whether that is asked first",
            [pair.nonmember for pair in out_first], [pair.nonmember for pair in in_first],
        )  # fmt: skip
        sums, middle = [pair.member + pair.nonmember for pair in self.seen], len(self.seen) // 2
        yield _ranks("its answers drift over the audit", sums[:middle], sums[middle:])


def _repeats(repeated: list[_Seen]) -> Iterator[StateTest]:
    """A repeated query and the first are alike, whatever was asked in between."""
    for out_first, name in ((False, "canary-in"), (True, "canary-out")):
        changes = [pair.change for pair in repeated if pair.out_first == out_first]
        yield StateTest(
            f"a query to the {name} context is answered differently when it is repeated",
            sign_test(changes),
        )
    for name, counts in (("one neutral query", {1}), ("neutral queries", {1, 2})):
        some = [float(bool(pair.same)) for pair in repeated if pair.neutral in counts]
        others = [float(bool(pair.same)) for pair in repeated if pair.neutral not in counts]
        yield _ranks(f"a repeated query is answered differently after {name}", some, others)


def _ranks(name: str, some: list[float], others: list[float]) -> StateTest:
    return StateTest(name, rank_test(some, others, two_sided=True))
