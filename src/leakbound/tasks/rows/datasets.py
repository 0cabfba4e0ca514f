"""Private rows as examples, from any source, with a field map.

Every bad row gets a sentence before any model call. What an operator should know of usable
rows (what is left out, copies, labels that are alike or missing) are counts over private rows, so
`answer` and `serve` neither leave rows out nor count them.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol, cast, runtime_checkable

from leakbound.errors import DataError
from leakbound.models.content import content_key
from leakbound.tasks.example import Context, Example
from leakbound.tasks.images import image_below
from leakbound.tasks.rows.fields import IMAGE, EmptyField, guess, with_chats
from leakbound.tasks.rows.sources import Fields, SourceRow, SourceRows, source_rows
from leakbound.tasks.task import AROUND, Task, plain

TASKS = ("classification", "generation")
MAX_CLASSES = 20  # with more distinct labels, answers are taken for free texts


def load_rows(
    path: str | Path, input_field: str | None = None, label_field: str | None = None,
    input_template: str | None = None, drop_empty: bool = False, delimiter: str | None = None,
    encoding: str | None = None,
) -> Context:  # fmt: skip
    folder = Path(path) if Path(path).is_dir() else Path(path).parent
    rows = source_rows(str(path), delimiter, encoding)
    return as_examples(
        rows, repr(str(path)), input_field, label_field, input_template, folder, drop_empty
    )


def as_examples(
    rows: SourceRows, where: str, input_field: str | None = None,
    label_field: str | None = None, input_template: str | None = None, folder: Path = Path(),
    drop_empty: bool = False,
) -> Context:  # fmt: skip
    """Rows of a source as examples; what was found is logged under the name leakbound.data."""
    names = (tuple(map(str, with_chats(row).fields)) for row in rows)
    fields = guess(names, where, input_field, label_field, input_template)
    if label_field is None or not (input_field or input_template):
        LOG.info(
            "%s: the input is %s and the label is %s, %s; choose others with --input-field (or "
            "--input-template) and --label-field.",
            where, fields.template.replace("\n", "\\n"), fields.label,
            "the first as named, the second by a usual name" if input_field or input_template
            else "the second as named, the first by a usual name" if label_field
            else "found by the usual names of fields",
        )  # fmt: skip
    found: Iterable[SourceRow] = map(with_chats, rows)
    if IMAGE in fields.names:
        found = [_with_image(row, folder) for row in found]
    return examples_of(where, found, fields.example, drop_empty)


def _with_image(row: SourceRow, folder: Path) -> SourceRow:
    name = row.fields.get(IMAGE)
    if not isinstance(name, str | int | float) or name == "":
        return row  # what is empty or no name has its own sentence
    image = image_below(folder, str(name), row.place)
    return SourceRow(row.place, {**row.fields, IMAGE: image})


def inline_rows(rows: object) -> list[SourceRow]:
    """Rows that stand in a configuration."""
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise DataError(
            "rows must be a list of objects with named fields, such as 'rows: [{text: ..., label: "
            "...}, ...]', and not empty."
        )
    places = (f"row {number} of the configuration" for number in range(1, len(rows) + 1))
    return [SourceRow(place, row) for place, row in zip(places, rows, strict=True)]


@runtime_checkable
class _Polars(Protocol):
    def to_dicts(self) -> list[Fields]: ...


@runtime_checkable
class _Arrow(Protocol):
    column_names: Sequence[str]

    def to_pylist(self) -> list[Fields]: ...


@runtime_checkable
class _Pandas(Protocol):
    columns: Iterable[object]

    def to_dict(self, orient: str) -> list[Fields]: ...


def table_rows(rows: object) -> list[SourceRow] | None:
    """Rows (PRIVATE) of a data frame, a table or mappings; None if they are others."""
    if isinstance(rows, _Polars):
        found: Sequence[object] = rows.to_dicts()
    elif isinstance(rows, _Arrow):
        found = rows.to_pylist()
    else:
        listed = [*rows] if isinstance(rows, Iterable) and not isinstance(rows, str) else []
        found = rows.to_dict("records") if isinstance(rows, _Pandas) else listed
    if not found or not all(isinstance(row, Mapping) for row in found):
        return None
    each = (cast("Mapping[object, object]", row).items() for row in found)
    # where a column has gaps, pandas has a number that is none
    plain = ({str(key): None if value != value else value for key, value in row} for row in each)
    return [SourceRow(f"row {number}", row) for number, row in enumerate(plain, 1)]


def infer_task(rows: Context, name: str | None = None) -> Task:
    """Classification where the labels are few and recur, else generation."""
    labels = Counter(row.label for row in rows)
    few = len(labels) <= MAX_CLASSES and len(labels) <= max(2, len(rows) // 2)
    if name == "classification" or (name is None and few):
        if len(labels) > 10 * MAX_CLASSES:
            raise DataError(
                f"the data has {len(labels)} distinct labels; a classification task may have at "
                f"most {10 * MAX_CLASSES}."
            )
        return Task("classification", labels=tuple(sorted(labels)))
    return Task("generation", label_name="Output")


def require_classes(task: Task, rows: Context) -> None:
    """Refuse a classification data set with one class only."""
    if task.labels and len({row.label for row in rows}) < 2:
        raise DataError(
            f"all rows have the same label ({len(rows)} in all); a classification needs two, or "
            "more. Check the label field, or choose --task generation."
        )


def fingerprint(rows: Context) -> str:
    """A hash of the rows, for provenance and resuming."""
    digest = hashlib.sha256()
    for row in rows:
        digest.update(json.dumps([content_key(row.input), row.label]).encode())
    return digest.hexdigest()[:16]


LOG = logging.getLogger("leakbound.data")
# how tables write that a value is missing; "None" and "NA" in this case only, as pandas writes them
MISSING = frozenset({"nan", "null", "n/a", "#n/a", "<na>"})
MISSING_AS_WRITTEN = frozenset({"None", "NA"})


def is_missing(label: str) -> bool:
    """Does a label say that there is none?"""
    return label.casefold() in MISSING or label in MISSING_AS_WRITTEN


def examples_of(
    where: str, rows: Iterable[SourceRow], example: Callable[[SourceRow], Example], drop_empty: bool
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
        total = lacks.total() + len(found)
        LOG.warning("%s: %d of %d rows are left out: %s.", where, lacks.total(), total, why)
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
    kinds = {*rows}
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
