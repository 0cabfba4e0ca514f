"""Where an OpenAI-compatible model is, what it can do, and what may be spent on it.

Nothing here changes an answer but `Capabilities` and `Dialect`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields
from urllib.parse import urlsplit

from leakbound._check import positive, within
from leakbound.errors import UsageError, unknown_name
from leakbound.models.openai.account import PRICES, Meter, Price, PriceList
from leakbound.models.openai.dialect import Dialect
from leakbound.models.openai.hosts import OPENAI, VERSION, is_host, is_loopback, is_openai
from leakbound.models.transport import Transport

__all__ = ["OPENAI", "Capabilities", "Endpoint", "key_from_environment"]

OWN_KEY, OTHER_KEY = "OPENAI_API_KEY", "LEAKBOUND_API_KEY"  # of OpenAI's own host; of all others


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What an endpoint can do, as stated or probed; the default is text by chat.

    Attributes:
        chat: /chat/completions answers.
        completions: Prompts go to /completions as they are, and not through a chat template.
        token_ids: /completions takes prompts of token ids.
        seed: Draws are seeded.
        prompt_logprobs: /completions gives vLLM's log-probabilities of a prompt.
        echo: /completions repeats the prompt with log-probabilities.
        echo_shift: 0 if each echoed token has its own log-probability; 1 if it has that of the next
            position (then nothing is scored); None if nobody has looked.
        top_logprobs: How many next tokens are shown; 0 for none.
        first_tokens_differ: The labels of the task are words of one token each, so the next token
            tells them apart.
        embeddings: /embeddings answers.
    """

    chat: bool = True
    completions: bool = False
    token_ids: bool = False
    seed: bool = False
    prompt_logprobs: bool = False
    echo: bool = False
    echo_shift: int | None = None
    top_logprobs: int = 0
    first_tokens_differ: bool = False
    embeddings: bool = False

    @classmethod
    def parse(cls, text: str) -> Capabilities:
        """Read capabilities from a list.

        Args:
            text: Names with values, such as `completions,echo,echo_shift=0`. A name alone means
                yes.

        Returns:
            The capabilities; what is not named has its default.

        Raises:
            UsageError: If a name is not known or has a value that it cannot have.

        Examples:
            >>> Capabilities.parse("completions,echo,echo_shift=0").scores
            True
        """
        flags: dict[str, bool] = {}
        numbers: dict[str, int] = {}
        for part in filter(None, map(str.strip, text.split(","))):
            name, value = _parse_part(part)
            if name in NUMBERS:
                numbers[name] = value
            else:
                flags[name] = bool(value)
        shift, top = numbers.get("echo_shift"), numbers.get("top_logprobs", 0)
        return cls(**flags, echo_shift=shift, top_logprobs=top)

    @property
    def scores(self) -> bool:
        """Whether the tokens of a given text can be scored."""
        return self.completions and (self.prompt_logprobs or (self.echo and self.echo_shift == 0))

    @property
    def scores_first_tokens(self) -> bool:
        """Whether labels can be scored by their first tokens."""
        return (
            (self.completions or self.chat) and self.top_logprobs > 0 and self.first_tokens_differ
        )


NUMBERS = {"echo_shift": 1, "top_logprobs": 1000}  # the highest value of each


