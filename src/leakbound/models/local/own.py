"""States of rows that are run on their own.

A row whose answer must depend on nothing but its own tokens shares no prefix and no pass with
another. The rows of one call grow by a token each until the next call, and then go on from their
keys and values. Whether those are kept is decided for the whole call, by the number of its rows:
a rule that looked at their lengths or contents would let one row decide whether another is computed
anew, and in low precision that changes its logits.
"""

from __future__ import annotations

from collections.abc import Sequence

from leakbound.models.local.prefixes import Ids, State

__all__ = ["OwnStates"]

LONGEST = 4096  # room is reserved for rows of this length, whatever lengths they have


class OwnStates:
    """What the latest calls left behind of each of their rows (PRIVATE).

    Args:
        budget: Bytes that they may take together.
        token: Bytes of the keys and values of one token.
        window: Most tokens of a row.

    Attributes:
        most: How many rows are kept.
        longest: Most tokens of a row whose state is kept; a longer one is computed anew each time,
            and counts all the same.
    """

    def __init__(self, budget: int, token: int, window: int) -> None:
        self.longest = min(window, LONGEST)
        self.most = budget // (self.longest * token)
        self._calls: list[tuple[list[Ids], list[State | None]]] = []

    def __repr__(self) -> str:
        return f"OwnStates(<private>, {self._count()} of {self.most})"

    def clear(self) -> None:
        """Throw everything out."""
        self._calls.clear()

    def take(self, rows: Sequence[Ids]) -> list[State | None]:
        """Take out what the call left behind whose rows lack the last tokens of these.

        Args:
            rows: Token ids of each row, in the order of that call.

        Returns:
            The state of each row; None for each where there is no such call.
        """
        for at, (old, states) in enumerate(self._calls):
            if old == [row[:-1] for row in rows]:
                del self._calls[at]
                return states
        return [None] * len(rows)

    def fits(self, rows: int) -> bool:
        """Whether what a call leaves behind is kept.

        Args:
            rows: Number of its rows.

        Returns:
            Whether there is room for so many.
        """
        return 0 < rows <= self.most

    def hold(self, rows: Sequence[Ids], states: Sequence[State | None]) -> None:
        """Keep what a call leaves behind; earlier calls make room.

        Args:
            rows: Token ids of each row.
            states: The state of each; None for one that has none.
        """
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
