"""What an audit is of, what it means, what it tried, and what it says to standards.

The sentences need no statistics. Editions of standards are named, because numbers of items change
between them. Nothing here is a legal opinion: an entry says what was tried and found, and whoever
reads it decides whether that is enough.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Literal

from leakbound.auditing.decide.obstacles import score_reading
from leakbound.auditing.result.record import AuditRecord, ClaimSource
from leakbound.auditing.spec.staged import STAGED, Staged
from leakbound.estimators.random_guessing import is_random_guessing
from leakbound.mechanisms import MECHANISMS, PromptDefense, ReportNoisyMax
from leakbound.models.address import model_names
from leakbound.stats import BoundReading, beside, cut

ReferenceStatus = Literal["tried", "not_tried", "answered", "not_answered"]
Said = tuple[ReferenceStatus, str]
OWASP_LLM = "OWASP Top 10 for LLM Applications 2025"
AISVS = "OWASP AISVS 1.0"
PROFILE = "NIST AI 600-1 (July 2024)"
GUIDELINES = "NIST SP 800-226 (March 2025)"
OPINION = "EDPB Opinion 28/2024 (17 December 2024), paragraph 55"
GDPR = "Regulation (EU) 2016/679 (GDPR)"
OF_CONTEXT = "records of the context, not of the training data"

ACCESS = {
    "black_box": "black box",
    "probabilities": "black box with probabilities",
    "white_box": "white box",
}


@dataclass(frozen=True, slots=True)
class StandardReference:
    """One item of a standard or guideline, and what an audit says to it."""

    document: str
    item: str
    asks: str
    status: ReferenceStatus
    answer: str


def references_of(result: AuditRecord) -> tuple[StandardReference, ...]:
    """What an audit says to each item, read from its result."""
    claim, attack, find = result.claim, result.attack, _find(result)
    asked: tuple[tuple[str, str, str, Said], ...] = (
        (OWASP_LLM, "LLM02 Sensitive Information Disclosure",
         "Does the application disclose private data in its outputs?", ("tried", find)),
        (OWASP_LLM, "LLM08 Vector and Embedding Weaknesses",
         "Do records of a shared index reach users who should not see them?",
         _store_answer(result)),
        (AISVS, "C11.2.5",
         "Membership-inference simulations show that attack accuracy does not exceed random "
         "guessing on the evaluated data.", _accuracy(result)),
        (PROFILE, "MEASURE 2.10, MS-2.10-001",
         "Red-teaming for output of data samples, membership inference, and disclosure of personal "
         "or confidential information.",
         ("tried", f"Membership inference by the query {attack['query']} about {OF_CONTEXT}. "
                   + find)),
        # the questions of the pyramid of the guidelines, from the top down
        (GUIDELINES, "Privacy parameters", "What are epsilon and delta?",
         ("answered", f"Claimed: epsilon {claim.epsilon:g} at delta {claim.delta:g}. " + find)),
        (GUIDELINES, "Unit of privacy",
         "Whose data may change between neighbouring data sets?",
         ("answered", f"One example of the context, by {claim.relation}. A person with several "
                      "examples has that protection for each, not for all together.")),
        (GUIDELINES, "Variant of differential privacy", "Which definition is satisfied?",
         _variant(result)),
        (GUIDELINES, "Composition and query model", "How much do all answers together reveal?",
         ("answered", f"The claim is for {_answers(result)} that a trial sees; a budget over "
                      "all answers of a service is kept by its ledger, not by an audit.")),
        (GUIDELINES, "Correctness of the implementation", "Does the code do what was proven?",
         ("answered", find + " A test can reject an implementation, and proves none correct.")),
        (GUIDELINES, "Side channels", "Do time, errors or other channels reveal more?",
         _channels(result)),
        (GUIDELINES, "Threat model", "Who sees what?",
         ("answered", f"The attacker has {ACCESS[attack['access']]} access.")),
        (GUIDELINES, "Security and data collection",
         "Who can reach the data before they are protected?",
         ("not_answered", "An audit of outputs does not examine storage, access control or how "
                          "data were collected.")),
        *_opinion(attack),
        *_erasure(result),
    )  # fmt: skip
    return tuple(
        StandardReference(document, item, asks, status, said)
        for document, item, asks, (status, said) in asked
    )


def reads_texts(attack: dict[str, str]) -> bool:
    """Whether an attack looks for the text of a record in the answers."""
    return attack.get("reads") == "texts"  # older records do not say


def _opinion(attack: dict[str, str]) -> Iterator[tuple[str, str, str, Said]]:
    """Classes of attack; the Opinion means training data of a model."""
    none = "This package has no such attack."
    classes: tuple[tuple[str, bool, str], ...] = (
        ("membership inference", True, none),
        ("attribute inference", False, none),
        ("exfiltration", attack.get("asks") == "text",
         "Audit with --query injection or --query extraction."),
        ("regurgitation", reads_texts(attack), "Audit with --query repeat --canary hex."),
        ("model inversion", False, none),
        ("reconstruction", False, none),
    )  # fmt: skip
    said = f"On {OF_CONTEXT}: query {attack['query']}, score {attack['score']}."
    for name, tried, how in classes:
        answer: Said = ("tried", said) if tried else ("not_tried", how)
        yield OPINION, name, f"Structured testing against {name}.", answer


def _erasure(result: AuditRecord) -> Iterator[tuple[str, str, str, Said]]:
    if (staged := steps_of(result)) is not None and staged.law:
        asks = "Are personal data erased without undue delay, where no exemption applies?"
        yield GDPR, "Article 17", asks, ("tried", f"{_find(result)} {staged.law}")


def steps_of(result: AuditRecord) -> Staged | None:
    return STAGED.get(result.spec.get("layout", ""))


def _find(result: AuditRecord) -> str:
    bound = result.bound
    return (
        f"Verdict: {result.verdict.replace('_', ' ')}; epsilon is at least {cut(bound.epsilon)} "
        f"({bound.method}, {bound.confidence or 0:.0%} confidence)."
    )


def _store_answer(result: AuditRecord) -> Said:
    if (staged := steps_of(result)) is not None:
        return "tried", f"{staged.did} {_find(result)}"
    if "builds" in result.counts or result.spec.get("layout") == "session":
        return "tried", "Canaries were put into one store that all trials share. " + _find(result)
    return "not_tried", "Audit a store with --design session or --design one_run."


def _accuracy(result: AuditRecord) -> Said:
    """Of random guessing: answered by its own claim alone, and never shown by a test."""
    if not is_random_guessing(result.claim) or steps_of(result):
        if result.verdict == "violation":
            return "answered", "No: this attack does better. " + _find(result)
        return "not_answered", "Another claim was tested; audit with --claim random-guessing."
    if result.verdict == "violation":
        return "answered", "No: attack accuracy differs from random guessing. " + _find(result)
    if result.verdict == "inconclusive":
        return "not_answered", f"The test of random guessing is inconclusive ({result.reason})."
    return "answered", (
        "Random guessing is not rejected, on both sides, by this attack on these data. That is no "
        "proof for other attacks."
    )


def _variant(result: AuditRecord) -> Said:
    text = result.guarantee.text
    return ("answered", f"Declared: {text}.") if result.guarantee.epsilon < float("inf") else (
        "not_answered", f"No finite guarantee at this delta ({text}); a bound from below was "
        "tested, and no definition is shown to hold.",
    )  # fmt: skip


def _answers(result: AuditRecord) -> str:
    if "builds" in result.counts:
        return f"the {result.counts['answers']} answers"
    number = result.spec.get("answers", 1)
    return "one answer" if number == 1 else f"the {number} answers"


def _channels(result: AuditRecord) -> Said:
    if not result.channels:
        return "not_answered", "Audit an application with --channels all."
    return "answered", f"Tested channels: {', '.join(one.name for one in result.channels)}."


SOURCES: dict[ClaimSource, str] = {
    "stated": "stated by the operator",
    "default": "the default of an audit; nobody stated it",
    "unknown": "",
}
GUESSING = "random guessing, tested on both sides"
OWN = "the system's own"
NAMED = 6  # systems, or claims, that a first line lists; of more it gives the number
# the option that tells mechanisms of one class apart, and what is written before it
TOLD_APART: dict[type[object], tuple[str, str]] = {
    PromptDefense: ("L", "level"),
    ReportNoisyMax: ("T=", "partitions"),
}


@dataclass(frozen=True, slots=True)
class Subject:
    """A system and what is claimed of it."""

    system: str
    model: str | None
    epsilon: float | None = None
    delta: float = 0.0
    claim_source: ClaimSource = "unknown"
    each: float | None = None
    zero: str = GUESSING  # what a claim of 0 is called


def subject_of(result: AuditRecord) -> Subject:
    model, claim, each = result.provenance["model"], result.claim, result.spec["epsilon"]
    staged = steps_of(result)
    return Subject(
        system=system_name(result),
        model=None if model == result.attack["mechanism"] else model,
        epsilon=claim.epsilon,
        delta=claim.delta,
        claim_source=result.claim_source,
        each=None if each in (None, claim.epsilon) else each,
        zero=GUESSING if staged is None else staged.zero,
    )


def system_name(result: AuditRecord) -> str:
    """The audited system, with what tells it from its siblings."""
    return full_name(result.attack["mechanism"], result.spec["mechanism"])


def full_name(name: str, options: Mapping[str, object]) -> str:
    if name not in MECHANISMS or MECHANISMS[name] not in TOLD_APART:
        return name
    kind = MECHANISMS[name]
    mark, option = TOLD_APART[kind]
    return f"{name} {mark}{options.get(option, signature(kind).parameters[option].default)}"


def first_line(heading: str, subjects: Sequence[Subject]) -> str:
    """The first line of an output: on which systems and models, and who claims what of them."""
    if not subjects:
        return heading
    claims = claim_words(subjects)
    return f"{heading}: {systems_words(subjects)}{f'; claim: {claims}' if claims else ''}"


def systems_words(subjects: Sequence[Subject]) -> str:
    systems = list(dict.fromkeys(one.system for one in subjects))
    names = ", ".join(systems) if len(systems) <= NAMED else f"{len(systems)} systems"
    own = " model" if any(one.model is None for one in subjects) else ""
    return f"{names} on {models_of(subjects)}{own}"


def models_of(subjects: Sequence[Subject]) -> str:
    named = model_names(one.model for one in subjects if one.model is not None)
    own = [OWN] * any(one.model is None for one in subjects)
    return ", ".join([named] * bool(named) + own)


def claim_words(subjects: Sequence[Subject]) -> str:
    alike: dict[tuple[float, str], set[float]] = {}
    for one in subjects:
        if one.epsilon is not None:
            alike.setdefault((one.delta, notes_of(one)), set()).add(one.epsilon)
    return ", ".join(
        f"ε = {values_words(sorted(epsilons))} at δ = {delta:g}{notes}"
        for (delta, notes), epsilons in alike.items()
    )


def notes_of(subject: Subject) -> str:
    notes = [subject.zero] * (subject.epsilon == subject.delta == 0)
    notes += [] if subject.each is None else [f"{subject.each:g} for each answer"]
    notes += [SOURCES[subject.claim_source]] * (subject.claim_source != "unknown")
    return f" ({'; '.join(notes)})" if notes else ""


def values_words(values: Sequence[float]) -> str:
    """Numbers in their order, or the ends of a long list."""
    shown = [f"{value:g}" for value in values]
    if len(shown) <= NAMED:
        return ", ".join(shown)
    return f"{shown[0]} to {shown[-1]} ({len(shown)} values)"


def verdict_words(result: AuditRecord) -> str:
    reason = "" if result.reason is None else f" ({result.reason})"
    return result.verdict.replace("_", " ").upper() + reason


def guesses_of(result: AuditRecord) -> BoundReading:
    """The reading whose guesses are shown: that of the bound, unless it makes none."""
    read = result.reading
    if read.of == "distribution" and result.verdict != "violation":
        return score_reading(result.estimates)  # nothing decided; what single outputs show
    return read


def attacker_sentence(result: AuditRecord) -> str:
    """How well the attacker did, by the reading of the bound."""
    read = guesses_of(result)
    if not read.guesses:
        return ""
    leads = read.leads if result.bound.epsilon else ""  # of equal replies, half count as right
    if read.of == "codes":
        where = f" in the channel {read.channel}" if read.channel else ""
        return (
            f"{read.right} of {read.guesses} replies to contexts with the canary quoted its random "
            f"code{where}, which nobody could guess."
        )
    number, guessing = f"{read.right} of {read.guesses}", f"(guessing: {read.guesses // 2})."
    if read.compares:
        said = (
            f"From {read.words}, the attacker picked the context with the canary in {number} pairs "
            f"{guessing}"
        )
    else:
        seen = SEEN[result.attack["access"]]
        said = (
            f"From {seen}, the attacker guessed correctly in {number} trials whether the canary "
            f"was present {guessing}"
        )
    return f"{said} {leads}".strip()


MOST_ODDS = math.log(1e6)


def odds_sentence(result: AuditRecord) -> str:
    """What the bound means for the person whose record it is."""
    epsilon = result.bound.epsilon or 0.0
    if epsilon <= 0:
        return "The trials prove no leak; they do not prove that there is none."
    where = "in the store" if "builds" in result.counts else "in the context"
    where = where if (staged := steps_of(result)) is None else staged.whose
    return (
        f"{_what_shows(result)} can shift the odds that a person's record is {where} by a "
        f"factor of at least {odds_beside(epsilon, result.claim.epsilon)[0]}."
    )


def odds_beside(bound: float | None, claim: float) -> tuple[str, str]:
    """The factor of the odds that a bound shows, and the one that a claim allows."""
    epsilon = bound or 0.0
    factor, most = (math.exp(min(one, MOST_ODDS)) for one in (epsilon, claim))
    up = math.ceil(100 * most) / 100
    odds, allowed = beside(factor, up if (factor > up) == (factor > most) else most, 1)
    odds = "a million" if epsilon > MOST_ODDS else odds
    return odds, f"× {allowed}" if claim <= MOST_ODDS else "more than a million"


def _what_shows(result: AuditRecord) -> str:
    if "builds" in result.counts:
        return f"The {result.counts['answers']} answers of this run together"
    if result.channels:
        return "These channels"
    if (access := result.attack["access"]) != "black_box":
        return SHOWS[access]
    own = result.provenance["model"] == result.attack["mechanism"]  # it asks its own model
    asked = result.counts["answers"] // (2 * result.counts["pairs"]) if own else 1
    number = max(result.spec.get("answers", 1), asked)
    return "One answer" if number == 1 else f"{number} answers about one context"


SEEN: dict[str, str] = {
    "black_box": "the answers",
    "probabilities": "the probabilities of each answer",
    "white_box": "the values behind each answer",
}
SHOWS: dict[str, str] = {
    "probabilities": "The probabilities of one answer",
    "white_box": "The values behind one answer",
}


@dataclass(frozen=True, slots=True)
class _AttackClass:
    """A class of attack, and whether an audit tried it."""

    name: str
    short: str
    tried: bool
    how: str


def attack_classes(result: AuditRecord) -> tuple[_AttackClass, ...]:
    attack, spec = result.attack, result.spec
    more = attack["access"] != "black_box"
    others = result.use
    texts = reads_texts(attack) or (others is not None and others.texts)
    answers = not more and (not reads_texts(attack) or others is not None)
    own = result.provenance["model"] == attack["mechanism"]  # an application's replies may say more
    several = spec.get("answers", 1) > 1 or int(attack.get("questions", 1)) > 1
    one_run = "builds" in result.counts
    shared = one_run or spec.get("layout") == "session" or steps_of(result) is not None
    worded = not {"text", "template"}.isdisjoint(spec.get("query") or ())  # by the user
    return (
        _AttackClass("Was a given record in the context? From the answers",
                    "membership from answers", answers, "--access black_box"),
        _AttackClass("The same from votes, scores or embeddings before the answer",
                    "votes or scores before the answer", more, "--access white_box"),
        _AttackClass("Is the text of a record repeated?", "repeated text", texts,
                    "--query repeat --canary hex"),
        *[_AttackClass("Whole replies: what they say beside the answer to the query",
                      "what replies say beside their answer", False,
                      "--design session")] * (own and one_run),
        *[_AttackClass("What is not stored of replies: words and marks but about 800 common ones, "
                      "their order, parts of dates and codes, more than two digits, names of tools "
                      "(of the first and last words of an application's replies it reads digests)",
                      "words and numbers that are not stored",
                      spec.get("store_text") == "all",
                      "--store-text all")] * ((texts or own) and not one_run),
        *[_AttackClass("Replies compared in other ways than by the words, marks, numbers and calls "
                      "that the witness reads (docs/systems.md), each reply by itself",
                      "other readings of whole replies", False,
                      "a score of your own (docs/extending.md)")]
        * ((texts or own) and not one_run),
        _AttackClass("Several answers about one context", "several answers", several,
                    "--query interrogation" if own else "--answers 9, where answers draw noise"),
        _AttackClass("Records of a store or memory that many queries share",
                    "a shared store or memory", shared, "--design one_run"),
        _AttackClass("Channels beside the answer: tools, memory, logs, time",
                    "channels beside the answer", bool(result.channels), "--channels all"),
        *[_AttackClass("Commands, forms and questions of its own, which its users know",
                      "commands and forms of its own", worded,
                      "a query of that form (docs/systems.md)")] * own,
        _AttackClass("A query that was searched for this system", "a tuned query",
                    attack["query"] == "given", "leakbound tune"),
    )  # fmt: skip


def attacks_sentence(result: AuditRecord) -> str:
    found = attack_classes(result)
    tried = ", ".join(one.short for one in found if one.tried)
    untried = ", ".join(one.short for one in found if not one.tried)
    return f"Attacks tried: {tried or 'none'}. Not tried: {untried or 'none'}."
