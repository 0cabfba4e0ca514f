"""What an audit is of, what it means and what it tried, in sentences without statistics."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from inspect import signature

from leakbound.auditing.decide.verdict import score_reading
from leakbound.auditing.result.record import AuditRecord, ClaimSource
from leakbound.auditing.result.references import reads_texts
from leakbound.mechanisms import MECHANISMS, PromptDefense, ReportNoisyMax
from leakbound.models.address import model_names
from leakbound.stats import cut

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


def subject_of(result: AuditRecord) -> Subject:
    model, claim, each = result.provenance["model"], result.claim, result.spec["epsilon"]
    return Subject(
        system=system_name(result),
        model=None if model == result.attack["mechanism"] else model,
        epsilon=claim.epsilon,
        delta=claim.delta,
        claim_source=result.claim_source,
        each=None if each in (None, claim.epsilon) else each,
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
            alike.setdefault((one.delta, _notes(one)), set()).add(one.epsilon)
    return ", ".join(
        f"ε = {values_words(sorted(epsilons))} at δ = {delta:g}{notes}"
        for (delta, notes), epsilons in alike.items()
    )


def _notes(subject: Subject) -> str:
    notes = [GUESSING] * (subject.epsilon == subject.delta == 0)
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


def verdict_sentence(result: AuditRecord) -> str:
    """The verdict and why, in one line."""
    return f"{verdict_words(result)}: {result.sentences[0]}"


def attacker_sentence(result: AuditRecord) -> str:
    """How well the attacker did, by the reading of the bound."""
    read = result.reading
    if read.of == "distribution" and result.verdict != "violation":
        read = score_reading(result.estimates)  # nothing decided; what single outputs show
    if not read.guesses:
        return ""
    if read.of == "codes":
        where = f" in the channel {read.channel}" if read.channel else ""
        return (
            f"{read.right} of {read.guesses} replies to contexts with the canary quoted its random "
            f"code{where}, which nobody could guess."
        )
    right, guessing = (
        f"was right about {read.right} of {read.guesses}",
        f"Guessing gives about {read.guesses // 2}.",
    )
    if read.compares:
        said = (
            f"An attacker who compared both contexts of each pair by {read.words} {right} pairs: "
            f"in which of them was the canary? {guessing}"
        )
    else:
        what = "canaries" if "builds" in result.counts else "contexts"
        seen = SEEN[result.attack["access"]]
        said = f"An attacker who saw {seen} {right} {what}: was the canary there or not? {guessing}"
    return f"{said} {read.leads}".strip() if result.verdict == "violation" else said


def odds_sentence(result: AuditRecord) -> str:
    """What the bound means for the person whose record it is."""
    epsilon = result.bound.epsilon or 0.0
    if epsilon <= 0:
        return "The trials bound no leak; this does not show that there is none."
    factor = math.exp(epsilon)
    times = "a million" if factor > 1e6 else cut(factor, 1)
    where = "store" if "builds" in result.counts else "context"
    return (
        f"For one person: {_what_shows(result)} can multiply or divide the odds that their record "
        f"is in the {where} by {times} or more."
    )


def _what_shows(result: AuditRecord) -> str:
    if "builds" in result.counts:
        return f"the {result.counts['answers']} answers of this run together"
    if result.channels:
        return "what goes through these channels"
    if (access := result.attack["access"]) != "black_box":
        return SHOWS[access]
    own = result.provenance["model"] == result.attack["mechanism"]  # it asks its own model
    asked = result.counts["answers"] // (2 * result.counts["pairs"]) if own else 1
    number = max(result.spec.get("answers", 1), asked)
    return "an answer" if number == 1 else f"{number} answers about one context"


SEEN: dict[str, str] = {
    "black_box": "the answers",
    "probabilities": "the probabilities of each answer",
    "white_box": "what was computed before each answer",
}
SHOWS: dict[str, str] = {
    "probabilities": "the probabilities of an answer",
    "white_box": "what is computed before an answer",
}
SEVERAL = ("interrogation", "differential", "prefix", "extraction")  # that ask several questions


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
    several = spec.get("answers", 1) > 1 or attack["query"] in SEVERAL
    one_run = "builds" in result.counts
    shared = one_run or spec.get("layout") == "session"
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
                      "their order, parts of dates and codes, more than two digits, names of tools",
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
        _AttackClass("A query that was searched for this system", "a tuned query",
                    attack["query"] == "given", "leakbound tune"),
    )  # fmt: skip


def attacks_sentence(result: AuditRecord) -> str:
    found = attack_classes(result)
    tried = ", ".join(one.short for one in found if one.tried)
    untried = ", ".join(one.short for one in found if not one.tried)
    return f"Attacks tried: {tried or 'none'}. Not tried: {untried or 'none'}."
