"""Speed of influence against other programs, and the page that quotes it.

Usage:
    python bench/influence_speed.py --authors CLONE --python-of-others PYTHON \\
        --model FOLDER --texts ROWS... --write PAGE
    python bench/influence_speed.py --write docs/measured/speed.md  # render what was kept

CLONE is a clone of the program of Context Influence, github.com/james-flemings/context_influence;
PYTHON is the interpreter of an environment that has context-cite and captum beside torch and
transformers; FOLDER a model, and ROWS files of texts. Without them, the earlier figures stand.
`--only` names the parts that are measured again: small, goal, units, recovery, real, profile, top.
All take about two hours of one core.

Each program runs in a process of its own (influence_rivals.py). The processes of one part take
turns of some seconds, one at work and the others stopped, so that whatever else loads the machine
slows them alike; seconds are CPU seconds of each process.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from influence_speed_page import page
from influence_texts import ABLATIONS, long_text, row_texts, text_case, text_settings
from influence_top import summaries
from leakbound_lab.studies.bundled import notes

from leakbound.attribution import blocks
from leakbound.attribution.measure import DRAW
from leakbound.models.pocket import FOLDER

Case = dict[str, Any]
HERE = Path(__file__).parent
RESULTS = HERE / "results" / "influence-speed.json"
TURN = 10.0  # seconds: long beside what a cache needs to fill, short beside a run
TAIL = 16  # tokens of the query
# |D|, n, |y|: a size at which the authors' program is run complete, and the goal's
SIZES = {"small": (128, 64, 4), "goal": (1024, 128, 50)}
STRETCH = 2  # windows of a stretch that are measured where not all are: they share passes
SENTENCES = (16, 32)  # in a context of 1,024 tokens: 64 and 32 tokens each; others run the last
# how many ablations of context-cite, and groups of sentences of captum, are run where not all are
SOME = {"ablations": 8, "features": 4}
NOTES = 20  # with a planted code
PARTS = ["small", "goal", "units", "recovery", "real", "profile", "top"]


def in_turns(cases: dict[str, Case], python: dict[str, str], turns: dict[str, float]) -> Case:
    """What each program has measured; one of them is at work at any time."""
    with tempfile.TemporaryDirectory() as folder:
        running = {}
        for name, case in cases.items():
            process = subprocess.Popen(
                [python.get(name, sys.executable), str(HERE / "influence_rivals.py")],
                stdin=subprocess.PIPE, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"},
            )  # fmt: skip
            assert process.stdin is not None
            process.stdin.write(json.dumps(case | {"out": f"{folder}/{name}.json"}))
            process.stdin.close()
            process.send_signal(signal.SIGSTOP)
            running[name] = process
        try:
            take_turns(dict(running), turns)
        finally:
            for process in running.values():
                process.kill()
        return {name: json.loads(Path(folder, f"{name}.json").read_text()) for name in cases}


def take_turns(running: dict[str, Any], turns: dict[str, float]) -> None:
    """Let one process after the other work, until all have ended."""
    while running:
        for name, process in list(running.items()):
            process.send_signal(signal.SIGCONT)
            try:
                code = process.wait(turns.get(name, TURN))
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGSTOP)
                continue
            if code:
                raise SystemExit(f"{name} ended with exit code {code}; its message stands above.")
            del running[name]


def windows_case(part: str, a: argparse.Namespace) -> Case:
    """Random token ids, and windows of stride 1."""
    length, n, said = SIZES[part]
    rng = np.random.default_rng(0)
    draw = lambda size: rng.integers(4, 50_000, size).tolist()  # noqa: E731
    shape = {"num_hidden_layers": a.layers} if a.layers else {}
    return {
        "head": [2, *draw(7)], "context": draw(length), "tail": draw(TAIL), "answer": draw(said),
        "spans": blocks(length, n, 1), "shape": shape, "tokenizer": str(FOLDER),
    }  # fmt: skip


def windows(part: str, a: argparse.Namespace) -> Case:
    """The authors' program, a teacher-forced loop and leakbound on windows of stride 1."""
    case, complete = windows_case(part, a), part == "small" or a.complete
    case["complete"], case["some"] = complete, places(len(case["spans"]), complete)
    cases = {
        "ours": case | {"program": "ours"},
        "loop": case | {"program": "loop", "batches": [1, 4]},
        "authors": case | {
            "program": "authors", "complete": part == "small", "authors": a.authors,
            "positions": [len(case["answer"]) // 2],
        },
    }  # fmt: skip
    return summary(case, in_turns(cases, {"authors": a.python_of_others}, {"authors": 20.0}))


def places(spans: int, complete: bool) -> list[int]:
    """Which windows are measured: all, or stretches in the middle of each quarter."""
    if complete:
        return list(range(spans))
    middles = [(2 * quarter + 1) * spans // 8 for quarter in range(4)]
    return [middle + at for middle in middles for at in range(STRETCH)]


def summary(case: Case, found: Case) -> Case:
    """Sizes, seconds (complete or scaled) and the largest differences of influence."""
    spans, some, answer = case["spans"], case["some"], case["answer"]
    rows, loop, theirs = len(spans), found["loop"], found["authors"]
    own, sampled = np.asarray(found["ours"]["influence"]), theirs["sampled"]
    a_t, b_t = (np.mean([row[at] for row in sampled]) for at in (1, 2))
    windows = len(sampled[0][3])
    batch, seconds = min(loop["batches"].items(), key=lambda pair: pair[1])
    apart = [np.abs(own[:windows, t] - values).max() for t, _, _, values in sampled]
    apart += [np.abs(own - theirs["influence"]).max()] if "influence" in theirs else []
    return {
        "context": len(case["context"]), "n": spans[0][1], "answer": len(answer), "spans": rows,
        "prompt": len(case["head"] + case["context"] + case["tail"]), "some": len(some),
        "ours": found["ours"]["seconds"],
        "loop": loop["full_seconds"] + seconds * rows / len(some),
        "loop_batch": int(batch), "loop_batches": loop["batches"],
        "authors": theirs.get("seconds"), "authors_windows": windows,
        "authors_sampled": [row[:3] for row in sampled],
        "authors_scaled": len(answer) * float(a_t + rows / windows * (b_t - a_t)),
        "tokens_ours": tokens_needed(case), "tokens_loop": tokens_whole(case),
        "apart_loop": float(np.abs(own - loop["influence"]).max()),
        "apart_authors": float(max(apart)),
    }  # fmt: skip


def tokens_needed(case: Case) -> int:
    """Tokens that no exact method can leave out: those behind each span, and two prompts."""
    after, length = len(case["tail"] + case["answer"]) - 1, len(case["context"])
    both = 2 * (len(case["head"]) + after) + length
    return both + sum(length - end + after for _, end in case["spans"])


def tokens_whole(case: Case) -> int:
    """Tokens of a loop that runs every prompt whole."""
    after, length = len(case["tail"] + case["answer"]) - 1, len(case["context"])
    rows = [(0, 0), *case["spans"]]
    return sum(len(case["head"]) + length - (end - first) + after for first, end in rows)


# --- sentences


def units(a: argparse.Namespace) -> Case:
    """leakbound, context-cite and captum by sentence, at the 125M shape."""
    shape = {"num_hidden_layers": a.layers} if a.layers else {}
    texts = [long_text(count, SIZES["goal"][0]) for count in SENTENCES]
    case = text_settings(texts[-1:]) | {"shape": shape, **({} if a.complete else SOME)}
    cases = {
        "ours": case | {"program": "our_units", "texts": texts},
        "context_cite": case | {"program": "context_cite"},
        "captum": case | {"program": "captum"},
    }
    found, last = in_turns(cases, others(a), {}), SENTENCES[-1]
    features, ablations = case["features"] or last, case["ablations"]
    return {
        "ours": dict(zip(map(str, SENTENCES), found["ours"]["seconds"], strict=True)),
        "sentences": last, "tokens": SIZES["goal"][0],
        "ablations": ablations, "features": features,
        "context_cite": found["context_cite"]["seconds"][0] * ABLATIONS / ablations,
        "captum": found["captum"]["seconds"][0] * (last + 1) / (features + 1),
        "versions": {name: found[name]["version"] for name in ("context_cite", "captum")},
    }  # fmt: skip


def by_sentence(case: Case) -> dict[str, Case]:
    return {
        "leave-one-out": case | {"program": "our_units"},
        "lasso": case | {"program": "our_units", "method": "lasso", "sets": 64},
        "context_cite": case | {"program": "context_cite"},
        "captum": case | {"program": "captum"},
    }


def recovery(a: argparse.Namespace) -> Case:
    """Which program ranks the planted sentences of the bundled notes first (pocket model)."""
    once = [one for one in notes(2 * a.notes) if one.reference and one.reference.isdigit()]
    planted = [(1, one.context, one) for one in once] + [
        (2, f"{one.context} The door code of {one.query.split(' of ')[1].rstrip('?')} is "
         f"{one.reference}.", one) for one in once
    ]  # fmt: skip
    texts = [text_case(context, one.query, str(one.reference)) for _, context, one in planted]
    case = text_settings(texts) | {"folder": str(FOLDER)}
    found = in_turns(by_sentence(case), others(a), {})
    return {"notes": len(once)} | {
        name: recovered(planted, texts, one) for name, one in found.items()
    }


def real(a: argparse.Namespace) -> Case | None:
    """Sentences of real texts and a real model: seconds, and whose top one is the exact top one."""
    if not (a.model and a.texts):
        print("real: no model and texts were given (--model, --texts)")
        return None
    texts = [one for path in a.texts for one in row_texts(path, a.rows, a.words, 8)]
    case = text_settings(texts) | {"folder": a.model, "tokenizer": a.model}
    found = in_turns(by_sentence(case), others(a), {})
    exact = [int(np.argmax(scores)) for scores in found["leave-one-out"]["scores"]]
    return {
        "model": a.model_name, "texts": len(texts), "words": a.words,
        "sentences": float(np.mean([len(text["parts"]) for text in texts])),
        "versions": {name: found[name]["version"] for name in ("context_cite", "captum")},
    } | {
        name: {
            "seconds": float(np.mean(one["seconds"])),
            "first": sum(int(np.argmax(scores)) == at
                         for scores, at in zip(one["scores"], exact, strict=True)),
        } for name, one in found.items()
    }  # fmt: skip


def profile(a: argparse.Namespace) -> Case:
    """Where the time of the exact mode goes, in a process of its own."""
    command = [sys.executable, str(HERE / "influence.py"), "--profile"]
    command += ["--layers", str(a.layers)] if a.layers else []
    found = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True,
                           env=os.environ | {"OMP_NUM_THREADS": "1"})  # fmt: skip
    shown: Case = json.loads(found.stdout.splitlines()[-1])
    return shown


def top(a: argparse.Namespace) -> Case:
    """What `--top 5` finds in the contexts whose windows are all known."""
    return {"found": summaries(HERE / "results" / "influence-top.jsonl", [DRAW], 20)}


def recovered(planted: list[Any], texts: list[Case], found: Case) -> Case:
    """Notes whose planted sentences have the largest scores, and CPU seconds of a note."""
    hits = {1: 0, 2: 0}
    for (copies, _, one), text, scores in zip(planted, texts, found["scores"], strict=True):
        mine = {at for at, part in enumerate(text["parts"]) if one.reference in part}
        hits[copies] += set(np.argsort(-np.asarray(scores))[:copies].tolist()) == mine
    return {"once": hits[1], "twice": hits[2], "seconds": float(np.mean(found["seconds"]))}


def others(a: argparse.Namespace) -> dict[str, str]:
    """The interpreters of the programs that leakbound does not need."""
    return dict.fromkeys(("context_cite", "captum"), a.python_of_others)


def installed(python: str) -> bool:
    """Whether an interpreter has context-cite and captum."""
    command = [python, "-c", "import captum.attr, context_cite"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def processor() -> str:
    """The name of the processor."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "CPU"


def measured(part: str, a: argparse.Namespace) -> Case | None:
    """One part; None where a program that it needs is missing."""
    if part in ("profile", "top"):
        return profile(a) if part == "profile" else top(a)
    if part in SIZES:
        if not a.authors:
            print(f"{part}: the authors' program was not given (--authors)")
            return None
        return windows(part, a)
    if not installed(a.python_of_others):
        print(f"{part}: context-cite and captum are not installed (--python-of-others)")
        return None
    return {"units": units, "recovery": recovery, "real": real}[part](a)


def main() -> None:
    """Measure what is asked for, keep it, and write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--authors", help="folder of the clone of the authors' program")
    parser.add_argument("--python-of-others", default=sys.executable, help="[default: this one]")
    parser.add_argument("--model", help="folder of a real model")
    parser.add_argument("--model-name", default="SmolLM2-135M-Instruct", help="for the page")
    parser.add_argument("--texts", type=Path, nargs="*", help="JSON lines of real texts")
    parser.add_argument("--rows", type=int, default=2, help="of each file [default: 2]")
    parser.add_argument("--words", type=int, default=120, help="of each text [default: 120]")
    parser.add_argument("--only", nargs="*", default=[], help="parts that are measured")
    parser.add_argument("--results", type=Path, default=RESULTS, help="[default: bench/results]")
    parser.add_argument("--layers", type=int, help="fewer layers, for a quick look")
    parser.add_argument(
        "--complete", action="store_true", help="all windows of the goal's size, but the authors'"
    )
    parser.add_argument("--notes", type=int, default=NOTES, help=f"[default: {NOTES}]")
    parser.add_argument("--write", type=Path, help="the page")
    a = parser.parse_args()
    kept: Case = json.loads(a.results.read_text()) if a.results.exists() else {}
    for part in a.only or ([] if a.write and not a.authors else PARTS):
        if (found := measured(part, a)) is not None:
            names = ("leakbound", "torch", "transformers")
            made = {
                "date": date.today().isoformat(), "hardware": processor(),
                "load": [round(os.getloadavg()[2], 1), os.cpu_count()],
            }  # fmt: skip
            made["versions"] = {name: version(name) for name in names} | found.pop("versions", {})
            kept[part] = found | made
            a.results.write_text(json.dumps(kept, indent=1) + "\n")
            print(json.dumps(kept[part]), flush=True)
    if a.write:
        a.write.write_text(page(kept))


if __name__ == "__main__":
    main()
