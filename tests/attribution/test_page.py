"""The influence page: self-contained, escaped, used with mouse and keyboard in a real browser."""

from __future__ import annotations

import io
import os
import re
from pathlib import Path
from typing import Any

import pytest
from contrast import contrast

from leakbound.attribution import (
    Case,
    InfluenceRecord,
    InfluenceSettings,
    UnopenedUnits,
    attribute,
    case_of_documents,
    limit_shares,
)
from leakbound.models import Model
from leakbound.report.influence.page import influence_page
from leakbound.report.influence.terminal import influence_summary, print_heat

NOTE = Path(__file__).parents[2] / "examples" / "note.txt"
QUERY = "What is the door code of Marta?"


@pytest.fixture(scope="module")
def record(pocket: Model) -> InfluenceRecord:
    text = NOTE.read_text().strip()
    cases = [Case(text, QUERY, "48213"), Case(text.replace("48213", "7306"), QUERY, "7306")]
    return attribute(cases, pocket, InfluenceSettings(ngrams=(1, 8), lams=(0.5, 1.5)))


@pytest.mark.slow
def test_the_page_asks_nothing_of_the_network(record: InfluenceRecord) -> None:
    text = influence_page(record)
    assert not [u for u in re.findall(r"(?:https?:)?//[^\s\"'<>]+", text) if "www.w3.org" not in u]
    assert text.count("<script") == 1
    assert influence_page(record) == text
    assert "48213" not in influence_page(record.redacted())


def test_private_markup_is_escaped(pocket: Model) -> None:
    evil = '</script><img src=x onerror="alert(1)"> \' & {{ 7 * 7 }}'
    text = influence_page(
        attribute([Case(evil, evil, "<b>no</b>")], pocket, InfluenceSettings(ngrams=(2,)))
    )
    assert "<img" not in text
    assert "<b>" not in text
    assert text.count("</script>") == 1


def test_overlapping_windows_show_the_strongest(pocket: Model) -> None:
    case = Case(NOTE.read_text().strip(), QUERY, "48213")
    found = attribute([case], pocket, InfluenceSettings(ngrams=(8,), stride=4))
    text = influence_page(found)
    assert "one every 4" in text
    shown = "".join(re.findall(r'<span class="piece[^>]*>([^<]*)</span>', text))
    assert shown == case.context


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_in_a_browser(browser: Any, record: InfluenceRecord, tmp_path: Path, scheme: str) -> None:
    from selenium.webdriver import ActionChains, Keys

    file = tmp_path / "influence.html"
    file.write_text(influence_page(record))
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    browser.get(file.as_uri())
    maps = browser.find_elements("css selector", ".map")
    assert len(maps) == 8  # two contexts, n = 1 and 8, two lambdas
    eight = maps[2]
    pieces, readout = (
        eight.find_elements("css selector", ".piece"),
        eight.find_element("css selector", "output"),
    )
    hot = next(piece for piece in pieces if "48213" in piece.text)
    assert "top" in hot.get_attribute("class")

    cool = pieces[0]
    ActionChains(browser).move_to_element(cool).perform()
    assert re.match(
        r"The morning.*: span 1, tokens 1 to 8, influence 0\.\d{3} on the whole response",
        readout.text,
    )
    browser.execute_script("arguments[0].focus()", hot)
    assert re.match(
        r"48213.*: span 7, tokens \d+ to \d+, influence 1\d\.\d{3} on the whole response",
        readout.text,
    )

    hot.send_keys(Keys.ARROW_LEFT)
    assert "door code" in browser.switch_to.active_element.text
    assert "door code" in readout.text
    button = eight.find_elements("css selector", "button")[2]
    button.send_keys(Keys.ENTER)
    assert button.get_attribute("aria-pressed") == "true"
    ActionChains(browser).move_to_element(hot).perform()
    assert "on response token 2" in readout.text
    assert "signed" in readout.text
    assert "on response token 2" in hot.get_attribute("aria-label")

    for selector in ("p", "td", "th", ".piece", "output", "button", "figcaption", "svg text"):
        assert contrast(browser, selector) >= 4.5, selector
    width = browser.execute_script(
        "return [document.documentElement.scrollWidth, window.innerWidth]"
    )
    assert width[0] <= width[1]
    assert not [e for e in browser.get_log("browser") if e["level"] == "SEVERE"]
    sent = [
        m
        for m in browser.get_log("performance")
        if "requestWillBeSent" in m["message"] and '"http' in m["message"]
    ]
    assert not sent
    kept = Path(os.environ.get("LEAKBOUND_ARTIFACTS", tmp_path))
    kept.mkdir(parents=True, exist_ok=True)
    browser.save_screenshot(str(kept / f"influence-{scheme}.png"))


DOCUMENTS = (
    ("weather.md", "The morning was grey, and the market opened late. It rained."),
    ("staff.md", "A small dog slept. The door code of Marta is 48213. The bridge is old."),
    ("garden.md", "Our neighbour painted the garden gate in spring."),
)


@pytest.fixture(scope="module")
def by_unit(pocket: Model) -> InfluenceRecord:
    case = case_of_documents(DOCUMENTS, QUERY, "48213")
    settings = InfluenceSettings(ngrams=(8,), by=("document", "sentence"), entropy=True)
    return limit_shares(attribute([case], pocket, settings), 0.5)


