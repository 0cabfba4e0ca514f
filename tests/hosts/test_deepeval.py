"""A metric of deepeval, which needs an environment of its own: see `make test-hosts`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from coins import says_yes

import leakbound

os.environ["DEEPEVAL_TELEMETRY_OPT_OUT"] = "YES"
os.environ["DEEPEVAL_DISABLE_DOTENV"] = "1"
deepeval = pytest.importorskip("deepeval")
from deepeval.test_case import LLMTestCase  # noqa: E402
from leakbound_hosts.deepeval import LeakageMetric  # noqa: E402

pytestmark = [pytest.mark.hosts, pytest.mark.filterwarnings("ignore")]  # deepeval's own

ROWS = [(f"message {i}", "ab"[i % 2]) for i in range(40)]
CASE = LLMTestCase(input="which label has my parcel", actual_output="delivery")


def leaks(context: tuple[leakbound.Example, ...], query: str) -> str:
    return "yes" if any(str(row.input) in query for row in context) else "no"


def careful(context: tuple[leakbound.Example, ...], query: str) -> str:
    """Sees a context that is full of the canary; of a single one, randomised response."""
    copies = sum(str(row.input) in query for row in context)
    return "yes" if says_yes(copies, query) else "no"


def audited(out: Path, system: object, pairs: int, epsilon: float) -> leakbound.AuditResult:
    return leakbound.audit(
        ROWS, system=system, pairs=pairs, simulations=0, epsilon=epsilon, out=out
    )  # type: ignore[arg-type]


def test_a_leak_fails_the_test_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = audited(tmp_path, leaks, 40, 1.0)
    metric = LeakageMetric(tmp_path / result.name)
    with pytest.raises(AssertionError, match="Leakage"):
        deepeval.assert_test(CASE, [metric])
    assert metric.measure(CASE) == result.bound.epsilon
    assert metric.threshold == 1.0
    assert not metric.is_successful()
    assert "exceeds the claimed epsilon 1" in str(metric.reason)


def test_an_audit_that_could_have_found_a_leak_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = audited(tmp_path, careful, 100, 1.0)
    assert result.verdict == "no_violation"
    metric = LeakageMetric(result)
    assert not metric.is_successful()
    deepeval.assert_test(CASE, [metric])
    metric.measure(CASE)
    assert metric.is_successful()


def test_an_audit_that_could_have_found_nothing_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    metric = LeakageMetric(audited(tmp_path, careful, 4, 1.0))
    metric.measure(CASE)
    assert not metric.is_successful()
