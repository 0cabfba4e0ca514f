"""Results of a gate as JUnit XML: the format that continuous integration shows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING
from xml.etree import ElementTree as tree

if TYPE_CHECKING:
    from leakbound.gating.gate import GateResult

SUITE = "leakbound gate"
TAGS = {
    "violation": "failure",
    "inconclusive": "error",
}  # both fail a build; "skipped" would pass one silently
ILLEGAL = re.compile(
    "[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
)  # of XML 1.0, escaped or not


def junit(results: Sequence[GateResult]) -> str:
    """One test case a run: a violation is a failure, an inconclusive run an error."""
    outcomes = [result.outcome for result in results]
    failures, errors = str(outcomes.count("violation")), str(outcomes.count("inconclusive"))
    suite = tree.Element(
        "testsuite", name=SUITE, tests=str(len(outcomes)), failures=failures, errors=errors
    )
    for result in results:
        name = _legal(result.run)
        case = tree.SubElement(suite, "testcase", classname="leakbound.gate", name=name)
        if result.outcome in TAGS:
            why = {"type": result.outcome, "message": _legal(result.why)}
            tree.SubElement(case, TAGS[result.outcome], why)
    root = tree.Element("testsuites")
    root.append(suite)
    tree.indent(root)
    xml = tree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{xml}\n'


def _legal(text: str) -> str:
    return ILLEGAL.sub("�", text)
