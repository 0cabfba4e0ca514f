"""`leakbound influence --top 5` beside all spans measured, on rows of a file and a real model.

Each finished row is appended to the results, and a run with the same results goes on after it:
python bench/influence_top.py MODEL ROWS --context FIELD --query FIELD --write results.jsonl
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from leakbound.attribution import Case, InfluenceRecord, InfluenceSettings, SpanGrid, attribute
from leakbound.models import Complete, Model, open_model

ASKED = "What is this about? Answer in one sentence."
TEMPLATE = "Document: {context}\n\nQuestion: {query}\nAnswer:"


def cases(path: Path, context: str, query: str, words: int, rows: int, model: Model) -> list[Case]:
    """The first words of each row, with the model's own answer about it."""
    found = []
    for line in path.read_text(encoding="utf-8").splitlines()[:rows]:
        row = json.loads(line)
        text = " ".join(row[context].split()[:words])
        asked = row[query] if query else ASKED
        prompt = TEMPLATE.format(context=text, query=asked)
        (answer,) = model.answer([Complete(prompt, max_tokens=24)])
        found.append(Case(text, asked, answer))
    return found


def measured(case: Case, model: Model, **settings: Any) -> tuple[float, InfluenceRecord]:
    """CPU seconds, and the record."""
    begin = time.process_time()
    record = attribute([case], model, InfluenceSettings(**settings))
    return time.process_time() - begin, record


def compared(case: Case, model: Model, n: int, stride: int) -> dict[str, Any]:
    """What the search shows of the spans that are the top ones of all."""
    spans = {"ngrams": (n,), "stride": stride}
    quick, some = measured(case, model, top=5, **spans)
    whole, every = measured(case, model, **spans)
    found, truth = grid_of(some), grid_of(every)
    totals = {span: float(total) for span, total in zip(truth.spans, truth.totals, strict=True)}
    order = sorted(totals, key=lambda span: -totals[span])
    missed = found.unopened
    assert missed is not None, "the context is too short"
    # spans that the screen left out, drawn ones among them
    above = sum(totals[span] > missed.kth + 1e-3 for span in order) - (missed.top - 1)
    return {
        "tokens": truth.spans[-1][1], "answer": len(truth.signed[0]), "spans": len(totals),
        "measured": len(found.spans), "all_s": whole, "top_s": quick, "most": missed.most,
        "above": above, "largest": totals[order[0]],
        "shown": {k: len({*order[:k]} & {*found.spans}) for k in (1, 3, 5)},
        "largest_difference": max(
            abs(totals[span] - float(total))
            for span, total in zip(found.spans, found.totals, strict=True)
        ),
    }  # fmt: skip


def grid_of(record: InfluenceRecord) -> SpanGrid:
    return record.attributions[0].readings[0].grids[0]


def shown(path: Path) -> None:
    """The rows of docs/measured/influence.md."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    kinds = ("rows", "n", "stride", "words")
    for name in dict.fromkeys(tuple(row[kind] for kind in kinds) for row in rows):
        own = [row for row in rows if tuple(row[kind] for kind in kinds) == name]
        ratio = [row["all_s"] / row["top_s"] for row in own]
        hits = [sum(row["shown"][k] for row in own) for k in ("1", "3", "5")]
        right = sum(row["above"] <= row["most"] for row in own)
        print(
            f"| {name[0]}, n = {name[1]}, stride {name[2]}, {name[3]} words | {len(own)} | "
            f"{np.mean([row['tokens'] for row in own]):.0f} | "
            f"{np.mean([row['spans'] for row in own]):.0f} | "
            f"{hits[0]} of {len(own)} | {hits[1]} of {3 * len(own)} | {hits[2]} of {5 * len(own)} "
            f"| {right} of {len(own)} | {np.mean([row['all_s'] for row in own]):.0f} | "
            f"{np.mean([row['top_s'] for row in own]):.0f} | {np.median(ratio):.1f} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("data", type=Path)
    parser.add_argument("--context", default="context")
    parser.add_argument("--query", default="")
    parser.add_argument("--words", type=int, default=200)
    parser.add_argument("--rows", type=int, default=4)
    parser.add_argument("--n", type=int, default=8)
    parser.add_argument("--stride", type=int, default=1)
    parser.add_argument("--write", type=Path, required=True)
    args = parser.parse_args()
    torch.set_num_threads(1)
    model = open_model(args.model)
    name = args.data.resolve().parent.name
    key = {"rows": name, "n": args.n, "stride": args.stride, "words": args.words}
    lines = args.write.read_text(encoding="utf-8").splitlines() if args.write.exists() else []
    done = {
        row["row"] for row in map(json.loads, lines) if all(row[k] == v for k, v in key.items())
    }
    found = cases(args.data, args.context, args.query, args.words, args.rows, model)
    for at, case in enumerate(found):
        if at not in done:
            row = key | {"row": at} | compared(case, model, args.n, args.stride)
            with args.write.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
    shown(args.write)


if __name__ == "__main__":
    main()
