"""From what a pass has seen to a verdict, with all that it rests on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

from leakbound.auditing.decide.channel_verdicts import (
    ChannelResult,
    channel_results,
    largest_of,
    must_learn,
)
from leakbound.auditing.decide.obstacles import (
    blind_sentence,
    channels_untested,
    controls_lost,
    is_function,
    noise_obstacles,
    obstacles,
    only_in_bulk,
    unread,
)
from leakbound.auditing.decide.unused import ContextUse, concluded, context_use, without_use
from leakbound.auditing.decide.verdict import (
    Conclusion,
    above_zero,
    conclude,
    score_reading,
)
from leakbound.auditing.design.pairs import OtherPairs
from leakbound.auditing.observe.controls import ControlCheck
from leakbound.auditing.observe.one_pass import OnePass, Tally
from leakbound.auditing.observe.rejections import as_tested
from leakbound.auditing.observe.reply_separation import Separations, separates_alone
from leakbound.auditing.observe.state_check import StateCheck
from leakbound.estimators import Bounds, Estimator
from leakbound.estimators.base import exceeds
from leakbound.estimators.e_process import ChannelEValues
from leakbound.stats import BoundReading, Estimate, NoiseFit

SEEN = ControlCheck(0, 0.0, single=0.0)  # of a channel, whose own controls are compared apart


Found = Mapping[Estimator, tuple[Estimate, ...]]


@dataclass(frozen=True, slots=True)
class Assessment:
    """What the pairs of an audit show, and the conclusion from it."""

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
    """Hold what a pass has seen against the claim."""
    prepared, design, estimator = seen.prepared, seen.design, seen.prepared.estimator
    found, told = seen.estimates(), seen.told.found()
    found[estimator] = bounds = as_tested(design, estimator, _with_reading(estimator, found))
    tested = estimator.tested_pairs(design, seen.seen)
    controls, state, noise = seen.controls(), seen.state(), seen.releaser.served.noise_fit()
    largest, exact = largest_of(seen, controls, told, bounds), _exact(found)
    alone, shown = separates_alone(told), [one for each in found.values() for one in each]
    above = above_zero((*bounds, *shown))
    lost = (*controls_lost(controls),)
    lasting = (
        *noise_obstacles(design, estimator, found, noise),
        *obstacles(prepared.attack, seen.tally, controls, state, above),
        *unread(told, estimator, design.replies, exceeds(largest, design)),
        *channels_untested(prepared.spec.attack.channels, design.channels, seen.tally.channels),
        *(lost if controls.shows_change else ()),
    )
    blind = (
        *(() if controls.shows_change else lost),
        *blind_sentence(prepared.attack, controls, above),
        *only_in_bulk(prepared.attack, controls, alone),
    )
    slow = alone or must_learn(seen, controls)
    conclusion = partial(
        conclude, design, estimator, bounds, exact, tested, largest, by_replies=slow, shown=shown
    )
    # is it at most the attack's blindness that keeps the audit from saying no_violation?
    without = conclusion(lasting)
    good = without.verdict == "no_violation"
    use = context_use(seen) if good and blind else None
    # more pairs would not show what differs in another direction in each of them
    repeated = good or (slow and without.reason == "too_few_trials")
    digest = is_function(seen.digest(bool(blind))) if repeated else ()
    against, unused = (*lasting, *digest), without_use(seen, use, blind, above)
    # with enough pairs, other attacks are asked, which may overcome the blindness of this one
    pairs_first = bool(prepared.others) and not slow
    before, after = ((), unused) if pairs_first else (unused, ())
    concluding = conclusion((*against, *before), after=after)
    return Assessment(
        concluded(seen, concluding, use, controls, above),
        found, exact, tested, largest, told, slow, controls, state, noise,
        _channels(seen, tested, state, told), use,
        seen.left(use is not None, bool(blind)) if repeated else (),
    )  # fmt: skip


def _exact(found: Found) -> Estimate | None:
    every = (one for each in found.values() for one in each)
    return next((e for e in every if e.method == "exact" and e.kind == "lower_bound"), None)


def _with_reading(estimator: Estimator, found: Found) -> tuple[Estimate, ...]:
    """The bounds that decide, with the counts of what they were read from."""
    bounds, scores = found[estimator], score_reading(one for each in found.values() for one in each)
    other = scores if "trials" in estimator.reads else BoundReading("distribution")
    read = bounds[0].reading or other
    if read.of == "score" and not read.compares:
        lower = replace(scores, right=scores.guesses - scores.right, leads=read.leads)
        read = lower if read.leads else scores
    return tuple(replace(one, reading=read) for one in bounds)


def _channels(
    seen: OnePass, tested: int, state: StateCheck | None, told: Separations
) -> tuple[ChannelResult, ...]:
    """What is said of each channel; nothing where replies are read as a whole."""
    estimator = seen.prepared.estimator
    if "channels" not in estimator.reads:
        return ()
    observer = cast(ChannelEValues, seen.observers[estimator])
    attack = seen.prepared.attack
    # the answers that could not be read are a matter of the whole verdict
    against = tuple(one for one in obstacles(attack, Tally(), SEEN, state))
    checks, batch = seen.channel_controls(), seen.control_batch()
    return channel_results(seen.design, observer, checks, batch, tested, attack, against, told)
