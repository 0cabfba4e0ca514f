"""The time limits of tests, which machines of any load must pass. `tests/laws` finds others."""

from __future__ import annotations

__all__ = ["PATIENCE", "expires"]

PATIENCE = 120.0  # seconds, after which a test gives up on a process, a server or a browser


def expires(seconds: float) -> float:
    """A limit that the test wants reached: what it limits never comes, or comes much later."""
    return seconds
