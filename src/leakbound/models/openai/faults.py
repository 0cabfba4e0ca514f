"""What can go wrong with one request and may pass:

a fault is tried again, and never becomes a number or an answer.
"""

from __future__ import annotations

__all__ = ["Fault"]


class Fault(Exception):
    """One failed try. kind: what happened, without any text of the server; busy: the server asks
    for fewer requests;
    wait: seconds that it asks to wait; billed: whether it may charge for the try all the same."""

    def __init__(
        self, kind: str, busy: bool = False, wait: float | None = None, billed: bool = True
    ) -> None:
        super().__init__(kind)
        self.kind, self.busy, self.wait, self.billed = kind, busy, wait, billed
