"""A record as a long CSV table or as NumPy arrays. The JSON export is the record itself."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from leakbound.attribution.record import Attribution, InfluenceRecord, SpanGrid

CsvCell = str | int | float
COLUMNS = (
    "context", "lambda", "temperature", "n", "span", "first_token", "end_token", "first_character",
    "end_character", "span_text", "response_token", "response_token_text", "signed", "absolute",
    "token_lambda", "unit", "name", "method",
)  # fmt: skip


def csv_text(record: InfluenceRecord) -> str:
    """One line for each context, lambda, span and response token.

    Cells that a spreadsheet would run as a formula are quoted.

    Args:
        record: The record (PRIVATE).

    Returns:
        CSV text with a header; `token_lambda` differs from `lambda` under bounded CID.
    """
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows([_safe(cell) for cell in line] for line in lines(record))
    return buffer.getvalue()


def lines(record: InfluenceRecord) -> Iterator[tuple[CsvCell, ...]]:
    """The rows of the table, with unchanged texts."""
    for number, one in enumerate(record.attributions):
        for reading in one.readings:
            lams = reading.lams or (reading.lam,) * len(reading.tokens)
            start = (number, reading.lam, reading.temperature)
            for grid in reading.grids:
                for head, row, name in _rows(one, grid):
                    tail = (grid.unit, name, grid.method)
                    cells = enumerate(zip(reading.tokens, row, lams, strict=True))
                    for t, (piece, value, lam) in cells:
                        yield (*start, *head, t, piece, value, abs(value), lam, *tail)


def _rows(
    one: Attribution, grid: SpanGrid
) -> Iterator[tuple[tuple[CsvCell, ...], tuple[float, ...], str]]:
    for at, (span, row) in enumerate(zip(grid.spans, grid.signed, strict=True)):
        first, end = grid.characters[at] if grid.unit else (one.bounds[i] for i in span)
        text = one.context[first:end]
        yield (grid.n, at, *span, first, end, text), row, grid.names[at] if grid.unit else ""


def _safe(cell: CsvCell) -> CsvCell:
    return f"'{cell}" if isinstance(cell, str) and cell[:1] in ("=", "+", "-", "@") else cell


def npz_bytes(record: InfluenceRecord) -> bytes:
    """The numbers of a record as NumPy arrays.

    Args:
        record: The record.

    Returns:
        The bytes of an .npz file. Names are context/reading/what: token ids, ln p, and for each n
        and each kind of unit the spans (spans, 2), signed values (spans, tokens) and errors.
    """
    arrays: dict[str, npt.NDArray[np.generic]] = {}
    for number, one in enumerate(record.attributions):
        arrays[f"{number}/bounds"] = np.asarray(one.bounds)
        for at, reading in enumerate(one.readings):
            name = f"{number}/{at}"
            arrays[f"{name}/lambda"] = np.asarray(reading.lam)
            for key in ("token_ids", "log_p", "prior_log_p", "pmi", "lams"):
                arrays[f"{name}/{key}"] = np.asarray(getattr(reading, key))
            for grid in reading.grids:
                what = f"n{grid.n}" if not grid.unit else grid.unit.replace(":", "")
                arrays[f"{name}/{what}/spans"] = np.asarray(grid.spans)
                arrays[f"{name}/{what}/signed"] = np.asarray(grid.signed)
                if grid.errors:
                    arrays[f"{name}/{what}/errors"] = np.asarray(grid.errors)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()
