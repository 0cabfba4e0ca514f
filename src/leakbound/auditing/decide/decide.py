"""From what a pass has seen to a verdict, with all that it rests on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

from leakbound.attacks import Attack
from leakbound.auditing.decide.obstacles import (
    Conclusion,
    Found,
    Obstacle,
    Reason,
    Verdict,
    above_zero,
    blindness,
    channels_untested,
    conclude,
    controls_lost,
    is_function,
    noise_obstacles,
    obstacles,
    own_unseen,
    score_reading,
    unread,
)
from leakbound.auditing.design.pairs import OtherPairs
from leakbound.auditing.observe.controls import ControlCheck, StoredBatch, replies_in
from leakbound.auditing.observe.one_pass import OnePass, Tally
from leakbound.auditing.observe.rejections import as_tested
from leakbound.auditing.observe.release import FEW, SHARE, StateCheck
from leakbound.auditing.observe.reply_separation import Separations, separates_alone
from leakbound.auditing.prepare.prepared import (
    FAMILIES,
    LEVEL,
    MOST,
    attack_name,
    level_of,
    wanted_change,
)
from leakbound.auditing.spec.staged import STAGED, Staged
from leakbound.estimators import Bounds, EProcess, Estimator, TrialDesign
from leakbound.estimators.base import exceeds
from leakbound.estimators.e_process import ChannelEValues, channel_design
from leakbound.estimators.witness import reach_of_replies
from leakbound.stats import BoundReading, Estimate, NoiseFit, beside
from leakbound.stats.counts.two_samples import detectable_change, detectable_share
from leakbound.tasks import ANSWER

UNREAD = (
    "Its file says that nothing has shown it to read the rows that it is sent (`reads_rows: "
    "false`): find the request that it reads them from, and take that line out."
)
UNASKED = (
    "Its configuration says that no other attack is asked (`detect_change: 0`), as init does where "
    "nothing shows that usual questions are answered: name a question that is answered from the "
    "rows, and take that line out (docs/systems.md)."
)
APART = (
    "Channels are tested one by one, and no other attack is asked, as a pass needs where this one "
    "sees nothing: take channels out, and answers and tool calls are read as one."
)
FULL = (
    "A context full of canaries was not seen either: check that the system takes such questions "
    "and answers them from the rows that it is given, and from no others."
)
UNSTORED = ". A word in the middle of a long reply may be missed (--store-text all reads it)"
BESIDE = (
    "Beside an answer, ids, names of models, durations and the present time were not read "
    "(--channels all reads them), nor scores (--access white_box) or headers of a service."
)
QUOTED = (
    "{} of {} replies{} quote a record (six words of it, or all of a shorter one), and this attack "
    "hardly reaches the one that is tested. Find a query that brings the system to quote the "
    "canary (leakbound tune), or use more pairs; leave out a row that cites a public text."
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
    layout: str = "paired"

    @property
    def read(self) -> str:
        kept = "digests of most words, and two digits of numbers, are stored"
        return "the replies" if self.whole else f"the replies ({kept})"

    @property
    def limit(self) -> str:
        where = "with a single canary in the context"
        who = f"Each of {len(self.attacks)} kinds of attack ({self.pairs} pairs of contexts in all)"
        if (staged := STAGED.get(self.layout)) is not None:
            where, who = staged.there, f"The test ({self.pairs} pairs)"
        return (
            f"no reading of {self.read} changed its rate by "
            f"{math.ceil(100 * self.change) / 100:g} or more {where}. {who} would have shown this "
            "with probability 0.9. A leak in fewer than "
            f"{math.ceil(100 * self.share)}% of the replies would not have been seen, nor one in "
            "every reply by a rule that no reading follows"
            f"{'' if self.whole else UNSTORED}."
        )


def context_use(seen: OnePass) -> ContextUse | None:
    """What the replies to all attacks that were asked show; None where no other is to be asked."""
    others, wanted = seen.prepared.others, wanted_change(seen.prepared.spec)
    if not (others or seen.prepared.pairs.staged):
        return None
    tests = seen.changes()
    names = attack_name(seen.prepared.attack), *(one.name for one in others)
    asked, levels = names[: len(tests)], [level_of(test.readings) for test in tests]
    each = [(test.pairs, level) for test, level in zip(tests, levels, strict=True)]
    values = [  # of all readings of one attack
        2 * min(test.by_score, test.by_replies) if test.readings else test.by_score
        for test in tests
    ]
    own, *rest = [*zip(values, asked, strict=True)]
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
        layout=seen.prepared.spec.design.layout,
    )


EACH = LEVEL / MOST


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
    if application is not None and seen.prepared.spec.design.detect_change == 0:
        return ((code, f"{why} {UNASKED}"), *more)
    if seen.design.channels:
        return ((code, f"{why} {APART}"), *more)
    if use is None or use.layout in STAGED or use.seen_by == use.attacks[0]:
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
    kinds = len(use.attacks) - seen.prepared.of_own_kind  # those that are known to differ
    if kinds < FAMILIES:
        few = f"Only {kinds} of {FAMILIES} kinds of attack can be asked of this system."
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
    """The conclusion where no reply shows a single canary, or no bound can; quotes say more."""
    digest = found.sentences if found.reason == "context_digest" else ()
    for quoting, replies, asked in (
        seen.quoting() if digest or found.verdict == "no_violation" else ()
    ):
        if quoting >= max(FEW, SHARE * replies):
            sentence = QUOTED.format(quoting, replies, asked)
            return Conclusion("inconclusive", "attack_blind", (sentence, *digest))
    if use is None or found.verdict != "no_violation":
        return found
    application = seen.prepared.mechanism.application is not None
    limit = f"{use.limit} {BESIDE}" if application else use.limit
    if (staged := seen.prepared.pairs.staged) is not None:
        return _no_difference(seen, use, staged, limit)
    kinds = f"kinds of attack that saw nothing of it: {', '.join(use.attacks)}."
    if above is not None:
        bound = f"epsilon is at least {beside(above.epsilon or 0.0, 0.0)[0]}, as claimed, and "
        return Conclusion("no_violation", None, (bound + limit, kinds))
    if controls.seen:
        bulk = "a context full of canaries is seen, and a single one is not: "
        return Conclusion("no_violation", "seen_only_in_bulk", (bulk + limit, kinds))
    full = f" {FULL}" if application else ""
    return Conclusion("no_violation", "context_unused", (limit + full, kinds))


def _no_difference(seen: OnePass, use: ContextUse, staged: Staged, limit: str) -> Conclusion:
    if use.seen_by is not None:
        why = f"{staged.differ}, and the e-process does not reject the claim yet. Use more --pairs."
        return Conclusion("inconclusive", "too_few_trials", (why,))
    if seen.prepared.spec.design.detect_change is not None and use.change > use.wanted:
        code, why = _too_few(use)
        return Conclusion("inconclusive", code, (why,))
    return Conclusion("no_violation", None, (f"{staged.shown} {limit}",))


# A few replies that come again are known by heart, and those of other pairs vary: a witness learns
# from twice as many what it learns from these.
LEARNED = 2
REPLIES = (
    "only measurements of whole replies (their length, wording, failures) showed the control "
    "canaries, and the score of the attack did not. The largest certifiable ε assumes that all "
    "replies differ as those of the controls did."
)
TOLD = (
    "measurements of whole replies (their length, wording, failures) tell the contexts of the "
    "pairs apart better than the score of the attack does. The largest certifiable ε is the least "
    "of two: all replies differ as those of the controls did; half as many pairs differ as those "
    "that the measurements tell apart."
)


def reach_sentence(verdict: Verdict, controls: ControlCheck, told: Separations) -> tuple[str, ...]:
    if verdict == "violation":
        return ()
    return (REPLIES,) if controls.by_replies_alone else (TOLD,) if separates_alone(told) else ()


def must_learn(seen: OnePass, controls: ControlCheck) -> bool:
    """Is there a channel whose control no score showed, so that a witness has to learn it?"""
    each = seen.channel_controls().values() if seen.design.channels else (controls,)
    return any(one.by_replies_alone for one in each)


def largest_of(
    seen: OnePass, controls: ControlCheck, told: Separations, bounds: Sequence[Estimate]
) -> Bounds:
    """The largest bounds that the pairs can certify; no less than they do certify."""
    batch, design, estimator = seen.control_batch(), seen.design, seen.prepared.estimator
    if design.channels and batch:
        # that of the channel which can certify least, since a leak may be in it; 0 if none showed
        # the control or told the pairs apart
        each = [
            largest_seen(
                channel_design(design, name), EProcess(), seen.seen, check, batch, told, name
            )
            for name, check in seen.channel_controls().items()
            if check.seen or name in told
        ]
        found = min(each, key=lambda one: one.epsilon, default=Bounds(0.0, 0.0))
    else:
        found = largest_seen(design, estimator, seen.seen, controls, batch, told)
    epsilon = max([found.epsilon, *(one.epsilon or 0.0 for one in bounds)])
    mu = None if found.mu is None else max([found.mu, *(one.mu or 0.0 for one in bounds)])
    return Bounds(epsilon, mu)


def largest_seen(
    design: TrialDesign, estimator: Estimator, pairs: int, check: ControlCheck, batch: StoredBatch,
    told: Separations, name: str = ANSWER,
) -> Bounds:  # fmt: skip
    perfect = estimator.largest_certifiable(design, pairs)
    shown = told[name].shown if name in told else None
    reads = design.replies and "replies" in estimator.reads
    if not (reads and (check.by_replies_alone or shown is not None)):
        return perfect
    controls, found = replies_in(batch, name), list[Bounds]()
    if controls:
        found.append(reach_of_replies(design, estimator, pairs, controls))
    if shown is not None:
        fewer = pairs // LEARNED
        found.append(reach_of_replies(replace(design, pairs=fewer), estimator, fewer, shown))
    known = found if check.by_replies_alone else [perfect, *found]
    return min(known, key=lambda one: one.epsilon)


def channel_results(
    design: TrialDesign, seen: ChannelEValues, checks: Mapping[str, ControlCheck],
    batch: StoredBatch, tested: int, attack: Attack, against: Sequence[Obstacle],
    told: Separations,
) -> tuple[ChannelResult, ...]:  # fmt: skip
    own, estimator = channel_design(design), EProcess()
    found = []
    for name, part in seen.parts.items():
        check = checks.get(name, ControlCheck(0, None))
        # the bound on mu costs as much as that on epsilon, and few systems state a mu
        bounds = (
            (part.process.epsilon_lower_bound(own.claim.delta),)
            if own.guarantee_mu is None
            else part.bounds()
        )
        its = channel_design(design, name)
        largest = largest_seen(its, estimator, tested, check, batch, told, name)
        its_told = {name: told[name]} if name in told else {}
        why = (
            *against,
            *unread(its_told, estimator, its, exceeds(largest, own)),
            *blindness(attack, check, above_zero(bounds), separates_alone(its_told)),
        )
        slow = check.by_replies_alone or separates_alone(its_told)
        said = conclude(own, estimator, bounds, None, tested, largest, why, by_replies=slow)
        at = part.process.rejected_at
        found.append(ChannelResult(name, said.verdict, said.reason, bounds[0], at, check))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class ChannelResult:
    name: str
    verdict: Verdict
    reason: Reason | None
    bound: Estimate
    rejected_at: int | None
    controls: ControlCheck


SEEN = ControlCheck(0, 0.0, single=0.0)  # of a channel, whose own controls are compared apart


@dataclass(frozen=True, slots=True)
class Assessment:
    conclusion: Conclusion
    found: Found
    exact: Estimate | None
    tested: int
    largest: Bounds
    told: Separations
    slow: bool  # whether a leak may show in whole replies alone, and not in their score
    controls: ControlCheck
    state: StateCheck | None
    noise: NoiseFit | None
    channels: tuple[ChannelResult, ...]
    use: ContextUse | None = None
    left: tuple[OtherPairs, ...] = ()  # to be asked before this conclusion is final


def decide(seen: OnePass) -> Assessment:
    prepared, design, estimator = seen.prepared, seen.design, seen.prepared.estimator
    found, controls, state = seen.estimates(), seen.controls(), seen.state()
    noise, told = seen.releaser.served.noise_fit(), seen.told.found()
    alone = separates_alone(told)
    found[estimator] = bounds = as_tested(design, estimator, _with_reading(estimator, found))
    tested = estimator.tested_pairs(design, seen.seen)
    largest = largest_of(seen, controls, told, bounds)
    slow = alone or must_learn(seen, controls)
    changed, enough = controls.shows_change, exceeds(largest, design)
    staged = prepared.pairs.staged
    blindness_of = blindness if staged is None else partial(own_unseen, staged)
    shown = [one for each in found.values() for one in each]
    exact = next((e for e in shown if e.method == "exact" and e.kind == "lower_bound"), None)
    above = above_zero((*bounds, *shown))
    lost = () if staged else (*controls_lost(controls),)
    lasting = (
        *noise_obstacles(design, estimator, found, noise),
        *obstacles(prepared.attack, seen.tally, controls, state, above),
        *unread(told, estimator, design, enough),
        *channels_untested(prepared.spec.attack.channels, design.channels, seen.tally.channels),
        *(lost if changed else ()),
    )
    blind = (
        *(() if changed else lost),
        *blindness_of(prepared.attack, controls, above, alone),
    )
    conclusion = partial(
        conclude, design, estimator, bounds, exact, tested, largest, by_replies=slow, shown=shown
    )
    # is it at most the attack's blindness that keeps the audit from saying no_violation?
    without = conclusion(lasting)
    good = without.verdict == "no_violation"
    use = context_use(seen) if good and (blind or staged) else None
    # more pairs would not show what differs in another direction in each of them
    repeated = good or (slow and without.reason == "too_few_trials")
    digest = is_function(seen.digest(bool(blind))) if repeated else ()
    unused = without_use(seen, use, blind, above)
    # the attack that sees a canary is told first: it may bound what follows the context
    other = use is not None and use.seen_by not in (None, use.attacks[0])
    unused = (*unused, *digest) if other else (*digest, *unused)
    # with enough pairs, other attacks are asked, which may overcome the blindness of this one
    pairs_first = bool(prepared.others) and not slow and (other or not digest)
    before, after = ((), unused) if pairs_first else (unused, ())
    concluding = conclusion((*lasting, *before), after=after)
    return Assessment(
        concluded(seen, concluding, use, controls, above),
        found, exact, tested, largest, told, slow, controls, state, noise,
        _channels(seen, tested, state, told), use,
        seen.left(use is not None, bool(blind)) if repeated else (),
    )  # fmt: skip


def _with_reading(estimator: Estimator, found: Found) -> tuple[Estimate, ...]:
    bounds, scores = found[estimator], score_reading(one for each in found.values() for one in each)
    other = scores if "trials" in estimator.reads else BoundReading("distribution")
    read = bounds[0].reading or other
    if read.of == "score" and not read.channel:
        lower = replace(scores, right=scores.guesses - scores.right, leads=read.leads)
        read = lower if read.leads else scores
    return tuple(replace(one, reading=read) for one in bounds)


def _channels(
    seen: OnePass, tested: int, state: StateCheck | None, told: Separations
) -> tuple[ChannelResult, ...]:
    estimator = seen.prepared.estimator
    if "channels" not in estimator.reads:
        return ()
    observer = cast(ChannelEValues, seen.observers[estimator])
    attack = seen.prepared.attack
    # the answers that could not be read are a matter of the whole verdict
    against = obstacles(attack, Tally(), SEEN, state)
    checks, batch = seen.channel_controls(), seen.control_batch()
    return channel_results(seen.design, observer, checks, batch, tested, attack, against, told)
