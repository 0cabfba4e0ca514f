"""Canary against query:

`make canary-grid` writes docs/canary-grid.svg and prints the numbers (undefended system, pocket
model).
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from leakbound.auditing import make_spec, prepare, run_audit
from leakbound.models import open_model

CANARIES = ("hex", "unigram", "false_fact", "natural", "mislabeled")
QUERIES = (
    "membership",
    "input_output",
    "if_then_explicit",
    "if_then_implicit",
    "brainwash",
    "signal_pair",
)


def main() -> None:
    model, pairs = open_model("pocket"), 60
    grid = np.zeros((len(CANARIES), len(QUERIES)))
    for i, canary in enumerate(CANARIES):
        for j, query in enumerate(QUERIES):
            spec = make_spec({"canary": canary, "query": query, "pairs": pairs, "seed": 8})
            grid[i, j] = run_audit(prepare(spec, model), Path("runs/grid"))[0].bound.epsilon or 0.0
        print(f"{canary:<12}", *(f"{v:6.2f}" for v in grid[i]), flush=True)
    if len(sys.argv) > 1:
        heat_map(grid, pairs).savefig(sys.argv[1], metadata={"Date": None})


def heat_map(grid: np.ndarray, pairs: int) -> Figure:
    figure = Figure(figsize=(7.5, 4), layout="constrained")
    axes = figure.add_subplot()
    image = axes.imshow(grid, cmap="viridis", vmin=0)
    axes.set(xticks=range(len(QUERIES)), yticks=range(len(CANARIES)), yticklabels=CANARIES,
             title=f"ε ≥ (95 %, {pairs} paired trials), few_shot, by canary and query")  # fmt: skip
    axes.set_xticklabels(QUERIES, rotation=30, ha="right")
    for (i, j), value in np.ndenumerate(grid):
        axes.text(
            j,
            i,
            f"{value:.2f}",
            ha="center",
            va="center",
            color="white" if value < grid.max() / 1.5 else "black",
        )
    figure.colorbar(image)
    return figure


if __name__ == "__main__":
    main()
