"""The report of a sweep:

its figures as numbers, its size, and its use with mouse and keyboard in a real browser.
"""

from __future__ import annotations

import csv
import io
import os
import re
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from contrast import contrast

from leakbound.report.sweep.figure_data import FigureData, Range, figures_of
from leakbound.report.sweep.figures import figure_csv, figure_files
from leakbound.report.sweep.page import sweep_page
from leakbound.report.sweep.words import (
    joint_confidence,
    subjects_of,
    sweep_summary,
    tally,
    worst_sentences,
)
from leakbound.sweeping import SweepPoint, SweepRecord, load_sweep

GOLDEN = Path(__file__).parents[1] / "golden" / "sweep-2.json"
SHOWN = ("p", "dd", "dt", "td", "th", "th button", "figcaption", ".violation", ".no_violation",
         "svg text", "li")  # fmt: skip


def at(
    point: SweepPoint, epsilon: float, bound: float | None, seed: int, value: float, **changes: Any
) -> SweepPoint:
    """The point with other results."""
    assert point.utility is not None
    return point.model_copy(update={
        "changes": {"epsilon": epsilon, **changes}, "seed": seed,
        "claim": replace(point.claim, epsilon=epsilon), "exact_epsilon": epsilon,
        "bound": replace(point.bound, epsilon=bound),
        "verdict": "violation" if (bound or 0) > epsilon else "no_violation",
        "utility": point.utility.model_copy(
            update={"value": value, "zero_shot": 0.2, "non_private": 0.9}
        ),
    })  # fmt: skip


def made(
    points: list[SweepPoint], grid: dict[str, tuple[Any, ...]], repeats: int = 1
) -> SweepRecord:
    return load_sweep(GOLDEN).model_copy(
        update={"points": tuple(points), "grid": grid, "repeats": repeats}
    )


@pytest.fixture(scope="module")
def point() -> SweepPoint:
    return load_sweep(GOLDEN).points[0]


@pytest.fixture(scope="module")
def sixty(point: SweepPoint) -> SweepRecord:
    grid = {
        "epsilon": (1, 2, 4, 8, 16),
        "estimator": ("e_process", "clopper_pearson", "unconditional"),
        "mechanism.partitions": (2, 4),
    }
    points = [
        at(point, e, 0.4 * e + 0.9 * seed + 0.1 * t, seed, 0.3 + 0.03 * e + 0.05 * seed,
           estimator=by, **{"mechanism.partitions": t})
        for e, by, t in product(*grid.values()) for seed in (0, 1)
    ]  # fmt: skip
    return made(points, grid, 2)


@pytest.fixture(scope="module")
def text(sixty: SweepRecord) -> str:
    """The page of sixty points."""
    return sweep_page(sixty)


def line(view: FigureData, kind: str) -> list[tuple[Range, Range]]:
    (found,) = [one for one in view.series if one.kind == kind]
    return [(p.x, p.y) for p in found.points]


def test_a_view_holds_medians_and_the_spread_of_repeats(point: SweepPoint) -> None:
    points = [
        at(point, e, b, seed, 0.5)
        for e in (4, 1)
        for seed, b in enumerate((0.1 * e, 0.5 * e, 0.2 * e))
    ]
    bounds, utility, frontier = figures_of(made(points, {"epsilon": (4, 1)}, 3))
    assert line(bounds, "bound") == [
        (Range(1, 1, 1), Range(0.1, 0.2, 0.5)), (Range(4, 4, 4), Range(0.4, 0.8, 2.0))
    ]  # fmt: skip
    for kind in ("exact", "claim"):
        assert line(bounds, kind) == [
            (Range(1, 1, 1), Range(1, 1, 1)),
            (Range(4, 4, 4), Range(4, 4, 4)),
        ]
    for kind, value in (("utility", 0.5), ("zero_shot", 0.2), ("non_private", 0.9)):
        assert [y for _, y in line(utility, kind)] == [Range(value, value, value)] * 2
    assert line(frontier, "utility") == [
        (Range(0.4, 0.8, 2.0), Range(0.5, 0.5, 0.5)), (Range(0.1, 0.2, 0.5), Range(0.5, 0.5, 0.5))
    ]  # fmt: skip


