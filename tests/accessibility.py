"""What a real browser finds wrong with a page: axe-core, and measures of its layout."""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path
from typing import Any

import pytest

__all__ = ["axe_findings", "chart_problems", "focus_problems", "layout_problems"]

RUN = """
  const [only, done] = arguments;
  axe.run(document, {resultTypes: ["violations"], runOnly: only}).then(
    found => done(found.violations.map(v => `${v.impact} ${v.id}: `
      + v.nodes.slice(0, 3).map(n => n.target.join(" ")).join(", "))),
    error => done([String(error)]));
"""
# Wider than the window, a table that is cut, a heading broken inside a word, a row of blanks.
LAYOUT = """
  const found = [], view = document.documentElement.clientWidth, range = document.createRange();
  if (document.documentElement.scrollWidth > view)
    found.push(`the page is ${document.documentElement.scrollWidth} wide`);
  for (const box of document.querySelectorAll(".scroll"))
    if (box.scrollWidth > box.clientWidth + 1)
      found.push(`${box.scrollWidth} > ${box.clientWidth}: ${box.textContent.slice(0, 60)}`);
  for (const head of document.querySelectorAll("th, h1, h2, h3, h4, summary, dt, legend")) {
    const texts = document.createTreeWalker(head, NodeFilter.SHOW_TEXT);
    while (texts.nextNode())
      for (const word of texts.currentNode.data.matchAll(/[^\\s,/-]+/g)) {
        range.setStart(texts.currentNode, word.index);
        range.setEnd(texts.currentNode, word.index + word[0].length);
        if (new Set([...range.getClientRects()].map(r => Math.round(r.top))).size > 1)
          found.push(`broken: ${word[0]}`);
      }
  }
  for (const row of document.querySelectorAll("tr"))
    if (getComputedStyle(row).display === "table-row" && row.offsetHeight > 170)
      found.push(`${row.offsetHeight} high: ${row.textContent.slice(0, 60)}`);
  return found;
"""
# Text of a chart that is cut, or too small: its size on the screen after every scale above it.
CHARTS = """
  const found = [];
  for (const chart of document.querySelectorAll("svg")) {
    const box = chart.getBoundingClientRect();
    for (const text of chart.querySelectorAll("text, tspan")) {
      const place = text.getBoundingClientRect(), to = text.getScreenCTM();
      const scale = Math.sqrt(Math.abs(to.a * to.d - to.b * to.c));
      const size = parseFloat(getComputedStyle(text).fontSize) * scale;
      if (size < arguments[0]) found.push(`${size.toFixed(1)} px: ${text.textContent}`);
      if (place.left < box.left - 1 || place.right > box.right + 1
          || place.top < box.top - 1 || place.bottom > box.bottom + 1)
        found.push(`cut: ${text.textContent}`);
    }
  }
  return found;
"""
SMALLEST = 11  # px
WATCH = """
  window.seen = new Set(); window.dim = [];
  document.addEventListener("focusin", event => {
    seen.add(event.target);
    if (getComputedStyle(event.target).outlineStyle === "none") dim.push(event.target.outerHTML);
  });
  const all = [...document.querySelectorAll(arguments[0])];
  window.wanted = all.filter(e => e.offsetParent && !(e.type === "radio" && !e.checked));
  return wanted.length;
"""
MISSED = """
  const missed = wanted.filter(e => !seen.has(e)).map(e => `not reached: ${e.outerHTML}`);
  return [...missed, ...dim.map(e => `no outline: ${e}`)].map(text => text.slice(0, 120));
"""
USED = "a[href], button, input, summary, [tabindex='0']"


@cache
def _axe() -> str:
    """The script of axe-core; its package drives another browser and is not imported."""
    found = importlib.util.find_spec("axe_playwright_python")
    if found is None or not found.submodule_search_locations:
        pytest.skip("axe-playwright-python, which holds axe-core, is not installed")
    return Path(found.submodule_search_locations[0], "axe.min.js").read_text(encoding="utf-8")


def axe_findings(driver: Any, *rules: str) -> list[str]:
    """What axe-core finds on the page: by all rules of WCAG 2.2 AA and its advice, or by some."""
    if not driver.execute_script("return typeof axe === 'object'"):
        driver.execute_cdp_cmd("Runtime.evaluate", {"expression": _axe()})
    tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
    only = {"type": "rule", "values": rules} if rules else {"type": "tag", "values": tags}
    return list(driver.execute_async_script(RUN, only))


def layout_problems(driver: Any, width: int) -> list[str]:
    """What is cut, broken or blank in a window of this width."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    return [f"{width}: {problem}" for problem in driver.execute_script(LAYOUT)]


def chart_problems(driver: Any, width: int) -> list[str]:
    """What nobody can read in the charts of a window of this width."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    return [f"{width}: {problem}" for problem in driver.execute_script(CHARTS, SMALLEST)]


def focus_problems(driver: Any) -> list[str]:
    """What the tab key does not reach, or reaches without an outline."""
    from selenium.webdriver import ActionChains, Keys

    number = driver.execute_script(WATCH, USED)
    ActionChains(driver, duration=0).send_keys(Keys.TAB * (number + 2)).perform()
    return list(driver.execute_script(MISSED))
