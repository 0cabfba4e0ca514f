"""Words, number formats, cells and columns that several reports share."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from leakbound.stats import cut

if TYPE_CHECKING:
    from leakbound.gating.rates import Rate

VERDICTS = ("violation", "no_violation", "inconclusive")
LIMITS = (
    "A bound is a lower bound: the true leakage is at least that, and may be more.",
    "“No violation” means that this attack did not reject the claim. It does not prove the claim: "
    "a stronger attack, another canary or another query may reject it.",
    "The bound holds for one answer to one query over one context; if a query has several "
    "questions, for one answer to each. More answers leak more.",
    "The model is part of the system: another model, temperature or wording can leak more or less.",
    "Bounds assume that trials are independent within each context, as the design draws them.",
)
KINDS = {
    "lower_bound": "lower bound",
    "point_estimate": "point estimate, decides nothing",
    "credible": "credible bound",
}


def verdict_text(verdict: str, number: int = 1) -> str:
    return verdict.replace("_", " ") + "s" * (verdict == "violation" and number > 1)


def sentence(text: str) -> str:
    return text[:1].upper() + text[1:] if text[:1].isascii() else text


def decimal(value: float | None, digits: int = 3) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def rate_text(rate: Rate | None) -> str:
    """A rate with its interval, rounded outwards."""
    if rate is None:
        return "–"
    if rate.low is None or rate.high is None:
        return f"{rate.share:.3f}"
    return f"{rate.share:.3f} [{cut(rate.low, 3)}, {cut(min(1.0, rate.high + 1e-3), 3)}]"


@dataclass(frozen=True, slots=True)
class TableCell:
    text: str
    key: float | None = None
    kind: str = ""
    link: str = ""


def facts(
    *, system: str = "", model: str = "", data: str = "", claim: str = "", stored: str = "",
    cost: str = "", day: str = "",
) -> dict[str, str]:  # fmt: skip
    """The facts below an answer, in their order; day: of the audit, where it is known."""
    date = f"audit of {day}" if day else f"report of {report_day()}"
    date += f", outputs of {stored}" if stored and stored != day else ""
    found = {"System": system, "Model": model, "Data": data, "Claim": claim, "Date": date,
             "Cost": cost}  # fmt: skip
    return {label: text for label, text in found.items() if text}


def report_day() -> str:
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    now = datetime.fromtimestamp(int(epoch), UTC) if epoch.isdecimal() else datetime.now(UTC)
    return now.date().isoformat()


def number_of(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def align(*rows: Sequence[str]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )
