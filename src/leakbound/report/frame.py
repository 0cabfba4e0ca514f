"""What every page says first beside its answer: on what, when and at what cost."""

from __future__ import annotations

import os
from datetime import UTC, datetime


def facts(
    *, system: str = "", model: str = "", data: str = "", claim: str = "", stored: str = "",
    cost: str = "",
) -> dict[str, str]:  # fmt: skip
    """The facts below an answer, in their order."""
    date = f"report of {written()}" + (f", outputs of {stored}" if stored else "")
    found = {"System": system, "Model": model, "Data": data, "Claim": claim, "Date": date,
             "Cost": cost}  # fmt: skip
    return {label: text for label, text in found.items() if text}


def written() -> str:
    """The day on which a report is written."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    now = datetime.fromtimestamp(int(epoch), UTC) if epoch.isdecimal() else datetime.now(UTC)
    return now.date().isoformat()


def counted(number: int, thing: str) -> str:
    """A number of things.

    Examples:
        >>> counted(1, "context"), counted(1200, "context")
        ('1 context', '1,200 contexts')
    """
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
