"""Smallest contrast of text on a page, as a real browser draws it."""

from __future__ import annotations

from typing import Any

__all__ = ["contrast"]

SCRIPT = """
  const channels = c => c.match(/[0-9.]+/g).map(Number);
  const over = (top, low) => {
    const a = top.length > 3 ? top[3] : 1;
    return low.map((v, i) => a * top[i] + (1 - a) * v) };
  const linear = x => x <= .03928 ? x/12.92 : ((x+.055)/1.055)**2.4;
  const lum = c => {
    const v = c.slice(0,3).map(x => linear(x / 255));
    return .2126*v[0] + .7152*v[1] + .0722*v[2] };
  const ground = e => {
    const found = [];
    for (; e; e = e.parentElement) found.push(channels(getComputedStyle(e).backgroundColor));
    return found.reverse().reduce((low, top) => over(top, low), [255, 255, 255]) };
  return Math.min(...[...document.querySelectorAll(arguments[0])].map(e => {
    const s = getComputedStyle(e);
    const a = lum(channels(e.closest('svg') ? s.fill : s.color)), b = lum(ground(e));
    return (Math.max(a,b)+.05)/(Math.min(a,b)+.05) }));
"""


def contrast(driver: Any, selector: str) -> float:
    """Smallest contrast ratio of text to its ground among the elements of a selector."""
    return float(driver.execute_script(SCRIPT, selector))
