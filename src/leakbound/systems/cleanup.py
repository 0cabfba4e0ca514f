"""What is done at the end of an audit even if it is interrupted."""

from __future__ import annotations

from collections.abc import Callable


def despite_interrupt(step: Callable[[], object]) -> None:
    """Take a step again that Ctrl-C has interrupted: the audit ends, but leaves nothing behind."""
    try:
        step()
    except KeyboardInterrupt:
        step()
        raise
