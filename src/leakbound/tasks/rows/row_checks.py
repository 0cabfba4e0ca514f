"""What an operator should know of rows: what is left out, copies, labels that are alike or missing.

These are counts over private rows, so `answer` and `serve` neither leave rows out nor count them.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from leakbound.errors import DataError
from leakbound.models.content import content_key
from leakbound.tasks.example import Context, Example
from leakbound.tasks.parse import AROUND, plain
from leakbound.tasks.rows.fields import EmptyField
from leakbound.tasks.rows.row_files import SourceRow
from leakbound.tasks.task import Task

LOG = logging.getLogger("leakbound.data")
# how tables write that a value is missing; "None" and "NA" in this case only, as pandas writes them
MISSING = frozenset({"nan", "null", "n/a", "#n/a", "<na>"})
MISSING_AS_WRITTEN = frozenset({"None", "NA"})


def is_missing(label: str) -> bool:
    """Does a label say that there is none?"""
    return label.casefold() in MISSING or label in MISSING_AS_WRITTEN


def examples_of(
    where: str, rows: Sequence[SourceRow], example: Callable[[SourceRow], Example], drop_empty: bool
) -> Context:
    """Rows as examples, perhaps without those that lack something."""
    if not drop_empty:
        return tuple(map(example, rows))
    lacks: Counter[str] = Counter()
    found = tuple(one for row in rows if (one := _fill(row, example, lacks)) is not None)
    if not found:
        raise DataError(f"{where} has no row left without those that --drop-empty leaves out.")
    if lacks:
        why = ", ".join(f"{times} with {what}" for what, times in lacks.items())
        LOG.warning("%s: %d of %d rows are left out: %s.", where, lacks.total(), len(rows), why)
    return found


def _fill(
    row: SourceRow, example: Callable[[SourceRow], Example], lacks: Counter[str]
) -> Example | None:
    """The example of a row that lacks nothing; what another one lacks is counted."""
    try:
        found = example(row)
    except EmptyField as error:
        lacks[f"an empty field {error.field!r}"] += 1
        return None
    if is_missing(found.label):
        lacks["a label such as NaN, null or N/A"] += 1
        return None
    return found


def warn_of_rows(rows: Context, task: Task) -> None:
    """Log each warning of `row_warnings` under the name leakbound.data."""
    for warning in row_warnings(rows, task):
        LOG.warning(warning)


def row_warnings(rows: Context, task: Task) -> Iterator[str]:
    """What should be known of rows that can be used."""
    kinds = {(json.dumps(content_key(row.input)), row.label) for row in rows}
    if len(kinds) < len(rows):
        yield (
            f"{len(rows) - len(kinds)} of {len(rows)} rows repeat an earlier row; leave them out, "
            "unless they are records of their own."
        )
    if task.labels:
        yield from _label_warnings(Counter(row.label for row in rows))


def _label_warnings(labels: Counter[str]) -> Iterator[str]:
    around = AROUND.replace("-", "")  # -1 is not 1, and A- is not A
    forms = {label: plain(label, around) for label in labels}
    times = Counter(forms.values())
    alike = [label for label in labels if times[forms[label]] > 1]
    if alike:
        yield (
            f"{len(alike)} of {len(labels)} labels differ from another one in case, spaces or "
            f"punctuation only ({sum(labels[label] for label in alike)} rows), and answers may not "
            "tell them apart; spell each label in one way."
        )
    missing = sum(labels[label] for label in labels if is_missing(label))
    if missing:
        yield (
            f"{missing} of {labels.total()} rows have a label that reads NaN, null, N/A or the "
            "like, which counts as a class; leave these rows out (--drop-empty), or rename the "
            "label."
        )
