"""Replies that no reading shows to depend on a single canary: what would have been seen of it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from leakbound.auditing.decide.verdict import Conclusion, Obstacle
from leakbound.auditing.observe.controls import ControlCheck
from leakbound.auditing.observe.one_pass import OnePass
from leakbound.auditing.observe.reply_separation import ChangeTest
from leakbound.auditing.observe.state_check import FEW, SHARE
from leakbound.auditing.prepare.others import FAMILIES, LEVEL, MOST, level_of, wanted_change
from leakbound.auditing.prepare.prepared import attack_name
from leakbound.stats import Estimate, beside
from leakbound.stats.counts.changes import detectable_change, detectable_share

UNREAD = (
    "Its file says that nothing has shown it to read the rows that it is sent (`reads_rows: "
    "false`): find the request that it reads them from, and take that line out."
)
FULL = (
    "A context full of canaries was not seen either: check that the system takes such questions, "
    "and answers them from the rows that it is given, and from no others."
)
QUOTED = (
    "{} of {} replies quote a record of their context, in six words or more that no other record "
    "has, and this attack hardly reaches the one that is tested. Find a query that brings the "
    "system to quote the canary (leakbound tune), or use more pairs."
)


@dataclass(frozen=True, slots=True)
class ContextUse:
    """What several attacks would have seen of a single canary, and which one did.

    With probability 0.9, each would have shown a rate that changes by `change`, and what a `share`
    of the replies shows with the canary and none without it. It bounds no epsilon: a leak of any
    epsilon can change a rate by as little as one likes. If the score's rates are `small`, they
    certainly keep the claim.
    """

    wanted: float
    change: float
    share: float
    attacks: tuple[str, ...]
    left: tuple[str, ...]
    pairs: int
    texts: bool
    whole: bool
    small: bool
    seen_by: str | None = None

    @property
    def read(self) -> str:
        """What was read of the replies."""
        return "the replies" if self.whole else "the replies, of whose words few are stored,"

    @property
    def limit(self) -> str:
        """What the replies do not show, and what would not have been seen."""
        return (
            f"no reading of {self.read} changed its rate by "
            f"{math.ceil(100 * self.change) / 100:g} or more where a single canary was in the "
            f"context ({self.pairs} pairs of contexts; each of {len(self.attacks)} kinds of attack "
            f"would have shown it with probability 0.9: {', '.join(self.attacks)}). A leak that "
            f"shows in fewer than {math.ceil(100 * self.share)}% of the replies, or in each of "
            "them in another way, would not have been seen."
        )


def context_use(seen: OnePass) -> ContextUse | None:
    """What the replies to all attacks that were asked show; None where no other is to be asked."""
    others, wanted = seen.prepared.others, wanted_change(seen.prepared.spec)
    if not others:
        return None
    tests = seen.changes()
    names = attack_name(seen.prepared.attack), *(one.name for one in others)
    asked, levels = names[: len(tests)], [level_of(test.readings) for test in tests]
    each = [(test.pairs, level) for test, level in zip(tests, levels, strict=True)]
    own, *rest = [(_p_value(test), name) for name, test in zip(asked, tests, strict=True)]
    seeing = min([own, *rest])
    return ContextUse(
        wanted=wanted,
        change=max(detectable_change(*one) for one in each),
        share=max(detectable_share(*one) for one in each),
        attacks=asked,
        left=names[len(tests) :],
        pairs=sum(test.pairs for test in tests),
        small=tests[0].small,
        whole=seen.prepared.spec.design.store_text == "all",
        texts=any(one.attack.query.free for one, _ in zip(others, tests[1:], strict=False)),
        seen_by=seeing[1] if seeing[0] <= EACH else None,
    )


EACH = LEVEL / MOST


def _p_value(test: ChangeTest) -> float:
    """Of all readings of one attack."""
    return 2 * min(test.by_score, test.by_replies) if test.readings else test.by_score


def without_use(
    seen: OnePass, use: ContextUse | None, blind: tuple[Obstacle, ...], above: Estimate | None
) -> tuple[Obstacle, ...]:
    """What is left of the reasons to call an attack blind, once other attacks have been asked."""
    if not blind:
        return ()
    (code, why), *more = blind
    application = seen.prepared.mechanism.application
    if application is not None and not application.reads_rows:
        return ((code, f"{why} {UNREAD}"), *more)
    if use is None or use.seen_by == use.attacks[0]:
        return blind
    if above is not None and not (use.small or use.left or use.seen_by):
        return blind
    if use.left:
        number = sum(len(one.pairs) for one in seen.prepared.others)
        left = f"{', '.join(use.left)} ({number} pairs of contexts)"
        return ((code, f"{why} Other attacks were not asked, or not answered: {left}."), *more)
    if use.seen_by is not None:
        fits = next(one for one in seen.prepared.others if one.name == use.seen_by)
        why = "another attack sees a single canary more clearly than this one: "
        why += f"audit with {fits.options}."
        return (("attack_blind" if above is None else "too_few_trials", why),)
    if len(use.attacks) < FAMILIES:
        few = f"Only {len(use.attacks)} of {FAMILIES} kinds of attack can be asked of this system."
        return ((code, f"{why} {few}"), *more)
    if use.change > use.wanted:
        return (_too_few(use),)
    return ()


def _too_few(use: ContextUse) -> Obstacle:
    change = "no change at all" if math.isinf(use.change) else f"a change of {use.change:.2f}"
    return (
        "too_few_trials",
        f"{len(use.attacks)} kinds of attack show nothing of a single canary, and so few pairs "
        f"would show {change} of a rate with probability 0.9; {use.wanted:.2f} has to be seen. Use "
        "more pairs, or --detect-change with what matters to you.",
    )


def concluded(
    seen: OnePass, found: Conclusion, use: ContextUse | None, controls: ControlCheck,
    above: Estimate | None,
) -> Conclusion:  # fmt: skip
    """The conclusion of an audit whose replies show nothing of a single canary, or so little that
    no bound exceeds the claim. Replies that quote records pass nowhere."""
    quoting, replies = seen.tally.quotes["context"], 2 * seen.seen
    if found.verdict == "no_violation" and quoting >= max(FEW, SHARE * replies):
        return Conclusion("inconclusive", "attack_blind", (QUOTED.format(quoting, replies),))
    if use is None or found.verdict != "no_violation":
        return found
    if above is not None:
        bound = f"epsilon is at least {beside(above.epsilon or 0.0, 0.0)[0]}, as claimed, and "
        return Conclusion("no_violation", None, (bound + use.limit,))
    if controls.seen:
        bulk = "a context full of canaries is seen, and a single one is not: "
        return Conclusion("no_violation", "seen_only_in_bulk", (bulk + use.limit,))
    full = f" {FULL}" if seen.prepared.mechanism.application is not None else ""
    return Conclusion("no_violation", "context_unused", (use.limit + full,))
