"""What requests cost: tokens as the endpoint counts them, prices per million tokens, limits on
money and time.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from leakbound.errors import LimitReached

__all__ = ["Meter", "Price", "Size", "Usage", "cost_of", "listed_price", "usage_of"]

MILLION = 1e6


class Price(NamedTuple):
    """US dollars for a million tokens of prompt and of completion."""

    prompt: float
    completion: float


class Usage(NamedTuple):
    """Tokens of one request."""

    prompt: int
    completion: int


Size = Usage  # of a request that was not answered yet: an upper bound


@cache
def _table() -> dict[str, Any]:
    text = files(__package__).joinpath("prices.json").read_text(encoding="utf-8")
    return dict(json.loads(text)["hosts"])


def listed_price(model: str, host: str) -> Price | None:
    """The price of a model at its maker's own host, as of the date in prices.json; None where that
    is unknown.
    """
    found = _table().get(host, {}).get(model)
    return Price(*found) if found else None


def usage_of(body: Any) -> Usage | None:
    """The `usage` of a reply; None if there is none that can be read."""
    found = body.get("usage") if isinstance(body, dict) else None
    if not isinstance(found, dict):
        return None
    prompt, completion = found.get("prompt_tokens"), found.get("completion_tokens", 0)
    if not (isinstance(prompt, int) and isinstance(completion, int)) or min(prompt, completion) < 0:
        return None
    return Usage(prompt, completion)


@dataclass(slots=True)
class Meter:
    """What one command has asked and spent.

    `reserved` is the most that requests in flight can cost.
    """

    requests: int = 0
    retries: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    unpriced: bool = False
    unmetered: int = 0
    reserved: float = 0.0
    began: float = field(default_factory=time.monotonic)

    def admits(self, most: float, max_cost: float | None, max_minutes: float | None) -> bool:
        """May a request that costs at most so much be sent now? False: not before others have been
        answered.

        Raises LimitReached if it may never be.
        """
        if max_minutes is not None and time.monotonic() - self.began >= 60 * max_minutes:
            raise LimitReached(self._sentence(f"{max_minutes:g} minutes (--max-minutes)"))
        if max_cost is None or self.cost + self.reserved + most <= max_cost:
            return True
        if self.cost + most > max_cost or self.reserved <= 0:
            raise LimitReached(self._sentence(f"${max_cost:g} (--max-cost)"))
        return False

    @staticmethod
    def _sentence(limit: str) -> str:
        return (
            f"the limit of {limit} is reached; finished batches of a run are kept, and the same "
            "command with a higher limit goes on "
            "from there."
        )

    def sent(self, price: Price | None) -> None:
        """Count a request that is being sent."""
        self.requests += 1
        self.unpriced |= price is None

    def count(self, usage: Usage | None, size: Size, price: Price | None) -> None:
        """Add a reply; one that names no usage is counted at its size."""
        found = usage or size
        self.unmetered += usage is None
        self.prompt_tokens += found.prompt
        self.completion_tokens += found.completion
        self.cost += cost_of(found, price)

    def line(self) -> str:
        """One line about it."""
        cost = "cost unknown (no price is known)" if self.unpriced else f"cost ${self.cost:.4f}"
        most = (
            f", {self.unmetered} of them without usage and counted at their most"
            if self.unmetered
            else ""
        )
        return (
            f"{self.requests} requests ({self.retries} of them retries{most}), "
            f"{self.prompt_tokens} prompt and "
            f"{self.completion_tokens} completion tokens, {cost}"
        )


def cost_of(usage: Usage, price: Price | None) -> float:
    """US dollars; 0 where the price is unknown."""
    return (
        0.0
        if price is None
        else (usage.prompt * price.prompt + usage.completion * price.completion) / MILLION
    )
