"""Training episodes: a context, and questions about it with their right answers.

Everything is generated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import words as w

from leakbound.attacks import templates
from leakbound.mechanisms.wording import L1, L2
from leakbound.tasks.example import Example
from leakbound.tasks.synthetic import HELP_DESK, NAMES, TOPICS, message
from leakbound.tasks.task import Query, Task

Rng = np.random.Generator
HEX = "0123456789abcdef"
FREE = Task("generation", label_name="Output")  # as the package renders generation tasks
MEMBER_FALSE = ("The sun rises in the west.", "Fish live in trees.", "Two and two make nine.",
                "Ice is hotter than fire.", "Cows lay blue eggs.", "The moon is made of bread.",
                "Rivers flow up the hill.")  # fmt: skip


@dataclass
class Episode:
    """A context as text and the open blocks with answers that follow it, each on its own."""

    context: str
    turns: list[tuple[str, str]] = field(default_factory=list)
    probes: dict[int, tuple[str, bool]] = field(
        default_factory=dict
    )  # turn -> the text asked about, and is it there


def pick(rng: Rng, items):  # type: ignore[no-untyped-def]
    return items[int(rng.integers(len(items)))]


# --- texts


def new_word(rng: Rng) -> str:
    return "".join(pick(rng, w.SYLLABLES) for _ in range(int(rng.integers(1, 4))))


def any_word(rng: Rng) -> str:
    roll = rng.random()
    if roll < 0.62:
        return pick(rng, w.COMMON)
    if roll < 0.74:
        return pick(rng, w.NOUNS + w.ADJECTIVES + w.VERBS)
    if roll < 0.9:
        return new_word(rng)
    return pick(rng, w.FIRST_NAMES) if rng.random() < 0.5 else new_word(rng).capitalize()


def number(rng: Rng) -> str:
    form = pick(
        rng, ("{:d}", "{:d}", "{:d}%", "${:d}", "{:d}.5", "{:d},000", "{:d}-{:d}", "{:d}:{:02d}")
    )
    return form.format(
        int(rng.integers(1, 10 ** int(rng.integers(1, 5)))), int(rng.integers(0, 60))
    )


def salad(rng: Rng, length: int) -> str:
    """Words as in running text, with punctuation, in one of the styles that real data has."""
    spaced, lower = rng.random() < 0.35, rng.random() < 0.35
    out: list[str] = []
    for _ in range(length):
        out.append(number(rng) if rng.random() < 0.05 else any_word(rng))
        if rng.random() < 0.12:
            mark = pick(
                rng,
                (
                    ",",
                    ",",
                    ".",
                    ";",
                    " -",
                    "'s",
                    ":",
                    " (",
                    ")",
                    "?",
                    "!",
                    '"',
                    "...",
                    " #39;s",
                    "``",
                    "''",
                ),
            )
            out[-1] += f" {mark.strip()}" if spaced else mark
    text = " ".join(out) + (" ." if spaced else pick(rng, (".", ".", "", "?", "!")))
    return text.lower() if lower else text[0].upper() + text[1:]


def clause(rng: Rng) -> str:
    noun = lambda: f"{pick(rng, ('the', 'the', 'a', 'our', 'every'))} " + (  # noqa: E731
        f"{pick(rng, w.ADJECTIVES)} " if rng.random() < 0.5 else ""
    ) + pick(rng, w.NOUNS)  # fmt: skip
    subject = pick(rng, w.FIRST_NAMES) if rng.random() < 0.3 else noun()
    tail = f" {pick(rng, w.PLACES)}" if rng.random() < 0.5 else ""
    return f"{subject} {pick(rng, w.VERBS)} {noun()}{tail}"


def sentence(rng: Rng) -> str:
    text = clause(rng)
    if rng.random() < 0.25:
        text += f", {pick(rng, ('and', 'but', 'so', 'because', 'while'))} {clause(rng)}"
    return text[0].upper() + text[1:] + pick(rng, (".", ".", ".", "!"))


def hex_string(rng: Rng) -> str:
    size = int(pick(rng, (8, 12, 16, 16, 16, 16, 24, 32, 64)))
    return "".join(HEX[i] for i in rng.integers(0, 16, size))


class Texts:
    """Draws texts by kind; `tokens` are printable pieces of the tokenizer for strings of random
    tokens.
    """

    kinds = ("tokens", "hex", "salad", "sentence", "sentences", "words", "message")

    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens or ["ka", " ro", "x7", "-", " zu"]

    def draw(self, kind: str, rng: Rng, size: int) -> str:
        if kind == "tokens":
            return "".join(pick(rng, self.tokens) for _ in range(max(4, size))).strip() or "void"
        if kind == "hex":
            return hex_string(rng)
        if kind == "salad":
            return salad(rng, max(3, int(size / 1.6)))
        if kind == "sentences":
            return " ".join(sentence(rng) for _ in range(max(1, size // 14)))
        if kind == "words":
            return " ".join(any_word(rng) for _ in range(max(2, size // 3)))
        if kind == "message":
            return message(pick(rng, list(TOPICS)), rng)
        return sentence(rng)


# --- presence: near misses and substrings


def miss(text: str, rng: Rng, texts: Texts) -> str:
    """A text near to one in the context, with a share of its parts replaced."""
    share = pick(rng, (0.25, 0.5, 0.5, 0.75))
    if " " not in text.strip():
        fresh = (
            hex_string(rng)
            if all(c in HEX for c in text)
            else texts.draw("tokens", rng, 8).replace(" ", "")
        )
        keep = int(len(text) * (1 - share))
        fresh = (fresh * (1 + len(text) // max(1, len(fresh))))[: len(text) - keep]
        return text[:keep] + fresh if rng.random() < 0.5 else fresh + text[len(text) - keep :]
    parts = text.split(" ")
    change = rng.random(len(parts)) < share
    change[int(rng.integers(len(parts)))] = True
    return " ".join(any_word(rng) if hit else part for hit, part in zip(change, parts, strict=True))


def absent(inputs: list[str], kind: str, rng: Rng, texts: Texts) -> str:
    roll = rng.random()
    if inputs and roll < 0.35:
        return miss(pick(rng, inputs), rng, texts)
    if inputs and roll < 0.5:
        pool = " ".join(inputs).split(" ")
        return " ".join(pick(rng, pool) for _ in range(int(rng.integers(3, 20))))
    same = roll < 0.85
    return texts.draw(kind if same else pick(rng, Texts.kinds), rng, int(rng.integers(5, 40)))


def present(inputs: list[str], rng: Rng) -> str:
    text = pick(rng, inputs)
    parts = text.split(" ")
    if rng.random() < 0.75 or len(parts) < 8:
        return text
    if rng.random() < 0.5:  # an appended canary: the last part alone
        return parts[-1] if len(parts[-1]) >= 8 else " ".join(parts[len(parts) // 2 :])
    start = int(rng.integers(0, len(parts) - 6))
    return " ".join(parts[start : start + int(rng.integers(6, len(parts) - start + 1))])


# --- episodes


def preamble(rng: Rng) -> str:
    roll = rng.random()
    if roll < 0.6:
        return ""
    if roll < 0.68:
        return L1
    if roll < 0.76:
        return L2
    parts = [
        pick(rng, w.PREAMBLE_PARTS) if rng.random() < 0.7 else sentence(rng)
        for _ in range(int(rng.integers(1, 5)))
    ]
    return pick(rng, (" ", "\n")).join(parts)


def label_set(rng: Rng) -> tuple[str, ...]:
    if rng.random() < 0.5:
        return pick(rng, w.LABEL_SETS)
    make: Callable[[], str] = pick(
        rng, (lambda: pick(rng, w.NOUNS), lambda: new_word(rng), lambda: any_word(rng).capitalize())
    )
    return tuple(dict.fromkeys(make() for _ in range(int(rng.integers(2, 7)))))


def task_for(labels: tuple[str, ...], rng: Rng) -> Task:
    fields = ("Input", "Label") if rng.random() < 0.6 else pick(rng, w.FIELD_NAMES)
    canonical = rng.random() < 0.6
    instruction = "" if canonical else pick(rng, w.INSTRUCTIONS).format(labels=", ".join(labels))
    return Task("episode", labels, fields[0], fields[1], instruction)


class Maker:
    """Makes one episode of about `size` context tokens."""

    def __init__(self, texts: Texts, turns: int = 8) -> None:
        self.texts, self.turns = texts, turns

    def episode(self, rng: Rng, size: int) -> Episode:
        roll = rng.random()
        if roll < 0.13:
            return self.document(rng, size)
        if roll < 0.16:
            return self.empty(rng)
        if roll < 0.42:
            return self.desk(rng, size)
        return self.mixed(rng, size)

    # examples of any text with labels: presence, copying, if-then, signals, repeats
    def mixed(self, rng: Rng, size: int) -> Episode:
        free = rng.random() < 0.2  # a generation task: every example has an output of its own
        labels = tuple(self.line(rng) for _ in range(8)) if free else label_set(rng)
        task = FREE if free else task_for(labels, rng)
        base = pick(
            rng,
            (
                "tokens",
                "tokens",
                "tokens",
                "hex",
                "salad",
                "salad",
                "sentence",
                "sentences",
                "words",
            ),
        )
        pure = rng.random() < 0.55
        count = int(rng.integers(1, 25)) if rng.random() < 0.5 else int(rng.integers(1, 7))
        each = max(5, min(120, int(size / count) - 8))
        rows = []
        for _ in range(count):
            kind = base if pure or rng.random() < 0.5 else pick(rng, Texts.kinds)
            text = self.texts.draw(kind, rng, max(4, int(each * rng.uniform(0.5, 1.3))))
            if rng.random() < 0.08:
                text += " " + hex_string(rng)
            rows.append(Example(text, pick(rng, labels)))
        if pure and rng.random() < 0.5:
            rows[int(rng.integers(count))] = Example(hex_string(rng), pick(rng, labels))
        return self.finish(task, rows, base, rng)

    # few-shot classification by topic, at times with a canary
    def desk(self, rng: Rng, size: int) -> Episode:
        known = rng.random() < 0.6
        labels = HELP_DESK.labels if known else label_set(rng)[:6]
        topics = [list(TOPICS)[i] for i in rng.permutation(len(TOPICS))][: len(labels)]
        task = HELP_DESK if known else task_for(labels, rng)
        count = max(
            len(topics) if rng.random() < 0.6 else 1,
            min(24, int(rng.integers(1, max(2, size // 28 + 1)))),
        )
        seen = [
            (i if count >= len(topics) else int(rng.integers(len(topics)))) % len(topics)
            for i in range(count)
        ]
        rows = [Example(message(topics[i], rng), labels[i]) for i in rng.permutation(seen)]
        if rng.random() < 0.25:
            rows[int(rng.integers(count))] = Example(hex_string(rng), pick(rng, labels))
        shown = {row.label for row in rows}
        ep = self.finish(task, rows, "message", rng, self.turns // 2)
        for _ in range(self.turns - len(ep.turns)):
            i = int(rng.integers(len(topics)))
            covered = any(j == i for j in seen)
            rest = [label for label in labels if label not in shown] or list(labels)
            answer = labels[i] if covered else pick(rng, rest)
            ep.turns.append((task.open_block(message(topics[i], rng)), answer))
        return ep

    def finish(
        self, task: Task, rows: list[Example], kind: str, rng: Rng, turns: int | None = None
    ) -> Episode:
        prompt = task.head(preamble(rng)) + "".join(task.block(row) for row in rows)
        ep = Episode(prompt)
        inputs = [row.input for row in rows]
        for _ in range(turns or self.turns):
            self.probed: tuple[str, bool] | None = None
            text, answer = self.turn(task, rows, inputs, kind, rng)
            if self.probed:
                ep.probes[len(ep.turns)] = self.probed
            ep.turns.append((task.open_block(text), answer))
        return ep

    def turn(
        self, task: Task, rows: list[Example], inputs: list[str], kind: str, rng: Rng
    ) -> tuple[str, str]:
        roll = rng.random()
        if roll < 0.3:
            return self.membership(inputs, kind, rng)
        if roll < 0.7:
            return self.if_then(task, inputs, kind, rng)
        if roll < 0.76:
            return self.signal(inputs, kind, rng)
        if roll < 0.86:
            return self.copy_label(rows, rng)
        if roll < 0.90:
            return self.implicit(task, inputs, rng)
        if roll < 0.97:
            return self.repeat(inputs, rng)
        return self.extract(inputs, kind, rng)

    def probe(self, inputs: list[str], kind: str, rng: Rng) -> tuple[str, bool]:
        text = (
            present(inputs, rng)
            if inputs and rng.random() < 0.5
            else absent(inputs, kind, rng, self.texts)
        )
        self.probed = text, any(text in row for row in inputs)
        return self.probed

    def membership(self, inputs: list[str], kind: str, rng: Rng) -> tuple[str, str]:
        canary, member = self.probe(inputs, kind, rng)
        form = templates.MEMBERSHIP if rng.random() < 0.65 else pick(rng, w.INQUIRIES)
        return form.format(canary=canary), "yes" if member else "no"

    def if_then(self, task: Task, inputs: list[str], kind: str, rng: Rng) -> tuple[str, str]:
        canary, member = self.probe(inputs, kind, rng)
        one, other = self.outcomes(task, rng)
        form = templates.IF_THEN if rng.random() < 0.7 else pick(rng, w.IF_THENS)
        return form.format(canary=canary, member=one, nonmember=other), one if member else other

    def outcomes(self, task: Task, rng: Rng) -> tuple[str, str]:
        """The two answers of an if-then request:

        from ones whose roles are fixed (easy) to any two words (hard).
        """
        roll = rng.random()
        if roll < 0.06:
            return "yes", "no"
        if roll < 0.25:
            pool: tuple[str, ...] = pick(rng, (("yes", "no"), ("A", "B"), ("A", "B"), ("0", "1")))
        elif roll < 0.75 and len(task.labels) > 1:
            pool = task.labels
        else:
            pool = tuple(any_word(rng) for _ in range(3))
        one, other = (pool[i] for i in rng.permutation(len(pool))[:2])
        return one, other

    def signal(self, inputs: list[str], kind: str, rng: Rng) -> tuple[str, str]:
        canary, member = self.probe(inputs, kind, rng)
        one, other = self.line(rng), self.line(rng)
        text = templates.IF_THEN.format(canary=canary, member=one, nonmember=other)
        text += templates.PICK_ONE if rng.random() < 0.4 else ""
        random_one = not inputs and templates.PICK_ONE in text and rng.random() < 0.5
        return text, one if member or random_one else other

    def line(self, rng: Rng) -> str:
        return (
            sentence(rng)
            if rng.random() < 0.6
            else salad(rng, int(rng.integers(3, 10))).replace('"', "")
        )

    def copy_label(self, rows: list[Example], rng: Rng) -> tuple[str, str]:
        row = pick(rng, rows)
        first = next(other.label for other in rows if other.input == row.input)
        return row.input, first

    def implicit(self, task: Task, inputs: list[str], rng: Rng) -> tuple[str, str]:
        labels = task.labels if len(task.labels) > 1 else ("yes", "no")
        one, other = (labels[i] for i in rng.permutation(len(labels))[:2])
        odd = any(" " not in t.strip() and len(t) >= 8 and all(c in HEX for c in t) for t in inputs)
        return templates.IF_THEN_IMPLICIT.format(member=one, nonmember=other), one if odd else other

    def repeat(self, inputs: list[str], rng: Rng) -> tuple[str, str]:
        parts = pick(rng, inputs).split("\n")[0].split(" ")
        cut = max(1, len(parts) // 2)
        rest = " ".join(parts[cut:])
        if not rest or len(rest) > 160:
            return self.membership(inputs, "sentence", rng)
        return templates.REPEAT.format(prefix=" ".join(parts[:cut])), rest

    def extract(self, inputs: list[str], kind: str, rng: Rng) -> tuple[str, str]:
        whole = " | ".join(text.replace("\n", " ") for text in inputs)
        if len(whole) > 260:
            return self.membership(inputs, kind, rng)
        return templates.EXTRACT_ALL, whole

    # no examples at all
    def empty(self, rng: Rng) -> Episode:
        labels = label_set(rng) if rng.random() < 0.5 else HELP_DESK.labels
        task = task_for(labels, rng)
        ep = Episode(task.head(preamble(rng)))
        for _ in range(self.turns):
            roll = rng.random()
            if roll < 0.45:
                text, answer = self.signal([], "sentence", rng)
            elif roll < 0.75:
                text, answer = pick(
                    rng, (self.membership, lambda i, k, r: self.if_then(task, i, k, r))
                )([], "salad", rng)
            else:
                text, answer = self.texts.draw(pick(rng, Texts.kinds), rng, 20), pick(rng, labels)
            ep.turns.append((task.open_block(text), answer))
        return ep

    # one document: facts, continuation, lead sentence; or few-shot summaries
    def document(self, rng: Rng, size: int) -> Episode:
        task = Task("document", (), "Question", "Answer", "-")
        if rng.random() < 0.4:
            return self.summaries(rng, size)
        lines = [
            sentence(rng) if rng.random() < 0.8 else salad(rng, 12)
            for _ in range(max(2, min(40, size // 14)))
        ]
        facts = []
        for _ in range(int(rng.integers(1, 4))):
            kind, owner = pick(rng, w.SECRET_KINDS), self.owner(rng)
            value = str(int(rng.integers(100, 10**7))) if rng.random() < 0.7 else new_word(rng)
            if all(key != (kind, owner) for key, _ in facts):
                facts.append(((kind, owner), value))
                lines.insert(
                    int(rng.integers(len(lines) + 1)), f"The {kind} of {owner} is {value}."
                )
        document = " ".join(lines)
        ep = Episode(f"Document: {document}\n\n" if rng.random() < 0.8 else f"{document}\n\n")
        for _ in range(self.turns):
            text, answer = self.document_turn(lines, facts, rng)
            ep.turns.append((task.open_block(text), answer))
        return ep

    def owner(self, rng: Rng) -> str:
        return (
            pick(rng, w.FIRST_NAMES + list(NAMES))
            if rng.random() < 0.5
            else f"the {pick(rng, w.ADJECTIVES)} {pick(rng, w.NOUNS)}"
        )

    def document_turn(self, lines: list[str], facts: list, rng: Rng) -> tuple[str, str]:  # type: ignore[type-arg]
        roll = rng.random()
        if roll < 0.5:
            (kind, owner), value = pick(rng, facts)
            return f"What is the {kind} of {owner}?", value
        if roll < 0.7:
            return "Summarize the document in one sentence.", lines[0]
        line = pick(rng, lines)
        parts = line.split(" ")
        if len(parts) < 4 or roll > 0.85:
            return self.membership(lines, "sentence", rng)
        cut = len(parts) // 2
        return (
            f'How does the sentence that begins with "{" ".join(parts[:cut])}" continue?',
            " ".join(parts[cut:]),
        )

    def summaries(self, rng: Rng, size: int) -> Episode:
        """Few-shot summaries: the summary of a document is its lead sentence."""
        task = Task(
            "summaries",
            (),
            *pick(rng, (("Document", "Summary"), ("Dialogue", "Summary"), ("Input", "Summary"))),
        )
        texts = [
            [sentence(rng) for _ in range(int(rng.integers(2, 5)))]
            for _ in range(max(1, min(8, size // 60)) + 2)
        ]
        rows = [Example(" ".join(lines), lines[0]) for lines in texts]
        ep = self.finish(task, rows[:-2], "sentence", rng, self.turns - 2)
        ep.turns += [(task.open_block(row.input), row.label) for row in rows[-2:]]
        return ep


def corpus(count: int, seed: int) -> list[str]:
    """Text to learn the tokenizer from."""
    rng, maker = np.random.default_rng(seed), Maker(Texts([]))
    out = []
    for _ in range(count):
        ep = maker.episode(rng, 200)
        out.append(ep.context + "".join(f"{block} {answer}\n" for block, answer in ep.turns))
        out.append(salad(rng, 120))
    return out


__all__ = ["Episode", "Maker", "Query", "Texts", "corpus"]
