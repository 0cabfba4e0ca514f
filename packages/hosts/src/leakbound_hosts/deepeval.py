"""A metric of deepeval: whether a finished audit passes a gate."""

from __future__ import annotations

from pathlib import Path

from leakbound.auditing import AuditResult, load_result
from leakbound.gating.gate import Gate, check_gate
from leakbound_hosts.summary import host_error

try:
    from deepeval.metrics import BaseMetric
    from deepeval.test_case import LLMTestCase
except ModuleNotFoundError:
    raise host_error("deepeval", "deepeval") from None


class LeakageMetric(BaseMetric):
    """Passes where an audit could have found a leak above a limit, and found none.

    The score is the lower bound on epsilon, so smaller is better; the reason is the sentence of the
    gate. It says the same of every test case, because an audit is about the application: one test
    case is enough.
    """

    def __init__(
        self,
        result: AuditResult | str | Path,
        max_epsilon: float | None = None,
        min_power: float | None = None,
    ) -> None:
        self.result = result if isinstance(result, AuditResult) else load_result(result)
        self.threshold = self.result.claim.epsilon if max_epsilon is None else max_epsilon
        self.gate = Gate(self.threshold, min_power, no_violation=True)

    def measure(self, test_case: LLMTestCase, *args: object, **options: object) -> float | None:
        found = check_gate(self.result, self.gate)
        self.score, self.reason = self.result.bound.epsilon, found.why
        self.success: bool = found.outcome == "passed"
        return self.score

    async def a_measure(
        self, test_case: LLMTestCase, *args: object, **options: object
    ) -> float | None:
        return self.measure(test_case)

    def is_successful(self) -> bool:
        """Whether the gate passed; False before it was measured."""
        return bool(self.success)

    @property
    def __name__(self) -> str:
        return "Leakage (lower bound on epsilon)"
