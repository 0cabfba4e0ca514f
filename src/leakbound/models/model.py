"""A model: one verb, the kinds of requests that it answers, a free check; and one of functions."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, Protocol, TypeVar, cast, runtime_checkable

import numpy as np
import numpy.typing as npt

from leakbound.errors import TargetError
from leakbound.models.content import readable
from leakbound.models.request import (
    Complete,
    Embed,
    NextLogits,
    Prompt,
    Request,
    ScoreLabels,
    ScoreTokens,
)

R = TypeVar("R")


@runtime_checkable
class Model(Protocol):
    """Answers batches of requests and keeps their order."""

    @property
    def name(self) -> str:
        """Name for records and messages."""

    @property
    def fingerprint(self) -> str:
        """Changes whenever an answer could; identifies the model in runs and caches."""

    @property
    def supports(self) -> frozenset[type[Request[object]]]:
        """Kinds of requests that it answers."""

    @property
    def limits(self) -> tuple[str, ...]:
        """Options that set a limit on money or time, after which it stops answering; () for
        none."""

    @property
    def may_change(self) -> bool:
        """Whether it may answer an equal request differently later. Behind an endpoint there may be
        a quota, a guard that learns, or a new version; an audit then repeats control contexts at
        its end. The answers of a model in this process depend on its weights and the request."""

    def check(self, requests: Sequence[Request[object]], /) -> None:
        """Refuse requests that cannot be answered, without any model call.

        Raises:
            TargetError: If one of the requests cannot be answered.
        """

    def answer(self, requests: Sequence[Request[R]], /) -> list[R]:
        """Answer requests, in order. Equal requests get equal answers."""


@runtime_checkable
class _GivesReasons(Protocol):
    """A model that can say why it does not answer a kind of request."""

    def why(self, kind: type[Request[object]]) -> str:
        """The reason, and what to do."""


@runtime_checkable
class Computed(Protocol):
    """A model on this machine that can say how its answers are computed."""

    @property
    def computation(self) -> str:
        """The outcome of its self-check, and what it does differently from most models."""

    def label_ids(self, prompt: Prompt, labels: Sequence[str]) -> dict[str, tuple[int, ...]]:
        """The tokens used to score labels."""


@runtime_checkable
class Priced(Protocol):
    """A model whose answers may cost money."""

    def most_cost(self, requests: Sequence[Request[object]]) -> float | None:
        """The most US dollars that requests can cost, without retries; None if it is unknown."""


@runtime_checkable
class Concurrent(Protocol):
    """A model that is called over connections, by several threads at once."""

    @property
    def connections(self) -> int:
        """The most requests in flight."""

    def close(self) -> None:
        """Drop what is in flight; the next answer opens new connections."""


def require(model: Model, needs: Iterable[type[Request[object]]], who: str) -> None:
    """Refuse a model that cannot answer the necessary kinds of requests.

    Args:
        model: The model.
        needs: Kinds of requests.
        who: What needs them; begins the message.

    Raises:
        TargetError: If a kind is missing, with the reason if the model `_GivesReasons`.
    """
    missing = sorted(set(needs) - model.supports, key=lambda kind: kind.__name__)
    if missing:
        why = "choose another mechanism or model."
        if isinstance(model, _GivesReasons):
            why = model.why(missing[0])
        names = ", ".join(sorted(kind.__name__ for kind in model.supports))
        raise TargetError(
            f"{who} needs {', '.join(kind.__name__ for kind in missing)} from its model, and "
            f"{model.name} answers {f'only {names}' if names else 'no requests'}; {why}"
        )


class Wrapper:
    """Base of models that wrap a model. Forwards everything but `answer`."""

    def __init__(self, model: Model) -> None:
        self.model = model

    @property
    def name(self) -> str:
        return self.model.name

    @property
    def fingerprint(self) -> str:
        return self.model.fingerprint

    @property
    def supports(self) -> frozenset[type[Request[object]]]:
        return self.model.supports

    @property
    def limits(self) -> tuple[str, ...]:
        return self.model.limits

    @property
    def may_change(self) -> bool:
        return self.model.may_change

    def check(self, requests: Sequence[Request[object]], /) -> None:
        self.model.check(requests)

    def most_cost(self, requests: Sequence[Request[object]]) -> float | None:
        """The most that requests can cost, even if the wrapper avoids some of them."""
        return self.model.most_cost(requests) if isinstance(self.model, Priced) else None


def innermost(model: Model) -> Model:
    while isinstance(model, Wrapper):
        model = model.model
    return model


def concurrent_model(model: Model, requests: Sequence[Request[object]] = ()) -> Concurrent | None:
    """The model that several threads may call at once, for these requests."""
    while isinstance(model, Wrapper):
        sides = {isinstance(model, _TwoModels) and model.is_beside(one) for one in requests}
        if isinstance(model, _TwoModels) and len(sides) != 1:
            return None
        model = model.beside if isinstance(model, _TwoModels) and True in sides else model.model
    return model if isinstance(model, Concurrent) else None


def computation_of(model: Model, prompt: Prompt = "", labels: Sequence[str] = ()) -> dict[str, str]:
    """How answers are computed, for the provenance of a record."""
    inner = innermost(model)
    if not isinstance(inner, Computed):
        return {}
    ids = inner.label_ids(prompt, labels) if labels else {}
    return {"computation": inner.computation} | ({"label_ids": json.dumps(ids)} if ids else {})


class _TwoModels(Wrapper):
    """Base of models that send the requests for which `is_beside` is true to another model."""

    def __init__(self, model: Model, beside: Model) -> None:
        super().__init__(model)
        self.beside = beside

    def is_beside(self, request: Request[object]) -> bool:
        raise NotImplementedError

    @property
    def fingerprint(self) -> str:
        return f"{self.model.fingerprint}+{self.beside.fingerprint}"

    @property
    def limits(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(super().limits + self.beside.limits))

    @property
    def may_change(self) -> bool:
        return super().may_change or self.beside.may_change

    def check(self, requests: Sequence[Request[object]], /) -> None:
        self.model.check([request for request in requests if not self.is_beside(request)])
        self.beside.check([request for request in requests if self.is_beside(request)])

    def most_cost(self, requests: Sequence[Request[object]]) -> float | None:
        """The most that the requests of both models can cost; a local model costs nothing."""
        others = [request for request in requests if self.is_beside(request)]
        most = super().most_cost([one for one in requests if not self.is_beside(one)])
        if not isinstance(self.beside, Priced) or most is None or not others:
            return most
        more = self.beside.most_cost(others)
        return None if more is None else most + more

    def answer(self, requests: Sequence[Request[R]], /) -> list[R]:
        routed = [self.is_beside(request) for request in requests]
        others = [r for r, beside in zip(requests, routed, strict=True) if beside]
        by_model = [r for r, beside in zip(requests, routed, strict=True) if not beside]
        beside = iter(self.beside.answer(others) if others else [])
        answers = iter(self.model.answer(by_model) if by_model else [])
        return [next(beside if one else answers) for one in routed]


class WithEmbedder(_TwoModels):
    """A model whose requests for `Embed` the model `beside` it answers."""

    @property
    def supports(self) -> frozenset[type[Request[object]]]:
        return self.model.supports | {Embed}

    def is_beside(self, request: Request[object]) -> bool:
        return isinstance(request, Embed)


class WithJudge(_TwoModels):
    """A model with another model, `beside` it, as judge: it answers every `Complete` with `judge`.

    Examples:
        >>> from leakbound.models.model import Scripted
        >>> both = WithJudge(Scripted(lambda p: "yes"), Scripted(lambda p: "safe"))
        >>> both.answer([Complete("there?"), Complete("a leak?", judge=True)])
        ['yes', 'safe']
    """

    def is_beside(self, request: Request[object]) -> bool:
        return isinstance(request, Complete) and request.judge


class Distinct(Wrapper):
    """Sends each distinct request of a batch once; paired trials share most of theirs."""

    def answer(self, requests: Sequence[Request[R]], /) -> list[R]:
        order = list(dict.fromkeys(requests))
        answers = dict(zip(order, self.model.answer(order), strict=True))
        return [answers[request] for request in requests]


class Counted(Wrapper):
    """Counts the requests that reach the model, in `calls`."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self.calls = 0

    def answer(self, requests: Sequence[Request[R]], /) -> list[R]:
        self.calls += len(requests)
        return self.model.answer(requests)


