"""Every page: one stylesheet, no request, readable at every width and in the dark."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from contrast import contrast

import leakbound
from leakbound.attribution import load_influence
from leakbound.attribution.study_record import Mean, StudyRecord, StudyRow, Utility
from leakbound.gating.compare import compare_results
from leakbound.models import Scripted
from leakbound.report import page
from leakbound.report.comparison import comparison_page
from leakbound.report.influence.page import influence_page
from leakbound.report.influence.study import study_page
from leakbound.report.sweep.page import sweep_page
from leakbound.reproduce import (
    FailedRecipe,
    MeasuredValue,
    RecipeContext,
    Reproduction,
    every_page,
    load_recipes,
)
from leakbound.sweeping import load_sweep

GOLDEN = Path(__file__).parents[1] / "golden"
NAMES = ("audit", "audits", "comparison", "influence", "recipes", "reproduce", "study", "sweep")
WITH_SCRIPT = {"influence", "sweep"}
TEXT = ("p", "td", "th", "h1", "h2", "li", "dd", "summary", "figcaption", "button", "svg text")
MINIMUM = 4.5  # contrast ratio of WCAG AA


def study() -> StudyRecord:
    mean = Mean(count=4, mean=0.5, low=0.25, high=0.75)
    rows = [
        StudyRow(
            setting=f"λ = {lam}", line="all", x=lam, influence=mean, utility=Utility(rouge_l=mean)
        )
        for lam in (0.5, 1.0)
    ]
    position = StudyRow(setting="response token 1", line="whole context", x=1, influence=mean)
    return StudyRecord(
        study="lambda", factor="λ", models=("m",), contexts=4, rows=(*rows, position),
        not_measured={"FactKB": "it needs its classifier."}, notes=("A note.",),
        settings={"seed": 0}, provenance={"leakbound": "0"},
    )  # fmt: skip


def recipes() -> str:
    """Exact recipes with figures, a claim that was reversed, and a recipe that crashed."""
    known = load_recipes()
    found: list[Reproduction | FailedRecipe] = [
        Reproduction(known[name], tuple(known[name].run(RecipeContext(Path()))), "no model: exact")
        for name in ("tight/calibration", "tight/lemma3.1")
    ]
    return every_page([*found, FailedRecipe(known["tight/fig5"], "internal error: KeyError.", 70)])


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    data = [(f"row {i}", "ab"[i % 2]) for i in range(40)]
    model = Scripted(complete=lambda p: "yes" if p.count(p.split('"')[-2]) > 1 else "no")
    out = tmp_path_factory.mktemp("runs")
    options: dict[str, Any] = {"model": model, "out": out, "pairs": 24, "simulations": 2_000,
                               "settings": {"labels": "a,b"}}  # fmt: skip
    results = [
        leakbound.audit(data, mechanism=name, **options)
        for name in ("few_shot", "report_noisy_max")
    ]
    recipe = load_recipes()["contextleak/table1"]
    measured = (MeasuredValue("llama subj, ε = 1", "μ", 1.0, "1.0"),)
    influence = load_influence(GOLDEN / "influence-1.json")
    return {
        "audit": page(results[1:]), "audits": page(results, "Two systems"),
        "comparison": comparison_page(compare_results(results)),
        "influence": influence_page(influence),
        "recipes": recipes(),
        "reproduce": Reproduction(recipe, measured, "no model: exact").html(),
        "study": study_page(study()), "sweep": sweep_page(load_sweep(GOLDEN / "sweep-1.json")),
    }  # fmt: skip


def test_all_pages_share_one_stylesheet(pages: dict[str, str]) -> None:
    assert set(pages) == set(NAMES)
    sheet = re.compile(r"<style>\n(:root.*?)</style>", flags=re.S)
    styles = [sheet.findall(text) for text in pages.values()]
    assert {len(found) for found in styles} == {1}
    assert len({found[0] for found in styles}) == 1


@pytest.mark.parametrize("name", NAMES)
def test_a_page_makes_no_request(pages: dict[str, str], name: str) -> None:
    text = pages[name]
    assert text.startswith("<!doctype html>")
    links = [u for u in re.findall(r"(?:https?:)?//[^\s\"'<>]+", text) if "www.w3.org" not in u]
    assert not links
    assert text.count("<script") == (name in WITH_SCRIPT)
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; img-src data:")
    assert ("script-src 'sha256-" in policy) == (name in WITH_SCRIPT)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_is_readable_at_every_width(
    browser: Any, pages: dict[str, str], tmp_path: Path, scheme: str
) -> None:
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    for name, text in pages.items():
        file = tmp_path / f"{name}.html"
        file.write_text(text)
        for width in (390, 1280):
            size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
            browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
            browser.get(file.as_uri())
            wide = browser.execute_script("return document.documentElement.scrollWidth")
            assert wide <= width, (name, width)
            for selector in TEXT:
                if browser.find_elements("css selector", selector):
                    assert contrast(browser, selector) >= MINIMUM, (name, selector)
    assert not [e for e in browser.get_log("browser") if e["level"] == "SEVERE"]
    sent = [m["message"] for m in browser.get_log("performance")]
    assert not [m for m in sent if "requestWillBeSent" in m and '"http' in m]
