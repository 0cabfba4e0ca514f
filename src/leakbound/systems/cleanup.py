"""What is done at the end of an audit even if it is interrupted."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["despite_interrupt"]


def despite_interrupt(step: Callable[[], object]) -> None:
    """Take a step again that Ctrl-C has interrupted: the audit ends, but leaves nothing behind.

    Args:
        step: What is done. What was done before the interrupt must not count as an error.

    Raises:
        KeyboardInterrupt: After the second try; or at once if that is interrupted, too.
    """
    try:
        step()
    except KeyboardInterrupt:
        step()
        raise
