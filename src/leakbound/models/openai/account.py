"""What requests cost: tokens as the endpoint counts them, prices, limits on money and time."""

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

MILLION = 1e6  # prices are per so many tokens
DATED = re.compile(r"-20\d\d-\d\d-\d\d$")  # of a release of a model


class Price(NamedTuple):
    """What tokens cost.

    Attributes:
        prompt: US dollars for a million tokens of prompt.
        completion: US dollars for a million tokens of completion.
    """

    prompt: float
    completion: float


class Usage(NamedTuple):
    """Tokens of one request.

    Attributes:
        prompt: Tokens of the prompt.
        completion: Tokens that were generated.
    """

    prompt: int
    completion: int


Size = Usage  # of a request that was not answered yet: an upper bound


@dataclass(frozen=True, slots=True)
class PriceList:
    """Prices of models by host, as of a date.

    Attributes:
        as_of: The date, such as "2026-11-06".
        hosts: By name of a host ("*" is any), prices by name of a model.
    """

    as_of: str
    hosts: Mapping[str, Mapping[str, Price]] = field(hash=False)

    @classmethod
    def read(cls, text: str, name: str) -> PriceList:
        """Read a list from JSON.

        Args:
            text: `{"as_of": DATE, "hosts": {HOST: {MODEL: [prompt, completion]}}}`, in US dollars
                for a million tokens.
            name: Of the file, for messages.

        Returns:
            The list.

        Raises:
            UsageError: If the text is no such list.
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
            model: Its name; a release that is not listed costs what the model without its date
                does.
            host: Name of the host.

        Returns:
            The price; None where it is not listed.
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
        What it says; None if there is none that can be read.
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
        retries: Further tries among them.
        prompt_tokens: Tokens of prompts.
        completion_tokens: Tokens generated.
        cost: US dollars spent.
        unpriced: Whether a request was sent whose price is unknown.
        unmetered: Replies that named no usage, counted at their most.
        reserved: US dollars that requests in flight cost at most.
        priced: Date of the price list in use; "" where prices were given.
        outcomes: Answers that are no usual text, by kind.
        began: Time of the monotonic clock at which it began.
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
            most: US dollars that it costs at most.
            max_cost: Limit in US dollars; None for none.
            max_minutes: Limit in minutes; None for none.

        Returns:
            False if other requests must be answered first.

        Raises:
            LimitReached: If it may never be sent.
        """
        if max_minutes is not None and time.monotonic() - self.began >= 60 * max_minutes:
            raise LimitReached(_limit_sentence(f"{max_minutes:g} minutes (--max-minutes)"))
        if max_cost is None or self.cost + self.reserved + most <= max_cost:
            return True
        if self.cost + most > max_cost or self.reserved <= 0:
            raise LimitReached(_limit_sentence(f"${max_cost:g} (--max-cost)"))
        return False

    def sent(self, price: Price | None) -> None:
        """Count a request that is being sent.

        Args:
            price: What its tokens cost; None if that is unknown.
        """
        self.requests += 1
        self.unpriced |= price is None

    def count(self, usage: Usage | None, size: Size, price: Price | None) -> None:
        """Add a reply.

        Args:
            usage: What it says about itself; without that, it is counted at its size.
            size: Most tokens that it can have.
            price: What tokens cost; None if that is unknown.
        """
        found = usage or size
        self.unmetered += usage is None
        self.prompt_tokens += found.prompt
        self.completion_tokens += found.completion
        self.cost += cost_of(found, price)

    def line(self) -> str:
        """One line about it, for the screen; a second one for answers that are no usual text."""
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
        return f"\nanswers that are no usual text: {', '.join(counts)}"


OUTCOMES = {
    "refusal": "refused by the model",
    "content_filter": "stopped by a content filter",
    "tool_call": "with a tool call alone",
    "empty": "empty",
    "reasoning_only": "with reasoning alone (give --param max_completion_tokens=4096 --omit stop)",
}


def _limit_sentence(limit: str) -> str:
    return (
        f"the limit of {limit} is reached; finished batches of a run are kept, and the same "
        "command with a higher limit resumes there."
    )


def cost_of(usage: Usage, price: Price | None) -> float:
    """Cost of tokens.

    Args:
        usage: How many.
        price: What a million of them costs; None if that is unknown.

    Returns:
        US dollars; 0 where the price is unknown.

    Examples:
        >>> cost_of(Usage(prompt=1_000_000, completion=500_000), Price(2.0, 4.0))
        4.0
    """
    if price is None:
        return 0.0
    return (usage.prompt * price.prompt + usage.completion * price.completion) / MILLION
