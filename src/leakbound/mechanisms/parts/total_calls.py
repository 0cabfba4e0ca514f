"""Total calls: every model call over private rows gives a value, whatever a row contains.

A content filter, a prompt that is too long, or logits that are not numbers may be caused by a
single row, and an error would reveal it. The value of a failed call is therefore read as "none of
the answers", as impossible, or as zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from threading import Thread, current_thread, main_thread
from typing import TypeVar, cast

import numpy as np

from leakbound.errors import Interrupted, LimitReached, StoreError
from leakbound.models import Complete, Embed, Model, NextLogits, Request, ScoreLabels
from leakbound.models.model import Wrapper, concurrent_model
from leakbound.models.request import Prompt
from leakbound.tasks import Job, Task

R = TypeVar("R")
NOT_OF_A_ROW = (Interrupted, StoreError, KeyboardInterrupt)  # of the operator, or of the disk


def answer_total(
    model: Model, task: Task, jobs: Sequence[Job], groups: Sequence[Sequence[Request[R]]]
) -> list[list[R]]:
    """Replies to the requests of several jobs, sent as one batch, with a value for each failure.

    Args:
        model: Answers the requests.
        task: Renders the prompt of the public twin.
        jobs: The jobs. If a request fails, the model gets the query of the first job without
            examples (the public twin).
        groups: Requests of each job (PRIVATE).

    Returns:
        Replies in groups of the same sizes; `value_of_failure` for requests that fail alone.

    Raises:
        Exception: The error that the public twin raises. The model then answers nobody, which is
            not information about a row.

    Guarantee:
        As long as the model answers the public twin, nothing is raised, whatever the rows contain.
    """
    flat = [request for group in groups for request in group]
    if not flat:
        return [[] for _ in groups]
    twin = public_twin(flat[0], task.prompt((), jobs[0].query))
    replies = iter(answer_all(model, flat, twin))
    return [[next(replies) for _ in group] for group in groups]


def public_twin(request: Request[object], prompt: Prompt) -> Request[object]:
    """A request of the same kind without private text."""
    if isinstance(request, Embed):
        return Embed("-")
    if isinstance(request, NextLogits):
        return NextLogits(prompt)
    return replace(cast(Complete, request), prompt=prompt)


def value_of_failure(request: Request[R]) -> R:
    """The value that replaces the reply to a failed request."""
    if isinstance(request, Complete):
        return cast(R, "")
    if isinstance(request, ScoreLabels):
        return cast(R, np.full(len(request.labels), np.nan, np.float32))
    return cast(R, np.zeros((1, 0) if isinstance(request, NextLogits) else 0, np.float32))


class TotalModel(Wrapper):
    """Wraps a model that has answered before: from now on every request gets a value, for private
    rows once an answer is paid for, even if the endpoint is gone."""

    def answer(self, requests: Sequence[Request[R]], /) -> list[R]:
        """Answer each request by itself, so that one that fails changes no other reply. Reaching a
        limit on money or time is a failure like any other."""
        several = concurrent_model(self.model, requests)
        if several is None:
            return [self._one(request) for request in requests]
        found: list[Future[R]] = [Future() for _ in requests]
        waiting = iter(zip(requests, found, strict=True))

        def work() -> None:
            for request, reply in waiting:
                try:
                    reply.set_result(self._one(request))
                except BaseException as error:
                    reply.set_exception(error)

        for _ in range(min(several.connections, len(requests))):
            Thread(target=work, daemon=True).start()  # a late answer ends with the process
        return [reply.result() for reply in found]

    def _one(self, request: Request[R]) -> R:
        try:
            return _sound([request], self.model.answer([request]))[0]
        except LimitReached:
            return value_of_failure(request)
        except BaseException as error:  # a model may end the process, or its thread, for one row
            operator = current_thread() is main_thread() or not isinstance(error, KeyboardInterrupt)
            if operator and isinstance(error, NOT_OF_A_ROW):
                raise
            return value_of_failure(request)


def answer_all(model: Model, requests: Sequence[Request[R]], twin: Request[object]) -> list[R]:
    """Replies with a value for each failure; the twin is sent before anything is retried."""
    try:
        return _sound(requests, model.answer(requests))
    except NOT_OF_A_ROW:
        raise
    except BaseException:
        model.answer([twin])
    return _halves(model, requests)


def _halves(model: Model, requests: Sequence[Request[R]]) -> list[R]:
    """Retry a failed batch in halves, so that a few bad requests do not affect the others."""
    if len(requests) == 1:
        return [value_of_failure(requests[0])]
    middle, found = len(requests) // 2, []
    for part in (requests[:middle], requests[middle:]):
        try:
            found += _sound(part, model.answer(part))
        except NOT_OF_A_ROW:
            raise
        except BaseException:
            found += _halves(model, part)
    return found


def _sound(requests: Sequence[Request[R]], replies: Sequence[R]) -> list[R]:
    """Replies of the right kind and shape. Any other reply counts as a failure of its request."""
    return [
        value_of_failure(request)
        if not _fits(request, reply)
        # a text or array without methods of its own
        else cast(R, str.__str__(reply) if isinstance(reply, str) else _plain(reply))
        for request, reply in zip(requests, replies, strict=True)
    ]


def _plain(reply: object) -> object:
    return (
        reply if type(reply) is np.ndarray and reply.dtype.kind == "f" else np.asarray(reply, float)
    )


def _fits(request: Request[object], reply: object) -> bool:
    if isinstance(request, Complete):
        return isinstance(reply, str)
    try:
        shape = np.asarray(reply, float).shape
    except Exception:  # no numbers, or larger ones than there are
        return False
    if isinstance(request, ScoreLabels):
        return len(shape) == 1 and shape[0] == len(request.labels)
    return len(shape) == (2 if isinstance(request, NextLogits) else 1)
