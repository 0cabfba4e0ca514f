"""The heat map of a context in a terminal: in colour, and with marks that need none."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from leakbound.report.influence_page import hottest, law_name, segments

if TYPE_CHECKING:
    from leakbound.attribution import Attribution, Grid, InfluenceRecord, Reading

__all__ = ["influence_summary", "print_heat"]

HEAT = (
    (255, 255, 255),
    (255, 236, 210),
    (255, 205, 150),
    (250, 165, 90),
    (232, 125, 40),
)  # black text reads on all
SHOWN = 3


def influence_summary(record: InfluenceRecord, shown: int = SHOWN) -> str:
    """Plain text: what each response lost of the whole context, and its hottest spans."""
    lines = []
    for one in record.attributions[:shown]:
        for reading in one.readings:
            whole = reading.grids[-1]
            lines.append(
                f"{law_name(reading)}: “{reading.text.strip()}” "
                f"({'sampled' if reading.sampled else 'given'}). Whole context: influence "
                f"{whole.totals[0]:.3f}, "
                f"loss of this response (ex-post ε) {whole.losses[0]:.3f}; noise floor of a token "
                f"{reading.floor:.1g}."
            )
            lines += _lams(reading)
            lines += [_hot(one, grid) for grid in reading.grids[:-1]]
    return "\n".join([*lines, *_over(record, shown)])


def _lams(reading: Reading) -> list[str]:
    """Each token of a response from bounded CID with its lambda."""
    told = ", ".join(
        f"{piece.strip()!r} {lam:.3g}"
        for piece, lam in zip(reading.tokens, reading.lams, strict=False)
    )
    return [f"  λ of each token: {told}"] if told else []


def _hot(one: Attribution, grid: Grid) -> str:
    found = ", ".join(
        f"{row['text'].strip()!r} {row['total']:.3f}" for row in hottest(one, grid, 3)
    )
    return f"  n = {grid.n}: hottest {found}"


def _over(record: InfluenceRecord, shown: int) -> list[str]:
    count = len(record.attributions)
    if count < 2:
        return []
    head = (
        [f"{count - shown} more contexts are in the report and the exports."]
        if count > shown
        else []
    )
    rows = [
        f"  λ = {e.lam:g}, {'whole context' if e.of == 'context' else f'{e.of} of n = {e.n}'}: "
        f"{e.mean:.3f} [{e.low:.3f}, {e.high:.3f}]"
        for e in record.expected
    ]
    return [
        *head,
        f"Expected influence over {count} contexts, with {record.confidence:.0%} intervals:",
        *rows,
    ]


def print_heat(record: InfluenceRecord, shown: int = SHOWN, file: Any = None) -> None:
    """Print the heat map of the smallest n for each reading; the hottest piece stands between » and
    «.
    """
    from rich.console import Console

    console = Console(file=file or sys.stdout, highlight=False, soft_wrap=True)
    for one in record.attributions[:shown]:
        for reading in one.readings:
            law = f"{record.model}, {law_name(reading)}"
            console.print(
                f"Influence of spans of {reading.grids[0].n} on the response, {law}:", markup=False
            )
            console.print(_painted(segments(one, reading.grids[0])))
            console.print()


def _painted(pieces: Sequence[dict[str, Any]]) -> Any:
    from rich.text import Text

    top = max(piece["value"] for piece in pieces)
    text, marked = Text(), False
    for piece in pieces:
        level = round(4 * piece["value"] / top) if top > 0 else 0
        best = not marked and top > 0 and piece["value"] == top
        marked = marked or best
        shown = f"»{piece['text']}«" if best else piece["text"]
        shown = "".join(c if c.isprintable() or c == "\n" else "�" for c in shown)
        text.append(
            shown, style=f"black on rgb({','.join(map(str, HEAT[level]))})" if level else ""
        )
    return text
