"""Models that wrap a model: answer equal requests once, count model calls, embed elsewhere."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TypeVar

from leakbound.models.model import Computed, Concurrent, Limited, Model, Priced, may_change
from leakbound.models.request import Complete, Embed, Prompt, Request

R = TypeVar("R")


class Wrapper:
    """Base of models that wrap a model. Forwards everything but `answer`.

    Args:
        model: The wrapped model.
    """

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
        return self.model.limits if isinstance(self.model, Limited) else ()

    @property
    def may_change(self) -> bool:
        return may_change(self.model)

    def check(self, requests: Sequence[Request[object]], /) -> None:
        self.model.check(requests)

    def most_cost(self, requests: Sequence[Request[object]]) -> float | None:
        """The most that requests can cost, even if the wrapper avoids some of them."""
        return self.model.most_cost(requests) if isinstance(self.model, Priced) else None


def innermost(model: Model) -> Model:
    while isinstance(model, Wrapper):
        model = model.model
    return model


def concurrent_model(model: Model) -> Concurrent | None:
    """The model that several threads may call at once."""
    while isinstance(model, Wrapper) and not isinstance(model, TwoModels):
        model = model.model
    return model if isinstance(model, Concurrent) else None


def computation_of(model: Model, prompt: Prompt = "", labels: Sequence[str] = ()) -> dict[str, str]:
    """How answers are computed, for the provenance of a record."""
    inner = innermost(model)
    if not isinstance(inner, Computed):
        return {}
    ids = inner.label_ids(prompt, labels) if labels else {}
    return {"computation": inner.computation} | ({"label_ids": json.dumps(ids)} if ids else {})


class TwoModels(Wrapper):
    """Base of models that send some requests to another model.

    Args:
        model: Answers all other requests.
        beside: Answers the requests for which `is_beside` is true.
    """

    def __init__(self, model: Model, beside: Model) -> None:
        super().__init__(model)
        self.beside = beside

    def is_beside(self, request: Request[object]) -> bool:
        """Whether the other model answers a request."""
        raise NotImplementedError

    @property
    def fingerprint(self) -> str:
        return f"{self.model.fingerprint}+{self.beside.fingerprint}"

    @property
    def limits(self) -> tuple[str, ...]:
        more = self.beside.limits if isinstance(self.beside, Limited) else ()
        return tuple(dict.fromkeys(super().limits + more))

    @property
    def may_change(self) -> bool:
        return super().may_change or may_change(self.beside)

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


class WithEmbedder(TwoModels):
    """A model with another model for `Embed` requests.

    Args:
        model: Answers all other requests.
        beside: Answers `Embed`.
    """

    @property
    def supports(self) -> frozenset[type[Request[object]]]:
        return self.model.supports | {Embed}

    def is_beside(self, request: Request[object]) -> bool:
        return isinstance(request, Embed)


class WithJudge(TwoModels):
    """A model with another model as judge of its answers.

    Args:
        model: Answers all other requests.
        beside: Answers every `Complete` with `judge`.

    Examples:
        >>> from leakbound.models.scripted import Scripted
        >>> both = WithJudge(Scripted(lambda p: "yes"), Scripted(lambda p: "safe"))
        >>> both.answer([Complete("there?"), Complete("a leak?", judge=True)])
        ['yes', 'safe']
    """

    def is_beside(self, request: Request[object]) -> bool:
        return isinstance(request, Complete) and request.judge


class Distinct(Wrapper):
    """Sends each distinct request of a batch to the model once.

    The two contexts of a paired trial share most of theirs.
    """

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
