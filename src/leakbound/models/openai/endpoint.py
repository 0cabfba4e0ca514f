"""Where an OpenAI-compatible model is, what it can do, and what may be spent on it.

Only `Capabilities` and `Dialect` can change an answer.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from urllib.parse import urlsplit

from leakbound._check import positive, within
from leakbound.errors import UsageError, unknown_name
from leakbound.models.http.hosts import OPENAI, VERSION, is_exposed, is_host, is_openai
from leakbound.models.http.transport import Transport
from leakbound.models.openai.account import PRICES, Meter, Price, PriceList

LENGTHS = ("max_tokens", "max_completion_tokens", "max_new_tokens", "num_predict", "n_predict")
# they define what a request asks, so changing them would ask something else
FIXED = (
    "model", "messages", "prompt", "input", "stream", "n", "best_of", "echo", "logprobs",
    "top_logprobs", "prompt_logprobs", "return_token_ids",
)  # fmt: skip
OPTIONAL = ("max_tokens", "temperature", "top_p", "stop", "seed", "stream", "encoding_format")


@dataclass(frozen=True, slots=True)
class Dialect:
    """Parameters of requests as an endpoint accepts them; the default changes nothing.

    A number of tokens under one of the names in `LENGTHS` replaces `max_tokens`. Requests for
    scores generate one token, so for them only the name changes.

    Attributes:
        params: Parameters that are added or overridden.
        omit: Parameters that are left out.
        rename: New names of parameters, by their usual name.

    Raises:
        UsageError: If a parameter is unknown or must not be changed.
    """

    params: Mapping[str, object] = field(default_factory=dict, hash=False)
    omit: tuple[str, ...] = ()
    rename: Mapping[str, str] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        for name in (*self.params, *self.rename.values()):
            if name in FIXED:
                raise UsageError(
                    f"the parameter {name} says what a request asks about, so it cannot be "
                    "changed; leave it out."
                )
        for name in (*self.omit, *self.rename):
            if name not in OPTIONAL:
                raise UsageError(
                    f"the parameter {name!r} cannot be left out or renamed; it must be one of "
                    f"{', '.join(OPTIONAL)}."
                )
        twice = [name for name in self.omit if name in self.params or name in self.rename]
        if twice:
            raise UsageError(
                f"the parameter {twice[0]} is left out and given as well; name it once."
            )

    @classmethod
    def parse(
        cls, params: Iterable[str] = (), omit: Iterable[str] = (), rename: Iterable[str] = ()
    ) -> Dialect:
        """Read a dialect from the command line.

        Args:
            params: Texts NAME=VALUE. A value is read as JSON, or else as text.
            omit: Names.
            rename: Texts NAME=NEW_NAME.

        Raises:
            UsageError: If a text has another form, and as the class does.

        Examples:
            >>> found = Dialect.parse(["max_completion_tokens=16"], ["temperature"])
            >>> found.applied({"model": "o3", "max_tokens": 48, "temperature": 0.0})
            {'model': 'o3', 'max_completion_tokens': 16}
        """
        values = {name: _value(text) for name, text in _pairs(params, "--param")}
        return cls(values, tuple(dict.fromkeys(omit)), dict(_pairs(rename, "--rename")))

    def over(self, other: Dialect) -> Dialect:
        """Combine two dialects; this one takes precedence."""
        mine = {*self.params, *self.omit, *self.rename}
        length = any(name in LENGTHS for name in self.params)
        kept = {
            name: value
            for name, value in other.params.items()
            if name not in mine and not (length and name in LENGTHS)
        }
        return Dialect(
            kept | dict(self.params),
            (*(name for name in other.omit if name not in mine), *self.omit),
            {name: new for name, new in other.rename.items() if name not in mine}
            | dict(self.rename),
        )

    def without(self, name: str) -> Dialect:
        """The same dialect with a parameter left out."""
        return replace(self, omit=(*self.omit, name))

    @property
    def length(self) -> int | None:
        """The most tokens of a text, if a parameter sets it for all requests."""
        found = next((v for name, v in self.params.items() if name in LENGTHS), None)
        return found if isinstance(found, int) else None

    @property
    def unbounded(self) -> bool:
        """Whether the length of a text, and therefore its cost, has no limit."""
        return "max_tokens" in self.omit and self.length is None

    def applied(self, body: Mapping[str, object], text: bool = True) -> dict[str, object]:
        """The JSON object of a request in this dialect, from that in OpenAI's usual form.

        A request for scores, not for a text, generates one token whatever the dialect says.
        """
        named = {self._name(name): v for name, v in body.items() if name not in self.omit}
        added = {n: v for n, v in self.params.items() if text or n not in LENGTHS}
        return {**named, **added}

    def _name(self, name: str) -> str:
        if name == "max_tokens":
            length = next((param for param in self.params if param in LENGTHS), None)
            return length or self.rename.get(name, name)
        return self.rename.get(name, name)

    def __bool__(self) -> bool:
        return bool(self.params or self.omit or self.rename)

    def __str__(self) -> str:
        parts = [f"{name} is {json.dumps(value)}" for name, value in self.params.items()]
        parts += [f"{name} is called {new}" for name, new in self.rename.items()]
        parts += [f"{name} is left out" for name in self.omit]
        return ", ".join(parts) or "as OpenAI's"


OWN = Dialect()


FORMS = {
    "--param": "NAME=VALUE, such as max_completion_tokens=16",
    "--rename": "NAME=NEW, such as max_tokens=max_completion_tokens",
}


def _pairs(texts: Iterable[str], flag: str) -> list[tuple[str, str]]:
    found = [text.partition("=") for text in texts]
    for name, equals, value in found:
        if not (name.strip() and equals and value.strip()):
            raise UsageError(f"{flag} got {name + equals + value!r}; it must be {FORMS[flag]}.")
    names = [name.strip() for name, _, _ in found]
    twice = [name for at, name in enumerate(names) if name in names[:at]]
    if twice:
        raise UsageError(f"{flag} names {twice[0]} twice; give it once.")
    return [(name.strip(), value.strip()) for name, _, value in found]


def _value(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text


VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")  # names of environment variables
OWN_KEY, OTHER_KEY = "OPENAI_API_KEY", "LEAKBOUND_API_KEY"  # for OpenAI's own host; for all others


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What an endpoint can do, as stated or probed. The default is text by chat.

    Attributes:
        chat: /chat/completions answers.
        completions: Prompts go to /completions unchanged, without a chat template.
        token_ids: /completions accepts prompts of token ids.
        seed: Draws can be seeded.
        prompt_logprobs: /completions returns vLLM's log-probabilities of a prompt.
        echo: /completions repeats the prompt with log-probabilities.
        echo_shift: 0 if each echoed token has its own log-probability; 1 if it has that of the next
            position (then nothing can be scored); None if this is unknown.
        top_logprobs: Number of next tokens reported; 0 for none.
        first_tokens_differ: The labels of the task are words of one token each, so the next token
            distinguishes them.
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
        """Read capabilities from a list such as `completions,echo,echo_shift=0`.

        A name alone means yes; names that are missing have their defaults.

        Raises:
            UsageError: If a name is unknown or its value is not allowed.

        Examples:
            >>> Capabilities.parse("completions,echo,echo_shift=0").scores
            True
        """
        values = dict(map(_parse_part, filter(None, map(str.strip, text.split(",")))))
        flags = {name: bool(value) for name, value in values.items() if name not in NUMBERS}
        shift, top = values.get("echo_shift"), values.get("top_logprobs", 0)
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
    """How to reach an `openai/...` model.

    Attributes:
        base_urls: Addresses of the same model; empty for api.openai.com.
        connections: The most requests in flight, over all addresses.
        timeout: Seconds for one request.
        retries: Retries of a request after a temporary failure.
        max_cost: Limit on the US dollars of one command; None for no limit.
        max_minutes: Limit on the minutes of one command; None for no limit.
        price_in: US dollars per million prompt tokens; None to look it up in `prices`.
        price_out: US dollars per million generated tokens; None to look it up in `prices`.
        prices: Prices of models by host, used if `price_in` or `price_out` is None.
        capabilities: What the endpoint can do.
        dialect: Parameters that are renamed, left out or added.
        key_env: Name of the environment variable that holds the key; None for the default.
        insecure: Whether prompts may go over plain http to other machines.
        separate: Whether no request changes how another is sent, or when: no pause, no count of
            failures, no open connection is left behind. For private answers.
        transport: Sends the requests; None for `AiohttpTransport`.
        meter: Counts what was sent and spent.

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
    separate: bool = field(default=False, compare=False)
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
        """All addresses that are contacted."""
        return tuple(dict.fromkeys(map(_bare, self.base_urls))) or (OPENAI,)

    @property
    def limits(self) -> tuple[str, ...]:
        given = {"--max-cost": self.max_cost, "--max-minutes": self.max_minutes}
        return tuple(name for name, value in given.items() if value is not None)

    def price(self, model: str) -> Price | None:
        """The given or listed price of a model; None if unknown.

        Raises:
            UsageError: If the price is unknown and `max_cost` therefore cannot be enforced.
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
        """The date of the list that has a model's price; empty if it was given or is unknown."""
        given = None not in (self.price_in, self.price_out)
        return "" if given or self._found_price(model) is None else self.prices.as_of


