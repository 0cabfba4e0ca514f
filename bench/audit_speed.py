"""Calls of an audit per second of CPU, by this engine and by the first release's.

python bench/audit_speed.py --old FOLDER [--shapes pocket opt-125m] [--pairs 8] [SCENE ...]

Prompts are those of audits of the pocket task: contexts of 20 examples, with and without a canary,
in batches of 8 pairs. A canary that stands late leaves the two contexts of a pair a long common
beginning. Each engine answers the same prompts in a process of its own: the first release from the
folder of its checkout, this one in batches, and this one by one, with nothing kept from one call to
the next. "Tokens" is the number that went through the model. "Off by" is the largest difference of
a score from the answer to the request by itself, or the number of texts that differ. The weights of
opt-125m are random. Votes are asked `alone`: no partition shares a pass with another, for privacy,
so that the first release may be faster there.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from itertools import chain
from pathlib import Path
from typing import Any

BATCH = 8  # pairs that an audit collects at once
LABELS = ("red", "green", "blue", "yellow")  # those of the pocket task, of one to three tokens
LATE = 0.6  # share of a prompt that a late canary leaves in common
SCENES = ("late scores", "late answers", "scores", "answers", "votes")
Asked = list[list[list[Any]]]  # batches of [prompt, draw]


# --- prompts


def batches(scene: str, pairs: int) -> Asked:
    """The prompts of an audit, in its batches."""
    from leakbound.auditing import make_spec, prepare
    from leakbound.models import open_model

    mechanism = "report_noisy_max" if scene == "votes" else "few_shot"
    many = 4 * pairs if scene.startswith("late") else pairs
    model: Any = open_model("pocket")
    prepared = prepare(make_spec({"mechanism": mechanism, "pairs": many}), model)
    found: Asked = []
    for pair in prepared.pairs:
        asked = [
            [request.prompt, request.draw]
            for side in (pair.member, pair.nonmember)
            for request in prepared.mechanism.requests(prepared.task, side, pair.draw)
        ]
        if not scene.startswith("late") or common(*(text for text, _ in asked)) > LATE:
            found.append(asked)
    found = found[:pairs]
    return [list(chain(*found[at : at + BATCH])) for at in range(0, len(found), BATCH)]


def common(one: str, other: str) -> float:
    """Share of a text that another one begins with."""
    unlike = (n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return next(unlike, len(one)) / len(one)


# --- one engine in a process of its own


def worker(job: dict[str, Any]) -> dict[str, Any]:
    """Seconds of a processor, tokens and answers."""
    engine = job["engine"]
    model, kinds = (first_release if engine == "old" else this_release)(job["shape"], job["old"])
    requests = [[request(kinds, job["scene"], *one) for one in batch] for batch in job["batches"]]
    tokens: list[int] = []
    model.model.register_forward_pre_hook(count(tokens), with_kwargs=True)
    model.answer(requests[0][:1])
    model.forget()
    tokens.clear()
    begin, answers = time.process_time(), []
    for batch in requests:
        for part in [batch] if engine != "single" else [[one] for one in batch]:
            answers += model.answer(part)
            if engine == "single":
                model.forget()
    took = time.process_time() - begin
    plain = [one if isinstance(one, str) else one.tolist() for one in answers]
    return {"seconds": took, "tokens": sum(tokens), "answers": plain}


def count(tokens: list[int]) -> Any:
    return lambda _module, _args, kwargs: tokens.append(kwargs["input_ids"].numel())


def first_release(shape: str, old: str) -> tuple[Any, Any]:
    sys.path.insert(0, str(Path(old) / "src"))
    from contextleak.models import asks
    from contextleak.models.pocket import FOLDER
    from contextleak.models.transformers.model import TransformersModel

    return TransformersModel(*parts(shape, FOLDER), shape, "0"), asks


def this_release(shape: str, old: str) -> tuple[Any, Any]:
    from leakbound.models import request
    from leakbound.models.local import TransformersModel
    from leakbound.models.pocket import FOLDER

    return TransformersModel(*parts(shape, FOLDER), shape, "0"), request


def parts(shape: str, folder: Path) -> tuple[Any, Any]:
    """A model and the tokenizer of the pocket model."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    if shape == "pocket":
        return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval(), tokenizer
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(AutoConfig.for_model("opt")).eval(), tokenizer


def request(kinds: Any, scene: str, prompt: str, draw: int) -> Any:
    if scene.endswith("scores"):
        return kinds.ScoreLabels(prompt, LABELS)
    alone = {"alone": True} if scene == "votes" and hasattr(kinds.Complete, "alone") else {}
    return kinds.Complete(prompt, max_tokens=12, draw=draw, **alone)


# --- comparison


def measured(job: dict[str, Any]) -> dict[str, Any]:
    command = [sys.executable, __file__, "--worker"]
    done = subprocess.run(command, input=json.dumps(job), capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def off_by(answers: list[Any], alone: list[Any]) -> str:
    if isinstance(alone[0], str):
        return f"{sum(a != b for a, b in zip(answers, alone, strict=True))} texts"
    sides = [[score for row in rows for score in row] for rows in (answers, alone)]
    return f"{max(abs(a - b) for a, b in zip(*sides, strict=True)):.0e}"


def row(shape: str, scene: str, pairs: int, old: str) -> str:
    """One line of the table."""
    job = {"shape": shape, "scene": scene, "old": old, "batches": batches(scene, pairs)}
    calls = sum(map(len, job["batches"]))  # type: ignore[arg-type]
    new, single, *first = (measured({**job, "engine": e}) for e in ENGINES if e != "old" or old)
    before = first[0] if first else None
    cells = [shape, scene, str(calls)]
    for one in (before, single, new):
        cells.append(f"{calls / one['seconds']:.2f}" if one else "")
        cells.append(str(one["tokens"]) if one else "")
    cells.append(f"{before['seconds'] / new['seconds']:.2f}" if before else "")
    cells.append(f"{single['seconds'] / new['seconds']:.2f}")
    cells.append(off_by(new["answers"], single["answers"]))
    return "| " + " | ".join(cells) + " |"


ENGINES = ("new", "single", "old")
HEAD = """| model | prompts | calls | first release, calls/s | tokens | one by one, calls/s \
| tokens | leakbound, calls/s | tokens | × first release | × one by one | off by |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--old", default="", help="folder of a checkout of the first release")
    parser.add_argument("--shapes", nargs="+", default=["pocket", "opt-125m"])
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("scenes", nargs="*", metavar="SCENE", help=f"[default: {SCENES}]")
    given = parser.parse_args()
    if given.worker:
        print(json.dumps(worker(json.load(sys.stdin))))
        return 0
    print(HEAD, flush=True)
    for shape in given.shapes:
        for scene in given.scenes or SCENES:
            print(row(shape, scene, given.pairs, given.old), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
