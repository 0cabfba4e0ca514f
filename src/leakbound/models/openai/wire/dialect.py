"""How the parameters of requests differ between endpoints: renamed, left out or added.

Models that reason refuse `max_tokens` and `temperature`, and some servers need extra parameters.
`leakbound probe` finds the dialect of an endpoint and writes it to its file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from leakbound.errors import UsageError

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
            _require_free(name)
        for name in (*self.omit, *self.rename):
            _require_sent(name)
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

        Returns:
            The dialect.

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


def _require_free(name: str) -> None:
    if name in FIXED:
        raise UsageError(
            f"the parameter {name} says what a request asks about, so it cannot be changed; "
            "leave it out."
        )


def _require_sent(name: str) -> None:
    if name not in OPTIONAL:
        raise UsageError(
            f"the parameter {name!r} cannot be left out or renamed; it must be one of "
            f"{', '.join(OPTIONAL)}."
        )


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
