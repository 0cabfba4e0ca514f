"""The cost of requests: tokens as counted by the endpoint, prices, limits on money and time."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from importlib.resources import files
from typing import NamedTuple

from leakbound.errors import LimitReached, UsageError

__all__ = ["PRICES", "Meter", "Price", "PriceList", "Size", "Usage", "cost_of", "usage_of"]

MILLION = 1e6  # prices are per million tokens
DATED = re.compile(r"-20\d\d-\d\d-\d\d$")  # the date in the name of a model's release


class Price(NamedTuple):
    """The price of tokens.

    Attributes:
        prompt: US dollars per million prompt tokens.
        completion: US dollars per million completion tokens.
    """

    prompt: float
    completion: float


class Usage(NamedTuple):
    """Tokens of one request.

    Attributes:
        prompt: Tokens of the prompt.
        completion: Generated tokens.
    """

    prompt: int
    completion: int


Size = Usage  # an upper bound, for a request without an answer yet


@dataclass(frozen=True, slots=True)
class PriceList:
    """Prices of models by host, as of a date.

    Attributes:
        as_of: The date, such as "2026-11-06".
        hosts: Prices by model name, by host name ("*" for any host).
    """

    as_of: str
    hosts: Mapping[str, Mapping[str, Price]] = field(hash=False)

    @classmethod
    def read(cls, text: str, name: str) -> PriceList:
        """Read a price list from JSON.

        Args:
            text: `{"as_of": DATE, "hosts": {HOST: {MODEL: [prompt, completion]}}}`, in US dollars
                per million tokens.
            name: Name of the file, for messages.

        Returns:
            The list.

        Raises:
            UsageError: If the text is not a price list.
        """
        try:
            found = json.loads(text)
            hosts = {
                str(host): {str(model): _price(pair) for model, pair in models.items()}
                for host, models in found["hosts"].items()
            }
            return cls(str(date.fromisoformat(found["as_of"])), hosts)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise UsageError(
                f"the price list {name!r} cannot be used; it must be JSON such as "
                '{"as_of": "2026-11-06", "hosts": {"api.openai.com": {"gpt-5": [1.25, 10]}}}, in '
                "US dollars for a million tokens of prompt and of completion."
            ) from None

    def of(self, model: str, host: str) -> Price | None:
        """The price of a model.

        Args:
            model: Its name. A dated release that is not listed has the price of the name without
                the date.
            host: Name of the host.

        Returns:
            The price; None if it is not listed.
        """
        models = self.hosts.get(host) or self.hosts.get("*", {})
        return models.get(model) or models.get(DATED.sub("", model))


def _price(pair: object) -> Price:
    if not isinstance(pair, list) or len(pair) != 2:
        raise ValueError("no pair of prices")
    found = Price(*map(float, pair))
    if not all(0 <= one < 1e9 for one in found):
        raise ValueError("no price")
    return found


PRICES = PriceList.read(
    files(__package__).joinpath("prices.json").read_text(encoding="utf-8"), "prices.json"
)


def usage_of(body: Mapping[str, object]) -> Usage | None:
    """The `usage` of a reply.

    Args:
        body: The decoded reply.

    Returns:
        The usage; None if there is none or it cannot be read.
    """
    found = body.get("usage")
    if not isinstance(found, dict):
        return None
    prompt, completion = found.get("prompt_tokens"), found.get("completion_tokens", 0)
    if not (isinstance(prompt, int) and isinstance(completion, int)) or min(prompt, completion) < 0:
        return None
    return Usage(prompt, completion)


@dataclass(slots=True)
class Meter:
    """What one command has sent and spent.

    Attributes:
        requests: Requests sent, retries included.
        retries: Number of retries among them.
        prompt_tokens: Tokens of prompts.
        completion_tokens: Generated tokens.
        cost: US dollars spent.
        unpriced: Whether a request with an unknown price was sent.
        unmetered: Number of replies without usage, counted at their maximum.
        reserved: The most that requests in flight can cost, in US dollars.
        priced: Date of the price list in use; "" if prices were given.
        outcomes: Number of answers that are not usual text, by kind.
        began: Start time on the monotonic clock.
    """

    requests: int = 0
    retries: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    unpriced: bool = False
    unmetered: int = 0
    reserved: float = 0.0
    priced: str = ""
    outcomes: Counter[str] = field(default_factory=Counter)
    began: float = field(default_factory=time.monotonic)

    def admits(self, most: float, max_cost: float | None, max_minutes: float | None) -> bool:
        """Whether a request may be sent now.

        Args:
            most: The most that it can cost, in US dollars.
            max_cost: Limit in US dollars; None for no limit.
            max_minutes: Limit in minutes; None for no limit.

        Returns:
            False if other requests must be answered first.

        Raises:
            LimitReached: If it can never be sent.
        """
        require_time(self.began, max_minutes)
        if max_cost is None or self.cost + self.reserved + most <= max_cost:
            return True
        if self.cost + most > max_cost or self.reserved <= 0:
            raise LimitReached(_limit_sentence(f"${max_cost:g} (--max-cost)"))
        return False

    def sent(self, price: Price | None) -> None:
        """Count a request that is being sent.

        Args:
            price: Price of its tokens; None if unknown.
        """
        self.requests += 1
        self.unpriced |= price is None

    def count(self, usage: Usage | None, size: Size, price: Price | None) -> None:
        """Count a reply.

        Args:
            usage: The usage that it states; None to count it at its maximum.
            size: The most tokens that it can have.
            price: Price of its tokens; None if unknown.
        """
        found = usage or size
        self.unmetered += usage is None
        self.prompt_tokens += found.prompt
        self.completion_tokens += found.completion
        self.cost += cost_of(found, price)

    def line(self) -> str:
        """A line for the screen, and a second one if there are answers that are not usual text."""
        unmetered = (
            f", {self.unmetered} of them without usage and counted at their most"
            if self.unmetered
            else ""
        )
        return (
            f"{self.requests} requests ({self.retries} of them retries{unmetered}), "
            f"{self.prompt_tokens} prompt and {self.completion_tokens} completion tokens, "
            f"{self._cost()}{self._outcomes()}"
        )

    def _cost(self) -> str:
        if self.unpriced:
            return "cost unknown (no price is known)"
        dated = f" (prices of {self.priced})" if self.priced else ""
        return f"cost ${self.cost:.4f}{dated}"

    def _outcomes(self) -> str:
        if not self.outcomes:
            return ""
        counts = [f"{count} {OUTCOMES[kind]}" for kind, count in sorted(self.outcomes.items())]
        return f"\nanswers that are not usual text: {', '.join(counts)}"


OUTCOMES = {
    "refusal": "refused by the model",
    "content_filter": "stopped by a content filter",
    "tool_call": "with a tool call alone",
    "empty": "empty",
    "reasoning_only": "with reasoning alone (give --param max_completion_tokens=4096 --omit stop)",
}


def require_time(began: float, max_minutes: float | None) -> None:
    """Refuse a request or a call after the time that is set for a command.

    Args:
        began: Start time on the monotonic clock.
        max_minutes: Limit in minutes; None for no limit.

    Raises:
        LimitReached: If so many minutes are over.
    """
    if max_minutes is not None and time.monotonic() - began >= 60 * max_minutes:
        raise LimitReached(_limit_sentence(f"{max_minutes:g} minutes (--max-minutes)"))


def _limit_sentence(limit: str) -> str:
    return (
        f"the limit of {limit} is reached; finished batches of a run are kept, and the same "
        "command with a higher limit resumes there."
    )


def cost_of(usage: Usage, price: Price | None) -> float:
    """Cost of tokens.

    Args:
        usage: Number of tokens.
        price: Price per million tokens; None if unknown.

    Returns:
        US dollars; 0 if the price is unknown.

    Examples:
        >>> cost_of(Usage(prompt=1_000_000, completion=500_000), Price(2.0, 4.0))
        4.0
    """
    if price is None:
        return 0.0
    return (usage.prompt * price.prompt + usage.completion * price.completion) / MILLION
