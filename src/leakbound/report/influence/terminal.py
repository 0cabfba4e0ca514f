"""Influence in a terminal: numbers, and a heat map with colours and with marks that need none."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import IO, TYPE_CHECKING

from leakbound.auditing.result.sentences import odds_beside
from leakbound.models.address import model_names
from leakbound.report.influence.spans import (
    Segment,
    finest,
    grid_notes,
    grid_title,
    hides_copies,
    name_of_decoding,
    name_of_mean,
    segments,
    strongest_pieces,
    top_spans,
)
from leakbound.report.screen import SIGNS, WIDTH, lay_out

if TYPE_CHECKING:
    from rich.text import Text

    from leakbound.attribution import Attribution, InfluenceRecord, Reading, SpanGrid

HEAT = (
    (255, 255, 255), (255, 236, 210), (255, 205, 150), (250, 165, 90), (232, 125, 40),
)  # black text reads on all of them  # fmt: skip
SHOWN = 3
WORDS = 48  # characters of a unit's text: a line of a terminal holds its name and number as well


def influence_screen(
    record: InfluenceRecord, page: object, *, code: int | None = None, width: int = WIDTH
) -> str:
    """The first answer, what it owes to the whole context and to which parts, and the limit."""
    reading, limit = record.attributions[0].readings[0], record.share_limit
    whole, how = reading.grids[-1], "sampled" if reading.sampled else "given"
    influence, loss = float(whole.totals[0]), whole.ex_post_privacy_losses[0]
    grid = (reading.grids[:-1] or reading.grids)[-1]
    found = (f"{' '.join(one.text.split())!r} {one.influence:.3f}"
             for one in top_spans(record.attributions[0], grid, 3))  # fmt: skip
    odds = odds_beside(loss, 0.0)[0]
    top = "nothing in particular: leave-one-out hides texts that stand twice"
    rows = [
        ("answer", f"“{' '.join(reading.text.split())}” ({how})"),
        ("whole context", f"influence {influence:.3f} nats; odds of being used × {odds} or more"),
        ("top spans", top if hides_copies(reading, grid) else "; ".join(found)),
    ]
    if limit is not None:
        numbers = f"{limit.name}: {limit.share:.0%}; allowed {limit.max_share:.0%}"
        rows += [("share", limit.sentence if limit.outcome == "inconclusive" else numbers)]
    rows += [("report", str(page))]
    count, sign = len(record.attributions), SIGNS["" if limit is None else limit.outcome]
    more = f"{count - 1} more answers, " if count > 1 else ""
    headline = f"{sign} INFLUENCE   of the context on {model_names([record.model])}"
    last = f"{more}heat map and spans: -v"
    return lay_out(headline, rows, last[:1].upper() + last[1:], code=code, width=width)


def influence_summary(record: InfluenceRecord, shown: int = SHOWN) -> str:
    """What each response lost without the whole context, and its top-attributed spans."""
    lines = []
    for one in record.attributions[:shown]:
        for reading in one.readings:
            tokens = ", ".join(
                f"{piece.strip()!r} {lam:.3g}"
                for piece, lam in zip(reading.tokens, reading.lams, strict=False)
            )
            lines += [_whole(reading), *([f"  λ of each token: {tokens}"] if tokens else [])]
            for grid in reading.grids[:-1]:
                faint = hides_copies(reading, grid)
                lines += [
                    _top(one, grid, faint),
                    *(f"    {note}" for note in grid_notes(reading, grid)),
                ]
    return "\n".join([*lines, *_means(record, shown)])


def _whole(reading: Reading) -> str:
    whole, how = reading.grids[-1], "sampled" if reading.sampled else "given"
    influence, loss = float(whole.totals[0]), whole.ex_post_privacy_losses[0]
    text = (
        f"{name_of_decoding(reading)}: “{reading.text.strip()}” ({how}). Whole context: influence "
        f"{influence:.3f}, ex-post privacy loss ε {loss:.3f}; numerical tolerance of a token "
        f"{reading.tolerance:.1g}."
    )
    if reading.entropy:
        text += (
            f" Entropy of the response without the context: {sum(reading.entropy):.3f} nats; "
            f"influence over it: {reading.normalized(influence):.3f}."
        )
    return text


def _top(one: Attribution, grid: SpanGrid, faint: bool) -> str:
    spans = top_spans(one, grid, 3)
    if not grid.unit:
        found = (f"{span.text.strip()!r} {span.influence:.3f}" for span in spans)
        return f"  n = {grid.n}: top-attributed {', '.join(found)}"
    named = []
    for span in spans:
        text = " ".join(span.text.split())
        short = text if len(text) <= WORDS else text[: WORDS - 1] + "…"
        error = f" ± {span.error:.3f}" if span.error else ""
        share = "" if faint or span.share is None else f" ({span.share:.0%})"
        named.append(f"{span.name} {short!r} {span.influence:.3f}{error}{share}")
    return f"  {grid_title(grid)}: top-attributed {', '.join(named)}"


def _means(record: InfluenceRecord, shown: int) -> list[str]:
    count = len(record.attributions)
    if count < 2:
        return []
    more = f"{count - shown} more contexts are in the report and the exports."
    rows = [
        f"  λ = {e.lam:g}, {name_of_mean(e.of, e.n, e.unit)}: {e.mean:.3f} [{e.low:.3f}, "
        f"{e.high:.3f}]"
        for e in record.expected
    ]
    head = f"Expected influence over {count} contexts, with {record.confidence:.0%} intervals:"
    return [*([more] if count > shown else []), head, *rows]


def print_heat(record: InfluenceRecord, shown: int = SHOWN, file: IO[str] | None = None) -> None:
    """Print the heat map of the smallest spans; » and « mark the top-attributed pieces."""
    from rich.console import Console

    console = Console(file=file or sys.stdout, highlight=False, soft_wrap=True)
    for one in record.attributions[:shown]:
        for reading in one.readings:
            grid, how = finest(reading), f"{record.model}, {name_of_decoding(reading)}"
            what = f"spans of {grid.n}" if not grid.unit else f"{grid.unit}s"
            console.print(f"Influence of {what} on the response, {how}:", markup=False)
            faint = hides_copies(reading, grid)
            most = float((reading.grids[-1] if faint else grid).totals.max())
            console.print(_paint(segments(one, grid), most, marked=not faint))
            console.print()


def _paint(pieces: Sequence[Segment], most: float, marked: bool) -> Text:
    from rich.text import Text

    top = strongest_pieces(pieces) if marked else []
    text = Text()
    for at, piece in enumerate(pieces):
        level = round(4 * piece.influence / most) if most > 0 else 0
        drawn = f"»{piece.text}«" if at in top else piece.text
        shown = "".join(c if c.isprintable() or c == "\n" else "�" for c in drawn)
        color = ",".join(map(str, HEAT[level]))
        text.append(shown, style=f"black on rgb({color})" if level else "")
    return text
