"""The page of bench/influence_speed.py, from what it has kept."""

from __future__ import annotations

from typing import Any

__all__ = ["page"]

Kept = dict[str, Any]
HEAD = """# Speed of influence

`leakbound influence` ablates spans of a context and measures how far each moves every token of the
answer. This page compares its cost with the published program of Context Influence, with a plain
teacher-forced loop, with context-cite and with captum. It also names the published methods that
approximate the same quantity faster.

- Every program runs in a process of its own, on one thread, in float32, on a model with the same
  weights, for the same context and answer.
- Seconds are CPU seconds of that process. The processes take turns, so that other work on the
  machine slows them alike.
- The model has the shape of OPT-125M and random weights, which changes no cost. Planted sentences
  are looked for in the pocket model.
- Nothing of the other programs is part of leakbound. Their versions stand below.
"""
NOT_MEASURED = "not measured"
SMALL, GOAL, UNITS, RECOVERY = "small", "goal", "units", "recovery"
REAL, PROFILE, TOP = "real", "profile", "top"
LOOP = 1.7  # goal of the exact mode; the ratio of tokens allows 1.9
ENGINE = 0.8  # goal for the share of the machine's matrix product
FOUND = 0.99, 0.95, 8  # goals of `--top 5`: the first, the first three, times faster
RESOLUTION = 1e-6  # of a float32 log-probability near -11, rounded up from 2**-20
PROGRAMS = (
    ("leakbound, leave-one-out", "leave-one-out"), ("leakbound, lasso of 64 sets", "lasso"),
    ("context-cite, 64 ablations", "context_cite"), ("captum, feature ablation", "captum"),
)  # fmt: skip
PUBLISHED = (
    (
        "AttriBoT (ICLR 2025)",
        "leave-one-out, approximated with kept keys, groups of units first, and a smaller model of "
        "the same family",
        "more than 300 times faster than leave-one-out; about 30 times faster than writing the "
        "answer",
    ),
    (
        "FlashTrace (ICML 2026)",
        "attribution of an answer of many tokens in one pass, from activations, not ablations",
        "more than 130 times faster than earlier attribution, for answers of 5,000 tokens",
    ),
    (
        "AT2 (2025)",
        "ablations predicted from attention weights, by coefficients learned for a model",
        "on par with methods of many ablations, from the attention of one pass",
    ),
)
OTHERS = """
These figures are for large models on GPUs, and each has a baseline of its own, so they cannot be
set beside the seconds above. All three approximate: what they give is no exact difference of two
probabilities, and none states what it may have missed. Kept keys are the part of AttriBoT that is
exact, and leakbound uses them. To rank sources at scale, AttriBoT and AT2 are ahead of leakbound.
"""
LEFT_OUT = """## What this does not compare

- The authors' program cuts windows from the text, by decoding and tokenizing again. Here it is
  given token ids, which saves it that work.
- The times of windows leave out leakbound's numerical tolerance, which costs six passes over the
  prompt. Those of sentences include it.
- GPUs are not measured here.
- Two threads on cores that other programs use as well are slower than one: set `OMP_NUM_THREADS` to
  the number of free cores.
"""
COMMAND = """## The command

```sh
git clone https://github.com/james-flemings/context_influence
python -m venv others && others/bin/pip install context-cite captum
python bench/influence_speed.py --authors context_influence \\
    --python-of-others others/bin/python --model FOLDER --texts ROWS.jsonl \\
    --write docs/measured/speed.md
```

`--complete` measures every window of leakbound and of the loop at |D| = 1,024, and every ablation
of the other programs; `--write` alone writes this page from the figures of
`bench/results/influence-speed.json`.
"""


def page(kept: Kept) -> str:
    """The whole page.

    Args:
        kept: What was measured, by part.

    Returns:
        Markdown.
    """
    parts = [HEAD, goals(kept), where(kept), windows(kept), sentences(kept), planted(kept)]
    parts += [real(kept), top(kept), others(), LEFT_OUT]
    return "\n".join([*parts, COMMAND, measured(kept)])