def test_lines_are_settings_that_differ_in_epsilon_alone(sixty: SweepRecord) -> None:
    bounds, utility, _ = figures_of(sixty)
    kinds = [one.kind for one in bounds.series]
    assert kinds.count("bound") == 6
    assert kinds.count("claim") == kinds.count("exact") == 1, "equal curves are drawn once"
    assert [one.kind for one in utility.series] == ["utility", "zero_shot", "non_private"]


@pytest.mark.slow
def test_bounds_that_no_place_can_show_are_counted(point: SweepPoint) -> None:
    record = made(
        [at(point, 1, None, 0, 0.5), at(point, 2, float("inf"), 0, 0.5), at(point, 4, 1.0, 0, 0.5)],
        {"epsilon": (1, 2, 4)},
    )
    bounds, _, frontier = figures_of(record)
    assert (bounds.left_out, frontier.left_out) == (2, 2)
    assert len(line(bounds, "bound")) == 1
    assert "2 points have no finite value" in sweep_page(record)


def test_settings_without_numbers_have_their_names_on_the_axis(point: SweepPoint) -> None:
    points = [
        at(point, 1, b, 0, 0.5).model_copy(update={"changes": {"query": name}})
        for name, b in (("membership", 0.5), ("gap", 0.1))
    ]
    bounds = figures_of(made(points, {"query": ("membership", "gap")}))[0]
    assert bounds.ticks == ("query=membership", "query=gap")
    assert [x.middle for x, _ in line(bounds, "bound")] == [0, 1]
    assert "query=membership" in sweep_page(made(points, {"query": ("membership", "gap")}))


@pytest.mark.slow
def test_figures_come_in_every_format_and_csv_has_their_numbers(
    sixty: SweepRecord, point: SweepPoint
) -> None:
    few = made([at(point, e, 0.1 * e, 0, 0.5) for e in (1, 4)], {"epsilon": (1, 4)})
    files = figure_files(few, ("svg", "pdf", "png", "csv"))
    assert set(files) == {
        f"{name}.{form}"
        for name in ("bound", "utility", "frontier")
        for form in ("svg", "pdf", "png", "csv")
    }
    starts = {"svg": b"<?xml", "pdf": b"%PDF", "png": b"\x89PNG"}
    for name, made_file in files.items():
        form = name.rpartition(".")[2]
        assert form == "csv" or bytes(made_file).startswith(starts[form])  # type: ignore[arg-type]
    assert files == figure_files(few, ("svg", "pdf", "png", "csv")), (
        "equal records give equal files"
    )
    rows = list(csv.DictReader(io.StringIO(figure_csv(figures_of(sixty)[0]))))
    assert {
        (row["series"], float(row["x"]), float(row["y"])) for row in rows if row["kind"] == "claim"
    } == {("claim", float(e), float(e)) for e in (1, 2, 4, 8, 16)}


def test_a_band_of_repeats_is_called_no_confidence_bound(sixty: SweepRecord, text: str) -> None:
    svg = bytes(figure_files(sixty, ("svg",))["bound.svg"]).decode()  # type: ignore[arg-type]
    lines = " ".join(re.findall(r"([^<>]+)</text>", svg))
    assert "least to largest (spread, no confidence bound)" in lines
    assert "no confidence bounds" in text


def test_the_first_screen_says_verdicts_worst_claim_tried_and_not(
    sixty: SweepRecord, text: str
) -> None:
    counts = tally(sixty)
    assert counts["violation"] + counts["no_violation"] == 60
    assert (
        counts["violation"]
        == sum((p.bound.epsilon or 0) > p.claim.epsilon for p in sixty.points)
        > 0
    )
    worst = worst_sentences(sixty)
    assert "≥ 7.70" in worst[0]
    assert "≥ 1.70 with 95% confidence by e_process; claimed: 1" in worst[1]
    assert "too many to state a joint confidence" in joint_confidence(sixty)
    head = text.partition("<h2>")[0]
    for words in (
        f"{counts['violation']} violation",
        "≥ 7.70",
        "Claim",
        "Tried",
        "30 settings, 2 seeds each",
        "Not tried",
        "4 refused",
    ):
        assert words in head, words
    assert sweep_summary(sixty).count("\n") > 60


