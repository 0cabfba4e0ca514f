"""The verdict: bounds against the claim, and why an audit without a rejection is inconclusive.

Point estimates take no part.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from leakbound.attacks import Attack
from leakbound.auditing.observe.context_digest import ContextDigest
from leakbound.auditing.observe.controls import ControlCheck
from leakbound.auditing.observe.one_pass import Tally
from leakbound.auditing.observe.rejections import ROUNDING, rejections
from leakbound.auditing.observe.release import StateCheck
from leakbound.auditing.observe.reply_separation import CHANGE, Separations, separates_alone
from leakbound.auditing.spec.staged import Staged
from leakbound.estimators.base import Bounds, Estimator, Reads, TrialDesign, exceeds
from leakbound.privacy import NonPrivate
from leakbound.stats import BoundReading, Estimate, NoiseFit, beside, cut, rank_test
from leakbound.systems.channels import ALL

Verdict = Literal["violation", "no_violation", "inconclusive"]
Reason = Literal[
    "too_few_trials", "attack_blind", "stateful_system", "unreadable_answers", "declared_noise",
    "untested_channels", "seen_only_in_bulk", "context_unused", "context_digest",
]  # fmt: skip
Obstacle = tuple[Reason, str]
GUARANTEED = "the guarantee, which is stricter than the claim"


@dataclass(frozen=True, slots=True)
class Conclusion:
    verdict: Verdict
    reason: Reason | None
    sentences: tuple[str, ...]
    by_exact: bool = False


def conclude(
    design: TrialDesign, estimator: Estimator, bounds: Sequence[Estimate], exact: Estimate | None,
    tested: int, largest: Bounds, obstacles: Sequence[Obstacle] = (), by_replies: bool = False,
    shown: Sequence[Estimate] = (), after: Sequence[Obstacle] = (),
) -> Conclusion:  # fmt: skip
    """The verdict, from all estimates that the result shows, and what matters `after` there are
    enough pairs. The exact loss of a pair spends no error: it is certain."""
    by_bounds, exactly = rejections(design, estimator, bounds), _exactly_above(design, exact)
    if by_bounds or exactly:
        return Conclusion("violation", None, (*by_bounds, *exactly), by_exact=not by_bounds)
    few = () if exceeds(largest, design) else (_too_few(design, tested, largest, by_replies),)
    against = without_blindness(above_zero((*bounds, *shown)), (*obstacles, *few, *after))
    if against:
        return Conclusion("inconclusive", against[0][0], tuple(why for _, why in against))
    mu = "" if largest.mu is None else f" or mu {cut(largest.mu)}"
    limit = GUARANTEED if design.hypotheses[0] == "guarantee" else "the claim"
    sentence = (
        f"no bound is above {limit}; {_pairs(tested)} could have certified up to "
        f"epsilon {cut(largest.epsilon)}{mu}. This attack found no violation; another might."
    )
    return Conclusion("no_violation", None, (sentence,))


def above_zero(estimates: Iterable[Estimate]) -> Estimate | None:
    """The first lower bound above 0: of epsilon, and else of mu."""
    bounds = [one for one in estimates if one.kind == "lower_bound"]
    epsilon = (one for one in bounds if (one.epsilon or 0.0) > 0)
    return next(epsilon, None) or next((one for one in bounds if (one.mu or 0.0) > 0), None)


def sees_something(bound: Estimate) -> Obstacle:
    """Too few trials, of an attack whose controls did not show that it sees anything."""
    what, value = ("epsilon", bound.epsilon) if bound.epsilon else ("mu", bound.mu)
    how = ", if outputs are distributed as declared" if bound.method == "exact" else ""
    return (
        "too_few_trials",
        f"{what} is at least {beside(value, 0.0)[0]} ({bound.method}{how}), above 0, so the attack "
        "may see something of the canary. What decides does not exceed what is claimed. Use more "
        "trials, or audit new ones (another --seed) with another --estimator.",
    )


def blind_unless(bound: Estimate | None, why: str) -> Obstacle:
    """Nothing shows that an attack sees anything, unless a bound above 0 does."""
    return ("attack_blind", why) if bound is None else sees_something(bound)


def without_blindness(bound: Estimate | None, against: Sequence[Obstacle]) -> tuple[Obstacle, ...]:
    """No attack is blind beside a bound above 0: what is said there is that trials are too few."""
    blind = [at for at, (code, _) in enumerate(against) if code == "attack_blind"]
    if bound is None or not blind:
        return tuple(against)
    instead, first = sees_something(bound), blind[0]
    rest = (one for one in against[first:] if one != instead)
    return (*against[:first], instead, *rest)


def _too_few(design: TrialDesign, tested: int, largest: Bounds, by_replies: bool) -> Obstacle:
    how = "by whole replies" if by_replies else "even with a perfect attack"
    return (
        "too_few_trials",
        f"{_pairs(tested)} can show at most ε = {cut(largest.epsilon)}, {how}; the claim is "
        f"{design.claim.epsilon:g}. Use more pairs.",
    )


def _pairs(number: int) -> str:
    return f"{number} tested pair{'' if number == 1 else 's'}"


def _exactly_above(design: TrialDesign, exact: Estimate | None) -> list[str]:
    """Of a mechanism with a guarantee: the loss of one pair beyond the claim or the guarantee."""
    claim, guarantee = design.claim, design.guarantee
    if exact is None or exact.epsilon is None or isinstance(guarantee, NonPrivate):
        return []
    limit = min(claim.epsilon, guarantee.epsilon(claim.delta))
    if exact.epsilon <= limit * (1 + ROUNDING):
        return []
    what = "claimed" if limit == claim.epsilon else "guaranteed by the mechanism"
    shown, other = beside(exact.epsilon, limit, 3)
    return [
        f"the output distributions of one pair have epsilon {shown} at delta {claim.delta:g}, "
        f"exactly; {other} is {what}."
    ]


def score_reading(estimates: Iterable[Estimate]) -> BoundReading:
    by_method = {estimate.method: estimate.counts for estimate in estimates}
    if counts := by_method.get("one_run"):
        return BoundReading("score", "", counts["correct"], counts["guesses"])
    if counts := by_method.get("clopper_pearson"):
        return BoundReading("score", "", counts["tp"] + counts["tn"], sum(counts.values()))
    return BoundReading("score")


UNREJECTED = "Random guessing is not rejected, which does not show that no attack does better"
GOOD = 0.8  # power from which a plan is usually called sufficient


def unshown_sentence(powers: Sequence[tuple[float, float]]) -> str:
    """What a test that has not rejected random guessing leaves open."""
    if not powers:
        return f"{UNREJECTED}: the power of this test is not known for this design."
    weak = [row for row in powers if row[1] < GOOD]
    strong = [row for row in powers if row[1] >= GOOD]
    told = [
        f"an attack that is right {accuracy:.0%} of the time with a probability of at least "
        f"{cut(power)}"
        for accuracy, power in (*weak[-1:], *strong[:1])
    ]
    return f"{UNREJECTED}: so many trials reject {', and '.join(told)}."


UNREADABLE = 0.05  # share of answers that could not be read from which an attack counts as blind
DIFFER = 0.05  # p-value below which unreadable answers themselves tell the contexts apart
CHANGED = (
    "Their scores differ from those of the first controls: the system changed during the audit (an "
    "exhausted quota, a guard that blocks, a new version). Check what it answers now, then audit "
    "again with --fresh, slower (--rate) or with fewer --pairs."
)
UNCHANGED = (
    "Their scores do not differ clearly from those of the first controls, so there is no evidence "
    "that the system changed; few controls can miss a system that answers partly at random. Audit "
    "again with --fresh and more --controls."
)


def obstacles(
    attack: Attack, tally: Tally, controls: ControlCheck, state: StateCheck | None,
    bound: Estimate | None = None,
) -> tuple[Obstacle, ...]:  # fmt: skip
    """What keeps an audit without a rejection from no_violation, whatever its attack sees."""
    sentence = state_sentence(state)
    remembers = f"{sentence} Use a separate system for each context."
    stateful: tuple[Obstacle, ...] = (("stateful_system", remembers),) if sentence else ()
    return (*stateful, *_unreadable(attack, tally, controls, bound))


def state_sentence(state: StateCheck | None) -> str | None:
    if state is None or state.found is None:
        return None
    found = state.found
    if found.p_value is None:
        return (
            f"{found.name}: either the system remembers, and other users' contexts may show in its "
            "answers, or a row cites a fixed text of the system, and should be left out (texts "
            "that are drawn from the pattern of the rows agree with one by chance, but less often)."
        )
    sure = f"p = {found.p_value:.2g}; {len(state.tests)} tests, {state.level:g} for all"
    return (
        f"the system remembers: {found.name} ({sure}), or replicas that differ take turns. Trials "
        "are then not independent, and other users' contexts may show in its answers."
    )


def _unreadable(
    attack: Attack, tally: Tally, controls: ControlCheck, bound: Estimate | None
) -> Iterator[Obstacle]:
    answers, unreadable = sum(tally.answers), sum(tally.unreadable)
    reads_them = attack.score is not None and attack.score.counts_unreadable
    if controls.exempt or reads_them or unreadable <= UNREADABLE * answers:
        return
    # p-value of a test that answers of both contexts are read equally often
    member, nonmember = (
        [1.0] * unread + [0.0] * (all_ - unread)
        for unread, all_ in zip(tally.unreadable, tally.answers, strict=True)
    )
    p_value = float(rank_test(member, nonmember, two_sided=True))
    if p_value <= DIFFER:
        there, elsewhere = tally.unreadable
        yield (
            "unreadable_answers",
            f"{there} answers could not be read where the canary was in the context, and "
            f"{elsewhere} where it was not (p = {p_value:.2g}): that may be a leak in itself, and "
            "this score does not read it. Audit with --score unanswered and another --seed, which "
            "reads it, or with a free query, such as --query repeat, whose whole reply is read.",
        )
        return
    sees = "this attack could not see a leak;"
    if bound is not None and unreadable == answers:
        sees = "its score reads none;"
    elif bound is not None:
        sees = "its score reads the others alone; more --pairs may raise the bound, or"
    yield (
        "unreadable_answers",
        f"{unreadable} of {answers} answers could not be read as an answer to the query, so {sees} "
        f"{_advice(attack)}",
    )


def blindness(
    attack: Attack, controls: ControlCheck, bound: Estimate | None, told: bool = False
) -> Iterator[Obstacle]:
    """Did the attack see the positive control, and a single canary? Or have replies `told` one?"""
    if not controls.shown:
        why = (
            "no control was asked, so nothing shows that this attack sees anything; leave "
            "controls=0 out."
        )
        if controls.p_value is not None:
            alike = ALIKE if controls.gaps and not any(controls.gaps) else ""
            why = (
                "nothing shows that this attack sees the canary: contexts in which it stands "
                "everywhere did not clearly score higher than contexts without it "
                f"({controls.pairs} of each, p = {controls.p_value:.2g}). {alike}Ask "
                f"more --controls; where they show no more, {_advice(attack)}"
            )
        yield blind_unless(bound, why)
    if controls.seen_once or told or not controls.shown:
        return
    fits = "--query recall --canary coded"
    other = "another --query, or --canary" if attack.query.name == "recall" else fits
    yield (
        "seen_only_in_bulk",
        "the attack sees contexts that are full of the canary, and a single canary not at all or "
        f"too rarely: neither {controls.pairs} control contexts with one nor the paired trials "
        f"clearly scored higher (p = {controls.single or 1.0:.2g}; trials count from a difference "
        f"of {CHANGE:.0%} on), so it could miss a leak of single records. Try {other} (a search "
        "index finds no document by a part of a word), or ask more --controls.",
    )


ALIKE = (
    "No score changed at all: answers may not depend on the examples (for a local chat model, try "
    "--chat-template off). "
)
OWN_LOST = (
    "{}: so it was before the pairs, and not clearly after them (p = {:.2g}): the system "
    "changed, or rows were used again and a cache answered from before. Use more rows (three a "
    "pair and nine a control), or audit again with --fresh."
)


def own_unseen(
    staged: Staged, attack: Attack, controls: ControlCheck, bound: Estimate | None,
    told: bool = False,
) -> Iterator[Obstacle]:  # fmt: skip
    each = (controls.seen, controls.combined), (controls.seen_once, controls.single)
    for (seen, p_value), (_, which) in zip(each, staged.controls, strict=False):
        if not seen:
            shown = "no control was asked" if p_value is None else f"p = {p_value:.2g}"
            why = f"{which} ({shown}), {staged.unseen} and whether answers are made from it; ask "
            yield blind_unless(bound, f"{why}more --controls, or {_advice(attack)}")
    if controls.seen and not controls.seen_late:
        yield blind_unless(bound, OWN_LOST.format(staged.controls[0][0], controls.late or 1.0))


def controls_lost(controls: ControlCheck) -> Iterator[Obstacle]:
    if controls.seen_late or controls.exempt or not controls.seen:
        return
    yield (
        "stateful_system" if controls.shows_change else "attack_blind",
        "the attack saw the canary at the beginning and no longer at the end: control contexts did "
        f"not clearly differ after the last pair ({controls.pairs} of each, p = "
        f"{controls.late:.2g}). {CHANGED if controls.shows_change else UNCHANGED}",
    )


def _advice(attack: Attack) -> str:
    if attack.query.free:
        return "try another --query, or --canary."
    if attack.query.name == "input_output":
        return "try --query membership, or a free query such as repeat."
    return (
        "for a system that answers in free text, use --query recall --canary coded; for one that "
        "answers a label whatever it is asked, --query input_output --canary mislabeled."
    )


NOT_YET = (
    "a measurement of whole replies (their length, wording, numbers) differs in one direction in "
    "more pairs than the claim allows, and the e-process does not reject the claim yet. Use more "
    "--pairs."
)
IN_PAIRS = (
    "a measurement of whole replies (their length, wording, numbers) differs in one direction in "
    "more pairs than the claim allows. What decides looks at each reply by itself, so it may not "
    "bound this leak. Compare the replies of a pair; --store-text all keeps them whole."
)


BETTER = (
    "measurements of whole replies (their length, wording, failures, time) tell the contexts of "
    "the pairs apart better than the score of the attack does"
)


def unread(
    told: Separations, estimator: Estimator, design: TrialDesign, enough: bool
) -> Iterator[Obstacle]:
    if any(one.in_pairs and (enough or one.shown is None) for one in told.values()):
        ordered = design.isolation and design.replies and "replies" in estimator.reads
        yield ("too_few_trials", NOT_YET) if ordered else ("attack_blind", IN_PAIRS)
    if separates_alone(told) and not (design.replies and "replies" in estimator.reads):
        how = (
            f"the estimator {estimator.name} reads scores alone; audit with --estimator e_process."
        )
        if "replies" in estimator.reads:
            how = "this audit reads the answers alone; audit with --query recall --canary coded."
        yield "attack_blind", f"{BETTER}, and {how}"


def channels_untested(
    wanted: tuple[str, ...] | None, tested: Sequence[str], seen: Collection[str]
) -> Iterator[Obstacle]:
    late = sorted(set(seen) - set(tested))
    if late and wanted and ALL in wanted:
        yield (
            "untested_channels",
            f"replies had channels that no control reply had ({', '.join(late)}), and channels are "
            "fixed before the first pair, so these were not tested. Let the system reply with an "
            "empty text where a channel is silent, and audit again with --fresh.",
        )


OUTPUTS: frozenset[Reads] = frozenset({"trials", "text", "replies"})  # what is released


Found = Mapping[Estimator, tuple[Estimate, ...]]


def is_function(found: ContextDigest | None) -> tuple[Obstacle, ...]:
    """A function of the context identifies it, whatever bound follows from what replies say."""
    if found is None:
        return ()
    allows = f"ε = {found.epsilon:g} allows {math.ceil(100 * found.most)}%"
    told = (
        f"the word that told two of them apart before stood in {found.apart} of {found.number} "
        f"later answers about one, and in {found.seldom} about the other, which differs in one "
        f"record; {allows} beside that"
        if found.of == "answers"
        else f"it told contexts that differ in one record apart in {found.apart} of "
        f"{found.number} {found.of}, where {allows}"
    )
    return ((
        "context_digest",
        f"replies depend on which records are in the context ({found.reading}): asked "
        f"{found.times} times, {told}. Whoever knows the other records can look up which one "
        "is there, with any number of calls, unless it is noise that is drawn once for each "
        "context. Find what computes it (labels or ids of rows that fit the question, a checksum, "
        "a cache key, a count, a length, a mean with too little noise), take it out of the reply, "
        "and audit again.",
    ),)  # fmt: skip


def noise_obstacles(
    design: TrialDesign, estimator: Estimator, found: Found, noise: NoiseFit | None
) -> tuple[Obstacle, ...]:
    """What refutes the declared noise, where the deciding estimator takes it as declared."""
    if estimator.reads & OUTPUTS:
        return ()
    why = list[str]()
    if noise is None and design.sigma is not None:
        why.append("the noise of the outputs could not be tested")
    if noise is not None and not noise.fits:
        why.append(str(noise))
    for other, bounds in found.items():
        # one bound that holds at any time: many bounds would err more often
        reading = other.anytime and other.reads & OUTPUTS
        if reading and bounds and rejections(design, other, bounds):
            why.append(f"{other.name}, which reads the outputs, rejects what is tested")
    rest = f"{estimator.name} takes the noise as declared; use --estimator e_process."
    return tuple(("declared_noise", f"{each}, and {rest}") for each in why)
