"""A model: one verb, a set of asks it can answer, and a check that costs nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, TypeVar

from leakbound.errors import TargetError
from leakbound.models.request import Request

__all__ = ["Model", "require"]

R = TypeVar("R")


class Model(Protocol):
    """Answers asks, batch first, order kept. `fingerprint` changes whenever answers could."""

    @property
    def name(self) -> str: ...
    @property
    def fingerprint(self) -> str: ...
    @property
    def supports(self) -> frozenset[type[Request[Any]]]: ...
    def check(self, requests: Sequence[Request[Any]], /) -> None:
        """Raise, without any model call, if one of the asks cannot be answered."""

    def answer(self, requests: Sequence[Request[R]], /) -> list[R]:
        """One answer an ask, in order. Equal asks get equal answers."""


def require(model: Model, needs: Iterable[type[Request[Any]]], who: str) -> None:
    """Raise TargetError if the model cannot answer a kind of ask that `who` needs; with its own
    reason, if it has one.
    """
    missing = sorted(set(needs) - model.supports, key=lambda kind: kind.__name__)
    if missing:
        why = getattr(model, "why", lambda kind: "choose another mechanism or model.")(missing[0])
        raise TargetError(
            f"{who} needs {', '.join(kind.__name__ for kind in missing)} from its model, and "
            f"{model.name} answers only "
            f"{', '.join(sorted(kind.__name__ for kind in model.supports))}; {why}"
        )
