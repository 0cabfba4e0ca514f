"""A model behind an OpenAI-compatible endpoint."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import ClassVar, TypeVar, cast

import numpy as np
import numpy.typing as npt

from leakbound.errors import TargetError
from leakbound.models.content import Chat, Parts
from leakbound.models.openai.account import cost_of
from leakbound.models.openai.endpoint import Capabilities, Endpoint
from leakbound.models.openai.replies import Generated
from leakbound.models.openai.requests import HttpRequest, http_request_for
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
AnswerValue = str | npt.NDArray[np.float32]
ReplyValue = Generated | npt.NDArray[np.float32]


class OpenAIModel:
    """A model that an endpoint serves, which may change behind its name."""

    may_change: ClassVar[bool] = True

    def __init__(self, model: str, endpoint: Endpoint, key: str | None = None) -> None:
        self._served, self.endpoint = model, endpoint
        self.price = endpoint.price(model)
        from leakbound.models.openai.client import Client  # imports asyncio

        self.client = Client(model, endpoint, key, self.price)

    @property
    def name(self) -> str:
        """The model address, without the address of the endpoint."""
        return f"openai/{self._served}"

    @property
    def fingerprint(self) -> str:
        """Hash of name, capabilities and dialect, whatever the address of the endpoint."""
        changed = [asdict(self.endpoint.dialect)] if self.endpoint.dialect else []
        content = json.dumps([self._served, asdict(self.can), *changed], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()[:16]

    @property
    def can(self) -> Capabilities:
        return self.endpoint.capabilities

    @property
    def supports(self) -> frozenset[type[Request[object]]]:
        """What the capabilities cover; never NextLogits, as only a few next tokens are reported."""
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
        return self.endpoint.limits

    @property
    def connections(self) -> int:
        return self.endpoint.connections

    def check(self, requests: Sequence[Request[object]], /) -> None:
        """Refuse what the capabilities do not cover; an endpoint refuses long prompts itself."""
        for request in requests:
            kind = type(request)
            if kind not in self.supports:
                raise TargetError(f"{self.name} cannot answer {kind.__name__}: {self.why(kind)}")
            self._check_form(request)

    def why(self, kind: type[Request[object]]) -> str:
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
                "some servers echo log-probabilities one position late, and it is unknown whether "
                "this one does; find out with leakbound probe, or state echo_shift=0 if you know "
                "that it does not."
            )
        if kind in (ScoreTokens, ScoreLabels) and can.echo and can.echo_shift:
            return (
                "it echoes log-probabilities one position late (echo_shift=1), so no token has its "
                "own."
            )
        return (
            "its stated capabilities cover text only; find all of them with leakbound probe and "
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
                f"the stated capabilities of {self.name} do not include token ids; state "
                "completions,token_ids, or use a local model."
            )
        if any(ids) and scored and not (all(ids) and self.can.prompt_logprobs):
            raise TargetError(
                f"{self.name} scores token ids only after token ids, and only with "
                "prompt_logprobs; use text, or a local model."
            )
        if scored and not all(rest):
            raise TargetError(f"{self.name} cannot score an empty text; it has no token.")

    def _check_messages(self, request: Request[object], what: str) -> None:
        """After messages, which may contain images, only a first token can be scored."""
        can = self.can
        scored = isinstance(request, ScoreLabels) and can.scores_first_tokens
        if not can.chat or not (isinstance(request, Complete) or scored):
            where = "images in the messages of a chat" if what == "images" else "chat messages"
            raise TargetError(
                f"{self.name} takes {where} only with the capability chat, and then scores nothing "
                "but the first token of labels; state chat (and top_logprobs=K to score labels) "
                "with --capabilities, or use a local model."
            )

    def answer(self, requests: Sequence[Request[R]], /) -> list[R]:
        """Answer requests; equal requests are sent once."""
        self.check(requests)
        parts = [self._parts(request) for request in requests]
        order = list(dict.fromkeys(part for some in parts for part in some))
        by_part = dict(zip(order, self._send(order), strict=True))
        return [
            cast(R, self._combine(request, [by_part[part] for part in some]))
            for request, some in zip(requests, parts, strict=True)
        ]

    def _parts(self, request: Request[object]) -> list[Request[object]]:
        """The HTTP requests of a request. If texts can be scored, labels are scored one by one."""
        if isinstance(request, ScoreLabels) and self._scores_whole_labels(request):
            return [ScoreTokens(request.prompt, label) for label in request.labels]
        return [request]

    def _scores_whole_labels(self, request: ScoreLabels) -> bool:
        return self.can.scores and not isinstance(request.prompt, Parts | Chat)

    def _send(self, requests: Sequence[Request[object]]) -> list[ReplyValue]:
        answers = self.client.send([self.http_request(request) for request in requests])
        kinds = [one.outcome for one in answers if isinstance(one, Generated)]
        self.endpoint.meter.outcomes.update(kind for kind in kinds if kind != "text")
        return answers

    def replies(self, requests: Sequence[Complete]) -> list[Generated]:
        """What the model generated: answers, with separate reasoning and outcome."""
        self.check(requests)
        return [one for one in self._send(requests) if isinstance(one, Generated)]

    def _combine(self, request: Request[object], answers: list[ReplyValue]) -> AnswerValue:
        if isinstance(request, ScoreLabels) and self._scores_whole_labels(request):
            scores = [np.asarray(one, np.float64).sum() for one in answers]
            return np.array(scores, np.float32)
        first = answers[0]
        return first.answer if isinstance(first, Generated) else first

    def http_request(self, request: Request[object]) -> HttpRequest[ReplyValue]:
        return http_request_for(request, self._served, self.can, self.endpoint.dialect)

    def most_cost(self, requests: Sequence[Request[object]]) -> float | None:
        """The most that requests can cost, without retries."""
        if self.price is None:
            return None
        order = dict.fromkeys(part for request in requests for part in self._parts(request))
        return sum(cost_of(self.http_request(part).size, self.price) for part in order)

    def close(self) -> None:
        self.client.close()


def _prompts(request: Request[object]) -> tuple[Prompt, ...]:
    """The prompt of a request, then the texts to score after it."""
    if isinstance(request, Complete):
        return (request.prompt,)
    if isinstance(request, ScoreTokens):
        return (request.prompt, request.response)
    if isinstance(request, ScoreLabels):
        return (request.prompt, *request.labels)
    return ("",)
