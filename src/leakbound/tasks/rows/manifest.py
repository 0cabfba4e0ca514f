"""The manifest of private answers: what is public, fixed before a private row is read."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Protocol, Self, runtime_checkable

from leakbound.models.model import Model, innermost
from leakbound.tasks.mechanism import Mechanism
from leakbound.tasks.task import Task


@runtime_checkable
class _HasWindow(Protocol):
    """A model that knows how long a prompt may be."""

    window: int | None


@dataclass(frozen=True, slots=True)
class PublicManifest:
    """Everything public that decides an answer, except the query.

    Whoever knows the digest can check later that labels, prompt template, fields, partitions,
    candidates and token limits were not chosen after looking at the rows.

    Attributes:
        task: Labels, words of the prompt template, and the largest length of a free answer.
        mechanism: Kind and options as JSON: partitions, candidates, tokens, noise.
        source: Fingerprint of the mechanism's code; "" for those of this package.
        model: Fingerprint of the model.
        window: Most tokens of a prompt with its answer; None where the model does not tell.
        longest_query: Most bytes of a query; None in an audit, whose queries are its own.
        fields: Template of the input and label field, as named; None for a usual name (all rows
            must have the same), for the fields of a named task, and for rows that are examples.

    Examples:
        >>> from leakbound.mechanisms import ReportNoisyMax
        >>> from leakbound.models import Scripted
        >>> mail = Task("mail", ("work", "home"))
        >>> one = PublicManifest.of(mail, ReportNoisyMax(2.0), Scripted(), 1000)
        >>> other = PublicManifest.of(mail, ReportNoisyMax(2.0, partitions=5), Scripted(), 1000)
        >>> len(one.digest), one.digest == other.digest
        (64, False)
    """

    task: Task
    mechanism: str
    source: str
    model: str
    window: int | None
    longest_query: int | None
    fields: tuple[str | None, str | None] = (None, None)

    @classmethod
    def of(
        cls, task: Task, mechanism: Mechanism, model: Model, longest_query: int | None = None,
        fields: tuple[str | None, str | None] = (None, None),
    ) -> Self:  # fmt: skip
        """The manifest of a mechanism over an opened model; no row is needed to make it."""
        inner = innermost(model)
        return cls(
            task,
            json.dumps(mechanism.to_config(), sort_keys=True),
            mechanism.source,
            model.fingerprint,
            inner.window if isinstance(inner, _HasWindow) else None,
            longest_query,
            fields,
        )

    @property
    def digest(self) -> str:
        """64 hexadecimal digits of SHA-256 over all of it, in a canonical form."""
        content = json.dumps(asdict(self), sort_keys=True, default=_kind)
        return hashlib.sha256(content.encode()).hexdigest()


def _kind(value: object) -> str:
    """Of a task that a caller wrote as a class of its own."""
    return type(value).__qualname__
