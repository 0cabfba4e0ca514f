"""A model: one verb, the kinds of requests that it answers, and a check that costs nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar, runtime_checkable

from leakbound.errors import TargetError
from leakbound.models.request import Prompt, Request

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

    def check(self, requests: Sequence[Request[object]], /) -> None:
        """Refuse requests that cannot be answered, without any model call.

        Args:
            requests: The requests.

        Raises:
            TargetError: If one of the requests cannot be answered.
        """

    def answer(self, requests: Sequence[Request[R]], /) -> list[R]:
        """Answer requests.

        Args:
            requests: What to answer.

        Returns:
            An answer for each request, in order. Equal requests get equal answers.
        """


@runtime_checkable
class GivesReasons(Protocol):
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
        """The most that requests can cost.

        Args:
            requests: The requests.

        Returns:
            US dollars, without retries; None if the price is unknown.
        """


@runtime_checkable
class Concurrent(Protocol):
    """A model that is called over connections, by several threads at once."""

    @property
    def connections(self) -> int:
        """The most requests in flight."""

    def close(self) -> None:
        """Drop what is in flight; the next answer opens new connections."""


@runtime_checkable
class Limited(Protocol):
    """A model that stops answering after a limit on money or time."""

    @property
    def limits(self) -> tuple[str, ...]:
        """Options that set such a limit; empty if there is no limit."""


@runtime_checkable
class Changeable(Protocol):
    """A model that knows whether it may change during an audit."""

    @property
    def may_change(self) -> bool:
        """Whether it may answer an equal request differently later."""


def may_change(model: Model) -> bool:
    """Whether a model may answer an equal request differently later.

    Behind an endpoint there may be a quota, a guard that learns, or a new version. The answers of a
    model in this process depend only on its weights and the request.

    Returns:
        What the model says; True if it does not say. If a model may change, an audit repeats
        control contexts at its end.
    """
    return model.may_change if isinstance(model, Changeable) else True


def require(model: Model, needs: Iterable[type[Request[object]]], who: str) -> None:
    """Refuse a model that cannot answer the necessary kinds of requests.

    Args:
        model: The model.
        needs: Kinds of requests.
        who: What needs them; begins the message.

    Raises:
        TargetError: If a kind is missing, with the reason if the model `GivesReasons`.
    """
    missing = sorted(set(needs) - model.supports, key=lambda kind: kind.__name__)
    if missing:
        why = "choose another mechanism or model."
        if isinstance(model, GivesReasons):
            why = model.why(missing[0])
        names = ", ".join(sorted(kind.__name__ for kind in model.supports))
        raise TargetError(
            f"{who} needs {', '.join(kind.__name__ for kind in missing)} from its model, and "
            f"{model.name} answers {f'only {names}' if names else 'no requests'}; {why}"
        )
