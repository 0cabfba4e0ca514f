"""Scores of a run from the files that evaluation tools write, and pairs of two runs.

Each format is told by the fields of its records, which its row of `FORMATS` names; what has none of
them is a table with one sample a row. What a file holds beside numbers in [0, 1] is no metric.
"""

from __future__ import annotations

import json
import math
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from leakbound.errors import DataError, LeakboundError, UsageError, why_no_file
from leakbound.stats.arrays import Floats
from leakbound.tasks.rows.row_files import Fields, require_small
from leakbound.tasks.rows.sources import source_rows
from leakbound_hosts.summary import host_error

ScoreEntry = tuple[str, str, Any]  # metric, id of the sample, value
RunRecords = Iterable[Any]  # mappings, as a tool wrote them
WORDS = {"true": 1.0, "false": 0.0}


class _ScoreColumn(NamedTuple):
    """Scores of one metric, in the order of the file; no ids where the file names none."""

    ids: list[str]
    values: Floats


ScoreColumns = dict[str, _ScoreColumn]


def _lm_eval(rows: RunRecords) -> Iterator[ScoreEntry]:
    """`samples_*.jsonl`, written with --log_samples: metrics have the names of the results."""
    for row in rows:
        for name in row["metrics"]:
            yield f"{name},{row['filter']}", str(row["doc_id"]), row[name]


def _garak(rows: RunRecords) -> Iterator[ScoreEntry]:
    """`*.report.jsonl`: the detectors' scores of the outputs of each evaluated attempt."""
    for row in rows:
        if row["entry_type"] == "attempt" and row["status"] == 2:
            probe = row["probe_classname"]
            for detector, scores in row["detector_results"].items():
                for at, score in enumerate(scores):
                    if score is not None:
                        yield f"{probe}/{detector}", f"{row['seq']}/{at}", score


def _promptfoo(rows: RunRecords) -> Iterator[ScoreEntry]:
    """What `promptfoo eval -o` wrote, by test: its own order, of who ended first, tells scores."""
    for row in sorted(rows, key=lambda row: (row["testIdx"], row["promptIdx"])):
        if row.get("failureReason") == 2:
            raise DataError(
                f"test {row['testIdx']} of promptfoo ended with an error of the provider, which is "
                "no score; run it again (--retry-errors)."
            )
        scores = {"success": row["success"], "score": row["score"], **row["namedScores"]}
        for name, score in scores.items():
            yield name, f"{row['testIdx']}/{row['promptIdx']}", score


def _deepeval(rows: RunRecords) -> Iterator[ScoreEntry]:
    """`test_run_*.json` and `.latest_run_full.json`: each metric's score, and "success"."""
    for row in rows:
        for one in row["metricsData"]:
            yield one["name"], str(row["name"]), one.get("score")
        yield "success", str(row["name"]), row.get("success")


FORMATS: dict[str, tuple[set[str], Callable[[RunRecords], Iterator[ScoreEntry]]]] = {
    "lm-eval": ({"doc_id", "filter", "metrics"}, _lm_eval),
    "garak": ({"entry_type"}, _garak),
    "promptfoo": ({"testIdx", "promptIdx", "namedScores"}, _promptfoo),
    "deepeval": ({"name", "metricsData"}, _deepeval),
}


def columns_of(file: Path, id_column: str = "id", wanted: tuple[str, ...] = ()) -> ScoreColumns:
    """The metrics of a file."""
    if not file.is_file():
        raise DataError(f"the file {str(file)!r} {why_no_file(file)}; give the results of a run.")
    found = _json_object(file) if file.suffix == ".json" else None
    if file.suffix == ".eval" or (found is not None and {"eval", "samples"} <= found.keys()):
        return _columns(file, _inspect(file), wanted)
    try:
        rows = iter(_records(file, found or {}))
        first = next(rows)
        for keys, read in FORMATS.values():
            if keys <= first.keys():
                return _columns(file, read(chain([first], rows)), wanted)
        entries = _table(file, chain([first], rows), id_column)
        return _columns(file, entries, wanted, id_column in first)
    except (KeyError, TypeError, AttributeError, StopIteration) as error:
        raise DataError(
            f"{str(file)!r} has no records, or lacks what those of its tool have "
            f"({type(error).__name__}); write the scores as CSV, with one sample a row."
        ) from None