def _bare(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(path=parts.path.rstrip("/")).geturl()


def _require_plain(url: str) -> None:
    """Refuse anything but a web address, and an address with secrets, without showing secrets."""
    try:
        found = urlsplit(url)
        named = is_host(found.hostname or "")
        good = found.scheme in ("http", "https") and named and (found.port or 0) >= 0
        name, _, value = found.query.partition("=")  # of Azure's api-version, if there is one
        versioned = not found.query or (name == VERSION and value.replace("-", "").isalnum())
    except ValueError:
        good = False
    if (
        (found.username or found.password or found.fragment or not versioned)
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
            f"the base URL {url!r} is not a web address; it must be like http://127.0.0.1:8000/v1."
        )


def _require_safe(url: str, insecure: bool) -> None:
    """Refuse plain http beyond this machine: requests contain private rows and the key."""
    if not insecure and is_exposed(url):
        raise UsageError(
            f"{_bare(url)} uses plain http to another machine, so anyone on the network path can "
            "read prompts and key; use https, a tunnel to this machine, or --insecure if you trust "
            "the network."
        )


def key_from_environment(endpoint: Endpoint | None = None) -> str | None:
    found = endpoint or Endpoint()
    if found.key_env and not VARIABLE.fullmatch(found.key_env):
        raise UsageError(
            "--key-env got what is no name of an environment variable (not shown: it may be the "
            "key itself); put the key into a variable, and name that, such as OPENAI_API_KEY."
        )
    if found.key_env is not None and not os.environ.get(found.key_env):
        state = "is empty" if found.key_env in os.environ else "is not set"
        raise UsageError(
            f"--key-env names the environment variable {found.key_env!r}, which {state}; set it to "
            "the API key of the endpoint, or leave --key-env out."
        )
    own = all(map(is_openai, found.urls))
    names = [found.key_env] if found.key_env else [OWN_KEY, OTHER_KEY] if own else [OTHER_KEY]
    name = next((name for name in names if os.environ.get(name)), None)
    if name is None:
        return None
    key = os.environ[name].strip()
    if not key.isascii() or not key.isprintable() or " " in key:
        raise UsageError(
            f"the key in the environment variable {name} has characters that no key contains; set "
            "it again."
        )
    return key
