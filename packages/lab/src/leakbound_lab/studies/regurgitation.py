"""How many responses repeat their context: the two counts of Context Influence.

The text and the published program of CI do not define the counts alike, so both are here under
their own names.
"""

from __future__ import annotations

import ast
import csv
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from leakbound.attribution.cases import CONTEXTS, REFERENCES
from leakbound.errors import DataError, reason_of
from leakbound.utility.rouge import rouge

WORDS = 25  # the program counts a repeat if more unique words are shared
LEVEL = 0.5  # of ROUGE-L, in both definitions
LONGEST_FIELD = 1 << 27  # characters of a CSV field: longer than any context
RESPONSES = ("response", "generation", "generations", "output", "prediction", "generated")


@dataclass(frozen=True, slots=True, repr=False)
class Generation:
    """A response with the context that it was made from, both PRIVATE; no reference is ""."""

    context: str
    response: str
    reference: str = ""


@dataclass(frozen=True, slots=True)
class Counts:
    """By definition: how many responses repeat words of their context, or are like it by ROUGE."""

    generations: int
    repeat: dict[str, int]
    rouge: dict[str, int]
    rouge1: float | None
    rougel: float | None


def shares_words(context: str, response: str) -> bool:
    """The program's `repeat`: more than 25 different words, split at blanks, stand in both."""
    return len(set(context.split()) & set(response.split())) > WORDS


def repeats_half(context: str, response: str) -> bool:
    """The text's `repeat`: half of the response stands word for word in the context, in one run.

    Examples:
        >>> repeats_half("the code is 4 8 2", "is 4 8 indeed")
        True
    """
    words, source = response.split(), context.split()
    need = -(-len(words) // 2)
    runs = {tuple(source[i : i + need]) for i in range(len(source) - need + 1)}
    return bool(words) and any(
        tuple(words[i : i + need]) in runs for i in range(len(words) - need + 1)
    )


def _rouge_either(context: str, response: str) -> bool:
    """The program's `rouge`: precision or recall of ROUGE-L against the context above 0.5."""
    found = rouge(context, response, stem=False)["rougeL"]
    return max(found.precision, found.recall) > LEVEL


TableRow = Mapping[str, object]
Test = Callable[[str, str], bool]
DEFINITIONS: dict[str, tuple[Test, Test]] = {
    # its `rouge` is read as F1
    "text": (repeats_half, lambda one, other: rouge(one, other, stem=False)["rougeL"].f1 > LEVEL),
    "program": (shares_words, _rouge_either),
}


def count_generations(rows: Sequence[Generation]) -> Counts:
    """Both counts by both definitions, and mean F1 of ROUGE over rows that have a reference."""
    counted = {
        name: [sum(test(row.context, row.response) for row in rows) for test in tests]
        for name, tests in DEFINITIONS.items()
    }
    scores = [rouge(row.reference, row.response) for row in rows if row.reference]
    means = {
        key: sum(s[key].f1 for s in scores) / len(scores) if scores else None
        for key in ("rouge1", "rougeL")
    }
    repeat, similar = ({name: pair[at] for name, pair in counted.items()} for at in (0, 1))
    return Counts(len(rows), repeat, similar, means["rouge1"], means["rougeL"])


def load_generations(
    path: str | Path,
    contexts: str | Path | None = None,
    context: str | None = None,
    response: str | None = None,
    reference: str | None = None,
) -> list[Generation]:
    """Rows of a CSV (with a head) or JSONL file, whose columns are found by their usual names.

    `contexts` is a second such file, row by row, where the generations come without them, as the
    published ones do. A context that is a list of texts, or holds one under `contexts` as the rows
    of PubMedQA do, is joined without a blank, as the paper's program does.
    """
    rows: list[TableRow] = _rows(Path(path))
    if contexts is not None:
        rows = _join(rows, _rows(Path(contexts)), str(contexts))
    head = list(rows[0])
    columns = [
        _column(head, context, CONTEXTS, "context"), _column(head, response, RESPONSES, "response"),
        _column(head, reference, REFERENCES, ""),
    ]  # fmt: skip
    if columns[0] == columns[1]:
        raise DataError(
            f"the column {columns[0]!r} is read as context and as response; name another with "
            "--context-field or --response-field."
        )
    return [
        Generation(*(_text(row.get(name), name) if name else "" for name in columns))
        for row in rows
    ]


def _text(value: object, column: str) -> str:
    """A cell as text: parts of a context are joined, and nothing is written as a Python object."""
    if isinstance(value, str):
        value = _literal(value) if value.startswith("{'contexts'") else value
    if isinstance(value, Mapping):
        value = value.get("contexts", value)
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return "".join(value)
    if value is None or isinstance(value, str | int | float):
        return "" if value is None else str(value)
    raise DataError(
        f"a row has {type(value).__name__} in {column!r}; it must be a text, a list of texts, or "
        '{"contexts": [texts]}.'
    )


def _literal(text: str) -> object:
    """What a table export wrote as a Python dictionary; the text itself if it is none."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _join(rows: list[TableRow], others: list[TableRow], name: str) -> list[TableRow]:
    if len(rows) != len(others):
        raise DataError(
            f"there are {len(rows)} generations, and {name!r} has {len(others)} rows; they must "
            "be the same contexts in the same order. Cut the longer file."
        )
    return [{**other, **row} for row, other in zip(rows, others, strict=True)]


def _rows(file: Path) -> list[TableRow]:
    csv.field_size_limit(LONGEST_FIELD)
    try:
        with file.open(encoding="utf-8-sig", newline="") as opened:
            if file.suffix == ".jsonl":
                rows = [json.loads(line) for line in opened if line.strip()]
            else:
                rows = list(csv.DictReader(opened))
    except (OSError, ValueError, csv.Error) as error:
        raise DataError(
            f"{str(file)!r} cannot be read ({reason_of(error)}); name a CSV or JSONL file in UTF-8."
        ) from None
    if any(None in row for row in rows if isinstance(row, dict)):
        raise DataError(
            f"a row of {str(file)!r} has more fields than the head; put fields with commas into "
            "quotes."
        )
    if not rows or not all(isinstance(row, dict) for row in rows):
        raise DataError(
            f"{str(file)!r} has no row; give a CSV file with a head and at least one row, or "
            "JSONL objects."
        )
    return rows


def _column(head: list[str], given: str | None, usual: Sequence[str], needed: str) -> str:
    """The column given, or the first with a usual name; "" if there is none and none is needed."""
    if given is not None and given not in head:
        raise DataError(
            f"there is no column {given!r}; the file has {', '.join(head) or 'no head'}."
        )
    lower = {name.strip().lower(): name for name in reversed(head)}
    found = given or next((lower[name] for name in usual if name in lower), "")
    if needed and not found:
        raise DataError(
            f"no column holds the {needed}; the file has {', '.join(head) or 'no head'}. Name it "
            f"with --{needed}-field."
        )
    return found