def times(found: Kept, program: str) -> float:
    """How many times as long as leakbound a program takes."""
    return float((found.get(program) or found[f"{program}_scaled"]) / found["ours"])


def verdict(value: float, goal: float, error: float) -> str:
    """A figure beside its goal; `error` is how far a scaled figure may be off, as a share."""
    if abs(value / goal - 1) < error:
        return f"{value:.1f} | not decided"
    return f"{value:.1f} | {'met' if value >= goal else 'missed'}"


def error_of(kept: Kept) -> float:
    """How far the formula for scaled times was off where the complete run is known, as a share."""
    goal, small = kept.get(GOAL, {}), kept.get(SMALL, {})
    if goal.get("authors") or not small.get("authors"):
        return 0.0
    return float(abs(small["authors_scaled"] / small["authors"] - 1))


def goals(kept: Kept) -> str:
    """What was aimed at, and why it is missed where it is."""
    lines = [
        "## Goals\n",
        "For |D| = 1,024, |y| = 50, windows of n = 128 tokens with stride 1, and the shape of "
        "OPT-125M:\n",
        "| leakbound is faster than | goal, times | measured, times | |",
        "| --- | --- | --- | --- |",
    ]
    found, by_sentence = kept.get(GOAL), kept.get(UNITS)
    rows = [
        ("the authors' program", 100, found and times(found, "authors")),
        (
            "a teacher-forced loop, logits where they are needed",
            LOOP,
            found and times(found, "loop"),
        ),
        ("context-cite, by sentence", 5, by_sentence and over_ours(by_sentence, "context_cite")),
    ]
    for name, goal, value in rows:
        shown = f"{NOT_MEASURED} | " if value is None else verdict(value, goal, error_of(kept))
        lines.append(f"| {name} | {goal} | {shown} |")
    return "\n".join([*lines, *undecided(kept), *reasons(rows, found, by_sentence)]) + "\n"


def undecided(kept: Kept) -> list[str]:
    """What a figure near its goal is worth."""
    error = error_of(kept)
    if not error or GOAL not in kept or abs(times(kept[GOAL], "authors") / 100 - 1) >= error:
        return []
    return [
        f"\nThe authors' program: its time at this size is scaled from a sample, and where a "
        f"complete run is known the scaled time is {error:.0%} off. The ratio is about 100, and "
        "the goal is neither met nor missed by this measurement."
    ]


def reasons(rows: list[Any], found: Kept | None, by_sentence: Kept | None) -> list[str]:
    """A sentence for each goal that is missed."""
    values = [value for _, _, value in rows]
    out = []
    if found and values[0] < 100:
        out.append(
            "\nThe authors' program: the ratio grows with |D| and |y|. In token-forwards, logits "
            "apart, "
            f"leakbound runs {found['tokens_ours']:,}, and that program "
            f"{tokens_authors(found):,}, {tokens_authors(found) / found['tokens_ours']:.0f} times "
            "as many; it runs them in large batches, at a higher rate of the processor."
        )
    if found and values[1] < LOOP:
        ratio = found["tokens_loop"] / found["tokens_ours"]
        out.append(
            f"\nThe loop: an exact method has to run every token behind an ablated window again. "
            f"Here these are {found['tokens_ours']:,} tokens, and the loop runs "
            f"{found['tokens_loop']:,}, {ratio:.2f} times as many. The ratio of tokens nears 2 "
            "for long contexts and does not exceed it. A token costs leakbound "
            f"{ratio / values[1]:.1f} times what it costs the loop; the profile shows what else "
            "than linear layers takes time."
        )
    if by_sentence and values[2] < 5:
        out.append(
            "\ncontext-cite runs 64 prompts with half of the sentences each, whatever their "
            "number. leave-one-out runs what stands behind each sentence, half of the context in "
            "the mean, once for each: the more sentences, the smaller the ratio. With "
            f"{by_sentence['sentences']} sentences leakbound has "
            f"{by_sentence['sentences'] / 64:.2f} times as many passes of about the same length, "
            "and makes logits for the answer only."
        )
    return out