def _parse_part(part: str) -> tuple[str, int]:
    name, _, value = part.partition("=")
    known = [one.name for one in fields(Capabilities)]
    if name not in known:
        raise unknown_name("the capability", name, known)
    highest = NUMBERS.get(name, 1)
    value = value or ("" if name in NUMBERS else "1")
    if not value.isdigit() or int(value) > highest:
        raise UsageError(
            f"the capability {part!r} has no value from 0 to {highest}; write {name}=1 or {name}=0."
        )
    return name, int(value)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """How an `openai/...` model is reached.

    Attributes:
        base_urls: Addresses of one and the same model; none means api.openai.com.
        connections: Most requests in flight, over all addresses.
        timeout: Seconds for one request.
        retries: Further tries of a request that failed in a way that may pass.
        max_cost: Most US dollars of one command; None for no limit.
        max_minutes: Most minutes of one command; None for no limit.
        price_in: US dollars for a million tokens of prompt; None reads the table of this package.
        price_out: The same for generated tokens.
        prices: Prices of models by host, where `price_in` and `price_out` say nothing.
        capabilities: What the endpoint can do.
        dialect: Parameters that are renamed, left out or added.
        key_env: Name of the environment variable that holds the key; None for the usual one.
        insecure: Whether prompts may go over plain http to other machines.
        transport: What sends the requests; None for `AiohttpTransport`.
        meter: What was sent and spent so far.

    Raises:
        UsageError: For a value that cannot be used.
    """

    base_urls: tuple[str, ...] = ()
    connections: int = 16
    timeout: float = 120.0
    retries: int = 5
    max_cost: float | None = None
    max_minutes: float | None = None
    price_in: float | None = None
    price_out: float | None = None
    prices: PriceList = field(default=PRICES, repr=False)
    capabilities: Capabilities = Capabilities()
    dialect: Dialect = Dialect()
    key_env: str | None = None
    insecure: bool = False
    transport: Transport | None = field(default=None, compare=False, repr=False)
    meter: Meter = field(default_factory=Meter, compare=False, repr=False)

    def __post_init__(self) -> None:
        for url in self.base_urls:
            _require_plain(url)
            _require_safe(url, self.insecure)
        within("connections", self.connections, 1, 10_000)
        within("retries", self.retries, 0, 100)
        positive("timeout", self.timeout)
        for name, limit in (("max_cost", self.max_cost), ("max_minutes", self.max_minutes)):
            if limit is not None:
                positive(name, limit)
        for name, price in (("price_in", self.price_in), ("price_out", self.price_out)):
            if price is not None:
                within(name, price, 0.0, 1e9)

    @property
    def urls(self) -> tuple[str, ...]:
        """The addresses that are contacted, and no others."""
        return tuple(dict.fromkeys(map(_bare, self.base_urls))) or (OPENAI,)

    @property
    def limits(self) -> tuple[str, ...]:
        """Options that limit money or time, where they were given."""
        given = {"--max-cost": self.max_cost, "--max-minutes": self.max_minutes}
        return tuple(name for name, value in given.items() if value is not None)

    def price(self, model: str) -> Price | None:
        """What a model costs here.

        Args:
            model: Name of the model.

        Returns:
            The price that was given or is listed; None if it is unknown.

        Raises:
            UsageError: If it is unknown, so that `max_cost` could not be kept.
        """
        found = self._found_price(model)
        if self.max_cost is None:
            return found
        if found is None:
            raise UsageError(
                f"the price of {model} is unknown, so --max-cost cannot be kept; give --price-in "
                "and --price-out, or --price."
            )
        if self.dialect.unbounded:
            raise UsageError(
                "max_tokens is left out, so an answer may cost anything and --max-cost cannot be "
                "kept; give --param max_completion_tokens=NUMBER."
            )
        return found

    def _found_price(self, model: str) -> Price | None:
        given = (self.price_in, self.price_out)
        known = {self.prices.of(model, str(urlsplit(url).hostname)) for url in self.urls}
        listed = known.pop() if len(known) == 1 else None
        if None in given and listed is None:
            return None
        low, high = (
            p if p is not None else q for p, q in zip(given, listed or (0.0, 0.0), strict=True)
        )
        return Price(low, high)

    def price_date(self, model: str) -> str:
        """Of what date the price of a model is.

        Args:
            model: Name of the model.

        Returns:
            The date of the list that holds it; "" where it was given, or is unknown.
        """
        given = None not in (self.price_in, self.price_out)
        return "" if given or self._found_price(model) is None else self.prices.as_of


def _bare(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(path=parts.path.rstrip("/")).geturl()


def _require_plain(url: str) -> None:
    """Refuse what is no web address, and one that holds secrets; shows none that may."""
    try:
        found = urlsplit(url)
        named = is_host(found.hostname or "")
        good = found.scheme in ("http", "https") and named and (found.port or 0) >= 0
    except ValueError:
        good = False
    if (
        (found.username or found.password or found.fragment or not _versioned(found.query))
        if good
        else set(url) & set("@?#")
    ):
        raise UsageError(
            "a base URL holds a user, a password, a query or a fragment; give the bare address, "
            "such as http://127.0.0.1:8000/v1 (Azure's may end in ?api-version=...), and put a key "
            "into the environment variable LEAKBOUND_API_KEY."
        )
    if not good:
        raise UsageError(
            f"the base URL {url!r} is no web address; it must be like http://127.0.0.1:8000/v1."
        )


def _versioned(query: str) -> bool:
    """Whether a query is empty, or Azure's api-version alone."""
    name, _, value = query.partition("=")
    return not query or (name == VERSION and value.replace("-", "").isalnum())


def _require_safe(url: str, insecure: bool) -> None:
    """Prompts hold private rows, and a key follows them."""
    if not insecure and urlsplit(url).scheme == "http" and not is_loopback(url):
        raise UsageError(
            f"{_bare(url)} is plain http beyond this machine, so anybody on the way can read "
            "prompts and key; use https, a tunnel to this machine, or --insecure if the network is "
            "yours."
        )


def key_from_environment(endpoint: Endpoint | None = None) -> str | None:
    """Read the API key of an endpoint from the environment.

    Args:
        endpoint: Where the key is sent; None for OpenAI's own host.

    Returns:
        The variable that `key_env` names. Else OPENAI_API_KEY if all addresses are OpenAI's own,
        and LEAKBOUND_API_KEY in any other case; None where there is none.

    Raises:
        UsageError: If the named variable is not set, or the key cannot be sent as a header. It is
            not shown.
    """
    found = endpoint or Endpoint()
    if found.key_env is not None and not os.environ.get(found.key_env):
        raise UsageError(
            f"--key-env names {found.key_env}, and the environment has no such variable, or an "
            "empty one; set it, or leave --key-env out."
        )
    own = all(map(is_openai, found.urls))
    names = [found.key_env] if found.key_env else [OWN_KEY, OTHER_KEY] if own else [OTHER_KEY]
    name = next((name for name in names if os.environ.get(name)), None)
    return None if name is None else _checked_key(name)


def _checked_key(name: str) -> str:
    key = os.environ[name].strip()
    if not key.isascii() or not key.isprintable() or " " in key:
        raise UsageError(
            f"the key in the environment variable {name} has characters that no key has; set it "
            "again."
        )
    return key
