"""The tables of a page about influence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from leakbound.report.cells import TableCell
from leakbound.report.influence.spans import NamedReading, TopSpan, expected_name

if TYPE_CHECKING:
    from leakbound.attribution import Expected, InfluenceRecord


class WholeTable(NamedTuple):
    """What leaving out the whole context changes: headings, and a row for each reading."""

    head: tuple[str, ...]
    rows: list[tuple[TableCell | str, ...]]


def whole_table(readings: Sequence[NamedReading]) -> WholeTable:
    """Leave-one-out of the whole context."""
    entropy = ("Influence over entropy",) if readings[0].reading.entropy else ()
    head = (
        "Decoding", "Response", "Influence of the context", "Ex-post privacy loss ε", *entropy,
        "PMI (λ = 1, T = 1)", "Numerical tolerance of a token",
    )  # fmt: skip
    return WholeTable(head, [_whole_row(one) for one in readings])


def _whole_row(named: NamedReading) -> tuple[TableCell | str, ...]:
    reading, whole = named.reading, named.reading.grids[-1]
    how = "sampled" if reading.sampled else "given"
    total = float(whole.totals[0])
    entropy = (f"{reading.normalized(total):.3f}",) if reading.entropy else ()
    return (
        named.name, TableCell(f"{reading.text} ({how})", kind="break"), f"{total:.3f}",
        f"{whole.ex_post_privacy_losses[0]:.3f}", *entropy, f"{sum(reading.pmi):.3f}",
        f"{reading.tolerance:.1g}",
    )  # fmt: skip


def expected_head(records: Sequence[InfluenceRecord]) -> tuple[str, ...]:
    """Headings of the means over contexts."""
    model = ("Model",) if len(records) > 1 else ()
    interval = f"{records[0].confidence:.0%} interval"
    return (*model, "λ", "Of", "Mean influence on a response", interval)


def expected_row(record: InfluenceRecord, one: Expected, several: bool) -> tuple[str, ...]:
    """A mean over contexts."""
    model = (record.model,) if several else ()
    return (
        *model, f"{one.lam:g}", expected_name(one.of, one.n, one.unit), f"{one.mean:.3f}",
        f"{one.low:.3f} to {one.high:.3f}",
    )  # fmt: skip


def span_head(unit: str, method: str) -> tuple[str, ...]:
    """Headings of the top-attributed spans."""
    name, share = (("Name",), ("Share",)) if unit else ((), ())
    last = "Ex-post privacy loss ε" if method == "leave-one-out" else "|Sum of signed values|"
    return (*name, "Text", "Tokens", "Influence", *share, last)


def span_rows(spans: Sequence[TopSpan], unit: str) -> list[tuple[TableCell | str, ...]]:
    """The top-attributed spans."""
    return [_span_row(span, unit) for span in spans]


def _span_row(span: TopSpan, unit: str) -> tuple[TableCell | str, ...]:
    name, share = ((span.name,), (f"{100 * span.share:.1f}%",)) if unit else ((), ())
    error = f" ± {span.error:.3f}" if span.error else ""
    return (
        *name, TableCell(span.text, kind="break"), f"{span.first + 1}–{span.end}",
        f"{span.influence:.3f}{error}", *share, f"{span.loss:.3f}",
    )  # fmt: skip
