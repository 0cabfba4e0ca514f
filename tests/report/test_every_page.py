"""Every page: one frame and stylesheet, no request, accessible at every width and in the dark."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from accessibility import axe_findings, chart_problems, focus_problems, layout_problems
from contrast import contrast
from leakbound_hosts.view import View
from leakbound_lab.reproduce import (
    FailedRecipe,
    MeasuredValue,
    RecipeContext,
    Reproduction,
    every_page,
    load_recipes,
)
from leakbound_lab.studies.page import study_page
from leakbound_lab.studies.record import Mean, StudyRecord, StudyRow, Utility

import leakbound
from leakbound.attribution import load_influence
from leakbound.gating.compare import compare_results
from leakbound.gating.gate import Gate, check_gate
from leakbound.models import Scripted
from leakbound.report import page
from leakbound.report.decisions.comparison import comparison_page
from leakbound.report.export.gate_files import gate_page
from leakbound.report.influence.page import influence_page
from leakbound.report.pages import GLOSSARY, terms_on
from leakbound.report.sweep.page import sweep_page
from leakbound.report.words import facts, report_day
from leakbound.sweeping import SweepRecord, load_sweep

GOLDEN = Path(__file__).parents[1] / "golden"
RECIPES = ("recipes", "reproduce")
NAMES = (
    *("audit", "audits", "comparison", "free", "gate", "influence", "runs", "study", "sweep"),
    *("unread", *RECIPES),
)
WITH_SCRIPT = {"influence", "runs", "sweep"}
TEXT = ("p", "td", "th", "h1", "h2", "li", "dd", "summary", "figcaption", "button", "svg text")
MINIMUM = 4.5  # contrast ratio of WCAG AA
WIDTHS = (390, 768, 1280, 1920)
LARGEST = 1_500_000  # bytes


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


def wide_sweep() -> SweepRecord:
    """Points that differ in every column."""
    found = load_sweep(GOLDEN / "sweep-2.json")
    first = found.points[0]
    other = first.model_copy(update={
        "changes": {"epsilon": 1, "mechanism.partitions": 3}, "pairs": 24, "model_calls": 72,
        "bound": replace(first.bound, method="unconditional"),
    })  # fmt: skip
    return found.model_copy(update={"points": (other, *found.points[1:])})


def yes_or_no(context: Sequence[Any], query: str) -> str:
    return "yes" if any(query.split('"')[1] in one.text for one in context) else "no"


def unreadable(context: Sequence[Any], query: str) -> str:
    return "perhaps"


def quoting(context: Sequence[Any], query: str) -> str:
    return "I saw " + ", ".join(one.text for one in context)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    data = [(f"row {i}", "ab"[i % 2]) for i in range(40)]
    model = Scripted(complete=lambda p: "yes" if p.count(p.split('"')[-2]) > 1 else "no")
    out = tmp_path_factory.mktemp("runs")
    options: dict[str, Any] = {"model": model, "out": out, "pairs": 12, "simulations": 200,
                               "settings": {"labels": "a,b"}}  # fmt: skip
    results = [
        leakbound.audit(data, mechanism=name, **options)
        for name in ("few_shot", "report_noisy_max")
    ]
    own = leakbound.audit(data, system=yes_or_no, pairs=20, out=out / "own")
    free = leakbound.audit(data, system=quoting, pairs=6, out=out / "free", query="repeat",
                           task="generation", store_text="all")  # fmt: skip
    unread = leakbound.audit(data, system=unreadable, pairs=20, out=out / "unread")
    limit = Gate(1.0, no_violation=True)
    gated = [check_gate(one, limit) for one in (*results, own)]
    recipe = load_recipes()["contextleak/table1"]
    measured = (MeasuredValue("llama subj, ε = 1", "μ", 1.0, "1.0"),)
    influence = load_influence(GOLDEN / "influence-2.json")
    return {
        "audit": page([own]), "free": page([free]), "audits": page(results, "Two systems"),
        "comparison": comparison_page(compare_results(results)),
        "gate": gate_page(gated, [*results, own], limit),
        "influence": influence_page(influence),
        "recipes": recipes(), "runs": View([out, out / "own", out / "free"]).index(),
        "reproduce": Reproduction(recipe, measured, "no model: exact").html(),
        "study": study_page(study()), "sweep": sweep_page(wide_sweep()),
        "unread": page([unread]),
    }  # fmt: skip


@pytest.mark.slow
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


def test_every_page_begins_with_its_answer_and_facts(pages: dict[str, str]) -> None:
    for name, text in pages.items():
        head = text[text.index("<h1>") : text.index("</dl>\n</div>")]
        assert '<p class="big">' in head, name
        labels = re.findall(r"<dt>(\w+)</dt>", head.partition('<dl class="facts">')[2])
        assert "Date" in labels, name
        assert {"Model", "Data", "System"} & set(labels), name
        assert "Cost" in labels or name in RECIPES, name
        assert len(text.encode()) < LARGEST, name


def test_every_page_explains_the_words_that_stand_on_it_and_no_others(
    pages: dict[str, str],
) -> None:
    for name, text in pages.items():
        above, _, words = text.partition('<details class="words">')
        listed = [html.unescape(one) for one in re.findall(r"<dt>(.*?)</dt>", words)]
        assert listed == [term.name for term in terms_on(above)], name
        assert 2 <= len(listed) <= len(GLOSSARY), name
    assert len({term.name for term in GLOSSARY}) == len(GLOSSARY)


def test_the_glossary_of_the_docs_has_every_word_of_reports() -> None:
    docs = (Path(__file__).parents[2] / "docs" / "glossary.md").read_text()
    assert not [term.name for term in GLOSSARY if not term.pattern.search(docs)]


def test_the_day_of_a_report_can_be_fixed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    assert facts(model="m", stored="2026-01-02") == {
        "Model": "m", "Date": "report of 1970-01-01, outputs of 2026-01-02"
    }  # fmt: skip
    monkeypatch.delenv("SOURCE_DATE_EPOCH")
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", report_day())


# the page that most people see first with the suite, all others with the slow tests
MARKED = [name if name == "audit" else pytest.param(name, marks=pytest.mark.slow) for name in NAMES]


@pytest.mark.slow
@pytest.mark.parametrize("name", MARKED)
def test_a_page_is_accessible_and_readable_at_every_width(
    browser: Any, pages: dict[str, str], tmp_path: Path, name: str
) -> None:
    """With every fold open, in light, in the dark, in forced colours, and by keyboard."""
    file = tmp_path / f"{name}.html"
    file.write_text(pages[name])
    browser.execute_cdp_cmd("Network.enable", {})
    browser.execute_cdp_cmd("Network.setBlockedURLs", {"urls": ["http://*", "https://*", "ws*"]})
    browser.get(file.as_uri())
    card = "return document.querySelector('.card').getBoundingClientRect().bottom"
    assert browser.execute_script(card) < 900
    browser.execute_script("for (const one of document.querySelectorAll('details')) one.open = 1")
    problems = [one for width in WIDTHS for one in layout_problems(browser, width)]
    problems += [one for width in WIDTHS for one in chart_problems(browser, width)]
    problems += axe_findings(browser) + focus_problems(browser)
    for feature, value in (("prefers-color-scheme", "dark"), ("forced-colors", "active")):
        media = {"features": [{"name": feature, "value": value}]}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
        if value == "dark":
            problems += axe_findings(browser, "color-contrast", "link-in-text-block")
        problems += [
            f"{value}: {selector}" for selector in TEXT
            if browser.find_elements("css selector", selector)
            and contrast(browser, selector) < MINIMUM
        ]  # fmt: skip
    assert not problems
    assert not [e for e in browser.get_log("browser") if e["level"] == "SEVERE"]
    sent = [m["message"] for m in browser.get_log("performance")]
    assert not [m for m in sent if "requestWillBeSent" in m and '"http' in m]


FOLDED = """return [...document.querySelectorAll("details:not([open])")]
    .filter(one => one.offsetParent)
    .map(one => one.offsetHeight - one.querySelector("summary").offsetHeight)"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["audit", "gate"])
