"""The page: self-contained, escaped, and readable in a real browser."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from contrast import contrast

import leakbound
from leakbound.models import Scripted
from leakbound.report import comparison_table, page, summary
from leakbound.stats import cut
from leakbound.tasks import Example


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> list[leakbound.AuditResult]:
    out = tmp_path_factory.mktemp("runs")
    data = tuple(Example(f"row {i}", "ab"[i % 2]) for i in range(40))
    model = Scripted(complete=lambda p: "yes" if p.count(p.split('"')[-2]) > 1 else "no")
    kinds: list[dict[str, Any]] = [{}, {"mechanism": "report_noisy_max", "epsilon": 4}]
    return [
        leakbound.audit(
            data,
            model=model,
            out=out,
            pairs=60,
            simulations=2_000,
            settings={"labels": "a,b"},
            **kind,
        )
        for kind in kinds
    ]


@pytest.fixture(scope="module")
def text(records: list[leakbound.AuditResult]) -> str:
    """The page of both."""
    return page(records, "Two systems")


def test_numbers_are_cut_never_rounded_up() -> None:
    assert cut(1.999) == "1.99"
    assert cut(float("inf")) == "∞"
    assert cut(None) == "–"


def test_the_summary_says_verdict_bound_kind_and_limit(
    records: list[leakbound.AuditResult],
) -> None:
    text = summary(records[0])
    assert text.startswith("✗ VIOLATION")
    assert re.search(r"leak ε +≥ 2.93 +claim 1", text)
    assert "A lower bound for these attacks only" in text
    whole = summary(records[0], verbose=True)
    assert "ε(δ=1e-05) ≥ 2.93 with 95% confidence; claimed: 1." in whole
    assert "no violation" in comparison_table(records)


def test_the_page_asks_nothing_of_the_network(text: str) -> None:
    links = [u for u in re.findall(r"(?:https?:)?//[^\s\"'<>]+", text) if "www.w3.org" not in u]
    assert not links
    assert "<script" not in text
    assert len(text) < 400_000


def test_private_markup_is_escaped(tmp_path: Path) -> None:
    evil = '<script>alert("x")</script> ../../etc'
    data = tuple(Example(f"{evil} {i}", "ab"[i % 2]) for i in range(30))
    model = Scripted(complete=lambda p: "no")
    record = leakbound.audit(
        data, model=model, out=tmp_path, pairs=6, shots=5, store_text="all", canary="natural"
    )
    assert evil.split()[0] in record.example_prompt
    assert "<script" not in page([record])


@pytest.mark.slow
def test_equal_records_give_equal_pages(records: list[leakbound.AuditResult], text: str) -> None:
    assert page(records, "Two systems") == text


def test_powers_on_an_axis_are_plain_text(text: str) -> None:
    """As TeX, which matplotlib parses, they took half of the time of a page."""
    assert ">10⁻¹⁰</text>" in text.partition('id="r2"')[2]


def test_in_a_browser(browser: Any, text: str, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(text)
    browser.get(file.as_uri())
    assert [e.text for e in browser.find_elements("tag name", "h1")] == ["Two systems"]
    assert len(browser.find_elements("css selector", "figure svg[role=img]")) == 8
    assert "violation" in browser.find_element("css selector", "tbody tr").text
    kept = Path(os.environ.get("LEAKBOUND_ARTIFACTS", tmp_path))
    kept.mkdir(parents=True, exist_ok=True)
    for scheme in ("light", "dark"):
        media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
        for selector in ("p", "td", "th", ".violation", ".no_violation", "figcaption", "svg text"):
            assert contrast(browser, selector) >= 4.5, (scheme, selector)
        browser.save_screenshot(str(kept / f"report-{scheme}.png"))
    width = browser.execute_script(
        "return [document.documentElement.scrollWidth, window.innerWidth]"
    )
    assert width[0] <= width[1]
    browser.find_element("css selector", ".trials summary").click()
    assert "Input:" in browser.find_element("tag name", "pre").text
    problems = [e for e in browser.get_log("browser") if e["level"] == "SEVERE"]
    assert not problems
    requests = [
        m
        for m in browser.get_log("performance")
        if "requestWillBeSent" in m["message"] and '"http' in m["message"]
    ]
    assert not requests


def test_what_is_folded_of_one_audit_is_printed(
    browser: Any, records: list[leakbound.AuditResult], tmp_path: Path
) -> None:
    file = tmp_path / "report.html"
    file.write_text(page(records[:1]))
    browser.get(file.as_uri())
    shown = (
        "return [...document.querySelectorAll('details:not(.trials *) th')].every("
        "one => one.checkVisibility({contentVisibilityAuto: true}))"
    )
    assert not browser.execute_script(shown)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    wait = pytest.importorskip("selenium.webdriver.support.ui").WebDriverWait(browser, 120)
    wait.until(lambda now: now.execute_script(shown))  # a browser lays a page out when it draws it
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
