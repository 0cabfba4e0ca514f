"""Training episodes: a context, and questions about it with their right answers.

Everything is generated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import guards
import numpy as np
import words as w
from topics import LOOKS, Topics

from leakbound.attacks import templates
from leakbound.mechanisms.baselines import JUDGE
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
    """A context as text and the open blocks with answers that follow it, each on its own.

    Attributes:
        context: The text that every turn sees.
        turns: Open blocks and their answers.
        kinds: What each turn teaches, one of KINDS.
        inputs: The texts that stand in the context.
        probes: Turn -> the texts asked about, and whether each stands there.
        labels: Characters of the context that a label takes whose meaning was shown before.
        meanings: Where a block of the context is open, and the direction of its text.
        asked: Turn -> direction of the text whose label is asked for.
    """

    context: str
    turns: list[tuple[str, str]] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    probes: dict[int, list[tuple[str, bool]]] = field(default_factory=dict)
    labels: list[tuple[int, int]] = field(default_factory=list)
    meanings: list[tuple[int, np.ndarray]] = field(default_factory=list)
    asked: dict[int, np.ndarray] = field(default_factory=dict)

    def ask(self, block: str, answer: str, kind: str) -> None:
        self.turns.append((block, answer))
        self.kinds.append(kind)


KINDS = (
    "membership", "near_miss", "if_then", "signal", "copy_label", "exact", "implicit", "repeat",
    "extract", "either", "judge", "refusal", "desk", "topic", "guess", "summary", "fact", "lead",
    "continue",
)  # fmt: skip


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

    kinds = ("tokens", "hex", "salad", "sentence", "sentences", "words", "message", "english")

    def __init__(self, tokens: list[str], topics: Topics | None = None) -> None:
        self.tokens = tokens or ["ka", " ro", "x7", "-", " zu"]
        self.topics = topics

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
        if kind == "english" and self.topics:
            return self.topics.line(rng, max(5, int(size / 1.5)))
        return sentence(rng)


# --- presence: near misses and substrings


def one_changed(text: str, rng: Rng) -> str:
    """The text but for one character of a string, or one word of a sentence."""
    if " " not in text.strip():
        at = int(rng.integers(len(text)))
        pool = HEX if all(c in HEX for c in text) else "abcdefghijklmnopqrstuvwxyz0123456789"
        return text[:at] + pick(rng, [c for c in pool if c != text[at]]) + text[at + 1 :]
    parts = text.split(" ")
    at = int(rng.integers(len(parts)))
    other = pick(rng, parts) if rng.random() < 0.3 else any_word(rng)
    parts[at] = other if other != parts[at] else new_word(rng) + "s"
    return " ".join(parts)


def miss(text: str, rng: Rng, texts: Texts) -> str:
    """A text near to one in the context, with one or a share of its parts replaced."""
    if rng.random() < 0.5:
        return one_changed(text, rng)
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
    if inputs and roll < 0.45:
        return miss(pick(rng, inputs), rng, texts)
    if inputs and roll < 0.55:
        pool = " ".join(inputs).split(" ")
        return " ".join(pick(rng, pool) for _ in range(int(rng.integers(3, 20))))
    same = roll < 0.85
    return texts.draw(kind if same else pick(rng, Texts.kinds), rng, int(rng.integers(5, 40)))


def near(text: str, row: str) -> bool:
    """Of equal length, and equal but for one part."""
    mine, other = (t.split(" ") if " " in text.strip() else list(t) for t in (text, row))
    return len(mine) == len(other) and sum(a != b for a, b in zip(mine, other, strict=True)) == 1


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


def halves(text: str) -> tuple[str, str]:
    """The first half of the words, and the others."""
    words = text.split(" ")
    cut = max(1, len(words) // 2)
    return " ".join(words[:cut]), " ".join(words[cut:])


@dataclass(frozen=True)
class Mixture:
    """Shares of the kinds of episodes (the rest is `mixed`), and of the turns of a mixed one."""

    document: float = 0.13
    empty: float = 0.03
    desk: float = 0.14
    topic: float = 0.26
    turns: tuple[tuple[str, float], ...] = (
        ("membership", 0.27), ("if_then", 0.35), ("signal", 0.07), ("copy_label", 0.09),
        ("exact", 0.02), ("implicit", 0.03), ("repeat", 0.05), ("extract", 0.03), ("judge", 0.05),
        ("either", 0.04),
    )  # fmt: skip
    # without examples: turns that repeat and that give a signal, and signals that ask to pick one
    alone_repeat: float = 0.1
    alone_signal: float = 0.4
    alone_pick_one: float = 0.8


class Maker:
    """Makes one episode of about `size` context tokens.

    Without `topics` there is no topic episode; the help desk takes its place.
    """

    def __init__(
        self,
        texts: Texts,
        turns: int = 8,
        mixture: Mixture | None = None,
    ) -> None:
        self.texts, self.turns = texts, turns
        self.mixture = mixture or Mixture()

    def episode(self, rng: Rng, size: int) -> Episode:
        mix, roll = self.mixture, rng.random()
        makers = (
            (mix.document, self.document), (mix.empty, lambda r, s: self.empty(r)),
            (mix.desk, self.desk), (mix.topic, self.topic if self.texts.topics else self.desk),
        )  # fmt: skip
        for share, make in makers:
            if roll < share:
                return make(rng, size)
            roll -= share
        return self.mixed(rng, size)

    # few-shot classification by topic, in English words: every label is scored, once it was shown
    def topic(self, rng: Rng, size: int) -> Episode:
        topics = self.texts.topics
        assert topics is not None
        labels = self.few_labels(rng)
        kinds, look = topics.kinds(len(labels), rng), pick(rng, LOOKS)
        size = min(1400, int(1.6 * size))
        count = int(rng.integers(len(labels), max(len(labels) + 2, min(32, size // 16)) + 1))
        each = max(5, min(45, int((size / count - 7) / 1.4)))
        task, sentence_ = task_for(labels, rng), sentence(rng)
        text, level = guards.preamble(rng, sentence_) if rng.random() < 0.4 else ("", 0)
        ep, shown = Episode(task.head(text)), set()
        for _ in range(count):
            k = int(rng.integers(len(labels)))
            row, meaning = topics.text(kinds[k], rng, int(each * rng.uniform(0.6, 1.4)), look)
            ep.inputs.append(row)
            ep.context += str(task.open_block(row))
            ep.meanings.append((len(ep.context), meaning))
            if k in shown:
                ep.labels.append((len(ep.context), len(ep.context) + 1 + len(labels[k])))
            ep.context += f" {labels[k]}\n\n"
            shown.add(k)
        for _ in range(self.turns - 2):
            k = pick(rng, sorted(shown))
            row, meaning = topics.text(kinds[k], rng, int(each * rng.uniform(0.6, 1.4)), look)
            ep.asked[len(ep.turns)] = meaning
            ep.ask(str(task.open_block(row)), labels[k], "topic")
        rows = [Example(row, labels[0]) for row in ep.inputs]
        for kind in ("membership", "if_then"):
            self.add(ep, task, rows, "english", kind, level, rng)
        return ep

    def few_labels(self, rng: Rng) -> tuple[str, ...]:
        while len(labels := label_set(rng)) < 2:
            pass
        most = int(pick(rng, (2, 2, 2, 3, 4, 4, 5, 6)))
        return tuple(labels[i] for i in rng.permutation(len(labels))[:most])

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
                "english",
                "english",
                "english",
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
            block = str(task.open_block(message(topics[i], rng)))
            ep.ask(block, answer, "desk" if covered else "guess")
        return ep

    def finish(
        self, task: Task, rows: list[Example], kind: str, rng: Rng, turns: int | None = None
    ) -> Episode:
        text, level = guards.preamble(rng, sentence(rng))
        ep = Episode(task.head(text) + "".join(str(task.block(row)) for row in rows))
        ep.inputs = [str(row.input) for row in rows]
        for _ in range(turns or self.turns):
            self.add(ep, task, rows, kind, self.drawn_turn(rng), level, rng)
        return ep

    def drawn_turn(self, rng: Rng) -> str:
        names, shares = zip(*self.mixture.turns, strict=True)
        return names[min(int(np.searchsorted(np.cumsum(shares), rng.random())), len(names) - 1)]

    def add(
        self, ep: Episode, task: Task, rows: list[Example], kind: str, name: str, level: int,
        rng: Rng,
    ) -> None:  # fmt: skip
        """One turn; a strict instruction before the examples stops some."""
        self.probed: list[tuple[str, bool]] = []
        text, answer, name = self.turn(task, rows, ep.inputs, kind, name, rng)
        about = self.probed[0][0] if self.probed else "a text"
        if guards.refuses(level, name, about, rng):
            answer, name = guards.REFUSAL, "refusal"
        if self.probed:
            ep.probes[len(ep.turns)] = self.probed
        ep.ask(str(task.open_block(text)), answer, name)

    def turn(
        self, task: Task, rows: list[Example], inputs: list[str], kind: str, name: str, rng: Rng
    ) -> tuple[str, str, str]:
        """The text of a turn, its answer and its kind."""
        makers: dict[str, Callable[[], tuple[str, str]]] = {
            "membership": lambda: self.membership(inputs, kind, rng),
            "if_then": lambda: self.if_then(task, inputs, kind, rng),
            "signal": lambda: self.signal(inputs, kind, rng),
            "copy_label": lambda: self.copy_label(rows, rng),
            "exact": lambda: self.exact(rows, kind, rng),
            "implicit": lambda: self.implicit(task, inputs, rng),
            "repeat": lambda: self.repeat(inputs, rng),
            "extract": lambda: self.extract(inputs, kind, rng),
            "judge": lambda: self.judge(task, inputs, kind, rng),
            "either": lambda: self.either(inputs, kind, rng),
        }
        text, answer = makers[name]()
        asked_instead = name in ("repeat", "extract") and answer in ("yes", "no")
        name = "membership" if asked_instead else name
        near = name == "membership" and self.near and answer == "no"
        return text, answer, "near_miss" if near else name

    near = False

    def judge(self, task: Task, inputs: list[str], kind: str, rng: Rng) -> tuple[str, str]:
        """Quotes of examples leak; labels, refusals and other texts do not."""
        roll = rng.random()
        if roll < 0.2:
            return self.judge_of_request(inputs, kind, rng)
        if roll < 0.5:
            output = pick(rng, (*guards.SAFE, *task.labels, *task.labels))[:60]
            return self.judged(output, "safe", rng)
        canary, member = self.probe(inputs, kind, rng)
        output = pick(rng, guards.QUOTES).format(part=canary) if member else canary
        return self.judged(output, "leak" if member else "safe", rng)

    def judged(self, output: str, answer: str, rng: Rng) -> tuple[str, str]:
        form = JUDGE if rng.random() < 0.6 else pick(rng, guards.JUDGES)
        return form.format(output=output), answer

    def judge_of_request(self, inputs: list[str], kind: str, rng: Rng) -> tuple[str, str]:
        """Yes or no to a question about the examples tells of them; a refusal does not."""
        form, roll = pick(rng, guards.JUDGES_OF_REQUESTS), rng.random()
        if roll < 0.4:
            query = self.texts.draw(kind, rng, 12)
            return form.format(query=query, output=pick(rng, guards.SAFE)), "safe"
        canary = pick(rng, inputs) if rng.random() < 0.5 else self.texts.draw(kind, rng, 12)
        query = pick(rng, (templates.MEMBERSHIP, *w.INQUIRIES)).format(canary=canary)
        if roll < 0.6:
            return form.format(query=query, output=pick(rng, guards.SAFE[2:5])), "safe"
        return form.format(query=query, output=pick(rng, ("yes", "no"))), "leak"

    def either(self, inputs: list[str], kind: str, rng: Rng) -> tuple[str, str]:
        """Two texts: yes if one of them or both stand there."""
        first, one = self.probe(inputs, kind, rng)
        second, other = self.probe(inputs, kind, rng)
        self.probed = [(first, one), (second, other)]
        text = templates.EITHER.format(canary=first, other=second)
        return text, "yes" if one or other else "no"

    def exact(self, rows: list[Example], kind: str, rng: Rng) -> tuple[str, str]:
        """The label of the example that is exactly this text, else no label."""
        inputs = [str(row.input) for row in rows]
        text, label = self.copy_label(rows, rng)
        if rng.random() < 0.4:
            text = absent(inputs, kind, rng, self.texts)
            label = next((row.label for row in rows if row.input == text), guards.REFUSAL)
        self.probed = [(text, label != guards.REFUSAL)]
        return pick(rng, w.EXACT).format(canary=text), label

    def probe(self, inputs: list[str], kind: str, rng: Rng) -> tuple[str, bool]:
        there = bool(inputs) and rng.random() < 0.5
        text = present(inputs, rng) if there else absent(inputs, kind, rng, self.texts)
        member = any(text in row for row in inputs)
        self.near = not member and any(near(text, row) for row in inputs)
        self.probed = [(text, member)]
        return text, member

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
        one = canary if rng.random() < 0.2 and len(canary) < 160 else self.line(rng)
        other = self.line(rng)
        text = templates.IF_THEN.format(canary=canary, member=one, nonmember=other)
        share = 0.4 if inputs else self.mixture.alone_pick_one
        text += templates.PICK_ONE if rng.random() < share else ""
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
        start, rest = halves(pick(rng, inputs).split("\n")[0])
        if not rest or len(rest) > 160:
            return self.membership(inputs, "sentence", rng)
        return templates.REPEAT.format(prefix=start), rest

    def extract(self, inputs: list[str], kind: str, rng: Rng) -> tuple[str, str]:
        whole = " | ".join(text.replace("\n", " ") for text in inputs)
        if len(whole) > 260:
            return self.membership(inputs, kind, rng)
        return templates.EXTRACT_ALL, whole

    # no examples at all
    def empty(self, rng: Rng) -> Episode:
        labels = label_set(rng) if rng.random() < 0.5 else HELP_DESK.labels
        task = task_for(labels, rng)
        ep, mix = Episode(task.head(guards.preamble(rng, sentence(rng))[0])), self.mixture
        for _ in range(self.turns):
            roll = rng.random()
            if roll < mix.alone_repeat:
                start, answer = halves(sentence(rng))
                text = templates.REPEAT.format(prefix=start)
            elif roll < mix.alone_repeat + mix.alone_signal:
                text, answer = self.signal([], "sentence", rng)
            elif roll < 0.75:
                text, answer = pick(
                    rng, (self.membership, lambda i, k, r: self.if_then(task, i, k, r))
                )([], "salad", rng)
            else:
                text, answer = self.texts.draw(pick(rng, Texts.kinds), rng, 20), pick(rng, labels)
            ep.ask(str(task.open_block(text)), answer, "guess")
        return ep

    # one document: facts, continuation, lead sentence; or few-shot summaries
    def document(self, rng: Rng, size: int) -> Episode:
        task = Task("document", (), "Question", "Answer", "-")
        if rng.random() < 0.4:
            return self.summaries(rng, size)
        lines = [
            self.prose(rng, 14) if rng.random() < 0.8 else salad(rng, 12)
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
        ep.inputs = lines
        for _ in range(self.turns):
            self.probed = []
            text, answer, kind = self.document_turn(lines, facts, rng)
            if self.probed:
                ep.probes[len(ep.turns)] = self.probed
            ep.ask(str(task.open_block(text)), answer, kind)
        return ep

    def owner(self, rng: Rng) -> str:
        return (
            pick(rng, w.FIRST_NAMES + list(NAMES))
            if rng.random() < 0.5
            else f"the {pick(rng, w.ADJECTIVES)} {pick(rng, w.NOUNS)}"
        )

    def prose(self, rng: Rng, words: int) -> str:
        """A sentence of our own words or of English ones."""
        return sentence(rng) if rng.random() < 0.5 else self.texts.draw("english", rng, words)

    def document_turn(
        self, lines: list[str], facts: list[tuple[tuple[str, str], str]], rng: Rng
    ) -> tuple[str, str, str]:
        roll = rng.random()
        if roll < 0.45:
            (kind, owner), value = pick(rng, facts)
            return f"What is the {kind} of {owner}?", value, "fact"
        if roll < 0.6:
            return "Summarize the document in one sentence.", lines[0], "lead"
        if roll < 0.68:
            return "Summarize the document in 20 to 40 words.", lead(lines), "summary"
        line = pick(rng, lines)
        parts = line.split(" ")
        if len(parts) < 4 or roll > 0.85:
            return *self.membership(lines, "sentence", rng), "membership"
        cut = len(parts) // 2
        begin = " ".join(parts[:cut])
        text = f'How does the sentence that begins with "{begin}" continue?'
        return text, " ".join(parts[cut:]), "continue"

    def summaries(self, rng: Rng, size: int) -> Episode:
        """Few-shot summaries: of a document its first sentence, or its first 20 to 40 words."""
        fields = (("Document", "Summary"), ("Dialogue", "Summary"), ("Input", "Summary"))
        task, long = Task("summaries", (), *pick(rng, fields)), rng.random() < 0.6
        low, high, room = (4, 8, 120) if long else (2, 5, 60)
        texts = [
            [self.prose(rng, 12) for _ in range(int(rng.integers(low, high)))]
            for _ in range(max(1, min(8, size // room)) + 2)
        ]
        rows = [Example(" ".join(lines), lead(lines) if long else lines[0]) for lines in texts]
        ep = self.finish(task, rows[:-2], "sentence", rng, self.turns - 2)
        for row in rows[-2:]:
            ep.ask(str(task.open_block(row.input)), row.label, "summary")
        return ep


def lead(lines: list[str], least: int = 20, most: int = 40) -> str:
    """The first sentences of a document that have at least 20 words, cut at 40."""
    for count in range(1, len(lines) + 1):
        words = " ".join(lines[:count]).split(" ")
        if len(words) >= least:
            break
    return " ".join(words[:most])


def corpus(count: int, seed: int, topics: Topics | None = None) -> list[str]:
    """Text to learn the tokenizer from: episodes, and every English word as often as it is used."""
    rng, maker = np.random.default_rng(seed), Maker(Texts([]))
    out = []
    for _ in range(count):
        ep = maker.episode(rng, 200)
        out.append(ep.context + "".join(f"{block} {answer}\n" for block, answer in ep.turns))
        out.append(salad(rng, 120))
    if topics:
        for rank, word in enumerate(topics.english.words):
            out.append(f" {word}" * max(12, 200_000 // (rank + 50)))
            if rank < 5000 and word[0].islower():
                out.append(f" {word.capitalize()}" * max(12, 40_000 // (rank + 50)))
    return out


__all__ = [
    "KINDS", "Episode", "Maker", "Mixture", "Query", "Texts", "corpus", "lead", "one_changed",
]  # fmt: skip
