"""Status, headers and price of a reply are the same whatever one row holds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from services import ASK, TASK, send

from leakbound.errors import Refused, TargetError
from leakbound.mechanisms import ProductOfExperts, ReportNoisyMax
from leakbound.models import Scripted
from leakbound.serving import PrivateICL
from leakbound.serving.ledger import Ledger
from leakbound.tasks import Example, Mechanism

pytest.importorskip("starlette")

ROW = "the row that decides"


def filtered(prompt: str) -> str:
    """A provider that refuses one row, as content filters do."""
    if ROW in prompt:
        raise Refused("HTTP 400: content_filter", 400)
    return "odd"


def broken(prompt: str) -> str:
    """A provider that fails on one row."""
    if ROW in prompt:
        raise TargetError("HTTP 500")
    return "odd"


def unreadable(prompt: str) -> str:
    """A model that one row makes answer nonsense."""
    return "\x00\ud800" if ROW in prompt else "odd"


def reply(
    folder: Path, complete: Callable[[str], str], row: str, mechanism: Mechanism
) -> httpx.Response:
    folder.mkdir()
    rows = [Example(row, "odd"), *(Example(f"row {i}", "plain") for i in range(19))]
    model = Scripted(complete, lambda prompt, labels: [-len(complete(prompt))] * len(labels))
    served = PrivateICL(mechanism, rows, TASK, model, Ledger(folder / "ledger", 9.0, 1e-5))
    (found,) = send(served, {"json": ASK})
    found.extensions["answers"] = served.state.answers
    return found


@pytest.mark.parametrize("complete", [filtered, broken, unreadable])
@pytest.mark.parametrize("mechanism", ["votes", "experts"])
def test_one_row_decides_no_status_no_header_and_no_price(
    tmp_path: Path, complete: Callable[[str], str], mechanism: str
) -> None:
    """A content filter on one row failed the whole vote: HTTP 500 after the spend."""
    made: Mechanism = (
        ReportNoisyMax.calibrated(1.0, 1e-5, 10)
        if mechanism == "votes"
        else ProductOfExperts.calibrated(1.0, 1e-5)
    )
    here = reply(tmp_path / "here", complete, ROW, made)
    gone = reply(tmp_path / "gone", complete, "another row", made)
    assert (here.status_code, gone.status_code) == (200, 200), here.text
    for one in (here, gone):
        del one.headers["content-length"]  # of the released text
    assert here.headers == gone.headers
    assert here.extensions["answers"] == gone.extensions["answers"] == 1
    assert here.json()["leakbound"].keys() == gone.json()["leakbound"].keys()
    prices = [one.json()["leakbound"]["epsilon_spent"] for one in (here, gone)]
    assert prices[0] == prices[1]
