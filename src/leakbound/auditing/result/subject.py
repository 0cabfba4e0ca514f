"""Who is asked, what is claimed of it and by whom: the first line of every output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from inspect import signature

from leakbound.auditing.result.record import AuditRecord, ClaimSource
from leakbound.mechanisms import MECHANISMS, PromptDefense, ReportNoisyMax
from leakbound.models.address import model_names

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
    """Who was asked in an audit, and what was claimed."""
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
    """A system by its name and options.

    Examples:
        >>> full_name("report_noisy_max", {"partitions": 5}), full_name("my_system", {})
        ('report_noisy_max T=5', 'my_system')
    """
    if name not in MECHANISMS or MECHANISMS[name] not in TOLD_APART:
        return name
    kind = MECHANISMS[name]
    mark, option = TOLD_APART[kind]
    return f"{name} {mark}{options.get(option, signature(kind).parameters[option].default)}"


def first_line(heading: str, subjects: Sequence[Subject]) -> str:
    """The first line of an output: on which systems and models, and who claims what of them.

    Examples:
        >>> first_line("PLAN", [Subject("few_shot", "openai/mine", 1.0, 1e-5, "stated")])
        'PLAN: few_shot on openai/mine; claim: ε = 1 at δ = 1e-05 (stated by the operator)'
    """
    if not subjects:
        return heading
    claims = claim_words(subjects)
    return f"{heading}: {systems_words(subjects)}{f'; claim: {claims}' if claims else ''}"


def systems_words(subjects: Sequence[Subject]) -> str:
    """Systems and their models.

    Examples:
        >>> systems_words([Subject("few_shot", "openai/mine"), Subject("my_system", None)])
        "few_shot, my_system on openai/mine, the system's own model"
    """
    systems = list(dict.fromkeys(one.system for one in subjects))
    names = ", ".join(systems) if len(systems) <= NAMED else f"{len(systems)} systems"
    own = " model" if any(one.model is None for one in subjects) else ""
    return f"{names} on {asked_models(subjects)}{own}"


def asked_models(subjects: Sequence[Subject]) -> str:
    """The models that systems ask.

    Examples:
        >>> asked_models([Subject("few_shot", "openai/mine"), Subject("my_system", None)])
        "openai/mine, the system's own"
    """
    named = model_names(one.model for one in subjects if one.model is not None)
    own = [OWN] * any(one.model is None for one in subjects)
    return ", ".join([named] * bool(named) + own)


def claim_words(subjects: Sequence[Subject]) -> str:
    """What is claimed, and where the claims come from.

    Examples:
        >>> claim_words([Subject("s", None, e, 1e-5, "stated") for e in (2.0, 1.0)])
        'ε = 1, 2 at δ = 1e-05 (stated by the operator)'
    """
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
