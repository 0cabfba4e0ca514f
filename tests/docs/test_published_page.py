"""The page on packages of the index is made from kept results, and they meet their goals."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "measured" / "published.md").read_text(encoding="utf-8")
KEPT: dict[str, Any] = json.loads(
    (ROOT / "bench" / "results" / "published.json").read_text(encoding="utf-8")
)
PINNED = (ROOT / "bench" / "published" / "requirements.txt").read_text(encoding="utf-8")
TEXTS = ("what", "states", "contexts", "how", "holds_if", "reference")


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The page of some results."""
    monkeypatch.syspath_prepend(str(ROOT / "bench" / "published"))
    monkeypatch.delitem(sys.modules, "page", raising=False)
    from page import page

    return page


def test_the_page_is_made_from_the_results(make: Any) -> None:
    assert make(KEPT) == PAGE, "run `make published-page`"


def test_at_least_five_packages_are_held_against_their_statements() -> None:
    packages = {found["package"] for found in KEPT["findings"]}
    assert {"dp-fusion-lib", "invink"} <= packages
    assert len(packages) >= 5
    assert any(not found["exceeds"] for found in KEPT["findings"])


def test_every_finding_says_what_it_rests_on() -> None:
    for found in KEPT["findings"]:
        assert all(found[name] for name in TEXTS), found["what"]
        assert f"{found['package']}=={found['version']}" in PINNED


def test_a_finding_exceeds_what_is_stated_and_its_reference_does_not() -> None:
    for found in KEPT["findings"]:
        stated, computed = float(found["claimed"]), float(found["found"])
        assert found["exceeds"] == (computed > stated * (1 + 1e-6)), found["what"]
        assert not found["reference_exceeds"], found["what"]
        assert float(found["reference_found"]) <= float(found["reference_claimed"]) * (1 + 1e-6)


def test_at_most_five_percent_of_correct_references_are_accused() -> None:
    audits = sum(one["audits"] for one in KEPT["references"])
    assert audits >= 200
    assert sum(one["violation"] for one in KEPT["references"]) <= 0.05 * audits


def test_authors_are_informed_first_and_the_findings_name_the_page() -> None:
    assert "before this page is announced" in PAGE
    assert "(published.md)" in (ROOT / "docs" / "measured" / "findings.md").read_text(
        encoding="utf-8"
    )


def test_an_accused_reference_would_show(make: Any) -> None:
    changed = json.loads(json.dumps(KEPT))
    changed["findings"][0]["reference_exceeds"] = True
    changed["references"] = [{**KEPT["references"][0], "audits": 100, "violation": 30}]
    assert "guarantee: 1 of" in make(changed)
    assert "30 of 100 report a violation (30.0 %)" in make(changed)
