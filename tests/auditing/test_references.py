"""What a result says to standards and guidelines: editions printed, tried and not tried."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
from coins import says_yes

import leakbound
from leakbound import AuditResult
from leakbound.attacks import Overlap, Repeat
from leakbound.auditing.result.sentences import AISVS, OPINION, StandardReference, attack_classes
from leakbound.report import page
from leakbound.report.audit.page import reference_rows

ROWS = [(f"message {i}", "ab"[i % 2]) for i in range(40)]


def leaks(context: tuple[leakbound.Example, ...], query: str) -> str:
    return "yes" if any(str(row.input) in query for row in context) else "no"


def blind(context: tuple[leakbound.Example, ...], query: str) -> str:
    """Says yes to controls that are full of the canary alone."""
    return "yes" if sum(str(row.input) in query for row in context) > 10 else "no"


def leaning(context: tuple[leakbound.Example, ...], query: str) -> str:
    """Is right about a single canary three times of five."""
    copies = sum(str(row.input) in query for row in context)
    return "yes" if says_yes(copies, query, 0.6) else "no"


def repeats(context: tuple[leakbound.Example, ...], query: str) -> str:
    return " ".join(str(row.input) for row in context)


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> AuditResult:
    out = tmp_path_factory.mktemp("runs")
    return leakbound.audit(ROWS, system=leaks, pairs=12, simulations=0, out=out)


def by_item(result: AuditResult, document: str) -> dict[str, StandardReference]:
    return {one.item: one for one in result.references if one.document == document}


def test_documents_and_editions_are_named(result: AuditResult) -> None:
    documents = list(dict.fromkeys(one.document for one in result.references))
    assert documents == [
        "OWASP Top 10 for LLM Applications 2025", "OWASP AISVS 1.0", "NIST AI 600-1 (July 2024)",
        "NIST SP 800-226 (March 2025)", "EDPB Opinion 28/2024 (17 December 2024), paragraph 55",
    ]  # fmt: skip


def test_classes_of_the_edpb_follow_the_attack(result: AuditResult, tmp_path: Path) -> None:
    tried = {name: one.status for name, one in by_item(result, OPINION).items()}
    assert tried.pop("membership inference") == "tried"
    assert len(tried) == 5
    assert set(tried.values()) == {"not_tried"}
    texts = leakbound.audit(ROWS, system=repeats, query="repeat", pairs=4, out=tmp_path)
    found = by_item(texts, OPINION)
    assert {name for name, one in found.items() if one.status == "tried"} == {
        "membership inference", "exfiltration", "regurgitation",
    }  # fmt: skip


@dataclass(frozen=True)
class Asking(Repeat):
    name: ClassVar[str] = "asking"


@dataclass(frozen=True)
class Counting(Overlap):
    name: ClassVar[str] = "counting"


def test_attacks_of_users_are_of_the_class_that_they_state(tmp_path: Path) -> None:
    """Names of the catalogue decided: an own query for texts was "not tried: repeated text"."""
    mine: dict[str, Any] = {"query": Asking(), "score": Counting(), "pairs": 4, "out": tmp_path}
    found = leakbound.audit(ROWS, system=repeats, **mine)
    tried = {name for name, one in by_item(found, OPINION).items() if one.status == "tried"}
    assert tried == {"membership inference", "exfiltration", "regurgitation"}
    assert next(one.tried for one in attack_classes(found) if one.short == "repeated text")


@pytest.mark.slow
def test_aisvs_is_answered_by_the_claim_of_random_guessing(
    result: AuditResult, tmp_path: Path
) -> None:
    (item,) = by_item(result, AISVS).values()
    assert (item.item, item.status) == ("C11.2.5", "answered")  # a violation of any claim answers
    assert item.answer.startswith("No: ")
    few = leakbound.audit(ROWS, system=leaks, pairs=2, controls=2, out=tmp_path / "few")
    (item,) = by_item(few, AISVS).values()
    assert item.status == "not_answered"
    assert "--claim random-guessing" in item.answer
    known: dict[str, Any] = {"pairs": 12, "claim": "random-guessing", "simulations": 0}
    silent = leakbound.audit(ROWS, system=blind, out=tmp_path / "silent", **known)
    (item,) = by_item(silent, AISVS).values()
    assert (silent.reason, item.status) == ("seen_only_in_bulk", "not_answered")
    quiet = leakbound.audit(ROWS, system=leaning, controls=100, out=tmp_path / "quiet", **known)
    (item,) = by_item(quiet, AISVS).values()
    assert item.status == "answered"
    assert "no proof for other attacks" in item.answer


def test_pages_fold_them_and_records_keep_them(result: AuditResult) -> None:
    text = page([result])
    assert "<summary>What standards and guidelines ask</summary>" in text
    assert "OWASP AISVS 1.0" in text
    again = AuditResult.model_validate_json(result.to_json())
    assert again.references == result.references
    old = result.model_copy(update={"references": ()})
    assert reference_rows(old) == ()
