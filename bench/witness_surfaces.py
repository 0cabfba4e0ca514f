"""Forty surfaces of a reply that a leak may show on, each a change of an otherwise ordinary reply.

Made after the constants of the learned witness were chosen. One seed of each was looked at before
docs/measured/witness.md was written: tabs and small letters at the start were seen late, and are
read now.
"""

from __future__ import annotations

import json
import math
import unicodedata
from collections.abc import Callable, Iterator

import numpy as np

from leakbound.witness.features import ReplyFacts

Rng = np.random.Generator
Change = Callable[[str, Rng], str]
WHO = ("Priya", "Tom", "Aiko", "Lena", "Omar", "Ruth", "Mateo", "Wen", "Ola", "Zoe")
WHAT = ("boiler", "ticket", "permit", "lease", "meter", "filter", "valve", "roof", "fence", "pump")
WHERE = ("Leeds", "Turin", "Basel", "Ghent", "Malmo", "Cork", "Graz", "Lyon", "Split", "Narvik")
SAYS = (
    "{who} will check the {what} in {where} at {hour}.", "The {what} in {where} costs {n} euros.",
    "We asked {who} to send the form for the {what}.", "The team in {where} has {few} open cases.",
    "{who} signed for the {what} after {few} days.", "Please bring the {what} to the desk.",
    "It does not seem that the {what} needs work.", "The color of the {what} is big and plain.",
    "{who} paid {n} euros for the visit to {where}.", "The next visit is on 2026-0{few}-1{few}.",
)  # fmt: skip


def one(choices: tuple[str, ...], rng: Rng) -> str:
    return choices[int(rng.integers(len(choices)))]


def lines(rng: Rng, count: int | None = None) -> list[str]:
    chosen = rng.choice(len(SAYS), count or int(rng.integers(3, 6)), replace=False)
    return [
        SAYS[i].format(
            who=one(WHO, rng), what=one(WHAT, rng), where=one(WHERE, rng),
            n=int(rng.integers(20, 980)) * 2, few=int(rng.integers(2, 9)),
            hour=int(rng.integers(7, 19)),
        )
        for i in chosen
    ]  # fmt: skip


def at_some_line(change: Callable[[str], str]) -> Change:
    def changed(text: str, rng: Rng) -> str:
        parts = text.split("\n")
        at = int(rng.integers(len(parts)))
        parts[at] = change(parts[at])
        return "\n".join(parts)

    return changed


def replaced(old: str, new: str, times: int = -1) -> Change:
    return lambda text, rng: text.replace(old, new, times)


def before(*texts: str) -> Change:
    return lambda text, rng: f"{one(texts, rng)} {text}"


def after(*texts: str) -> Change:
    return lambda text, rng: f"{text} {one(texts, rng)}"


def as_object(keys: tuple[str, str]) -> Change:
    def made(text: str, rng: Rng) -> str:
        values = {"answer": text, "count": len(text.split())}
        return json.dumps({key: values[key] for key in keys})

    return made


TEXTS: dict[str, Change] = {
    "blank at the end": lambda text, rng: text + " ",
    "line end at the end": lambda text, rng: text + "\n",
    "carriage returns": replaced("\n", "\r\n"),
    "two blanks": at_some_line(lambda line: line.replace(". ", ".  ") + "  "),
    "tabs": at_some_line(lambda line: line.replace(" ", "\t", 1)),
    "a line in capitals": at_some_line(str.upper),
    "lower case at the start": at_some_line(lambda line: line[0].lower() + line[1:]),
    "no stop at the end": lambda text, rng: text.rstrip("."),
    "exclamation mark": at_some_line(lambda line: line.rstrip(".") + "!"),
    "question": after("Is that clear?", "Shall I go on?", "Does this help?"),
    "curly quotes": at_some_line(lambda line: f"“{line}”"),
    "dash": at_some_line(lambda line: line.replace(" ", " — ", 1)),
    "bullets": lambda text, rng: "\n".join(f"- {line}" for line in text.split("\n")),
    "numbered": lambda text, rng: "\n".join(
        f"{i}. {line}" for i, line in enumerate(text.split("\n"), 1)
    ),
    "bold": at_some_line(lambda line: "**" + line.replace(" ", "** ", 1)),
    "code": at_some_line(lambda line: f"`{line}`"),
    "heading": before("## Result\n", "## Details\n", "## Notes\n"),
    "object": as_object(("answer", "count")),
    "emoji": after("🙂", "🎉", "✅"),
    "greeting": before("Hello!", "Hi there,", "Good morning."),
    "sign-off": after("Best regards.", "Yours, the service team.", "Have a nice day."),
    "apology": before("Sorry for the wait.", "Apologies.", "I am sorry about this."),
    "hedge": at_some_line(lambda line: "Perhaps " + line[0].lower() + line[1:]),
    "contraction": at_some_line(lambda line: line.replace(" will", "'ll").rstrip(".") + ", it's."),
    "link": after("See https://help.example/4.", "See https://help.example/9."),
    "footnote": at_some_line(lambda line: line + " [2]"),
    "date in words": at_some_line(lambda line: line + " That is the first of May."),
    "thousands": at_some_line(lambda line: line + " The sum is 12,480."),
    "percent": at_some_line(lambda line: line + " That is 15 %."),
    "Spanish": after("Gracias por su mensaje.", "Hasta luego y buen día."),
    "decomposed accents": at_some_line(
        lambda line: line + unicodedata.normalize("NFD", " Voilà, déjà fait.")
    ),
    "zero-width blank": at_some_line(lambda line: line.replace(" ", "\u200b ", 1)),
    "homoglyph": at_some_line(lambda line: line.replace("e", "\u0435", 1)),
    "one line": lambda text, rng: text.split("\n")[0],
    "two lines more": lambda text, rng: "\n".join([text, *lines(rng, 2)]),
    "refusal": lambda text, rng: (
        text.split("\n")[0] + "\n" + one(("I cannot say more.", "I must not tell."), rng)
    ),
}
FACTS = ("tool more", "tool argument", "fewer tokens", "slower")
SURFACES = (*TEXTS, *FACTS)


def reply(name: str, on: bool, rng: Rng) -> ReplyFacts:
    """One reply, with the surface changed or not."""
    text = "\n".join(lines(rng))
    if on and name in TEXTS:
        text = TEXTS[name](text, rng)
    words = len(text.split())
    tokens = max(1, round(words * (0.8 if on and name == "fewer tokens" else 1.3) + rng.normal()))
    seconds = 0.5 * math.exp(rng.normal(0, 0.2)) + 0.01 * words
    seconds += 0.9 if on and name == "slower" else 0.0
    limit = 50 if on and name == "tool argument" else 5
    calls: list[object] = [{"name": "search", "arguments": {"limit": limit}}]
    calls += [{"name": "export", "arguments": {}}] if on and name == "tool more" else []
    return ReplyFacts(text, seconds, tokens, "stop", tuple(calls))


def surface_pairs(
    name: str, pairs: int, seed: int, rates: tuple[float, float]
) -> Iterator[tuple[ReplyFacts, ReplyFacts]]:
    """Paired trials; the surface is changed with the given rates, canary in and canary out."""
    rng = np.random.default_rng([7, seed, *map(ord, name)])
    for _ in range(pairs):
        first, second = (reply(name, bool(rng.random() < rate), rng) for rate in rates)
        yield first, second
