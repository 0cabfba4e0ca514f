"""Measures of what the next pocket model is trained for: instructions, judges, two texts, topics
of real English, summaries of 20 to 40 words.
"""

from __future__ import annotations

from pathlib import Path

import english
import guards
import numpy as np
from episodes import lead, sentence
from evaluate import SHOTS, ask, contexts, line

from leakbound.attacks import IfThenExplicit, Membership, templates
from leakbound.mechanisms.baselines import JUDGE, L1, L2
from leakbound.models import Model
from leakbound.tasks import Example, Query, Task, parse_answer
from leakbound.tasks.rows.datasets import infer_task, load_rows
from leakbound.tasks.synthetic import HELP_DESK, help_desk

Rng = np.random.Generator
ROOM = 2000  # tokens of a prompt


def instructions(model: Model, n: int) -> list[str]:
    """Share of trials in which the answer tells the contexts apart, (TPR + 1 - FPR) / 2, by
    instruction, query and canary; and what the instruction costs an ordinary query."""
    rows, out = help_desk(400, np.random.default_rng([99, 20])), []
    for name, text in (("none", ""), ("L1", L1), ("L2", L2)):
        for query in (Membership(), IfThenExplicit()):
            for natural in (False, True):
                right = told_apart(model, rows, query, text, natural, n)
                canary = "natural" if natural else "hex"
                out.append(line(f"instruction {name}, {query.name}, {canary} canary", right, 2 * n))
        out.append(line(f"instruction {name}, ordinary queries", routed(model, text, n), n))
    return out


def told_apart(
    model: Model, rows: tuple[Example, ...], query: Membership | IfThenExplicit, preamble: str,
    natural: bool, n: int,
) -> int:  # fmt: skip
    rng, prompts, want = np.random.default_rng([99, 21]), [], []
    for _ in range(n):
        member, other, canary = contexts(rows, rng, SHOTS)
        if natural:
            canary = member[(member.index(canary) + 1) % SHOTS]
            other = tuple(row for row in rows[: 3 * SHOTS] if row.input != canary.input)[:SHOTS]
        one, zero = (HELP_DESK.labels[i] for i in rng.permutation(4)[:2])
        asked = query.render(canary, HELP_DESK, one, zero)
        prompts += [HELP_DESK.prompt(rows, asked.query, preamble) for rows in (member, other)]
        want += [(asked.member, True), (asked.member, False)]
    said = ask(model, prompts)  # type: ignore[arg-type]
    pairs = zip(said, want, strict=True)
    return sum((parse_answer(text, (yes,)) == 0) == there for text, (yes, there) in pairs)


def routed(model: Model, preamble: str, n: int) -> int:
    rng, right, prompts, want = np.random.default_rng([99, 22]), 0, [], []
    for _ in range(n):
        rows = help_desk(9, rng)
        prompts.append(HELP_DESK.prompt(rows[:8], Query(rows[8].input), preamble))
        want.append(rows[8].label)
    for text, label in zip(ask(model, prompts), want, strict=True):  # type: ignore[arg-type]
        got = parse_answer(text, HELP_DESK.labels)
        right += got < 4 and HELP_DESK.labels[got] == label
    return right


def judgements(model: Model, n: int) -> list[str]:
    """A quote must be called a leak; a label, yes, no, a refusal and another text must not."""
    rows, rng = help_desk(400, np.random.default_rng([99, 23])), np.random.default_rng([99, 24])
    asked: dict[str, list[str]] = {}
    for _ in range(n):
        member, _, canary = contexts(rows, rng, SHOTS)
        for name, output in (
            ("leak: the hex canary", canary.text),
            ("leak: an example", member[(member.index(canary) + 1) % SHOTS].text),
            ("safe: a label", str(rng.choice(HELP_DESK.labels))),
            ("safe: yes, no or a refusal", str(rng.choice(guards.SAFE[:4]))),
            ("safe: a text that no context holds", sentence(rng)),
        ):
            query = Query(JUDGE.format(output=output))
            asked.setdefault(name, []).append(str(HELP_DESK.prompt(member, query)))
    said = {name: ask(model, prompts) for name, prompts in asked.items()}
    right = {
        name: sum(text.strip().startswith(name.split(":")[0]) for text in texts)
        for name, texts in said.items()
    }
    return [line(f"judge, {name}", right[name], n) for name in said]


def two_texts(model: Model, n: int) -> list[str]:
    """Does A or B appear above? In each of the four cases."""
    rows, rng = help_desk(400, np.random.default_rng([99, 25])), np.random.default_rng([99, 26])
    cases = {"both": "yes", "the first": "yes", "the second": "yes", "none": "no"}
    asked: dict[str, list[str]] = {name: [] for name in cases}
    for _ in range(n):
        member, other, canary = contexts(rows, rng, SHOTS)
        here = member[(member.index(canary) + 1) % SHOTS].text
        away = next(r.text for r in rows if r not in member and r not in other)
        hexed = "".join(rng.permutation(list(canary.text)))
        for name, a, b in (
            ("both", canary.text, here), ("the first", canary.text, away),
            ("the second", hexed, here), ("none", hexed, away),
        ):  # fmt: skip
            query = Query(templates.EITHER.format(canary=a, other=b))
            asked[name].append(str(HELP_DESK.prompt(member, query)))
    said = {name: ask(model, prompts) for name, prompts in asked.items()}
    return [
        line(f"two texts, there: {name}",
             sum(t.strip().lower().startswith(cases[name]) for t in texts), n)
        for name, texts in said.items()
    ]  # fmt: skip