def test_what_is_folded_is_printed(
    pages: dict[str, str], name: str, browser: Any, tmp_path: Path
) -> None:
    (tmp_path / "page.html").write_text(pages[name])
    browser.get((tmp_path / "page.html").as_uri())
    shown = browser.execute_script(FOLDED)
    assert shown
    assert max(shown) <= 8  # margins
    try:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
        assert min(browser.execute_script(FOLDED)) > 15
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


@pytest.mark.slow
def test_the_checks_see_a_bad_page(browser: Any, tmp_path: Path) -> None:
    file = tmp_path / "bad.html"
    file.write_text(
        "<!doctype html><html><head><title>x</title><style>a:focus { outline: none }</style></head>"
        '<body><img src="data:,"><p style="color: #aaa">dim</p><a href="#x">x</a>'
        '<div class="scroll" style="width: 5rem; overflow: auto"><table><tr>'
        '<th style="max-width: 2rem; overflow-wrap: anywhere">Assumptions</th>'
        "<td style='min-width: 20rem'>1</td></tr></table></div>"
        '<svg width="200" height="50" viewBox="0 0 400 100"><text y="20" font-size="20">dim</text>'
        '<text x="390" y="60" font-size="30">long</text></svg></body></html>'
    )
    browser.get(file.as_uri())
    broken = " ".join(layout_problems(browser, 390))
    assert "390: broken: Assumptions" in broken
    assert "> 80: Assumptions1" in broken
    assert chart_problems(browser, 390) == ["390: 10.0 px: dim", "390: cut: long"]
    found = " ".join(axe_findings(browser))
    for rule in ("critical image-alt", "serious color-contrast", "serious html-has-lang"):
        assert rule in found
    assert focus_problems(browser) == ['no outline: <a href="#x">x</a>']