class Scripted:
    """Answers each kind of request with a plain function.

    Args:
        complete: (prompt) to a text.
        label_scores: (prompt, labels) to a natural log-probability for each label.
        token_scores: (prompt, response) to a natural log-probability for each token.
        next_logits: (prompt, response) to (tokens + 1, vocabulary) logits.
        embed: (text) to a vector.
        name: Name of the model. The fingerprint depends on it alone.
        window: The most words of a prompt, including the tokens that `NextLogits` reserves; None
            for no limit.
    """

    limits: ClassVar[tuple[str, ...]] = ()
    may_change: ClassVar[bool] = False

    def __init__(
        self,
        complete: Callable[[str], str] | None = None,
        label_scores: Callable[[str, tuple[str, ...]], Sequence[float]] | None = None,
        token_scores: Callable[..., Sequence[float]] | None = None,
        next_logits: Callable[..., npt.ArrayLike] | None = None,
        embed: Callable[[str], Sequence[float]] | None = None,
        name: str = "scripted",
        window: int | None = None,
    ) -> None:
        self._scripts: dict[type[Request[object]], Callable[..., object] | None] = {
            Complete: complete,
            ScoreLabels: label_scores,
            ScoreTokens: token_scores,
            NextLogits: next_logits,
            Embed: embed,
        }
        self.name, self.window = name, window

    @property
    def fingerprint(self) -> str:
        """Hash of the name alone, so give different scripts different names."""
        return hashlib.sha256(self.name.encode()).hexdigest()[:16]

    @property
    def supports(self) -> frozenset[type[Request[object]]]:
        return frozenset(kind for kind, script in self._scripts.items() if script)

    def check(self, requests: Sequence[Request[object]], /) -> None:
        if self.window is None:
            return
        for request in requests:
            words = (
                0 if isinstance(request, Embed) else len(readable(_arguments(request)[0]).split())
            )
            words += request.reserve if isinstance(request, NextLogits) else 0
            if words > self.window:
                raise TargetError(
                    f"a prompt of {words} words does not fit the window of {self.window} of "
                    f"{self.name}."
                )

    def answer(self, requests: Sequence[Request[R]], /) -> list[R]:
        self.check(requests)
        return [cast(R, self._one(request)) for request in requests]

    def _one(self, request: Request[object]) -> object:
        script = self._scripts.get(type(request))
        if script is None:
            raise TargetError(f"{self.name} has no script for {type(request).__name__}.")
        answer = script(*_arguments(request))
        return answer if isinstance(request, Complete) else np.asarray(answer, np.float32)


def _arguments(request: Request[object]) -> tuple[Prompt | tuple[str, ...], ...]:
    if isinstance(request, Complete):
        return (request.prompt,)
    if isinstance(request, ScoreLabels):
        return (request.prompt, request.labels)
    if isinstance(request, ScoreTokens | NextLogits):
        return (request.prompt, request.response)
    if isinstance(request, Embed):
        return (request.text,)
    raise TargetError(f"a scripted model has no script for {type(request).__name__}.")