def where(kept: Kept) -> str:
    """The profile of the exact mode."""
    found = kept.get(PROFILE)
    if found is None:
        return f"## Where the time goes\n\n{NOT_MEASURED} yet; `--only profile` does it.\n"
    rest = 1 - found["split"]["linear layers"]
    lines = [
        "## Where the time goes\n",
        f"Exact mode, |D| = {found['context']:,}, {found['blocks']} blocks, |y| = "
        f"{found['answer']}, the shape of OPT-125M, one thread "
        "(`python bench/influence.py --profile`):\n",
        "| part | share of the time |",
        "| --- | --- |",
        *(f"| {part} | {share:.1%} |" for part, share in found["split"].items()),
        "\nIn all, the linear layers of the tokens that are needed are done at "
        f"{found['share']:.0%} of the rate of a product of two large matrices "
        f"({found['gflops']:.0f} GFLOP/s; goal {ENGINE:.0%}: "
        f"{'met' if found['share'] >= ENGINE else 'missed'}). While they run, it is "
        f"{found['share'] / found['split']['linear layers']:.0%}; all else takes {rest:.0%} of the "
        "time. Attention is most of that: its kernel makes far fewer operations a second than a "
        "product of matrices, and another one would change the last bits of the numbers. Kept keys "
        "and values are no longer copied in each layer of a pass; what is left are copies of whole "
        "prompts, and of the beginning that the next row shares.",
    ]
    return "\n".join(lines) + "\n"


def real(kept: Kept) -> str:
    """Sentences of real texts."""
    found = kept.get(REAL)
    if found is None:
        return f"## Sentences of real texts\n\n{NOT_MEASURED} yet; `--only real` does it.\n"
    lines = [
        "## Sentences of real texts\n",
        f"{found['model']}, {found['texts']} texts of {found['words']} words, "
        f"{found['sentences']:.1f} sentences in the mean, answers of 8 words. For every program, "
        "the same sentences, prompt and answer. How often is its top sentence the one that "
        "leave-one-out puts first? Seconds of leakbound include the numerical tolerance: six "
        "passes, more than the ablations of so few sentences.\n",
        "| program | CPU s a text | times leave-one-out | same top sentence |",
        "| --- | --- | --- | --- |",
    ]
    for shown, name in PROGRAMS:
        one = found[name]
        ratio = one["seconds"] / found["leave-one-out"]["seconds"]
        hits = f"{one['first']} of {found['texts']}"
        lines.append(f"| {shown} | {one['seconds']:.1f} | {ratio:.1f} | {hits} |")
    return "\n".join(lines) + "\n"


