"""States of rows that run alone.

A row whose answer must depend only on its own tokens shares no prefix and no pass with another row.
The rows of one call grow by one token each until the next call, which continues from their keys and
values. Whether these are kept is decided for the whole call, by its number of rows. A rule that
looked at lengths or contents would let one row decide whether another is computed again, and in low
precision that changes its logits.
"""

from __future__ import annotations

from collections.abc import Sequence

from leakbound.models.local.prefixes import Ids, State

LONGEST = 4096  # room is reserved for rows of this length, whatever their actual length


class OwnStates:
    """The states that the latest calls left for each of their rows (PRIVATE)."""

    def __init__(self, budget: int, token: int, window: int) -> None:
        self.longest = min(window, LONGEST)
        self.most = budget // (self.longest * token)
        self._calls: list[tuple[list[Ids], list[State | None]]] = []

    def __repr__(self) -> str:
        return f"OwnStates(<private>, {self._count()} of {self.most})"

    def clear(self) -> None:
        """Drop everything."""
        self._calls.clear()

    def take(self, rows: Sequence[Ids]) -> list[State | None]:
        """Take the states of the call whose rows lack only the last token of these rows."""
        for at, (old, states) in enumerate(self._calls):
            if old == [row[:-1] for row in rows]:
                del self._calls[at]
                return states
        return [None] * len(rows)

    def fits(self, rows: int) -> bool:
        """Whether the states of a call are kept."""
        return 0 < rows <= self.most

    def hold(self, rows: Sequence[Ids], states: Sequence[State | None]) -> None:
        """Keep the states of a call, and drop those of earlier calls to make room."""
        if not self.fits(len(rows)):
            return
        short = [
            s if len(row) <= self.longest else None for row, s in zip(rows, states, strict=True)
        ]
        self._calls.append((list(rows), short))
        while self._count() > self.most:
            del self._calls[0]

    def _count(self) -> int:
        return sum(len(rows) for rows, _ in self._calls)
