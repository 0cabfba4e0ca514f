"""What standards and guidelines ask, and what one audit says to each: the home of both.

Editions are named, because numbers of items change between them. Nothing here is a legal opinion:
an entry says what was tried and found, and whoever reads it decides whether that is enough.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from leakbound.auditing.result.record import AuditRecord
from leakbound.estimators.random_guessing import is_random_guessing
from leakbound.stats import cut

ReferenceStatus = Literal["tried", "not_tried", "answered", "not_answered"]
Said = tuple[ReferenceStatus, str]
OWASP_LLM = "OWASP Top 10 for LLM Applications 2025"
AISVS = "OWASP AISVS 1.0"
PROFILE = "NIST AI 600-1 (July 2024)"
GUIDELINES = "NIST SP 800-226 (March 2025)"
OPINION = "EDPB Opinion 28/2024 (17 December 2024), paragraph 55"
TEXT_SCORES = ("contains_canary", "overlap")  # that read what an answer repeats
TEXT_QUERIES = ("mba", "s2", "prefix", "extraction")  # queries whose scores do
# queries that ask for text of a record, in place of whether it is there
EXTRACTING = ("repeat", "injection", "recall", "prefix", "extraction", "s2", "mba", "differential")
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
    )  # fmt: skip
    return tuple(
        StandardReference(document, item, asks, status, said)
        for document, item, asks, (status, said) in asked
    )


def reads_texts(attack: dict[str, str]) -> bool:
    """Whether an attack looks for the text of a record in the answers."""
    return attack["score"] in TEXT_SCORES or attack["query"] in TEXT_QUERIES


def _opinion(attack: dict[str, str]) -> Iterator[tuple[str, str, str, Said]]:
    """Classes of attack; the Opinion means training data of a model."""
    none = "This package has no such attack."
    classes: tuple[tuple[str, bool, str], ...] = (
        ("membership inference", True, none),
        ("attribute inference", False, none),
        ("exfiltration", attack["query"] in EXTRACTING,
         "Audit with --query injection or --query extraction."),
        ("regurgitation", reads_texts(attack), "Audit with --query repeat --canary hex."),
        ("model inversion", False, none),
        ("reconstruction", False, none),
    )  # fmt: skip
    said = f"On {OF_CONTEXT}: query {attack['query']}, score {attack['score']}."
    for name, tried, how in classes:
        answer: Said = ("tried", said) if tried else ("not_tried", how)
        yield OPINION, name, f"Structured testing against {name}.", answer


def _find(result: AuditRecord) -> str:
    bound = result.bound
    return (
        f"Verdict: {result.verdict.replace('_', ' ')}; epsilon is at least {cut(bound.epsilon)} "
        f"({bound.method}, {bound.confidence or 0:.0%} confidence)."
    )


def _store_answer(result: AuditRecord) -> Said:
    if "builds" in result.counts or result.spec.get("layout") == "session":
        return "tried", "Canaries were put into one store that all trials share. " + _find(result)
    return "not_tried", "Audit a store with --design session or --design one_run."


def _accuracy(result: AuditRecord) -> Said:
    """Of random guessing: answered by its own claim alone, and never shown by a test."""
    if not is_random_guessing(result.claim):
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
