"""States of rows that are run on their own.

A row whose answer must depend on nothing but its own tokens shares no prefix and no pass with
another. While it grows by a token at a time, its keys and values are kept here, by a rule that
looks at the number of rows only, never at their lengths or contents: otherwise one row could decide
whether another is computed anew, and in low precision that changes its logits.
"""

from __future__ import annotations

from collections import OrderedDict

from leakbound.models.local.prefixes import Ids, State

__all__ = ["OwnStates"]

LONGEST = 4096  # room is reserved for rows of this length, whatever lengths they have


class OwnStates:
    """The latest states of rows that were run alone (PRIVATE).

    Args:
        budget: Bytes that they may take together.
        token: Bytes of the keys and values of one token.
        window: Most tokens of a row.

    Attributes:
        most: How many are kept.
        longest: Most tokens of a row that is kept.
    """

    def __init__(self, budget: int, token: int, window: int) -> None:
        self.longest = min(window, LONGEST)
        self.most = budget // (self.longest * token)
        self.clear()

    def __repr__(self) -> str:
        return f"OwnStates(<private>, {len(self._states)} of {self.most})"

    def clear(self) -> None:
        """Throw everything out."""
        self._states: OrderedDict[int, tuple[Ids, State]] = OrderedDict()
        self._numbers: dict[Ids, list[int]] = {}
        self._next = 0

    def hold(self, state: State) -> None:
        """Keep the state of one row, so that the row can grow by a token.

        Args:
            state: It; equal rows keep one each. The oldest is thrown out where there are too many.
        """
        (row,) = state.rows
        if len(row) > self.longest:
            return
        self._states[self._next] = (row, state)
        self._numbers.setdefault(row, []).append(self._next)
        self._next += 1
        if len(self._states) > self.most:
            self._pop(next(iter(self._states)))

    def resume(self, row: Ids) -> State | None:
        """Take out the state that lacks the last token of a row.

        Args:
            row: Token ids.

        Returns:
            The oldest such state; None if there is none.
        """
        numbers = self._numbers.get(row[:-1])
        return self._pop(numbers[0]) if numbers else None

    def _pop(self, number: int) -> State:
        row, state = self._states.pop(number)
        self._numbers[row].remove(number)
        if not self._numbers[row]:
            del self._numbers[row]
        return state
