"""What can go wrong with one request and may pass: it is tried again, and becomes no answer."""

from __future__ import annotations

__all__ = ["Fault"]


class Fault(Exception):
    """One failed try.

    Args:
        kind: What happened, without any text of the server.
        busy: Whether the server asks for fewer requests.
        wait: Seconds that the server asks to wait; None if it says nothing.
        billed: Whether the server may charge for the try all the same.
    """

    def __init__(
        self, kind: str, busy: bool = False, wait: float | None = None, billed: bool = True
    ) -> None:
        super().__init__(kind)
        self.kind, self.busy, self.wait, self.billed = kind, busy, wait, billed
