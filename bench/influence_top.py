"""`leakbound influence --top 5` beside all windows measured, on rows of a file and a real model.

`measure` keeps the exact influence of every window and what the screen says, row by row, so that a
run goes on where it stopped. `replay` runs the search on what was kept, with other draws each time:

python bench/influence_top.py measure MODEL ROWS --context FIELD --query FIELD --kept FILE
python bench/influence_top.py replay --kept FILE
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from leakbound.attribution import Case, InfluenceSettings, TokenDistribution, attribute, blocks
from leakbound.attribution.ablation_sets import limit_unopened, open_units
from leakbound.attribution.measure import DRAW, measure
from leakbound.attribution.spans import TEMPLATE, locate
from leakbound.models import Complete, Model, open_model

ASKED = "What is this about? Answer in one sentence."
RESULTS = Path(__file__).parent / "results" / "influence-top.jsonl"
TOP = 5
KS = (1, 3, 5)  # of the true top windows, how many are found


def row_case(row: dict[str, str], a: argparse.Namespace, model: Model) -> Case:
    """The first words of a row, with a given answer about it or the model's own."""
    text = " ".join(row[a.context].split()[: a.words])
    asked = row[a.query] if a.query else ASKED
    if a.answer:
        return Case(text, asked, " ".join(row[a.answer].split()[: a.said]))
    prompt = TEMPLATE.format(context=text, query=asked)
    (answer,) = model.answer([Complete(prompt, max_tokens=a.said)])
    return Case(text, asked, answer)


def seconds(call: Callable[[], Any]) -> tuple[float, Any]:
    """CPU seconds, and what the call returns."""
    begin = time.process_time()
    found = call()
    return round(time.process_time() - begin, 2), found


def every_window(case: Case, model: Any, a: argparse.Namespace) -> dict[str, Any]:
    """The influence of all windows, and the screen's values of those that it is asked about."""
    located = locate(model, case, TEMPLATE, "")
    parts, response = located.parts, located.response
    assert response, "no answer"
    spans = blocks(len(parts.context), a.n, 1)
    model.forget()
    own = [TokenDistribution()]
    all_s, found = seconds(lambda: measure(model, parts, response, spans, own, False))
    places = parts.places
    step = 1 << max(1, a.n // 2).bit_length() - 1  # as in the search
    hidden = [(places[first], places[end - 1] + 1) for first, end in spans[::step]]
    end = places[-1] + 1
    screen_s, log_p = seconds(
        lambda: model.masked_log_probs(parts.without(), response, [(0, 0), *hidden], end)
    )
    result = {
        "tokens": len(parts.context), "tail": len(parts.tail), "answer": len(response),
        "all_s": all_s, "screen_s": screen_s, "step": step,
        "screen": rounded(np.abs(np.array(log_p[1:]) - log_p[0]).sum(1)),
        "totals": rounded(np.abs(found.signed[0]).sum(1)),
    }  # fmt: skip
    if a.time:
        settings = InfluenceSettings(ngrams=(a.n,), stride=1, top=TOP)
        result["top_s"], _ = seconds(lambda: attribute([case], model, settings))
    return result


def rounded(values: Any) -> list[float]:
    return [float(f"{value:.5g}") for value in values]


def searched(row: dict[str, Any], draw: int, seed: int) -> dict[str, Any] | None:
    """What the search shows of a row, and the tokens that it runs; None where it measures all."""
    totals, screen, step = np.array(row["totals"]), np.array(row["screen"]), row["step"]
    rng = np.random.default_rng([seed, row["row"]])
    asked: list[int] = []

    def look(some: Sequence[int]) -> Any:
        asked.extend(some)
        return screen[np.array(some) // step]

    opened = open_units(len(totals), TOP, draw, step, look, lambda some: totals[some], rng)
    if opened is None:
        return None
    every = np.sort(np.concatenate(opened))
    found = limit_unopened(opened, len(totals), TOP, totals[every])
    order = totals.argsort()[::-1]
    above = int((np.delete(totals, opened[0]) > found.kth).sum())
    said = row["tail"] + row["answer"] - 1
    each = row["tokens"] - np.arange(len(totals)) - row["n"] + said  # behind each window
    both = 2 * said + row["tokens"]
    return {
        "chosen": {k: len({*order[:k]} & {*opened[0]}) for k in KS},
        "shown": {k: len({*order[:k]} & {*every}) for k in KS},
        "share": totals[every].max() / totals.max(),
        "right": above <= found.most, "measured": len(every), "asked": len(asked),
        "times": (both + each.sum()) / (both + row["tokens"] + each[every].sum()
                                        + (len(asked) + 1) * said),
    }  # fmt: skip


def summaries(kept: Path, draws: Sequence[int], seeds: int) -> list[dict[str, Any]]:
    """What searches of each model and size find, in the mean over contexts and draws."""
    rows = [json.loads(line) for line in kept.read_text(encoding="utf-8").splitlines()]
    kinds = ("model", "n")
    every = []
    for name in sorted({tuple(row[kind] for kind in kinds) for row in rows}):
        own = [row for row in rows if tuple(row[kind] for kind in kinds) == name]
        for draw in draws:
            of_row = [[searched(row, draw, seed) for seed in range(seeds)] for row in own]
            found = [one for each in of_row for one in each if one]
            if not found:
                continue
            every.append(dict(zip(kinds, name, strict=True)) | {
                "contexts": sum(any(each) for each in of_row), "draw": draw,
                "tokens": mean(row["tokens"] for row in own),
                "windows": mean(len(row["totals"]) for row in own),
                "chosen": {str(k): mean(one["chosen"][k] / k for one in found) for k in KS},
                "shown": {str(k): mean(one["shown"][k] / k for one in found) for k in KS},
                "share": mean(one["share"] for one in found),
                "right": mean(one["right"] for one in found),
                "measured": mean(one["measured"] for one in found),
                "times": float(np.median([one["times"] for one in found])),
            })  # fmt: skip
    return every


def mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))


