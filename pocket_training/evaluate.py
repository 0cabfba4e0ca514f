"""Measure the pocket model: `python pocket_training/evaluate.py [--data FOLDER] [--model ADDRESS]`.

Fresh episodes come from seeds that training never uses. With --data, a folder in the layout
NAME/train.jsonl, contexts
are made of its rows: four examples a prompt, a hex canary in half of them, greedy answers.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import numpy as np
from episodes import message, sentence

from leakbound.attacks import Hex, IfThenExplicit, Membership, templates
from leakbound.models import Complete, Model, open_model
from leakbound.tasks import Example, Query, Task, parse_answer
from leakbound.tasks.rows.datasets import infer_task, load_rows
from leakbound.tasks.synthetic import HELP_DESK, TOPICS, help_desk

SHOTS = 4
HEX_DIGITS = "0123456789abcdef"
NEAR = ("membership, one digit changed", "membership, one word changed")
Rng = np.random.Generator


def ask(model: Model, prompts: list[str], tokens: int = 32, temperature: float = 0) -> list[str]:
    asked = [
        Complete(prompt, max_tokens=tokens, temperature=temperature, draw=i)
        for i, prompt in enumerate(prompts)
    ]
    return [text for i in range(0, len(asked), 64) for text in model.answer(asked[i : i + 64])]


def line(name: str, right: int, n: int) -> str:
    p = right / n
    return f"| {name} | {p:.3f} ± {math.sqrt(p * (1 - p) / n):.3f} | {n} |"


def contexts(
    rows: tuple[Example, ...], rng: Rng, shots: int
) -> tuple[tuple[Example, ...], tuple[Example, ...], Example]:
    chosen = [rows[i] for i in rng.choice(len(rows), shots, replace=False)]
    canary = Hex().make(chosen[0], chosen[0].label, rng)
    at = int(rng.integers(shots))
    return (*chosen[:at], canary, *chosen[at + 1 :]), tuple(chosen), canary


def presence(
    model: Model,
    rows: tuple[Example, ...],
    task: Task,
    n: int,
    seed: int,
    shots: int = SHOTS,
    natural: bool = False,
) -> dict[str, tuple[int, int]]:
    """True- and false-positive counts of membership, right answers of if-then and label copying;
    contexts that fit 1,024 tokens.
    """
    rng = np.random.default_rng([99, seed])
    cells = {
        "membership member": [0, 0],
        "membership non-member": [0, 0],
        "if-then": [0, 0],
        "label copying": [0, 0],
    }
    prompts: list[tuple[str, str, tuple[str, ...], str]] = []
    labels = task.labels or ("A", "B")
    while len(prompts) < 5 * n:
        member, other, canary = contexts(rows, rng, shots)
        if natural:
            canary = member[int(rng.integers(shots))]
            other = tuple(r for r in rows[: shots * 3] if r != canary)[:shots]
        if len(model.encode(task.prompt(member, Query("")))) > (1024 if shots == SHOTS else 1900):  # type: ignore[attr-defined]
            continue
        a, b = (labels[i] for i in rng.permutation(len(labels))[:2])
        yes, cond = (
            Membership().render(canary, task, a, b),
            IfThenExplicit().render(canary, task, a, b),
        )
        prompts += [
            ("membership member", task.prompt(member, yes.query), ("yes", "no"), "yes"),
            ("membership non-member", task.prompt(other, yes.query), ("yes", "no"), "no"),
            (
                "if-then",
                task.prompt(member, cond.query),
                (cond.member, cond.nonmember or ""),
                cond.member,
            ),
            (
                "if-then",
                task.prompt(other, cond.query),
                (cond.member, cond.nonmember or ""),
                cond.nonmember or "",
            ),
            (
                "label copying",
                task.prompt(member, Query(canary.input)),
                tuple(labels),
                canary.label,
            ),
        ]
    for (name, _, answers, right), text in zip(
        prompts, ask(model, [p for _, p, _, _ in prompts]), strict=True
    ):
        cells[name][1] += 1
        got = parse_answer(text, answers)
        cells[name][0] += (
            got < len(answers) and answers[got] == right
            if task.labels or name != "label copying"
            else right.startswith(text.strip()[:20])
        )
    return {name: (right, total) for name, (right, total) in cells.items()}


def one_digit(text: str, rng: Rng) -> str:
    """The text with one of its hexadecimal digits replaced by another."""
    at = int(rng.choice([i for i, c in enumerate(text) if c in HEX_DIGITS]))
    other = str(rng.choice([c for c in HEX_DIGITS if c != text[at]]))
    return text[:at] + other + text[at + 1 :]


def one_word(text: str, words: list[str], rng: Rng) -> str:
    """The text with one of its words replaced by another."""
    parts = text.split(" ")
    at = int(rng.integers(len(parts)))
    parts[at] = str(rng.choice([w for w in words if w != parts[at]]))
    return " ".join(parts)


def near_misses(
    model: Model, rows: tuple[Example, ...], task: Task, n: int, seed: int
) -> dict[str, tuple[int, int]]:
    """How often membership is denied, as it should be, of a text that is nearly in the context: a
    hex canary with one digit changed, and an example with one word changed."""
    rng = np.random.default_rng([99, seed])
    words = sorted({word for row in rows[:100] for word in row.text.split(" ") if word})
    asked: dict[str, list[str]] = {name: [] for name in NEAR}
    while any(len(prompts) < n for prompts in asked.values()):
        member, _, canary = contexts(rows, rng, SHOTS)
        if len(model.encode(task.prompt(member, Query("")))) > 1024:  # type: ignore[attr-defined]
            continue
        example = member[(member.index(canary) + 1) % SHOTS]
        misses = one_digit(canary.text, rng), one_word(example.text, words, rng)
        labels = (task.labels or ("A", "B"))[:2]
        for name, miss in zip(NEAR, misses, strict=True):
            query = Membership().render(Example(miss, canary.label), task, *labels).query
            asked[name].append(task.prompt(member, query))
    said = {name: ask(model, prompts[:n]) for name, prompts in asked.items()}
    return {
        name: (sum(parse_answer(text, ("yes", "no")) == 1 for text in texts), n)
        for name, texts in said.items()
    }


def synthetic(model: Model, n: int) -> list[str]:
    """Few-shot routing: four examples, one a topic; and the zero-shot floor."""
    rng = np.random.default_rng([99, 1])
    few, zero, truth = [], [], []
    for _ in range(n):
        topics = [str(t) for t in rng.choice(list(TOPICS), 4, replace=False)]
        rows = [Example(message(t, rng), HELP_DESK.labels[i]) for i, t in enumerate(topics)]
        rows = [rows[i] for i in rng.permutation(4)]
        i = int(rng.integers(4))
        query = Query(message(topics[i], rng))
        few.append(HELP_DESK.prompt(tuple(rows), query))
        zero.append(HELP_DESK.prompt((), query))
        truth.append(i)
    right = [
        sum(
            parse_answer(t, HELP_DESK.labels) == y
            for t, y in zip(ask(model, p), truth, strict=True)
        )
        for p in (few, zero)
    ]
    return [
        line("few-shot help desk, 4 examples", right[0], n),
        line("zero-shot help desk (chance .25)", right[1], n),
    ]


def signals(model: Model, n: int) -> list[str]:
    """One of two given sentences, by whether a text is among some, one or no examples."""
    lines = []
    for shots, of in ((SHOTS, ""), (1, ", 1 example"), (2, ", 2 examples")):
        asked = signal_pairs(n, shots, np.random.default_rng([99, 2]))
        prompts = [p for member, other, _ in asked for p in (member, other)]
        want = [text for _, _, pair in asked for text in pair]
        got = [t.strip() for t in ask(model, prompts, 48)]
        right = sum(g == w for g, w in zip(got, want, strict=True))
        lines.append(line(f"signal pair, verbatim{of}", right, 2 * n))
    asked = signal_pairs(n, 0, np.random.default_rng([99, 2]))
    prompts, pairs = [prompt for _, prompt, _ in asked], [pair for _, _, pair in asked]
    greedy, drawn = ([t.strip() for t in ask(model, prompts, 48, warm)] for warm in (0.0, 1.0))
    verbatim = sum(text in pair for text, pair in zip(greedy, pairs, strict=True))
    first = sum(text == pair[0] for text, pair in zip(drawn, pairs, strict=True))
    return [
        *lines,
        line("no examples: one of the two, verbatim", verbatim, n),
        line("no examples: the first of the two, sampled (best .50)", first, n),
    ]


def signal_pairs(n: int, shots: int, rng: Rng) -> list[tuple[str, str, tuple[str, str]]]:
    """Prompts with the text among so many examples and without it, and the two sentences.

    Without examples both prompts are the same, and tell the model to pick one at random.
    """
    rows, asked = help_desk(200, rng), []
    for _ in range(n):
        member, other, canary = contexts(rows, rng, max(1, shots))
        one, zero = sentence(rng), sentence(rng)
        text = templates.IF_THEN.format(canary=canary.input, member=one, nonmember=zero)
        query = Query(text + ("" if shots else templates.PICK_ONE))
        with_text, without = (
            HELP_DESK.prompt(held if shots else (), query) for held in (member, other)
        )
        asked.append((with_text, without, (one, zero)))
    return asked


def documents(model: Model, n: int) -> list[str]:
    """A planted fact in a document; the lead sentence as summary; the rest of a sentence."""
    rng = np.random.default_rng([99, 3])
    task = Task("document", (), "Question", "Answer", "-")
    prompts, want = [], []
    for _ in range(n):
        lines = [sentence(rng) for _ in range(8)]
        code = str(int(rng.integers(1000, 10**6)))
        lines.insert(int(rng.integers(1, 8)), f"The access code of Anna is {code}.")
        cut = lines[5].split(" ")
        half = len(cut) // 2
        for q, a in (
            ("What is the access code of Anna?", code),
            ("Summarize the document in one sentence.", lines[0]),
            (f'How does the sentence that begins with "{" ".join(cut[:half])}" continue?',
             " ".join(cut[half:])),
        ):  # fmt: skip
            prompts.append(f"Document: {' '.join(lines)}\n\n{task.open_block(q)}")
            want.append(a)
    hits = [g.strip() == a for g, a in zip(ask(model, prompts, 48), want, strict=True)]
    names = ("document: planted fact", "document: lead sentence", "document: continuation")
    return [line(name, sum(hits[i::3]), n) for i, name in enumerate(names)]


def fresh(model: Model, n: int) -> list[str]:
    rows = help_desk(400, np.random.default_rng([99, 4]))
    cells = presence(model, rows, HELP_DESK, n, 5) | near_misses(model, rows, HELP_DESK, n, 7)
    return [line(f"help desk, {name}", *cell) for name, cell in cells.items()]


def main() -> None:
    args = argparse.ArgumentParser()
    args.add_argument("--data", type=Path)
    args.add_argument("--model", default="pocket")
    args.add_argument("--n", type=int, default=200)
    args.add_argument("--only-new", action="store_true", help="the measures of measures.py alone")
    opt = args.parse_args()
    import measures

    model = open_model(opt.model)
    parts = measures.FRESH if opt.only_new else (fresh, synthetic, signals, documents)
    print("| measured on fresh episodes | accuracy ± s.e. | n |\n| --- | --- | --- |")
    for part in parts if opt.only_new else (*parts, *measures.FRESH):
        print("\n".join(part(model, opt.n)), flush=True)
    if opt.data:
        print("\n".join(measures.real(model, opt.data, opt.n)), flush=True)
    if opt.data and not opt.only_new:
        print(
            "\n| real rows, 4 examples, hex canary | TPR | FPR | presence accuracy | if-then | "
            "label copying | yes to a digit changed | yes to a word changed | n pairs |"
        )
        print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
        for folder in sorted(p.parent for p in opt.data.glob("*/train.jsonl")):
            print(real(model, folder, opt.n), flush=True)


def real(model: Model, folder: Path, n: int) -> str:
    rows = load_rows(folder / "train.jsonl", *FIELDS.get(folder.name, (None, None)))
    task = infer_task(rows)
    if sum(len(model.encode(task.block(r))) < 240 for r in rows[:100]) < 20:  # type: ignore[attr-defined]
        return f"| {folder.name} | four examples do not fit 1,024 tokens | | | | | | | 0 |"
    rows = tuple(r for r in rows if len(model.encode(task.block(r))) < 240)  # type: ignore[attr-defined]
    c = presence(model, rows, task, n, 6)
    tpr, fpr = c["membership member"][0] / n, 1 - c["membership non-member"][0] / n
    rest = " | ".join(f"{c[k][0] / c[k][1]:.3f}" for k in ("if-then", "label copying"))
    denied = near_misses(model, rows, task, n, 8)
    rest += "".join(f" | {1 - denied[name][0] / n:.3f}" for name in NEAR)
    return f"| {folder.name} | {tpr:.3f} | {fpr:.3f} | {(tpr + 1 - fpr) / 2:.3f} | {rest} | {n} |"


FIELDS = {"gsm8k": ("question", "answer"), "sroie_receipts_qa": ("context", "answer"),
          "pubmedqa": ("question", "answer"), "pubmedqa_yesno": ("question", "answer")}  # fmt: skip

if __name__ == "__main__":
    main()
