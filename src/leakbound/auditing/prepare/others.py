"""Other attacks, for audits whose own shows nothing: one that sees a canary is the one to audit."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import islice

from leakbound._catalogue import Component
from leakbound.attacks import ScoredAttack
from leakbound.auditing.design.pairs import OtherPairs, design
from leakbound.auditing.prepare.build import Handed, build_attack, text_tokens
from leakbound.auditing.prepare.prepared import OtherAttack, Prepared
from leakbound.auditing.spec.audit_spec import AuditSpec
from leakbound.auditing.spec.groups import AttackSpec
from leakbound.errors import LeakboundError
from leakbound.stats.counts.changes import trials_for_change
from leakbound.tasks import Example

FAMILIES = 3  # attacks of different kinds that have to stay blind, the audit's own among them
MOST = 4  # that are asked of an application; of a mechanism, none of a few words
LEVEL = 0.05  # at which an honest system is said to show a canary, in all readings of all attacks
READINGS = 300  # of whole replies, in a plan; a result counts those that there were
LEAST_CHANGE = 0.2
# Pairs whose contexts are asked more than once, and how often each: the first choose readings that
# recur and differ between neighbours, and others, asked only if there are any, test these.
REPEATED = ((20, 2), (30, 8))
# What users type into an application: a few words of a record, and no request that it may refuse.
WORDS = "a few words"
FEW_WORDS = {"kind": "recall", "words": 8, "template": "{prefix}"}
# Queries with canaries that suit them, from the most unlike: the application's own use with a wrong
# label, a quote of what the canary says, and questions whether it is there.
CANDIDATES: tuple[tuple[Component, str, str], ...] = (
    (Component(kind="input_output"), "mislabeled", ""),
    (Component.model_validate(FEW_WORDS), "coded", WORDS),
    (Component(kind="recall"), "coded", ""),
    (Component(kind="membership"), "hex", ""),
    (Component(kind="repeat"), "hex", ""),
    (Component(kind="if_then_explicit"), "hex", ""),
)


def wanted_change(spec: AuditSpec) -> float:
    """The change of a rate that has to be seen; by default that of randomised response at the
    claim, the largest of all that it allows."""
    change = spec.design.detect_change
    if change is None:
        return max(LEAST_CHANGE, math.tanh(spec.decision.each[0] / 2))
    return change


def level_of(readings: int) -> float:
    """Level of one reading of an attack: half is the score's, if replies are read beside it."""
    return LEVEL / MOST / (2 * readings if readings else 1)


def other_attacks(prepared: Prepared) -> tuple[OtherAttack, ...]:
    """As many as the kinds that are wanted beside the audit's own; fewer where the system cannot be
    asked more."""
    spec, shape = prepared.spec, prepared.spec.design
    told = spec.decision.claim is not None or spec.attack.channels is not None
    application = prepared.mechanism.application
    unread = application is not None and not application.reads_rows
    paired = shape.layout == "paired"
    if told or unread or not prepared.controls or not paired or not wanted_change(spec):
        return ()
    number = FAMILIES if prepared.mechanism.application is None else MOST
    return tuple(islice(_fitting(prepared), number - 1))


def repeats_of(prepared: Prepared) -> tuple[OtherPairs, ...]:
    """Pairs whose contexts are asked more than once; none where no other attack is asked."""
    if not prepared.others or prepared.mechanism.application is None:
        return ()
    places = enumerate(REPEATED, len(prepared.others))
    return tuple(OtherPairs(prepared.pairs, pairs, at, times) for at, (pairs, times) in places)


def _fitting(prepared: Prepared) -> Iterator[OtherAttack]:
    shape, place, own = prepared.spec.design, 0, prepared.attack
    for query, canary, named in CANDIDATES:
        if named and prepared.mechanism.application is None:
            continue
        try:
            found = _attack(prepared, query, canary, place, named)
        except LeakboundError:  # not of such rows, or not of such a system
            continue
        if found.attack.query == own.query and canary == own.canary.name:
            continue
        if found.attack.query.free and shape.store_text == "none":
            continue
        yield found
        place += 1


def _attack(
    prepared: Prepared, query: Component, canary: str, place: int, named: str
) -> OtherAttack:
    spec, shape, task = prepared.spec, prepared.spec.design, prepared.task
    asked = AttackSpec(
        query=query, canary=Component(kind=canary), access=spec.attack.access,
        insertion=spec.attack.insertion,
    )  # fmt: skip
    attack = build_attack(asked, prepared.mechanism, Handed())
    rows: tuple[Example, ...] = prepared.pairs.rows
    fitted = attack.canary.fit(rows, text_tokens(prepared.model))
    attack = ScoredAttack(fitted, attack.query, attack.score, attack.insertion)
    replies = attack.query.free or prepared.mechanism.application is not None
    number = trials_for_change(wanted_change(spec), level_of(READINGS if replies else 0))
    number = -(-number // shape.batch_pairs) * shape.batch_pairs  # whole batches
    pairs = design(rows, task, attack, number, shape.shots, shape.seed)
    found = OtherAttack(attack, OtherPairs(pairs, number, place), query, named)
    first = found.pairs[0]
    for job in first.in_order:
        prepared.model.check(prepared.mechanism.requests(task, job, first.draw))
    return found