def test_maps_by_document_and_sentence(by_unit: InfluenceRecord) -> None:
    text = influence_page(by_unit)
    headings = re.findall(r"<h3>(.*?)</h3>", text)
    assert headings == ["Documents", "Sentences", "Spans of 8 tokens"]
    assert "staff.md, sentence 2, tokens" in text
    assert text.count('data-source="staff.md"') == 1
    assert "Influence over entropy" in text
    assert re.search(r"Limit on shares is exceeded.</strong> The share of &#39;staff.md", text)
    hidden = influence_page(by_unit.redacted())
    assert "staff" not in hidden
    assert "sentence 2" in hidden


def test_a_part_above_the_whole_is_explained(by_unit: InfluenceRecord) -> None:
    one = by_unit.attributions[0]
    reading = one.readings[0]
    *parts, whole = reading.grids
    note = "A part can have more influence than the whole: staff.md has"

    def page(strength: float) -> str:
        less = tuple(tuple(strength * value for value in row) for row in whole.signed)
        grids = (*parts, whole.model_copy(update={"signed": less}))
        changed = reading.model_copy(update={"grids": grids})
        record = one.model_copy(update={"readings": (changed,)})
        return influence_page(by_unit.model_copy(update={"attributions": (record,)}))

    assert note in page(0.5)
    assert note not in page(2)


@pytest.mark.slow
def test_a_planted_fact_is_found_by_name_on_a_phone(
    browser: Any, by_unit: InfluenceRecord, tmp_path: Path
) -> None:
    from selenium.webdriver import Keys

    one = by_unit.attributions[0]
    missed = UnopenedUnits(top=2, units=40, drawn=4, kth=1.5, exceeded=1, most=19)
    spans, documents, every, whole = one.readings[0].grids
    some = every.model_copy(update={
        "spans": every.spans[:-1], "signed": every.signed[:-1], "names": every.names[:-1],
        "characters": every.characters[:-1], "unopened": missed,
    })  # fmt: skip
    reading = one.readings[0].model_copy(update={"grids": (spans, documents, some, whole)})
    searched = one.model_copy(update={"readings": (reading,)})
    file = tmp_path / "influence.html"
    file.write_text(influence_page(by_unit.model_copy(update={"attributions": (searched,)})))
    phone = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    browser.get(file.as_uri())
    size = "return [document.documentElement.scrollWidth, window.innerWidth]"
    assert browser.execute_script(size) == [390, 390]
    for selector in (".map", ".heat", "output", ".note"):
        box = browser.find_element("css selector", selector).rect
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390
    small = "return parseFloat(getComputedStyle(document.querySelector('.heat')).fontSize)"
    assert browser.execute_script(small) >= 15

    find = browser.find_element("id", "find")
    find.send_keys("staff.md, sentence 2", Keys.ENTER)
    piece = browser.switch_to.active_element
    assert piece.text.strip() == "The door code of Marta is 48213."
    assert "top" in piece.get_attribute("class")
    readout = browser.find_elements("css selector", ".map output")[1].text
    assert re.match(r"The door code .*: staff.md, sentence 2, tokens .*, influence 1\d\.", readout)
    pieces = browser.find_elements("css selector", ".map")[1].find_elements("class name", "piece")
    browser.execute_script("arguments[0].focus()", pieces[-1])
    readout = browser.find_elements("css selector", ".map output")[1].text
    assert readout.endswith("not measured")
    button = browser.find_elements("css selector", ".map")[1].find_elements("tag name", "button")
    browser.execute_script("arguments[0].click()", button[1])
    assert "on response token 1" in piece.get_attribute("aria-label")
    assert not [e for e in browser.get_log("browser") if e["level"] == "SEVERE"]


FACT = "The door code of Marta is 48213."
COPIES = [
    ("a.md", f"A small dog slept. {FACT}"),
    ("weather.md", "The morning was grey."),
    ("b.md", f"Our neighbour painted the gate. {FACT}"),
]


def test_copies_of_a_secret_are_shown_as_such(pocket: Model) -> None:
    """Leave-one-out gives each copy next to nothing, and so do its colours; sets show both alike.

    Before, the map of leave-one-out gave the strongest colour, a mark and a share of 66 % to one of
    the two documents, whose influence was 0.001 of 16; of two equal values one was marked.
    """
    case = case_of_documents(COPIES, QUERY, "48213")
    shown = {}
    for method in ("leave-one-out", "shapley"):
        settings = InfluenceSettings(ngrams=(), by=("document",), method=method)
        found = attribute([case], pocket, settings)
        heat = io.StringIO()
        print_heat(found, file=heat)
        shown[method] = influence_page(found), heat.getvalue(), influence_summary(found)
    page, heat, summary = shown["leave-one-out"]
    opacities = [float(a) for a in re.findall(r"--a: ([\d.]+)", page)]
    assert max(opacities) < 0.05
    assert 'class="piece top"' not in page
    assert "»" not in heat
    assert "%" not in summary
    assert "The colours are those of the whole context." in summary
    page, heat, summary = shown["shapley"]
    assert page.count('class="piece top"') == 2
    assert page.count('tabindex="0"') == 1
    assert heat.count("»") == 2
    assert summary.count("%") == 3