def test_the_facts_name_the_system_its_model_and_who_made_the_claims(point: SweepPoint) -> None:
    record = made(
        [at(point, e, 0.1, 0, 0.5).model_copy(update={"claim_source": "stated"}) for e in (1, 2)],
        {"epsilon": (1, 2)},
    )
    head = sweep_page(record).partition("<h2>")[0]
    facts = dict(re.findall(r"<dt>(.*?)</dt>\s*<dd>(.*?)</dd>", head))
    assert facts["System"] == "report_noisy_max"
    assert facts["Model"] == "pocket (test model, not yours)"
    assert facts["Claim"] == "ε = 1, 2 at δ = 1e-05 (stated by the operator)"
    own = record.model_copy(update={"points": tuple(
        one.model_copy(update={"attack": {**one.attack, "mechanism": "desk"}, "model": "desk"})
        for one in record.points
    )})  # fmt: skip
    assert subjects_of(own)[0].model is None
    assert "<dd>the system&#39;s own</dd>" in sweep_page(own)
    assert sweep_summary(own).startswith(
        "SWEEP (2 no violation, 4 refused): desk on the system's own model;"
    )


def test_a_sweep_without_a_result_names_what_was_asked(point: SweepPoint) -> None:
    assert sweep_summary(made([], {"epsilon": (1, 2)})).startswith(
        "SWEEP (4 refused): report_noisy_max on pocket (test model, not yours)"
    )


def test_bounds_of_few_points_hold_together_with_less_confidence(point: SweepPoint) -> None:
    record = made([at(point, e, 0.1, 0, 0.5) for e in (1, 2)], {"epsilon": (1, 2)})
    assert "at least 90%" in joint_confidence(record)


def test_the_page_is_small_and_asks_nothing_of_the_network(sixty: SweepRecord, text: str) -> None:
    assert len(text.encode()) < 1_500_000
    assert not [u for u in re.findall(r"(?:https?:)?//[^\s\"'<>]+", text) if "www.w3.org" not in u]
    assert text.count("<script") == 1
    assert sweep_page(sixty) == text


def test_markup_in_settings_is_escaped(point: SweepPoint) -> None:
    evil = '<img src=x onerror="alert(1)"></script>'
    points = [
        at(point, 1, 0.1, 0, 0.5).model_copy(update={"changes": {"canary.text": text}})
        for text in (evil, "b")
    ]
    text = sweep_page(made(points, {"canary.text": (evil, "b")}))
    assert "<img" not in text
    assert text.count("</script>") == 1


@pytest.mark.slow
def test_in_a_browser(browser: Any, text: str, tmp_path: Path) -> None:
    from selenium.webdriver import Keys

    file = tmp_path / "sweep.html"
    file.write_text(text)
    browser.get(file.as_uri())
    assert len(browser.find_elements("css selector", "figure svg[role=img]")) == 3
    bottom = browser.execute_script(
        "return document.querySelector('.card').getBoundingClientRect().bottom"
    )
    assert bottom < 800, "verdicts, worst bound, claim and what was tried stand on the first screen"

    table = browser.find_element("css selector", "table.sortable")
    head = next(h for h in table.find_elements("css selector", "thead th") if h.text == "ε ≥")
    button, column = (
        head.find_element("css selector", "button"),
        browser.execute_script("return arguments[0].cellIndex", head),
    )
    shown = (
        "return [...arguments[0].tBodies[0].rows].filter(r => !r.hidden)"
        ".map(r => r.cells[arguments[1]].textContent)"
    )
    browser.execute_script("arguments[0].focus()", button)
    button.send_keys(Keys.ENTER)
    assert head.get_attribute("aria-sort") == "ascending"
    up = [float(text) for text in browser.execute_script(shown, table, column)]
    assert up == sorted(up)
    assert len(up) == 60
    button.send_keys(Keys.SPACE)
    assert head.get_attribute("aria-sort") == "descending"
    assert [float(text) for text in browser.execute_script(shown, table, column)] == up[::-1]

    box = browser.find_element("css selector", "input[type=search]")
    box.send_keys("estimator=unconditional partitions=4")
    assert browser.find_element("css selector", "output").text == "10 of 60 points shown"
    assert len(browser.execute_script(shown, table, column)) == 10

    kept = Path(os.environ.get("LEAKBOUND_ARTIFACTS", tmp_path))
    kept.mkdir(parents=True, exist_ok=True)
    for scheme in ("light", "dark"):
        media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
        for selector in SHOWN:
            assert contrast(browser, selector) >= 4.5, (scheme, selector)
        browser.save_screenshot(str(kept / f"sweep-{scheme}.png"))
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
    assert len(browser.print_page()) > 1000
