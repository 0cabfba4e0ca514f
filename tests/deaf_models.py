"""Models that do not read the examples before a question: no claim about leakage holds of them.

`silent` answers everything alike, `coin` at random, the same answer to the same prompt, and
`forgetful` at random by the instructions and the question alone, whatever stands between them.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar, cast

import numpy as np

from leakbound.models import Complete, Embed, Model, NextLogits, Request, ScoreLabels, ScoreTokens
from leakbound.models.content import Parts, join, readable
from leakbound.models.model import Wrapper
from leakbound.models.request import Prompt

R = TypeVar("R")
BLANK = "\n\n"  # between examples
ANSWERS = ("yes", "no", "red", "blue", "green", "gold")
LETTERS = 24  # tokens that a scripted model may write


class _Scripted(Wrapper):
    """Answers without a model; the wrapped one only cuts texts into tokens."""

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        ends = model.end_ids()
        usable = (i for i in range(4, 400) if i not in ends)
        letters = [i for i in usable if model.text((i,)).strip().isalpha()][:LETTERS]
        words = model.answer([NextLogits(BLANK)])[0].shape[1]
        self.logits = np.full(words, -1e4, np.float32)
        self.logits[letters] = 0.0
        self.letters = letters

    @property
    def fingerprint(self) -> str:
        return f"{self.name} {self.model.fingerprint}"

    def check(self, requests: Sequence[Request[object]], /) -> None:
        """Any prompt fits."""

    def answer(self, requests: Sequence[Request[R]], /) -> list[R]:
        return [cast("R", self._one(request)) for request in requests]

    def _one(self, request: Request[Any]) -> object:
        if isinstance(request, Embed):
            drawn = np.random.default_rng(zlib.crc32(request.text.encode()))
            return drawn.normal(size=32).astype(np.float32)
        if isinstance(request, Complete):
            return self.text(request)
        if isinstance(request, ScoreLabels):
            return self.scores(request.prompt, len(request.labels))
        if isinstance(request, ScoreTokens | NextLogits):
            return self._tokens(request)
        raise TypeError(type(request).__name__)

    def _tokens(self, request: ScoreTokens | NextLogits) -> object:
        response = request.response
        ids = response if isinstance(response, tuple) else self.model.encode_response(response)
        if isinstance(request, ScoreTokens):
            return self.scores(request.prompt, len(ids))
        return np.stack([self.next(request.prompt, ids[:at]) for at in range(len(ids) + 1)])

    def text(self, request: Complete) -> str:
        raise NotImplementedError

    def scores(self, prompt: Prompt, number: int) -> Any:
        raise NotImplementedError

    def next(self, prompt: Prompt, ids: tuple[int, ...]) -> Any:
        raise NotImplementedError


class Silent(_Scripted):
    """Says no to everything, and finds all labels and all words equally likely."""

    @property
    def name(self) -> str:
        return "silent"

    def text(self, request: Complete) -> str:
        return "no"

    def scores(self, prompt: Prompt, number: int) -> Any:
        return np.full(number, -1.0, np.float32)

    def next(self, prompt: Prompt, ids: tuple[int, ...]) -> Any:
        return self.logits


class Coin(_Scripted):
    """Draws each answer, by the prompt."""

    @property
    def name(self) -> str:
        return "coin"

    def text(self, request: Complete) -> str:
        rng = _drawn(request.prompt, request.draw if request.temperature else 0)
        return str(rng.choice(ANSWERS[:2] if rng.random() < 0.5 else ANSWERS))

    def scores(self, prompt: Prompt, number: int) -> Any:
        return np.log(_drawn(prompt, number).dirichlet(np.ones(number))).astype(np.float32)

    def next(self, prompt: Prompt, ids: tuple[int, ...]) -> Any:
        found = self.logits.copy()
        found[self.letters] = _drawn(prompt, ids).normal(0, 2, len(self.letters))
        return found


def _drawn(*told: object) -> np.random.Generator:
    prompt, *others = told
    text = repr(prompt) if isinstance(prompt, tuple) else readable(cast("Any", prompt))
    return np.random.default_rng(zlib.crc32(f"{text}|{others}".encode()))


class Forgetful(Coin):
    """Draws each answer by what is left of the prompt without its examples."""

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self.blank = [model.encode(f"a{BLANK}b")[-3:-1], model.encode(BLANK)[-2:]]

    @property
    def name(self) -> str:
        return "forgetful"

    def _one(self, request: Any) -> object:
        if isinstance(request, Embed):
            return super()._one(request)
        return super()._one(replace(request, prompt=self._short(request.prompt)))

    def _short(self, prompt: Prompt) -> Prompt:
        if isinstance(prompt, str):
            head, _, rest = prompt.partition(BLANK)
            return f"{head}{BLANK}{rest.rpartition(BLANK)[2]}"
        if isinstance(prompt, Parts):
            return _last_of(prompt)
        return self._last_ids(prompt)

    def _last_ids(self, prompt: tuple[int, ...]) -> tuple[int, ...]:
        for blank in self.blank:
            size = len(blank)
            for at in range(len(prompt) - size, -1, -1):
                if prompt[at : at + size] == tuple(blank):
                    return (prompt[0], *prompt[at + size :])
        return prompt


def _last_of(prompt: Parts) -> Parts | str:
    """The head, and the last example with its image."""
    texts = [at for at, one in enumerate(prompt.parts) if isinstance(one, str) and BLANK in one]
    head, last = prompt.parts[texts[0]], prompt.parts[texts[-1]]
    start = f"{head.partition(BLANK)[0]}{BLANK}{last.rpartition(BLANK)[2]}"  # type: ignore[union-attr]
    return cast("Parts | str", join([start, *prompt.parts[texts[-1] + 1 :]]))


DEAF: Mapping[str, Callable[[Any], Model]] = {
    "silent": Silent, "coin": Coin, "forgetful": Forgetful,
}  # fmt: skip
