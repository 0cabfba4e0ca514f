"""Prices of answers: how many a budget buys, and how a price is stored."""

from __future__ import annotations

import math
from collections.abc import Sequence

from leakbound.privacy import Guarantee, compose, leaves

try:
    from leakbound.serving.ledger.units import affordable_answers, composed_epsilon
    from leakbound.serving.ledger.units import from_json as price_from_json
    from leakbound.serving.ledger.units import to_json as price_to_json
except ImportError:  # until the ledger is a package
    from leakbound.serving.ledger import _from_json, _merged
    from leakbound.serving.ledger import _to_json as price_to_json

    def price_from_json(text: str) -> Guarantee:
        """The price that `price_to_json` wrote."""
        return compose(_from_json(text))

    def composed_epsilon(counts: Sequence[tuple[Guarantee, int]], delta: float) -> float:
        """epsilon of several answers of each of several prices."""
        parts = [leaf for price, times in counts for leaf in leaves(price) * times]
        return compose(_merged(parts)).epsilon(delta) if parts else 0.0

    def affordable_answers(price: Guarantee, epsilon: float, delta: float) -> int | None:
        """How many answers a budget buys."""
        if math.isinf(epsilon):
            return None
        low, high = 0, 1
        while high < 20_000 and composed_epsilon([(price, high)], delta) <= epsilon * (1 + 1e-9):
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            fits = composed_epsilon([(price, middle)], delta) <= epsilon * (1 + 1e-9)
            low, high = (middle, high) if fits else (low, middle)
        return low


__all__ = ["affordable_answers", "composed_epsilon", "price_from_json", "price_to_json"]
