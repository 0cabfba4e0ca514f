"""An audit as plain data: the objects that it runs, and what follows from them before a call."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from pathlib import Path

from leakbound._catalogue import Component
from leakbound.attacks import RenderedQuery, ScoredAttack
from leakbound.auditing.design.pairs import Controls, OtherPairs, Pairs, design, relation_of
from leakbound.auditing.prepare.build import Handed, build_attack, text_tokens
from leakbound.auditing.spec.audit_spec import AuditSpec
from leakbound.auditing.spec.groups import AttackSpec
from leakbound.auditing.store.folder import Settings, run_folder
from leakbound.errors import LeakboundError, UsageError
from leakbound.estimators.base import Claim, Estimator, Independence, TrialDesign, threshold_rule
from leakbound.models import Model
from leakbound.privacy import Gaussian, Guarantee, NonPrivate, self_compose
from leakbound.stats import Assumption, VoteScores
from leakbound.stats.counts.two_samples import trials_for_change
from leakbound.stats.noise.best_votes import BestVotes
from leakbound.stats.noise.votes import DiscreteBestVotes, DiscreteMargins, KnownScores
from leakbound.systems import SharedStore
from leakbound.systems.channels import ALL
from leakbound.systems.threads import end_left_sessions
from leakbound.tasks import Example, Mechanism, PublicManifest, Task
from leakbound.tasks.facts import exactness_of, parts_of, vote_noise_of


@dataclass(frozen=True, slots=True)
class AuditParts:
    spec: AuditSpec
    task: Task
    mechanism: Mechanism
    attack: ScoredAttack
    estimator: Estimator
    model: Model
    pairs: Pairs
    data: str  # fingerprint of the rows
    handed: tuple[str, ...]
    objects: str  # what no spec tells of them
    public_labels: tuple[str, ...]  # that no row has told
    inferred: bool  # whether private rows have told the labels


@dataclass(frozen=True, slots=True)
class _OtherAttack:
    """Another attack, which is asked where that of the audit shows nothing."""

    attack: ScoredAttack
    pairs: OtherPairs
    query: Component
    words: str = ""  # what tells it from another one of the same query

    @property
    def name(self) -> str:
        return attack_name(self.attack) + (f" of {self.words}" if self.words else "")

    @property
    def options(self) -> str:
        given = ",".join(f"{name}={value}" for name, value in self.query.options.items())
        query = f"'{self.query.kind}:{given}'" if given else self.query.kind
        return f"--query {query} --canary {self.attack.canary.name}"


def attack_name(attack: ScoredAttack) -> str:
    return f"{attack.query.name} ({attack.canary.name} canary)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared(AuditParts):
    """An audit that has passed every check that needs no model call."""

    controls: Controls  # (PRIVATE)
    late_controls: Controls | None  # where what answers may have changed after the last pair
    others: tuple[_OtherAttack, ...]
    of_own_kind: bool  # asks nothing that one of the others would ask
    repeats: tuple[OtherPairs, ...]  # contexts of an application that are asked more than once
    trial_design: TrialDesign
    public: PublicManifest  # the public facts that were fixed before a row was read
    warnings: tuple[str, ...]  # what the accountant knows before any trial
    ignores_context: bool  # 0-DP: then no attack can, or has to, see anything
    own_test: bool  # one of several audits fixed beforehand: earlier results change nothing
    exact_decides: bool  # the exact loss of a pair is the system's, given nothing that was drawn
    name: str  # of the run; it does not depend on private rows
    identity: Settings  # what makes two runs the same run
    manifest: Settings  # what the run folder says of itself
    questions: str  # names what is asked and kept
    evidence: str  # the same where other runs may share the answers; empty: never

    def folder(self, out: Path) -> Path:
        return run_folder(out, self.name, self.data)

    def close(self) -> None:
        """Wait for sessions that were left, and take the documents out of a shared store."""
        application = self.mechanism.application
        try:
            end_left_sessions()
        finally:
            if application is not None and isinstance(application.system, SharedStore):
                application.system.close()


INDEPENDENT_FROM = 1.0  # the least claim whose test assumes independence that nobody declared
MOST_PILOT = 200  # pairs that fit a score: they are held in memory, and more change no direction


def cost_of(parts: AuditParts) -> Guarantee:
    return parts.mechanism.cost(parts.task, parts.pairs[0].asked.query)


def trial_design(parts: AuditParts) -> TrialDesign:
    spec, mechanism, score = parts.spec, parts.mechanism, parts.attack.score
    asked, cost, named = parts.pairs[0].asked, cost_of(parts), spec.attack.channels
    voters, noise = mechanism.voters(spec.design.shots), vote_noise_of(mechanism)
    answers = spec.design.answers * asked.query.calls
    system = mechanism.application is not None
    epsilon, delta = spec.decision.each
    delta = min(1 - 1e-12, answers * delta)  # a delta of 1 would claim nothing
    mu = cost.mu if isinstance(cost, Gaussian) else None
    # users see free texts; metadata beside labels show in the control replies
    shown = parts.attack.query.free and (system or isinstance(cost, NonPrivate))
    pairs = spec.design.pairs
    simulated = mechanism.needs and "white_box" in mechanism.access  # a system is asked once
    return TrialDesign(
        claim=Claim(answers * epsilon, delta, relation_of(spec.attack.insertion)),
        guarantee=self_compose(cost, answers),
        confidence=spec.decision.confidence,
        pairs=pairs,
        pilot=max(1, min(pairs // 5, MOST_PILOT)) if score.learns else 0,
        levels=tuple(score.levels(voters).tolist()),
        rule=threshold_rule(spec.decision.threshold, score.threshold),
        early_stop=spec.decision.stop_when_rejected,
        answers=spec.design.answers,
        sigma=None if noise is None or noise.whole else noise.sigma,
        voters=None if system else voters,
        known=_exact_scores(parts),
        noise_levels=tuple(score.noise_levels(voters, mu).tolist()),
        served=bool(mechanism.needs) and not isinstance(cost, NonPrivate),
        replies=shown or bool(named),
        channels=() if named is None or ALL in named else named,
        draws=max(1, spec.decision.simulations // (2 * pairs)) if simulated else 1,
        copies=parts.pairs.copies.count,
        assumption=Assumption(spec.decision.assume_hit, spec.decision.assume_false_alarm),
        independence=_independence(parts),
        code_chance=_code_chance(parts) if system and answers == 1 else None,
        isolation=parts.pairs.staged is not None and spec.decision.claim is None,
    )


LONGEST = 1_000_000  # characters of a reply
LIKELIEST = 1e-3  # chance of a code in a reply that knows nothing of it, from which it is guessable
SHOWN = 4  # digits in a row of a code in a query that give it away as far as they go
HEX = frozenset("0123456789abcdef")
APART = re.compile(r"[^0-9a-z]")  # in a query: what may stand between the digits of a code


def _code_chance(parts: AuditParts) -> float | None:
    """The largest chance that a reply without the canary holds the digits that are looked for."""
    digits, copies = parts.attack.canary.code_digits, parts.pairs.copies.count
    if not digits or copies or not parts.attack.score.quotes:  # copies are in both contexts
        return None
    chances, codes = [0.0], set[object]()
    for pair in parts.pairs:
        code = str(pair.canary.input)[-digits:]
        codes.add(code)
        if not HEX.issuperset(code):
            return None
        chances.append(_chance_of(code, pair.asked))
    fresh = len(codes) == len(parts.pairs)
    return max(chances) if fresh and max(chances) <= LIKELIEST else None


def _chance_of(code: str, asked: RenderedQuery) -> float:
    target, query = asked.target, APART.sub("", str(asked.query.text).casefold())
    held = next((code[at:] for at in range(len(code)) if target.endswith(code[at:])), "")
    starts = range(len(held) - SHOWN + 1)
    known = {at + of for at in starts if held[at : at + SHOWN] in query for of in range(SHOWN)}
    return max(LONGEST * 16.0 ** -(len(held) - len(known)), 1e-300)


def _independence(parts: AuditParts) -> Independence:
    """Whether the answers of a pair may be read as independent of each other.

    Two replicas that answer in turn break the assumption, and would have small claims rejected.
    """
    spec, application = parts.spec, parts.mechanism.application
    declared, shared = spec.system.answers_independent, spec.design.layout != "paired"
    shared = shared or (application is not None and application.shared)
    if declared is None:
        return "no" if shared or spec.decision.each[0] < INDEPENDENT_FROM else "assumed"
    if declared and (shared or spec.decision.claim is not None):
        raise UsageError(
            "answers_independent is declared of an application whose contexts share no store, and "
            "read for a claimed epsilon; leave --answers-independent out here."
        )
    return "declared" if declared else "no"


def _exact_scores(parts: AuditParts) -> KnownScores | None:
    """Which chances of a score of noisy votes are known given the votes."""
    spec, mechanism, score = parts.spec, parts.mechanism, parts.attack.score
    asked = parts.pairs[0].asked
    noise = vote_noise_of(mechanism)
    if noise is None or spec.design.answers > 1:
        return None
    votes, parted = mechanism.voters(spec.design.shots), parts_of(mechanism, spec.design.shots)
    # contexts share every vote but one if one example is replaced, which is shown to one voter, and
    # votes follow from what voters are shown; equal requests of a batch are asked once
    exact = exactness_of(mechanism) == "full"
    shared = exact and bool(parted) and spec.attack.insertion != "add"
    classes = len(parts.task.answers(asked.query)) + 1  # the last one: none of them
    best, margins = (DiscreteBestVotes, DiscreteMargins) if noise.whole else (BestVotes, VoteScores)
    if score.of_votes == "winner":
        return best(votes, classes, noise.sigma, shared=shared, wins=True)
    if score.of_votes != "margin":
        return None
    if asked.nonmember is not None:
        return margins.margin(votes, noise.sigma, shared)
    return best(votes, classes, noise.sigma, tuple(score.levels(votes).tolist()), shared)


FAMILIES = (
    3  # of the attacks below that have to stay blind, the audit's own among them if it is one
)
MOST = 6  # that are asked of an application; of a mechanism, none that is named
LEVEL = 0.05  # at which an honest system is said to show a canary, in all readings of all attacks
READINGS = 300  # of whole replies, in a plan; a result counts those that there were
LEAST_CHANGE = 0.2
# Pairs whose contexts are asked more than once, and how often each: the first choose readings that
# recur and differ between neighbours, and others, asked only if there are any, test these.
REPEATED = ((20, 4), (30, 20))
# What users type into an application: a few words of a record, and no request that it may refuse;
# or a short question about them, as some read their rows for nothing else.
WORDS = "a few words"
FEW_WORDS = {"kind": "recall", "words": 8, "template": "{prefix}"}
QUESTION = {"kind": "recall", "words": 6, "template": "What about {prefix}?"}
WHOLE = {"kind": "given", "text": "{canary}"}
# Queries with canaries that suit them, from the most unlike: the application's own use with a wrong
# label or with a record of it, a quote of what the canary says, and questions whether it is there.
CANDIDATES: tuple[tuple[Component, str, str], ...] = (
    (Component(kind="input_output"), "mislabeled", ""),
    (Component.model_validate(QUESTION), "coded", WORDS),
    (Component.model_validate(WHOLE), "natural", "the text of a record"),
    (Component(kind="membership"), "natural", "whether a record is there"),
    (Component(kind="recall"), "coded", ""),
    (Component(kind="membership"), "hex", ""),
    (Component(kind="repeat"), "hex", ""),
    (Component(kind="if_then_explicit"), "hex", ""),
)


def wanted_change(spec: AuditSpec) -> float:
    """The change of a rate that has to be seen; by default that of randomised response."""
    change = spec.design.detect_change
    if change is None:
        return max(LEAST_CHANGE, math.tanh(spec.decision.each[0] / 2))
    return change


def level_of(readings: int) -> float:
    """Level of one reading of an attack: half is the score's, if replies are read beside it."""
    return LEVEL / MOST / (2 * readings if readings else 1)


