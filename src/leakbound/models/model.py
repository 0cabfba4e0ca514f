"""A model: one verb, the kinds of requests it can answer, and a check that costs nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar, runtime_checkable

from leakbound.errors import TargetError
from leakbound.models.request import Prompt, Request

__all__ = ["Computed", "Concurrent", "GivesReasons", "Limited", "Model", "Priced", "require"]

R = TypeVar("R")


@runtime_checkable
class Model(Protocol):
    """Answers requests, batch first, order kept."""

    @property
    def name(self) -> str:
        """Name for records and messages."""

    @property
    def fingerprint(self) -> str:
        """Changes whenever an answer could: runs and caches are found by it."""

    @property
    def supports(self) -> frozenset[type[Request[object]]]:
        """Kinds of requests that it answers."""

    def check(self, requests: Sequence[Request[object]], /) -> None:
        """Refuse what cannot be answered, without any model call.

        Args:
            requests: What is to be answered.

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
    """A model that can say why it answers no request of some kind."""

    def why(self, kind: type[Request[object]]) -> str:
        """Why, and what to do.

        Args:
            kind: Kind of requests that is not in `supports`.

        Returns:
            A clause for the end of a message, with its full stop.
        """


@runtime_checkable
class Computed(Protocol):
    """A model on this machine, which can say how its answers are computed."""

    @property
    def computation(self) -> str:
        """The outcome of its self-check, with what is done otherwise than for most models."""

    def label_ids(self, prompt: Prompt, labels: Sequence[str]) -> dict[str, tuple[int, ...]]:
        """The tokens by which labels are scored.

        Args:
            prompt: Whose end they stand behind.
            labels: Public labels.

        Returns:
            Token ids of each label.
        """


@runtime_checkable
class Priced(Protocol):
    """A model whose answers may cost money."""

    def most_cost(self, requests: Sequence[Request[object]]) -> float | None:
        """What requests cost at most.

        Args:
            requests: What is to be answered.

        Returns:
            US dollars, without retries; None where no price is known.
        """


@runtime_checkable
class Concurrent(Protocol):
    """A model that is asked over connections, by several threads at once."""

    @property
    def connections(self) -> int:
        """Most requests in flight."""

    def close(self) -> None:
        """Give up what is in flight; the next answer opens new connections."""


@runtime_checkable
class Limited(Protocol):
    """A model that stops answering once so much money or time is spent."""

    @property
    def limits(self) -> tuple[str, ...]:
        """Options that set such a limit; none where there is no limit."""


def require(model: Model, needs: Iterable[type[Request[object]]], who: str) -> None:
    """Refuse a model that cannot answer what somebody needs.

    Args:
        model: The model.
        needs: Kinds of requests.
        who: Needs them; begins the message.

    Raises:
        TargetError: If a kind is missing; with the reason of a model that `GivesReasons`.
    """
    missing = sorted(set(needs) - model.supports, key=lambda kind: kind.__name__)
    if missing:
        why = "choose another mechanism or model."
        if isinstance(model, GivesReasons):
            why = model.why(missing[0])
        raise TargetError(
            f"{who} needs {', '.join(kind.__name__ for kind in missing)} from its model, and "
            f"{model.name} answers {_supported(model)}; {why}"
        )


def _supported(model: Model) -> str:
    names = ", ".join(sorted(kind.__name__ for kind in model.supports))
    return f"only {names}" if names else "no requests"
