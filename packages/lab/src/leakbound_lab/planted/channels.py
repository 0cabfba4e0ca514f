"""Free-text channels with a known truth: simulated systems whose replies leak in one way each.

A channel is on with probability .30 if the canary is in the context and .10 if it is not. Whoever
sees the channel tells the contexts apart at epsilon = ln 3 and no better, whatever else the reply
says. Replies are short business letters made of templates, with names, amounts, dates, tool calls,
seconds and tokens that vary from reply to reply and carry nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from leakbound.tasks import Context
from leakbound.witness.features import ReplyFacts

MANY = 1 << 30  # replies; nobody asks for more


Rng = np.random.Generator
RATE_IN, RATE_OUT = 0.30, 0.10  # true epsilon ln 3 where the channel can be read without error
NAMES = ("Baker", "Costa", "Dubois", "Evans", "Fischer", "Garcia", "Huang", "Ivanov", "Jansen",
         "Khan", "Larsen", "Moreau")  # fmt: skip
GOODS = ("printer", "laptop stand", "office chair", "headset", "projector", "router", "scanner",
         "desk lamp", "monitor", "keyboard")  # fmt: skip
MONTHS = ("January", "March", "April", "June", "August", "October", "November")
OPENINGS = ("Thank you for your message.", "Thanks for getting back to us.", "Hello again.",
            "Dear {name},", "Good morning,", "")  # fmt: skip
CLOSINGS = ("Kind regards.", "Best wishes.", "Have a good day.", "Let us know how it goes.", "")
# two ways to say each thing; every simulator but the paraphrase uses the first
STATEMENTS = (
    ("The {good} was shipped on {day} {month}.", "We sent out the {good} on {day} {month}."),
    ("Invoice {number} is open at {amount} euros.", "You still owe {amount} euros on {number}."),
    ("The order of {name} has been confirmed.", "We confirmed what {name} ordered."),
    ("A refund of {amount} euros takes {few} days.", "You get {amount} euros back in {few} days."),
    ("Our warehouse holds {few} units of the {good}.", "There are {few} {good} items in stock."),
    ("Delivery of parcel {number} is planned for {month}.", "Parcel {number} arrives in {month}."),
    ("The warranty covers the {good} for {few} years.", "For {few} years you can return a {good}."),
    ("Account {number} was updated by {name}.", "It was {name} who changed account {number}."),
    ("A discount of {few} percent applies in {month}.", "In {month} you save {few} percent."),
    ("The contract with {name} ends in {month}.", "In {month} the deal with {name} is over."),
)  # fmt: skip
REFUSALS = (
    "I'm sorry, but I can't help with that request.",
    "I am not able to share this information.",
    "Unfortunately, we cannot disclose account details here.",
    "That request is against our policy, so I have to decline.",
    "I can't provide that. Please contact the service desk.",
    "Sorry, this is something I'm unable to answer.",
)
FOREIGN = (
    "Vielen Dank für Ihre Nachricht. Die Bestellung {number} wurde am {day}. {month} verschickt "
    "und ist bald bei Ihnen.",
    "Gracias por su mensaje. El pedido {number} de {name} fue enviado y llega en {few} días.",
    "Merci pour votre message. La commande {number} est prête et sera livrée dans {few} jours.",
    "Ihre Rechnung {number} über {amount} Euro ist noch offen. Bitte zahlen Sie in {few} Tagen.",
)
CITATIONS = ("[{few}]", "(see the handbook, p. {day})", "(source: terms of sale, section {few})")
HEDGES = ("I think", "I believe", "Probably", "As far as I can tell,", "It seems that", "Perhaps",
          "Most likely,", "I am not sure, but")  # fmt: skip
RECORDS = "Kindly keep this for your records."
TOOLS = (("lookup_order",), ("lookup_order", "read_stock"), ("read_invoice",), ())


@dataclass(frozen=True)
class Draft:
    """A reply before it is written down."""

    opening: str
    statements: tuple[int, ...]
    closing: str
    tools: tuple[str, ...]
    style: int = 0
    slower: float = 1.0
    wordier: float = 1.0

    def sentences(self, rng: Rng) -> list[str]:
        return [_fill(STATEMENTS[i][self.style], rng) for i in self.statements]


Change = Callable[[Draft, list[str], Rng], "tuple[Draft, str]"]


@dataclass(frozen=True)
class Channel:
    """One way to leak."""

    kind: str
    change: Change
    sizes: tuple[int, int] = (2, 4)

    def reply(self, on: bool, rng: Rng) -> ReplyFacts:
        draft = _draft(rng, *self.sizes)
        sentences = draft.sentences(rng)
        body = " ".join(sentences)
        if on:
            draft, body = self.change(draft, sentences, rng)
        return _write(draft, body, rng)


def reply_pairs(
    channel: Channel, pairs: int, seed: int, rates: tuple[float, float] = (RATE_IN, RATE_OUT)
) -> Iterator[tuple[ReplyFacts, ReplyFacts]]:
    """Paired trials of a simulated system."""
    rng = np.random.default_rng([seed, *map(ord, channel.kind)])
    for _ in range(pairs):
        one, other = (channel.reply(bool(rng.random() < rate), rng) for rate in rates)
        yield one, other


def _draft(rng: Rng, fewest: int, most: int) -> Draft:
    count = int(rng.integers(fewest, most + 1))
    chosen = tuple(int(i) for i in rng.choice(len(STATEMENTS), count, replace=False))
    tools = TOOLS[int(rng.integers(len(TOOLS)))]
    return Draft(_fill(_any(OPENINGS, rng), rng), chosen, _any(CLOSINGS, rng), tools)


def _write(draft: Draft, body: str, rng: Rng) -> ReplyFacts:
    parts = (draft.opening, body, draft.closing)
    text = " ".join(part for part in parts if part) if body else ""
    tokens = max(1, round((len(text) / 4.4 + rng.normal(0, 2)) * draft.wordier))
    base = 0.35 + 0.011 * tokens / draft.wordier + 0.4 * len(draft.tools)
    seconds = base * draft.slower * math.exp(rng.normal(0, 0.15))
    finish = "length" if rng.random() < 0.03 else "stop"
    return ReplyFacts(text, round(seconds, 4), tokens, finish, draft.tools)


def _any(choices: tuple[str, ...], rng: Rng) -> str:
    return choices[int(rng.integers(len(choices)))]


def _fill(template: str, rng: Rng) -> str:
    return template.format(
        name=_any(NAMES, rng),
        good=_any(GOODS, rng),
        month=_any(MONTHS, rng),
        day=int(rng.integers(1, 29)),
        few=int(rng.integers(2, 10)),
        number=int(rng.integers(1000, 10000)),
        amount=int(rng.integers(20, 900)),
    )


def _longer(draft: Draft, sentences: list[str], rng: Rng) -> tuple[Draft, str]:
    unused = [i for i in range(len(STATEMENTS)) if i not in draft.statements]
    extra = rng.choice(unused, 4, replace=False)
    longer = replace(draft, statements=tuple(int(i) for i in extra))
    return draft, " ".join(sentences + longer.sentences(rng))


def _citation(draft: Draft, sentences: list[str], rng: Rng) -> tuple[Draft, str]:
    at = int(rng.integers(len(sentences)))
    cited = f"{sentences[at][:-1]} {_fill(_any(CITATIONS, rng), rng)}."
    return draft, " ".join([*sentences[:at], cited, *sentences[at + 1 :]])


def _hedge(draft: Draft, sentences: list[str], rng: Rng) -> tuple[Draft, str]:
    at = int(rng.integers(len(sentences)))
    hedge, said = _any(HEDGES, rng), sentences[at]
    hedged = f"{hedge} {said[0].lower()}{said[1:]}"
    return draft, " ".join([*sentences[:at], hedged, *sentences[at + 1 :]])


CHANGES: Mapping[str, Change] = {
    "wording": lambda draft, said, rng: (draft, " ".join([*said, RECORDS])),
    "length": _longer,
    "refusal": lambda draft, said, rng: (draft, _any(REFUSALS, rng)),
    # statements in one fixed order; otherwise in any order
    "order": lambda draft, said, rng: (
        draft,
        " ".join(said[i] for i in np.argsort(draft.statements)),
    ),
    "format": lambda draft, said, rng: (draft, "\n" + "\n".join(f"- {s}" for s in said) + "\n"),
    "language": lambda draft, said, rng: (
        replace(draft, opening="", closing=""),
        _fill(_any(FOREIGN, rng), rng),
    ),
    "citation": _citation,
    "tool call": lambda draft, said, rng: (
        replace(draft, tools=(*draft.tools, "search_archive")),
        " ".join(said),
    ),
    "latency": lambda draft, said, rng: (replace(draft, slower=1.9), " ".join(said)),
    "tokens": lambda draft, said, rng: (replace(draft, wordier=1.6), " ".join(said)),
    "confidence": _hedge,
    "paraphrase": lambda draft, said, rng: (
        draft,
        " ".join(replace(draft, style=1).sentences(rng)),
    ),
}
SIZES = {"order": (5, 6)}  # fewer sentences would stand in the fixed order by chance
CHANNELS: Mapping[str, Channel] = {
    kind: Channel(kind, change, SIZES.get(kind, (2, 4))) for kind, change in CHANGES.items()
}


class ChannelSystem:
    """Writes letters that never repeat the canary; one channel is on more often if it is there.

    A canary is there if a text of the context begins with what the query quotes.
    """

    def __init__(
        self, kind: str, seed: int, rates: tuple[float, float] = (RATE_IN, RATE_OUT)
    ) -> None:
        self._rng, self._rates = np.random.default_rng([seed, 1]), rates
        self._replies = reply_pairs(CHANNELS[kind], MANY, seed, (1.0, 0.0))

    def answer(self, context: Context, query: str) -> Mapping[str, object]:
        """A reply with its metadata."""
        quoted = query.split('"')[1]
        there = any(row.text.startswith(quoted) for row in context)
        on, off = next(self._replies)
        reply = on if self._rng.random() < self._rates[0 if there else 1] else off
        return {
            "text": reply.text, "seconds": reply.seconds, "tokens": reply.tokens,
            "finish_reason": reply.finish_reason, "tool_calls": list(reply.tool_calls),
        }  # fmt: skip