def _json_object(file: Path) -> dict[str, Any] | None:
    require_small(file, file.stat().st_size)
    try:
        with file.open(encoding="utf-8") as text:
            if text.read(64).lstrip("\ufeff \n\r\t")[:1] != "{":
                return None
            text.seek(0)
            found = json.load(text)
    except (ValueError, RecursionError):  # several objects, one a line; or broken
        return None
    return found if isinstance(found, dict) else None


def _records(file: Path, found: dict[str, Any]) -> Iterable[Fields]:
    """The records of promptfoo or deepeval; any other rows."""
    found = found.get("testRunData", found)
    if isinstance(inner := found.get("results"), dict):
        return list(inner.get("results", []))
    if "testCases" in found:
        return [*found["testCases"], *found.get("conversationalTestCases", [])]
    return (row.fields for row in source_rows(str(file)))


def _inspect(file: Path) -> Iterator[ScoreEntry]:
    try:
        from leakbound_hosts.inspect.stopping import every_score
    except ModuleNotFoundError:
        raise host_error("inspect_ai", "inspect") from None
    try:
        yield from every_score(file)
    except LeakboundError:
        raise
    except Exception as error:  # of many kinds, after the place and the form of the log
        raise DataError(
            f"the log {str(file)!r} cannot be read ({type(error).__name__}); give a .eval or .json "
            "file of inspect_ai."
        ) from error


def _table(file: Path, rows: Iterable[Fields], id_column: str) -> Iterator[ScoreEntry]:
    for number, row in enumerate(rows, 1):
        if (id := row.get(id_column, number)) in ("", None):
            raise DataError(f"row {number} of {str(file)!r} has no {id_column!r}; fill it.")
        key = str(id)
        for name, value in row.items():
            if name != id_column:
                yield name, key, value


def _columns(
    file: Path, entries: Iterable[ScoreEntry], wanted: tuple[str, ...], named: bool = True
) -> ScoreColumns:
    ids = defaultdict[str, list[str]](list)
    found: defaultdict[str, array[float]] = defaultdict(lambda: array("d"))
    other = set[str]()
    for name, key, value in entries:
        if name in other or (wanted and name not in wanted):
            continue
        number = _number(value)
        if number is None or number < 0 or number > 1:
            other.add(name)
            if name in wanted:
                raise DataError(
                    f"{name!r} of sample {len(ids[name]) + 1} of {str(file)!r} is no number from 0 "
                    "to 1; divide it by its largest value, or name another metric."
                )
        else:
            found[name].append(number)
            ids[name].append(key)
    columns = ScoreColumns()
    for name in found.keys() - other:
        values = np.array(found[name])
        missing = np.flatnonzero(np.isnan(values))
        if missing.size == values.size:
            continue
        if missing.size:
            raise DataError(
                f"{name!r} of sample {missing[0] + 1} of {str(file)!r} is missing or NaN; give it "
                "a score, or name other metrics with --metric."
            )
        columns[name] = _ScoreColumn(ids[name] if named else [], values)
    return dict(sorted(columns.items()))


def _number(value: Any) -> float | None:
    """A number, NaN where there is none, or None for anything else."""
    if value is None or value == "":
        return math.nan
    try:
        return float(value)
    except (TypeError, ValueError):
        return WORDS.get(str(value).strip().lower())


def pairs_of(
    metric: str, first: _ScoreColumn, second: _ScoreColumn, paired: bool | None
) -> tuple[Floats, Floats, bool]:
    """Scores of both runs, and whether they are of the same samples in the same order."""
    for ids in (first.ids, second.ids):
        if repeats := len(ids) - len(set(ids)):
            raise DataError(
                f"{repeats} of {len(ids)} samples of {metric!r} have the id of an earlier one; a "
                "sample counts once. Leave repeats out, or name another column with --id-field."
            )
    if paired is False or (paired is None and not (first.ids and second.ids)):
        return first.values, second.values, False
    if not (first.ids and second.ids):
        raise UsageError("a file has no ids to pair by; name their column with --id-field.")
    if first.ids == second.ids:
        return first.values, second.values, True
    place = {one: at for at, one in enumerate(second.ids)}
    common = sum(one in place for one in first.ids)
    if common == len(first.ids) == len(second.ids):
        return first.values, second.values[[place[one] for one in first.ids]], True
    if paired is None and not common:
        return first.values, second.values, False
    raise DataError(
        f"the ids of {metric!r} are not the same: {len(first.ids)} samples in A, "
        f"{len(second.ids)} in B, {common} in both. Give the same samples of both, or --unpaired "
        "if they are different samples all the same."
    )