def with_others(prepared: Prepared) -> Prepared:
    """With the other attacks that are wanted; fewer where the system cannot be asked more."""
    spec, shape = prepared.spec, prepared.spec.design
    told = spec.decision.claim is not None or spec.attack.channels is not None
    application = prepared.mechanism.application
    unread = application is not None and not application.reads_rows
    if told or unread or shape.layout != "paired" or not wanted_change(spec):
        return prepared
    # inside of a system, replies do not say what else leaves it
    if prepared.attack.access != "black_box" or not prepared.controls:
        return prepared
    own = design(prepared.pairs.rows, prepared.task, prepared.attack, 2, shape.shots, shape.seed)
    asked = [pair.in_order for pair in own]
    found: list[_OtherAttack] = []
    for query, canary, named in CANDIDATES:
        if named and application is None:
            continue
        try:
            other = _attack(prepared, query, canary, len(found), named)
        except LeakboundError:  # not of such rows, or not of such a system
            continue
        if [pair.in_order for pair in other.pairs.pairs[:2]] == asked:  # whatever it is called
            prepared = replace(prepared, of_own_kind=False)
        elif not other.attack.query.free or shape.store_text != "none":
            kinds = [(one.query.name, one.canary.name) for one in (other.attack, prepared.attack)]
            clash = kinds[0] == kinds[1]
            found.append(replace(other, words="another wording") if clash else other)
    most = FAMILIES - (not prepared.of_own_kind) if application is None else MOST - 1
    return replace(prepared, others=tuple(found[:most]))


def repeats_of(prepared: Prepared) -> tuple[OtherPairs, ...]:
    """Pairs whose contexts are asked more than once; none where no other attack is asked."""
    if not prepared.others or prepared.mechanism.application is None:
        return ()
    places = enumerate(REPEATED, len(prepared.others))
    return tuple(OtherPairs(prepared.pairs, pairs, at, times) for at, (pairs, times) in places)


def _attack(
    prepared: Prepared, query: Component, canary: str, place: int, named: str
) -> _OtherAttack:
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
    found = _OtherAttack(attack, OtherPairs(pairs, number, place), query, named)
    first = found.pairs[0]
    for job in first.in_order:
        prepared.model.check(prepared.mechanism.requests(task, job, first.draw))
    return found
