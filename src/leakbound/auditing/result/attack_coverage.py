"""Which classes of attack an audit tried, and which it did not."""

from __future__ import annotations

from dataclasses import dataclass

from leakbound.auditing.result.record import AuditRecord
from leakbound.auditing.result.references import reads_texts

SEVERAL = ("interrogation", "differential", "prefix", "extraction")  # that ask several questions


@dataclass(frozen=True, slots=True)
class AttackClass:
    """A class of attack, and whether an audit tried it."""

    name: str
    short: str
    tried: bool
    how: str


def attack_classes(result: AuditRecord) -> tuple[AttackClass, ...]:
    """The classes of attack that leakbound knows."""
    attack, spec = result.attack, result.spec
    white = attack["access"] == "white_box"
    texts = reads_texts(attack)
    own = result.provenance["model"] == attack["mechanism"]  # an application's replies may say more
    several = spec.get("answers", 1) > 1 or attack["query"] in SEVERAL
    one_run = "builds" in result.counts
    shared = one_run or spec.get("layout") == "session"
    return (
        AttackClass("Was a given record in the context? From the answers",
                    "membership from answers", not white and not texts, "--access black_box"),
        AttackClass("The same from votes, scores or embeddings before the answer",
                    "votes or scores before the answer", white, "--access white_box"),
        AttackClass("Is the text of a record repeated?", "repeated text", texts,
                    "--query repeat --canary hex"),
        *[AttackClass("Whole replies: what they say beside the answer to the query",
                      "what replies say beside their answer", False,
                      "--design session")] * (own and one_run),
        *[AttackClass("What is not stored of replies: words and marks but about 800 common ones, "
                      "their order, parts of dates and codes, more than two digits, names of tools",
                      "words and numbers that are not stored",
                      spec.get("store_text") == "all",
                      "--store-text all")] * ((texts or own) and not one_run),
        *[AttackClass("Replies compared in other ways than by the words, marks, numbers and calls "
                      "that the witness reads (docs/systems.md), each reply by itself",
                      "other readings of whole replies", False,
                      "a score of your own (docs/extending.md)")]
        * ((texts or own) and not one_run),
        AttackClass("Several answers about one context", "several answers", several,
                    "--query interrogation" if own else "--answers 9, where answers draw noise"),
        AttackClass("Records of a store or memory that many queries share",
                    "a shared store or memory", shared, "--design one_run"),
        AttackClass("Channels beside the answer: tools, memory, logs, time",
                    "channels beside the answer", bool(result.channels), "--channel all"),
        AttackClass("A query that was searched for this system", "a tuned query",
                    attack["query"] == "given", "leakbound tune"),
    )  # fmt: skip


def tried_sentence(result: AuditRecord) -> str:
    """The classes of attack in short."""
    found = attack_classes(result)
    tried = ", ".join(one.short for one in found if one.tried)
    untried = ", ".join(one.short for one in found if not one.tried)
    return f"Attacks tried: {tried or 'none'}. Not tried: {untried or 'none'}."
