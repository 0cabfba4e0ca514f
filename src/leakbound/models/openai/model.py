"""A model behind an OpenAI-compatible endpoint: requests go out, replies become answers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TypeVar, cast

import numpy as np
import numpy.typing as npt

from leakbound.errors import TargetError
from leakbound.models.chat import Chat
from leakbound.models.content import Parts
from leakbound.models.openai.account import cost_of
from leakbound.models.openai.client import Client
from leakbound.models.openai.endpoint import Capabilities, Endpoint
from leakbound.models.openai.generated import Generated
from leakbound.models.openai.wire import HttpRequest, http_request_for
from leakbound.models.request import (
    Complete,
    Embed,
    NextLogits,
    Prompt,
    Request,
    ScoreLabels,
    ScoreTokens,
)

__all__ = ["OpenAIModel"]

R = TypeVar("R")
AnswerValue = str | npt.NDArray[np.float32]
ReplyValue = Generated | npt.NDArray[np.float32]


class OpenAIModel:
    """A model that an endpoint serves.

    Greedy at temperature 0; above it, draws are seeded where the endpoint takes a seed. The answers
    are the endpoint's: it may change the model behind the name, and neither name nor `fingerprint`
    would show it.

    Args:
        model: Name of the model, as the endpoint knows it.
        endpoint: Where it is, what it can do, what may be spent on it, and the transport.
        key: API key (PRIVATE); None sends none.
    """

    def __init__(self, model: str, endpoint: Endpoint, key: str | None = None) -> None:
        self._served, self.endpoint = model, endpoint
        self.price = endpoint.price(model)
        self.client = Client(model, endpoint, key, self.price)

    @property
    def name(self) -> str:
        """The address, without that of the endpoint."""
        return f"openai/{self._served}"

    @property
    def fingerprint(self) -> str:
        """Hash of the model's name, the capabilities and the dialect in use, the same for every
        address.
        """
        content = json.dumps([self._served, asdict(self.can), *self._own_ways()], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()[:16]

    def _own_ways(self) -> list[object]:
        """What changes answers beside capabilities; nothing for an endpoint as OpenAI's."""
        dialect = self.endpoint.dialect
        return [asdict(dialect)] if dialect else []

    @property
    def can(self) -> Capabilities:
        """What the endpoint can do."""
        return self.endpoint.capabilities

    @property
    def supports(self) -> frozenset[type[Request[object]]]:
        """Requests that the capabilities cover.

        Never NextLogits: endpoints show a few next tokens at most.
        """
        can = self.can
        covered: dict[type[Request[object]], bool] = {
            Complete: can.chat or can.completions,
            Embed: can.embeddings,
            ScoreTokens: can.scores,
            ScoreLabels: can.scores or can.scores_first_tokens,
        }
        return frozenset(kind for kind, there in covered.items() if there)

    @property
    def limits(self) -> tuple[str, ...]:
        """Options of the endpoint that limit money or time."""
        return self.endpoint.limits

    @property
    def connections(self) -> int:
        """Most requests in flight, over all addresses."""
        return self.endpoint.connections

    def check(self, requests: Sequence[Request[object]], /) -> None:
        """Refuse requests that the capabilities do not cover.

        The length of a prompt is not known here: the endpoint refuses it.

        Args:
            requests: What is to be answered.

        Raises:
            TargetError: If one of them cannot be answered, with the reason.
        """
        for request in requests:
            kind = type(request)
            if kind not in self.supports:
                raise TargetError(f"{self.name} cannot answer {kind.__name__}: {self.why(kind)}")
            self._check_form(request)

    def why(self, kind: type[Request[object]]) -> str:
        """Why a kind of request is not answered, and what to do.

        Args:
            kind: A kind that is not in `supports`.

        Returns:
            The end of a sentence.
        """
        can = self.can
        if kind is NextLogits:
            return (
                "an endpoint shows some next tokens at most, never all of them; use a local model "
                "(pocket or hf/...)."
            )
        if kind is Embed:
            return (
                "its capabilities do not name embeddings; state them if it has /embeddings, or "
                "give --embedder."
            )
        if kind in (ScoreTokens, ScoreLabels) and can.echo and can.echo_shift is None:
            return (
                "some servers echo log-probabilities one position late, and nobody has looked "
                "whether this one does; look with leakbound probe, or state echo_shift=0 if you "
                "know that it does not."
            )
        if kind in (ScoreTokens, ScoreLabels) and can.echo and can.echo_shift:
            return (
                "it echoes log-probabilities one position late (echo_shift=1), so no token has its "
                "own."
            )
        return (
            "its capabilities are text only as far as stated; find them with leakbound probe and "
            "state them with --capabilities, or use a local model."
        )

    def _check_form(self, request: Request[object]) -> None:
        prompt, *rest = _prompts(request)
        if isinstance(prompt, Parts | Chat):
            return self._check_messages(request, "images" if isinstance(prompt, Parts) else "chat")
        scored = isinstance(request, ScoreTokens | ScoreLabels)
        ids = [not isinstance(part, str) for part in (prompt, *rest)]
        if any(ids) and not (self.can.completions and self.can.token_ids):
            raise TargetError(
                f"{self.name} takes no token ids as far as stated; state completions,token_ids, "
                "or use a local model."
            )
        if any(ids) and scored and not (all(ids) and self.can.prompt_logprobs):
            raise TargetError(
                f"{self.name} scores token ids behind token ids, with prompt_logprobs only; use "
                "text, or a local model."
            )
        if scored and not all(rest):
            raise TargetError(f"{self.name} cannot score an empty text; it has no token.")

    def _check_messages(self, request: Request[object], what: str) -> None:
        """Behind messages, which may hold images, only a first token can be scored."""
        can = self.can
        scored = isinstance(request, ScoreLabels) and can.scores_first_tokens
        if not can.chat or not (isinstance(request, Complete) or scored):
            where = "images in the messages of a chat" if what == "images" else "chat messages"
            raise TargetError(
                f"{self.name} takes {where} only with the capability chat, and scores no response "
                "behind them but the first token of labels; state chat (and top_logprobs=K to "
                "score labels) with --capabilities, or use a local model."
            )

    def answer(self, requests: Sequence[Request[R]], /) -> list[R]:
        """Answer requests; equal ones are sent once.

        Args:
            requests: What to answer.

        Returns:
            An answer for each request, in order.

        Raises:
            TargetError: If a request cannot be answered, or the endpoint fails too often.
            LimitReached: If a limit on money or time is reached.
        """
        self.check(requests)
        parts = [self._parts(request) for request in requests]
        order = list(dict.fromkeys(part for some in parts for part in some))
        answers = self.client.send([self.http_request(part) for part in order])
        self._count(answers)
        by_part = dict(zip(order, answers, strict=True))
        return [
            cast(R, self._combine(request, [by_part[part] for part in some]))
            for request, some in zip(requests, parts, strict=True)
        ]

    def _parts(self, request: Request[object]) -> list[Request[object]]:
        """One HTTP request each: labels are scored one by one where whole texts can be scored."""
        if isinstance(request, ScoreLabels) and self._scores_whole_labels(request):
            return [ScoreTokens(request.prompt, label) for label in request.labels]
        return [request]

    def _scores_whole_labels(self, request: ScoreLabels) -> bool:
        return self.can.scores and not isinstance(request.prompt, Parts | Chat)

    def _count(self, answers: Sequence[ReplyValue]) -> None:
        """Refusals and the like are answers, and the user hears of them."""
        kinds = [one.outcome for one in answers if isinstance(one, Generated)]
        self.endpoint.meter.outcomes.update(kind for kind in kinds if kind != "text")

    def replies(self, requests: Sequence[Complete]) -> list[Generated]:
        """What the model generated: answers, with their reasoning and outcome apart.

        Args:
            requests: What to answer.

        Returns:
            What was generated for each request, in order.

        Raises:
            TargetError: As `answer`.
            LimitReached: As `answer`.
        """
        self.check(requests)
        found = self.client.send([self.http_request(request) for request in requests])
        self._count(found)
        return [one for one in found if isinstance(one, Generated)]

    def _combine(self, request: Request[object], answers: list[ReplyValue]) -> AnswerValue:
        if isinstance(request, ScoreLabels) and self._scores_whole_labels(request):
            scores = [np.asarray(one, np.float64).sum() for one in answers]
            return np.array(scores, np.float32)
        first = answers[0]
        return first.answer if isinstance(first, Generated) else first

    def http_request(self, request: Request[object]) -> HttpRequest[ReplyValue]:
        """What is sent for a request.

        Args:
            request: A request that goes out as one HTTP request.

        Returns:
            Path, body, size and how the reply is read.
        """
        return http_request_for(request, self._served, self.can, self.endpoint.dialect)

    def most_cost(self, requests: Sequence[Request[object]]) -> float | None:
        """What requests cost at most, without retries.

        Args:
            requests: What is to be answered.

        Returns:
            US dollars; None if the price is unknown.
        """
        if self.price is None:
            return None
        order = dict.fromkeys(part for request in requests for part in self._parts(request))
        return sum(cost_of(self.http_request(part).size, self.price) for part in order)

    def close(self) -> None:
        """Give up what is in flight and end the connections; the next answer opens new ones."""
        self.client.close()


def _prompts(request: Request[object]) -> tuple[Prompt, ...]:
    """The prompt of a request, then what is scored behind it."""
    if isinstance(request, Complete):
        return (request.prompt,)
    if isinstance(request, ScoreTokens):
        return (request.prompt, request.response)
    if isinstance(request, ScoreLabels):
        return (request.prompt, *request.labels)
    return ("",)
