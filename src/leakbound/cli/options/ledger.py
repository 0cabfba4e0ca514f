"""Whose budget an answer is charged to: options of the commands that answer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from leakbound.auditing.spec.groups import Design
from leakbound.cli.screen.help_pages import PATH, combine, option
from leakbound.errors import DataError, UsageError
from leakbound.serving.ledger import DATASET
from leakbound.tasks.named_tasks import task_by_name
from leakbound.tasks.rows.datasets import inline_rows
from leakbound.tasks.rows.sources import SourceRow, source_rows

LEDGER = "leakbound-ledger.sqlite"


ledger_key_option = option(
    "--ledger-key",
    "secret and high-water mark of the ledger, on another disk if you can [default: LEDGER.key; "
    "for PostgreSQL leakbound-ledger.key]",
    PATH,
)


@dataclass(frozen=True, slots=True)
class Accounts:
    """Which accounts of a ledger pay for answers."""

    dataset: str
    record_id: str | None
    ledger_key: Path | None

    def ids(self, design: Design, shots: int) -> list[str] | None:
        """Ids of the first rows."""
        if self.record_id is None:
            return [f"synthetic {i}" for i in range(shots)] if _is_bundled(design) else None
        if design.data_dir is not None or (design.data is None and design.rows is None):
            raise UsageError(
                "--record-id names a column of your own rows; give them with --data, or leave it "
                "out."
            )
        rows = (
            inline_rows(design.rows) if design.data is None
            else source_rows(design.data, design.delimiter, design.encoding)
        )  # fmt: skip
        return [_id(row, self.record_id) for row in islice(rows, shots)]

    def require_named(self, by_content: bool, budget: float | None, design: Design) -> None:
        if by_content and self.record_id is not None:
            raise UsageError(
                "--record-id and --by-content both say which record a row belongs to; leave one of "
                "them out."
            )
        if by_content and _is_bundled(design):
            raise UsageError(
                "--by-content is for rows of your own, and each bundled row is a record by its "
                "number; leave it out."
            )
        finite = budget is not None and math.isfinite(budget)
        if finite and not by_content and self.record_id is None and not _is_bundled(design):
            raise UsageError(
                "a finite --budget needs --record-id COLUMN or --by-content: each record has one "
                "budget, and what names it is yours to say. COLUMN is a field that never changes "
                "for a person or account. By content (but for case and white space), a row that "
                "is changed, and each row of one person, has a budget of its own."
            )


def _is_bundled(design: Design) -> bool:
    # these rows belong to nobody: each is a record by its number
    sources = (design.data, design.rows, design.data_dir)
    return task_by_name(design.task) is None and all(one is None for one in sources)


def _id(row: SourceRow, column: str) -> str:
    value = row.fields.get(column)
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        got = (
            "no" if value is None else "an empty" if value == "" else f"a {type(value).__name__} as"
        )
        raise DataError(
            f"{row.place} has {got} record id in the field {column!r}; it must be a text or a "
            "whole number, a different one in each row."
        )
    return str(value)


accounts_options = combine(
    "accounts",
    Accounts,
    option(
        "--dataset", "name of the data set; the budget is for all answers from it", default=DATASET
    ),
    option(
        "--record-id",
        "field that names the record of a row; each record has one budget [default: a row's "
        "content names it]",
        metavar="FIELD",
    ),
    ledger_key_option,
)
