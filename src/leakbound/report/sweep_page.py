"""A sweep as one HTML file:

verdicts first, then figures, then a table to sort and filter; opens from disk, asks nothing of the
network.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.resources
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from leakbound.report.sweep_figures import view_svg
from leakbound.report.sweep_views import setting_name, views_of
from leakbound.report.sweep_words import (
    calls_sentence,
    claims,
    not_tried,
    tally,
    together,
    tried,
    worst_sentences,
)
from leakbound.report.words import KINDS, LIMITS
from leakbound.stats import cut

if TYPE_CHECKING:
    from leakbound.gating.rates import Rate
    from leakbound.sweeping import SweepPoint, SweepRecord

__all__ = ["sweep_page"]

CAPTIONS = {
    "bound": "Lower bounds of what the attack showed. A bound above the claim's line speaks against the claim; a bound below it is no proof.",
    "utility": "The share of right answers, or ROUGE-L, of released answers to held-out queries, between the model without examples and with all of them.",
    "frontier": "A point a setting, numbered as in the table where there are many. Further left shows less leakage to this attack, further up is more useful.",
}
SPREAD = " Bands and bars span the repeats, from least to largest, and are no confidence bounds; every marker of a bound is the median of lower bounds."


@dataclass(frozen=True, slots=True)
class _Cell:
    """What a cell shows, and the number that it is sorted by where that is not its text."""

    text: str
    key: float | None = None
    kind: str = ""


def sweep_page(record: SweepRecord, title: str | None = None) -> str:
    """The page of a sweep. All text is escaped; the one script is named by its hash."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("leakbound.report", "."), autoescape=True, undefined=StrictUndefined
    )
    script = (
        importlib.resources.files("leakbound.report")
        .joinpath("sweep.js")
        .read_text(encoding="utf-8")
    )
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return environment.get_template("sweep.html.j2").render(
        record=record, title=title or f"Sweep over {', '.join(record.grid) or 'seeds'}", script=script, digest=digest, tally=tally(record),
        lines=_lines(record), figures=[(view_svg(view), _caption(record, view.name, view.left_out)) for view in views_of(record)],
        head=_head(record), rows=[_row(record, at, p) for at, points in enumerate(record.settings, 1) for p in points],
        warnings=list(dict.fromkeys(w for p in record.points for w in p.warnings)), limits=LIMITS, named=setting_name,
    )  # fmt: skip


def _lines(record: SweepRecord) -> dict[str, str]:
    if not record.points:
        return {}
    return {
        "Worst": " ".join(worst_sentences(record)), "Claimed": claims(record) + ".", "Tried": tried(record),
        "Not tried": not_tried(record), "All at once": together(record), "Calls": calls_sentence(record),
    }  # fmt: skip


def _caption(record: SweepRecord, name: str, left_out: int) -> str:
    lost = f" {left_out} points have no finite value and are not shown." if left_out else ""
    return CAPTIONS[name] + (SPREAD if record.repeats > 1 else "") + lost


def _measured(record: SweepRecord) -> bool:
    return any(point.utility is not None for point in record.points)


def _head(record: SweepRecord) -> tuple[str, ...]:
    utility = ("utility", "floor", "ceiling") if _measured(record) else ()
    return ("no.", *record.grid, "seed", "verdict", "claimed ε", "ε is at least", "by", "TPR", "FPR", "μ is at least", "guaranteed μ",
            "exact ε", *utility, "pairs", "calls", "run")  # fmt: skip


def _row(record: SweepRecord, number: int, point: SweepPoint) -> list[_Cell]:
    bound = point.bound
    values = [point.changes.get(key) for key in record.grid]
    return [
        _Cell(str(number), number), *(_plain(value) for value in values), _plain(point.seed), _Cell(point.verdict, None, point.verdict),
        _number(point.claim.epsilon, f"{point.claim.epsilon:g}"), _number(bound.epsilon, cut(bound.epsilon)),
        _Cell(f"{bound.method}, {bound.confidence or 0:.0%} {KINDS[bound.kind]}"), *(_rate(point.rates.get(name)) for name in ("tpr", "fpr")),
        _number(point.mu, cut(point.mu, 3)), _number(point.guarantee.mu), _number(point.exact),
        *(_utility(point) if _measured(record) else ()), _plain(point.pairs), _plain(point.model_calls), _Cell(point.run),
    ]  # fmt: skip


def _plain(value: Any) -> _Cell:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return _Cell("none" if value is None else str(value), float(value) if number else None)


def _number(value: float | None, text: str | None = None) -> _Cell:
    return _Cell("–", -1.0) if value is None else _Cell(text or f"{value:.3f}", value)


def _rate(rate: Rate | None) -> _Cell:
    """A rate with its interval, rounded outwards."""
    if rate is None:
        return _Cell("–", -1.0)
    share = rate.hits / rate.trials
    if rate.low is None or rate.high is None:
        return _Cell(f"{share:.3f}", share)
    return _Cell(f"{share:.3f} [{cut(rate.low, 3)}, {cut(min(1.0, rate.high + 1e-3), 3)}]", share)


def _utility(point: SweepPoint) -> tuple[_Cell, ...]:
    used = point.utility
    return tuple(_number(None if used is None else value) for value in (
        (used.value, used.floor, used.ceiling) if used else (None, None, None)
    ))  # fmt: skip
