"""Models around a model: answer equal requests once, count model calls, embed elsewhere."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TypeVar

from leakbound.models.model import Computed, Concurrent, Limited, Model, Priced
from leakbound.models.request import Complete, Embed, Prompt, Request

__all__ = [
    "Counted", "Distinct", "TwoModels", "WithEmbedder", "WithJudge", "Wrapper", "computation_of",
    "concurrent_model", "innermost",
]  # fmt: skip

R = TypeVar("R")


class Wrapper:
    """Base of models around a model: passes on everything but the answers.

    Args:
        model: The model that is asked.
    """

    def __init__(self, model: Model) -> None:
        self.model = model

    @property
    def name(self) -> str:
        """Name of the model."""
        return self.model.name

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the model."""
        return self.model.fingerprint

    @property
    def supports(self) -> frozenset[type[Request[object]]]:
        """Kinds of requests that the model answers."""
        return self.model.supports

    @property
    def limits(self) -> tuple[str, ...]:
        """Options that limit what the model may spend."""
        return self.model.limits if isinstance(self.model, Limited) else ()

    def check(self, requests: Sequence[Request[object]], /) -> None:
        """Let the model check requests.

        Args:
            requests: What is to be answered.
        """
        self.model.check(requests)

    def most_cost(self, requests: Sequence[Request[object]]) -> float | None:
        """What requests cost at most, however the wrapper saves some of them.

        Args:
            requests: What is to be answered.

        Returns:
            US dollars, without retries; None where no price is known.
        """
        return self.model.most_cost(requests) if isinstance(self.model, Priced) else None


def innermost(model: Model) -> Model:
    """The model inside all wrappers.

    Args:
        model: A model, or a wrapper of this module around one.

    Returns:
        The model that is no wrapper.
    """
    while isinstance(model, Wrapper):
        model = model.model
    return model


def concurrent_model(model: Model) -> Concurrent | None:
    """The model that several threads may ask at once.

    Args:
        model: A model, or a wrapper of this module around one.

    Returns:
        The innermost model; None where it is on this machine, or another model stands beside it.
    """
    while isinstance(model, Wrapper) and not isinstance(model, TwoModels):
        model = model.model
    return model if isinstance(model, Concurrent) else None


def computation_of(model: Model, prompt: Prompt = "", labels: Sequence[str] = ()) -> dict[str, str]:
    """How answers are computed, for the provenance of a record.

    Args:
        model: A model, or a wrapper of this module around one.
        prompt: A public prompt, behind whose end labels are scored.
        labels: Public labels.

    Returns:
        The outcome of the self-check, and as JSON the token ids of each label; nothing where the
        model does not say.
    """
    inner = innermost(model)
    if not isinstance(inner, Computed):
        return {}
    ids = inner.label_ids(prompt, labels) if labels else {}
    return {"computation": inner.computation} | ({"label_ids": json.dumps(ids)} if ids else {})


class TwoModels(Wrapper):
    """Base of models that leave some requests to another one.

    Args:
        model: Answers all other requests.
        beside: Answers those that `is_beside` names.
    """

    def __init__(self, model: Model, beside: Model) -> None:
        super().__init__(model)
        self.beside = beside

    def is_beside(self, request: Request[object]) -> bool:
        """Whether the other model answers a request.

        Args:
            request: What is to be answered.

        Returns:
            True for those of the other model.
        """
        raise NotImplementedError

    @property
    def fingerprint(self) -> str:
        """Fingerprints of both models."""
        return f"{self.model.fingerprint}+{self.beside.fingerprint}"

    @property
    def limits(self) -> tuple[str, ...]:
        """Options that limit what either model may spend."""
        more = self.beside.limits if isinstance(self.beside, Limited) else ()
        return tuple(dict.fromkeys(super().limits + more))

    def check(self, requests: Sequence[Request[object]], /) -> None:
        """Let each model check its requests.

        Args:
            requests: What is to be answered.
        """
        self.model.check([request for request in requests if not self.is_beside(request)])
        self.beside.check([request for request in requests if self.is_beside(request)])

    def most_cost(self, requests: Sequence[Request[object]]) -> float | None:
        """What the requests of both models cost at most; a local model beside costs nothing.

        Args:
            requests: What is to be answered.

        Returns:
            US dollars, without retries; None where no price is known.
        """
        others = [request for request in requests if self.is_beside(request)]
        most = super().most_cost([one for one in requests if not self.is_beside(one)])
        if not isinstance(self.beside, Priced) or most is None or not others:
            return most
        more = self.beside.most_cost(others)
        return None if more is None else most + more

    def answer(self, requests: Sequence[Request[R]], /) -> list[R]:
        """Answer requests, each by its model.

        Args:
            requests: What to answer.

        Returns:
            An answer for each request, in order.
        """
        routed = [self.is_beside(request) for request in requests]
        others = [r for r, beside in zip(requests, routed, strict=True) if beside]
        by_model = [r for r, beside in zip(requests, routed, strict=True) if not beside]
        beside = iter(self.beside.answer(others) if others else [])
        answers = iter(self.model.answer(by_model) if by_model else [])
        return [next(beside if one else answers) for one in routed]


class WithEmbedder(TwoModels):
    """A model whose `Embed` requests go to another one.

    Args:
        model: Answers all other requests.
        beside: Answers `Embed`.
    """

    @property
    def supports(self) -> frozenset[type[Request[object]]]:
        """What the model answers, and `Embed`."""
        return self.model.supports | {Embed}

    def is_beside(self, request: Request[object]) -> bool:
        """Whether an embedding is asked for.

        Args:
            request: What is to be answered.

        Returns:
            True for `Embed`.
        """
        return isinstance(request, Embed)


class WithJudge(TwoModels):
    """A model whose answers another one judges.

    Args:
        model: Answers all other requests.
        beside: Answers every `Complete` that asks a judge.

    Examples:
        >>> from leakbound.models.scripted import Scripted
        >>> both = WithJudge(Scripted(lambda p: "yes"), Scripted(lambda p: "safe"))
        >>> both.answer([Complete("there?"), Complete("a leak?", judge=True)])
        ['yes', 'safe']
    """

    def is_beside(self, request: Request[object]) -> bool:
        """Whether a judge is asked.

        Args:
            request: What is to be answered.

        Returns:
            True for a `Complete` with `judge`.
        """
        return isinstance(request, Complete) and request.judge


class Distinct(Wrapper):
    """Asks the model each distinct request of a batch once.

    The two contexts of a paired trial share most of theirs.
    """

    def answer(self, requests: Sequence[Request[R]], /) -> list[R]:
        """Answer requests.

        Args:
            requests: What to answer.

        Returns:
            An answer for each request, in order; equal requests share theirs.
        """
        order = list(dict.fromkeys(requests))
        answers = dict(zip(order, self.model.answer(order), strict=True))
        return [answers[request] for request in requests]


class Counted(Wrapper):
    """Counts the requests that reach the model, in `calls`."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self.calls = 0

    def answer(self, requests: Sequence[Request[R]], /) -> list[R]:
        """Answer requests and count them.

        Args:
            requests: What to answer.

        Returns:
            An answer for each request, in order.
        """
        self.calls += len(requests)
        return self.model.answer(requests)