def top(kept: Kept) -> str:
    """What the search for the top windows finds, beside its goals."""
    found = kept.get(TOP, {}).get("found", [])
    if not found:
        return f"## The top windows\n\n{NOT_MEASURED} yet; `--only top` does it.\n"
    lines = [
        "## The top windows\n",
        "`--top 5` against all windows of stride 1 measured. Every window of these contexts is "
        "known (`bench/results/influence-top.jsonl`), so each is searched 20 times with other "
        "draws of 59. Chosen: before the draw. Times faster: by tokens, draws included.\n",
        "| model | contexts | tokens | n | windows | measured | first chosen | first three "
        "| first shown | first three | its influence | limit holds | times faster |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for one in found:
        many = one["contexts"]
        chosen = [f"{one['chosen'][k] * int(k) * many:.0f} of {int(k) * many}" for k in ("1", "3")]
        shown = [f"{one['shown'][k]:.1%}" for k in ("1", "3")]
        lines.append(
            f"| {one['model']} | {many} | {one['tokens']:.0f} | {one['n']} | "
            f"{one['windows']:.0f} | {one['measured']:.0f} | {' | '.join(chosen + shown)} | "
            f"{one['share']:.1%} | {one['right']:.1%} | {one['times']:.1f} |"
        )
    contexts = sum(one["contexts"] for one in found)
    lines.append(
        "\nIts influence: of the largest one shown, as a share of the largest of all. Where the "
        "first window is missed, one that overlaps it is shown, and its influence is nearly the "
        f"same. The goals are {FOUND[0]:.0%} and {FOUND[1]:.0%} of 200 contexts, and {FOUND[2]} "
        f"times faster at 897 windows; with {contexts} contexts they are not shown to be met, and "
        "all windows are measured unless `--top` is given. Short contexts cannot be much faster, "
        "because 59 windows are drawn whatever their number."
    )
    return "\n".join(lines) + "\n"


def others() -> str:
    """What others have published."""
    rows = "\n".join(f"| {' | '.join(row)} |" for row in PUBLISHED)
    head = "| method | what it computes | published figure |\n| --- | --- | --- |"
    return f"## Published methods that were not run\n\n{head}\n{rows}\n{OTHERS}"


def over_ours(found: Kept, program: str) -> float:
    """How many times as long as leakbound a program takes, by sentence."""
    return float(found[program] / found["ours"][str(found["sentences"])])


def tokens_authors(found: Kept) -> int:
    """Token-forwards of a program that runs every prompt whole for every response token."""
    answer, rows = found["answer"], found["spans"]
    windows = rows * (found["prompt"] - found["n"])
    both = 2 * found["prompt"] - found["context"]
    return int(answer * (windows + both) + (rows + 2) * answer * (answer - 1) // 2)


def windows(kept: Kept) -> str:
    """Windows of token ids: the authors' program and the loop."""
    lines = [
        "## Windows of tokens\n",
        "| \\|D\\| | n | \\|y\\| | windows | program | CPU s | times leakbound | of it run |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    notes = []
    for part in (SMALL, GOAL):
        if part in kept:
            lines += window_rows(kept[part])
            notes.append(kept[part])
        else:
            lines.append(f"| {NOT_MEASURED} | | | | | | | |")
    return "\n".join([*lines, *(sentence for found in notes for sentence in how(found))]) + "\n"


def window_rows(found: Kept) -> list[str]:
    """The rows of one size."""
    size = " | ".join(f"{found[name]:,}" for name in ("context", "n", "answer", "spans"))
    some = "all" if found["some"] == found["spans"] else f"{found['some']} windows, scaled"
    drawn = f"{found['authors_windows']} windows, one token, scaled"
    authors = found["authors"] or found["authors_scaled"]
    rows = [
        ("leakbound", found["ours"], some),
        (f"teacher-forced loop, batches of {found['loop_batch']}", found["loop"], some),
        ("the authors' program", authors, "all" if found["authors"] else drawn),
    ]
    return [
        f"| {size} | {name} | {seconds:,.1f} | {seconds / found['ours']:.1f} | {run} |"
        for name, seconds, run in rows
    ]


def how(found: Kept) -> list[str]:
    """How the numbers of one size were made."""
    size = f"|D| = {found['context']:,}"
    apart = (
        f"\nAt {size}, influences on a token differ from those of the authors' program by at most "
        f"{max(found['apart_authors'], RESOLUTION):.0e} and from the loop's by at most "
        f"{max(found['apart_loop'], RESOLUTION):.0e} nat ({RESOLUTION:.0e} is the resolution of "
        "float32 at these log-probabilities)."
    )
    if found["authors"]:
        off = found["authors_scaled"] / found["authors"] - 1
        return [
            f"{apart} All three ran complete. The formula below, applied at this size, gives "
            f"{found['authors_scaled']:,.1f} s for the authors' program, {off:+.0%} of the "
            "complete run."
        ]
    at, alone, batch = found["authors_sampled"][0]
    some = found["authors_windows"]
    return [
        apart,
        f"\nThe authors' program was not run complete at this size. Its own function "
        f"`post_calc_influence` was run for response token {at} of {found['answer']}, without "
        f"windows (a = {alone:.1f} s) and with one batch of {some} (b = {batch:.1f} s). Its time "
        f"is scaled as |y| · (a + N/{some} · (b − a)) with N = {found['spans']} windows, all of "
        "one length. Its prompts grow by one token a step, so a token in the middle takes the mean "
        "time.",
        *scaled(found),
    ]


def scaled(found: Kept) -> list[str]:
    """How leakbound and the loop were scaled, if they were."""
    if found["some"] == found["spans"]:
        return ["\nleakbound and the loop ran complete."]
    return [
        f"\nleakbound and the loop ran both whole prompts and {found['some']} windows, in "
        "stretches of neighbours in the middle of each quarter of the context; the time of the "
        f"windows is multiplied by N/{found['some']}. A window costs leakbound less the later it "
        "stands, in a straight line, so such stretches have the mean of all."
    ]


def sentences(kept: Kept) -> str:
    """Sentences of a text at the 125M shape."""
    lines = ["## Sentences\n"]
    found = kept.get(UNITS)
    if found is None:
        return "\n".join(
            [*lines, f"context-cite and captum: {NOT_MEASURED} yet; `--only units` does it.\n"]
        )
    middle = found["sentences"]
    lines += [
        f"A context of about {found['tokens']:,} tokens, an answer of about 50, sentences of equal "
        "length. leakbound ablates every sentence and gives its influence on every token; "
        "context-cite fits 64 random ablations (its default), for the whole answer; captum ablates "
        "every feature, with the answer read in one pass.\n",
        "| program | sentences | CPU s | times leakbound |",
        "| --- | --- | --- | --- |",
    ]
    for count, seconds in found["ours"].items():
        lines.append(f"| leakbound | {count} | {seconds:.1f} | 1 |")
    for name, shown in (("context_cite", "context-cite"), ("captum", "captum")):
        ratio = found[name] / found["ours"][str(middle)]
        lines.append(f"| {shown} | {middle} | {found[name]:.1f} | {ratio:.1f} |")
    return "\n".join([*lines, *sampled_units(found)]) + "\n"


def sampled_units(found: Kept) -> list[str]:
    """How the other programs' numbers were scaled."""
    return [
        f"\ncontext-cite ran {found['ablations']} of its 64 ablations, and its time is multiplied "
        f"by 64/{found['ablations']}. captum ran {found['features']} features, each of "
        f"{found['sentences'] // found['features']} sentences, and its time is multiplied by "
        f"{found['sentences'] + 1}/{found['features'] + 1}: it runs the whole prompt once, and "
        "once for each feature."
    ]


def planted(kept: Kept) -> str:
    """Planted sentences of the pocket model's notes."""
    lines = ["## Planted sentences\n"]
    found = kept.get(RECOVERY)
    if found is None:
        return "\n".join(
            [*lines, f"context-cite and captum: {NOT_MEASURED} yet; `--only recovery` does it.\n"]
        )
    lines += [
        "Bundled notes of about 360 tokens hold a door code in one sentence, or the same sentence "
        f"twice; the pocket model is asked for it. Of {found['notes']} notes, in how many do the "
        "planted sentences have the largest scores?\n",
        "| program | once | twice | CPU s a note |",
        "| --- | --- | --- | --- |",
    ]
    for shown, name in PROGRAMS:
        one = found[name]
        lines.append(f"| {shown} | {one['once']} | {one['twice']} | {one['seconds']:.1f} |")
    return "\n".join(lines) + (
        "\n\nLeaving one of two equal sentences out changes nothing, so leave-one-out misses both; "
        "[Shapley values and the lasso](../influence.md#a-secret-that-occurs-twice) ablate sets.\n"
    )


def measured(kept: Kept) -> str:
    """Dates, machine and versions of each part."""
    lines = [
        "## What was run\n",
        "| part | date | processor | processes at work, cores | versions |",
        "| --- | --- | --- | --- | --- |",
    ]
    for part, found in kept.items():
        versions = ", ".join(f"{name} {one}" for name, one in found["versions"].items())
        load = f"{found['load'][0]:.0f}, {found['load'][1]}"
        lines.append(f"| {part} | {found['date']} | {found['hardware']} | {load} | {versions} |")
    return "\n".join([*lines, *busy(kept)]) + "\n"


def busy(kept: Kept) -> list[str]:
    """What a busy machine does to the figures."""
    if all(load <= cores for load, cores in (found["load"] for found in kept.values())):
        return []
    return [
        "\nThe machine was busy with other work, which also lengthens CPU seconds, for caches and "
        "memory are shared: those of one run varied by about a third. Ratios vary less, for the "
        "programs took turns. A quiet machine and `--complete` give firmer figures."
    ]