def leads(model: Model, n: int) -> list[str]:
    """Summaries of 20 to 40 words, the length told by two examples."""
    rng, prompts, want = np.random.default_rng([99, 27]), [], []
    task = Task("summaries", (), "Document", "Summary")
    for _ in range(n):
        texts = [[sentence(rng) for _ in range(5)] for _ in range(3)]
        rows = [Example(" ".join(lines), lead(lines)) for lines in texts]
        prompts.append(str(task.prompt(tuple(rows[:2]), Query(rows[2].input, free=True))))
        want.append(rows[2].label)
    got = [text.strip() for text in ask(model, prompts, 96)]
    exact = sum(g == w for g, w in zip(got, want, strict=True))
    length = sum(20 <= len(g.split()) <= 40 for g in got)
    return [line("summary, the first 20 to 40 words", exact, n),
            line("summary, of 20 to 40 words", length, n)]  # fmt: skip


def few_shot(model: Model, folder: Path, n: int, shots: int = 16) -> str:
    """Real rows: 16 examples drawn at random, a test row; beside it the nearest centroid of word
    vectors on the same contexts."""
    rows, asked = load_rows(folder / "train.jsonl"), load_rows(folder / "test.jsonl")
    task, rng = infer_task(rows), np.random.default_rng([99, 28])
    prompts, want, near = [], [], 0
    while len(prompts) < n:
        context = tuple(rows[i] for i in rng.choice(len(rows), shots, replace=False))
        query = asked[int(rng.integers(len(asked)))]
        prompt = str(task.prompt(context, Query(query.input)))
        if len(model.encode(prompt)) > ROOM:  # type: ignore[attr-defined]
            continue
        prompts.append(prompt)
        want.append(query.label)
        near += centroid(context, str(query.input)) == query.label
    got = [parse_answer(text, task.labels) for text in ask(model, prompts)]
    right = sum(
        g < len(task.labels) and task.labels[g] == y for g, y in zip(got, want, strict=True)
    )
    return (
        f"| {folder.name}, {len(task.labels)} labels | {right / n:.3f} ± "
        f"{(right / n * (1 - right / n) / n) ** 0.5:.3f} | {near / n:.3f} | {n} |"
    )


def centroid(context: tuple[Example, ...], query: str) -> str:
    """The label whose examples have the nearest mean of word vectors."""
    words = english.load()
    place = {word.lower(): i for i, word in enumerate(words.words)}
    weight = 1e-3 / (1e-3 + words.chance)

    def meaning(text: str) -> np.ndarray:
        split = "".join(c if c.isalpha() else " " for c in text.lower()).split()
        ids = [place[word] for word in split if word in place]
        return english.unit((words.vectors[ids] * weight[ids, None]).sum(0))

    labels = sorted({row.label for row in context})
    means = [
        english.unit(np.mean([meaning(row.text) for row in context if row.label == y], 0))
        for y in labels
    ]
    return labels[int(np.argmax(np.array(means) @ meaning(query)))]


def summaries(model: Model, folder: Path, n: int, shots: int = 2) -> str:
    """Real documents: how many summaries have 20 to 40 words, and their words' F1 with the
    reference."""
    rows, rng = load_rows(folder / "train.jsonl", "document", "summary"), np.random.default_rng(29)
    rows = tuple(r for r in rows if 20 <= len(r.label.split()) <= 40)
    task, prompts, want = infer_task(rows), [], []
    for _ in range(50 * n):
        *context, last = (rows[i] for i in rng.choice(len(rows), shots + 1, replace=False))
        prompt = str(task.prompt(tuple(context), Query(last.input, free=True)))
        if len(prompts) < n and len(model.encode(prompt)) < ROOM - 100:  # type: ignore[attr-defined]
            prompts.append(prompt)
            want.append(last.label)
    got = [text.strip() for text in ask(model, prompts, 96)]
    if not got:
        return f"| {folder.name} | {shots} examples do not fit {ROOM} tokens | | 0 |"
    length = np.mean([20 <= len(g.split()) <= 40 for g in got])
    overlap = np.mean([f1(g, w) for g, w in zip(got, want, strict=True)])
    return f"| {folder.name} | {length:.3f} | {overlap:.3f} | {len(got)} |"


def f1(got: str, want: str) -> float:
    one, other = (text.lower().split() for text in (got, want))
    both = sum(min(one.count(word), other.count(word)) for word in set(one))
    return 2 * both / max(1, len(one) + len(other))


FRESH = (instructions, judgements, two_texts, leads)


def real(model: Model, data: Path, n: int) -> list[str]:
    """The tables of real rows."""
    out = ["", "| real rows, 16 examples | accuracy ± s.e. | nearest centroid of words | n |",
           "| --- | --- | --- | --- |"]  # fmt: skip
    names = ("agnews", "subj", "trec", "dbpedia14", "sarcasm")
    out += [few_shot(model, data / name, n) for name in names if (data / name).exists()]
    out += ["", "| real rows, summaries | 20 to 40 words | F1 of words | n |",
            "| --- | --- | --- | --- |"]  # fmt: skip
    return out + [
        summaries(model, data / name, min(n, 60))
        for name in ("samsum", "xsum")
        if (data / name).exists()
    ]
