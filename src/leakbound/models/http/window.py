"""How fast to send: an adaptive window, waits between retries, and when to give up.

Nothing here waits or sends.
"""

from __future__ import annotations

import math
import random
from collections import Counter, deque
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

START = 8  # requests in flight at first: even a small server can handle them
FIRST, LONGEST = 0.5, 30.0  # seconds between tries: a hiccup takes 0.5, a restart up to 30


class AdaptiveWindow:
    """How many requests may be in flight at one address.

    Slow start, then additive increase and multiplicative decrease. Until the server is first too
    busy, each round of successes doubles the window; afterwards it adds one. A round in which the
    server was too busy halves it once, however many requests of that round failed. The window is
    always between 1 and `most`.
    """

    def __init__(self, most: int) -> None:
        self.most, self.size, self.busy = most, float(min(most, START)), 0
        self._sent = self._halved = 0

    @property
    def free(self) -> bool:
        return self.busy < int(self.size)

    def enter(self) -> int:
        self.busy += 1
        self._sent += 1
        return self._sent

    def leave(self) -> None:
        self.busy -= 1

    def grow(self) -> None:
        step = 1 / self.size if self._halved else 1.0
        self.size = min(float(self.most), self.size + step)

    def shrink(self, ticket: int) -> None:
        """Count a request that the server was too busy for."""
        if ticket > self._halved:
            self.size, self._halved = max(1.0, self.size / 2), self._sent


def backoff(tries: int) -> float:
    """Seconds before the next try: full jitter under a bound that doubles. Changes no result."""
    return random.SystemRandom().uniform(0.0, min(LONGEST, FIRST * 2.0 ** min(tries - 1, 30)))


def retry_after(value: str | None, now: datetime | None = None) -> float | None:
    """The wait that a Retry-After header asks for.

    Examples:
        >>> retry_after("1.5", datetime(2026, 1, 1, tzinfo=UTC))
        1.5
        >>> retry_after("Thu, 01 Jan 2026 00:00:09 GMT", datetime(2026, 1, 1, tzinfo=UTC))
        9.0
    """
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            at = parsedate_to_datetime(value)
        except (ValueError, OverflowError):
            return None
        at = at if at.tzinfo else at.replace(tzinfo=UTC)
        seconds = (at - (now or datetime.now(UTC))).total_seconds()
    return max(0.0, seconds) if math.isfinite(seconds) else None


class ErrorBudget:
    """Whether too many of the last requests failed for good."""

    def __init__(self, share: float = 0.25, last: int = 20, least: int = 3) -> None:
        self.share, self.least = share, least
        self._last: deque[str | None] = deque(maxlen=last)

    def add(self, kind: str | None) -> None:
        self._last.append(kind)

    @property
    def kinds(self) -> Counter[str]:
        return Counter(kind for kind in self._last if kind is not None)

    @property
    def exhausted(self) -> bool:
        failed = self.kinds.total()
        return failed >= self.least and failed > self.share * len(self._last)
