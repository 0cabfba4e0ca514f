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

MILLION = 1e6  # prices are per million tokens
DATED = re.compile(r"-20\d\d-\d\d-\d\d$")  # the date in the name of a model's release


class Price(NamedTuple):
    prompt: float
    completion: float


class Usage(NamedTuple):
    prompt: int
    completion: int


Size = Usage  # an upper bound, for a request without an answer yet


@dataclass(frozen=True, slots=True)
class PriceList:
    """Prices of models by host, as of a date."""

    as_of: str
    hosts: Mapping[str, Mapping[str, Price]] = field(hash=False)

    @classmethod
    def read(cls, text: str, name: str) -> PriceList:
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
    found = body.get("usage")
    if not isinstance(found, dict):
        return None
    prompt, completion = found.get("prompt_tokens"), found.get("completion_tokens", 0)
    if not (isinstance(prompt, int) and isinstance(completion, int)) or min(prompt, completion) < 0:
        return None
    return Usage(prompt, completion)


@dataclass(slots=True)
class Meter:
    """What one command has sent and spent."""

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
        require_time(self.began, max_minutes)
        if max_cost is None or self.cost + self.reserved + most <= max_cost:
            return True
        if self.cost + most > max_cost or self.reserved <= 0:
            raise LimitReached(_limit_sentence(f"${max_cost:g} (--max-cost)"))
        return False

    def sent(self, price: Price | None) -> None:
        self.requests += 1
        self.unpriced |= price is None

    def count(self, usage: Usage | None, size: Size, price: Price | None) -> None:
        found = usage or size
        self.unmetered += usage is None
        self.prompt_tokens += found.prompt
        self.completion_tokens += found.completion
        self.cost += cost_of(found, price)

    def line(self) -> str:
        """A line for the screen, and a second one if there are answers that are not usual text."""
        least = f", {self.unmetered} of them without usage and counted at their most"
        dated = f" (prices of {self.priced})" if self.priced else ""
        cost = f"cost ${self.cost:.4f}{dated}"
        counts = [f"{count} {OUTCOMES[kind]}" for kind, count in sorted(self.outcomes.items())]
        unusual = f"\nanswers that are not usual text: {', '.join(counts)}"
        return (
            f"{self.requests} requests ({self.retries} of them retries"
            f"{least if self.unmetered else ''}), "
            f"{self.prompt_tokens} prompt and {self.completion_tokens} completion tokens, "
            f"{'cost unknown (no price is known)' if self.unpriced else cost}"
            f"{unusual if counts else ''}"
        )


OUTCOMES = {
    "refusal": "refused by the model",
    "content_filter": "stopped by a content filter",
    "tool_call": "with a tool call alone",
    "empty": "empty",
    "no_answer": "never made",
    "reasoning_only": "with reasoning alone (give --param max_completion_tokens=4096 --omit stop)",
}


def require_time(began: float, max_minutes: float | None) -> None:
    """Refuse a request or a call after the time that is set for a command."""
    if max_minutes is not None and time.monotonic() - began >= 60 * max_minutes:
        raise LimitReached(_limit_sentence(f"{max_minutes:g} minutes (--max-minutes)"))


def _limit_sentence(limit: str) -> str:
    return (
        f"the limit of {limit} is reached; finished batches of a run are kept, and the same "
        "command with a higher limit resumes there."
    )


def cost_of(usage: Usage, price: Price | None) -> float:
    if price is None:
        return 0.0
    return (usage.prompt * price.prompt + usage.completion * price.completion) / MILLION
