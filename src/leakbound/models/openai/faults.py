"""What can go wrong with one request.

A fault may be temporary: the request is retried, and the fault does not become an answer. A refusal
by a content filter is permanent: it is an answer.
"""

from __future__ import annotations

from leakbound.errors import Refused


class Fault(Exception):
    """One failed attempt."""

    def __init__(
        self, kind: str, busy: bool = False, wait: float | None = None, billed: bool = True,
        of_prompt: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(kind)
        self.kind, self.busy, self.wait, self.billed = kind, busy, wait, billed
        self.of_prompt = of_prompt


class Filtered(Refused):
    """The content filter of an endpoint refused a prompt."""


class Unsupported(Refused):
    """An endpoint refused a parameter of a request."""

    def __init__(self, sentence: str, status: int, parameter: str) -> None:
        super().__init__(sentence, status)
        self.parameter = parameter
