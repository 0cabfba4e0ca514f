"""How fast to ask: a window that adapts, waits between tries, and when to give up.

No clock and no network in here.
"""

from __future__ import annotations

import math
import random
from collections import Counter, deque
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

__all__ = ["ErrorBudget", "AdaptiveWindow", "backoff", "retry_after"]

START = 8  # requests in flight before anything is known
FIRST, LONGEST = 0.5, 30.0  # seconds between tries


class AdaptiveWindow:
    """How many requests may be in flight at one address: additive increase, multiplicative
    decrease.

    A round of successes adds one; a round in which the server was too busy halves it, once however
    many requests of the round
    failed. Always between 1 and `most`.
    """

    def __init__(self, most: int) -> None:
        self.most, self.size, self.busy = most, float(min(most, START)), 0
        self._sent = self._halved = 0

    @property
    def free(self) -> bool:
        """Is there room for one more?"""
        return self.busy < int(self.size)

    def enter(self) -> int:
        """Count a request that is being sent; returns its ticket."""
        self.busy += 1
        self._sent += 1
        return self._sent

    def leave(self) -> None:
        """A request has ended, however it did."""
        self.busy -= 1

    def grow(self) -> None:
        """A request succeeded."""
        self.size = min(float(self.most), self.size + 1 / self.size)

    def shrink(self, ticket: int) -> None:
        """The server was too busy for a request; those sent before the last halving say nothing
        new.
        """
        if ticket > self._halved:
            self.size, self._halved = max(1.0, self.size / 2), self._sent


def backoff(tries: int) -> float:
    """Seconds before the next try:

    full jitter under a bound that doubles. It changes no result, so the system may draw it.
    """
    return random.SystemRandom().uniform(0.0, min(LONGEST, FIRST * 2.0 ** min(tries - 1, 30)))


def retry_after(value: str | None, now: datetime) -> float | None:
    """Seconds that a Retry-After header asks to wait, of either form (a number of seconds, an HTTP
    date); None if it says nothing.
    """
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        seconds = _until(value, now)
    return max(0.0, seconds) if math.isfinite(seconds) else None


def _until(date: str, now: datetime) -> float:
    try:
        found = parsedate_to_datetime(date)
    except (ValueError, OverflowError):
        return math.nan
    return ((found if found.tzinfo else found.replace(tzinfo=UTC)) - now).total_seconds()


class ErrorBudget:
    """Whether too many of the last requests failed for good:

    at least `least`, and more than `share` of the last `last`.
    """

    def __init__(self, share: float = 0.25, last: int = 20, least: int = 3) -> None:
        self.share, self.least = share, least
        self._last: deque[str | None] = deque(maxlen=last)

    def add(self, kind: str | None) -> None:
        """How a request ended: the kind of its failure, or None if it was answered."""
        self._last.append(kind)

    @property
    def kinds(self) -> Counter[str]:
        """Failures among the last requests, by kind."""
        return Counter(kind for kind in self._last if kind is not None)

    @property
    def exhausted(self) -> bool:
        """Is it time to give up?"""
        failed = self.kinds.total()
        return failed >= self.least and failed > self.share * len(self._last)