def shown(found: dict[str, Any]) -> str:
    """A row of docs/measured/influence.md."""
    hits = " | ".join(f"{found[of][k]:.3f}" for of in ("chosen", "shown") for k in ("1", "3"))
    return (
        f"| {found['model']} | {found['contexts']} | {found['tokens']:.0f} | {found['n']} | "
        f"{found['windows']:.0f} | {found['draw']} | {found['measured']:.0f} | {hits} | "
        f"{found['share']:.3f} | {found['right']:.3f} | {found['times']:.1f} |"
    )


def keep_rows(a: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    model: Any = open_model(a.model)
    key = {"model": a.name or a.model, "rows": a.data.resolve().parent.name, "n": a.n,
           "words": a.words}  # fmt: skip
    lines = a.kept.read_text(encoding="utf-8").splitlines() if a.kept.exists() else []
    known = [json.loads(line) for line in lines]
    done = {row["row"] for row in known if all(row[k] == v for k, v in key.items())}
    for at, line in enumerate(a.data.read_text(encoding="utf-8").splitlines()[: a.rows]):
        if at in done:
            continue
        case = row_case(json.loads(line), a, model)
        if not (case.response or "").strip():
            continue
        row = key | {"row": at} | every_window(case, model, a)
        with a.kept.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    does = parser.add_subparsers(required=True, dest="does")
    one = does.add_parser("measure")
    one.add_argument("model")
    one.add_argument("data", type=Path)
    one.add_argument("--name", help="of the model, in the results")
    one.add_argument("--context", default="context")
    one.add_argument("--query", default="")
    one.add_argument("--answer", default="", help="field of the answer, if not the model's own")
    one.add_argument("--said", type=int, default=24, help="the most tokens or words of an answer")
    one.add_argument("--words", type=int, default=200)
    one.add_argument("--rows", type=int, default=4)
    one.add_argument("--n", type=int, default=8)
    one.add_argument("--time", action="store_true", help="run the search as well")
    two = does.add_parser("replay")
    two.add_argument("--draw", type=int, nargs="+", default=[DRAW])
    two.add_argument("--seeds", type=int, default=20)
    for each in (one, two):
        each.add_argument("--kept", type=Path, default=RESULTS)
    a = parser.parse_args()
    if a.does == "measure":
        keep_rows(a)
    else:
        print(*map(shown, summaries(a.kept, a.draw, a.seeds)), sep="\n")


if __name__ == "__main__":
    main()
