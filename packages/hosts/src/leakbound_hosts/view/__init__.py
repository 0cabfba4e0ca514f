"""Many runs on one page: a list that can be filtered, how bounds change, and pages of runs."""

from __future__ import annotations

import html
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leakbound.auditing import load_result
from leakbound.cli.screen.finished_runs import runs_at
from leakbound.errors import LeakboundError, kind_of
from leakbound.gating.compare import compare_results
from leakbound.report import page
from leakbound.report.decisions.comparison import comparison_page
from leakbound.report.pages import render, script_file
from leakbound.report.words import TableCell, facts, number_of, verdict_text
from leakbound.stats import beside

FILE = "record.json"
HEAD = ("Run", "System", "Verdict", "ε ≥", "Claim", "Pairs", "Calls", "Day", "Compare")
ORDER = ("violation", "inconclusive", "no_violation")
LINK = re.compile(r'href="((?:run|compare)-[^"]*)\.html"')
TREND = 2  # runs of a system from which its bounds are drawn


@dataclass(frozen=True, slots=True)
class ShownRun:
    """What the list says of a run."""

    folder: Path
    name: str  # of its pages, which no other run has
    system: str = ""
    verdict: str | None = None
    why: str = ""  # there is no result, or it is inconclusive
    epsilon: float = 0.0
    claim: float = 0.0
    pairs: int = 0
    calls: int = 0
    day: str = ""
    written: float = 0.0  # when its result was, in seconds since 1970


def runs_in(paths: Iterable[Path]) -> list[ShownRun]:
    """The runs at the paths and in them, with or without a result, by their folders.

    A record is read as it is; its page verifies it.
    """
    taken = Counter[str]()
    found = list[ShownRun]()
    for run in dict.fromkeys(runs_at(paths).all):
        plain = run.parent.name if run.name == FILE else run.name
        taken[plain] += 1
        found.append(_run_at(run, plain if taken[plain] == 1 else f"{plain}.{taken[plain]}"))
    return sorted(found, key=lambda one: (one.written, one.name), reverse=True)


def _run_at(run: Path, name: str) -> ShownRun:
    file = run if run.is_file() else run / FILE
    try:
        if not file.is_file():
            return ShownRun(run, name, why="unfinished")
        found: dict[str, Any] = json.loads(file.read_bytes())
        decided = next(e for e in found["estimates"] if e["method"] == found["decided_by"][0])
        return ShownRun(
            run, name, found["attack"]["mechanism"], found["verdict"], found["reason"] or "",
            float(decided["epsilon"] or 0.0), float(found["claim"]["epsilon"]),
            int(found["counts"].get("pairs", 0)), int(found["counts"]["model_calls"]),
            str(found["provenance"].get("begun", "")), file.stat().st_mtime,
        )  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError, StopIteration, RecursionError) as error:
        return ShownRun(run, name, why=f"cannot be read ({kind_of(error)})")


class View:
    """Pages over the runs at some paths, read anew for each page; suffix: of their addresses."""

    def __init__(self, paths: Sequence[Path], suffix: str = "") -> None:
        self.paths, self.suffix = tuple(paths), suffix

    def runs(self) -> list[ShownRun]:
        return runs_in(self.paths)

    def index(self) -> str:
        """The list of all runs."""
        runs = self.runs()
        finished = [one for one in runs if one.verdict is not None]
        counts = {name: sum(one.verdict == name for one in runs) for name in ORDER}
        before: dict[str, list[ShownRun]] = defaultdict(list)
        for one in reversed(finished):
            before[one.system].append(one)
        return render(
            "runs.html.j2", package="leakbound_hosts.view",
            script=script_file("sweep/page.js").replace("points shown", "runs shown"),
            title="Runs", tone=next((name for name in ORDER if counts[name]), ""),
            facts=facts(
                system=number_of(len(before), "system"),
                cost=number_of(sum(one.calls for one in finished), "model call"),
            ),
            tally=[(name, verdict_text(name), counts[name]) for name in ORDER],
            missing=[(one.name, one.why) for one in runs if one.verdict is None],
            head=HEAD, rows=[self._row(one, before) for one in finished],
            trends=[
                (system, _line(every)) for system, every in before.items() if len(every) >= TREND
            ],
        )  # fmt: skip

    def _row(self, one: ShownRun, before: dict[str, list[ShownRun]]) -> dict[str, object]:
        same = before[one.system]
        at = same.index(one)
        last = same[at - 1].name if at else ""
        bound, claim = beside(one.epsilon, one.claim)
        cells = (
            TableCell(one.name, link=f"run-{one.name}{self.suffix}"),
            TableCell(one.system),
            TableCell(verdict_text(str(one.verdict)), kind=f"{one.verdict} nowrap"),
            TableCell(bound, one.epsilon), TableCell(claim, one.claim),
            TableCell(str(one.pairs), one.pairs), TableCell(str(one.calls), one.calls),
            TableCell(one.day),
            TableCell("with the run before" if last else "", link=last and
                      f"compare-{last}--{one.name}{self.suffix}"),
        )  # fmt: skip
        return {"cells": cells, "searched": " ".join(cell.text for cell in cells).lower()}

    def page(self, name: str) -> str | None:
        """The page of that name; None where there is none."""
        runs = {one.name: one.folder for one in self.runs()}
        if name in ("", "index"):
            return self.index()
        if name.startswith("run-") and (folder := runs.get(name[4:])):
            return page([load_result(folder)])
        if name.startswith("compare-"):
            one, _, other = name.removeprefix("compare-").partition("--")
            if one in runs and other in runs:
                both = [load_result(runs[one]), load_result(runs[other])]
                return comparison_page(compare_results(both))
        return None

    def write(self, folder: Path, put: Callable[[Path, str], None]) -> int:
        """Write all pages as files; how many are missing, as their runs cannot be read."""
        failed, done, index = 0, set[str](), self.index()
        put(folder / "index.html", index)
        for name in LINK.findall(index):
            if name in done:
                continue
            done.add(name)
            try:
                put(folder / f"{name}.html", str(self.page(html.unescape(name))))
            except LeakboundError:
                failed += 1
        return failed


def _line(runs: Sequence[ShownRun]) -> str:
    """Bounds of one system from the first run to the last one, as an SVG path beside the claims."""
    most = max(1e-9, *(one.epsilon for one in runs), *(one.claim for one in runs))

    def path(values: Sequence[float]) -> str:
        step = 300 / (len(values) - 1)
        heights = (58 - 54 * value / most for value in values)
        return " ".join(f"{at * step:.1f},{height:.1f}" for at, height in enumerate(heights))

    words = ", ".join(f"{one.epsilon:.2f}" for one in runs)
    return (
        f'<svg role="img" viewBox="0 0 300 60" width="300" height="60" '
        f'aria-label="lower bounds on epsilon: {words}" fill="none" stroke-width="2">'
        f'<polyline points="{path([one.claim for one in runs])}" stroke="currentColor" '
        f'stroke-dasharray="4 4" opacity=".6"/>'
        f'<polyline points="{path([one.epsilon for one in runs])}" stroke="#d55e00"/></svg>'
    )
