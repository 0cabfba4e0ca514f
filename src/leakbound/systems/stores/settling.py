"""Stores may show a record only some time after it was added."""

from __future__ import annotations

import time

LONGEST = 60.0  # seconds, as long as a slow index takes


def settle(seconds: float) -> None:
    """Wait until a record is as old as the first copy of a control is when that is asked about.

    Otherwise a store that shows new records late would show the control and no single canary.
    """
    time.sleep(min(LONGEST, seconds))
