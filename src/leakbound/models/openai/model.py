"""A model behind an OpenAI-compatible endpoint: asks become requests, replies become answers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, TypeVar

import numpy as np

from leakbound.errors import TargetError
from leakbound.models.content import Parts
from leakbound.models.openai.account import cost_of
from leakbound.models.openai.client import Client
from leakbound.models.openai.endpoint import Capabilities, Endpoint
from leakbound.models.openai.wire import HttpRequest, http_request_for
from leakbound.models.request import Complete, Embed, NextLogits, Request, ScoreLabels, ScoreTokens

__all__ = ["OpenAIModel"]

R = TypeVar("R")


class OpenAIModel:
    """A model that an endpoint serves. Greedy at temperature 0; above it, draws are seeded where
    the endpoint takes a seed.

    The answers are the endpoint's: it may change the model behind the name, and neither name nor
    `fingerprint` would tell.
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
        """Of the model's name and the capabilities in use:

        the same wherever and however fast it is asked.
        """
        told = json.dumps([self._served, asdict(self.can)], sort_keys=True)
        return hashlib.sha256(told.encode()).hexdigest()[:16]

    @property
    def can(self) -> Capabilities:
        """What the endpoint can do."""
        return self.endpoint.capabilities

    @property
    def supports(self) -> frozenset[type[Request[Any]]]:
        """Asks that the capabilities cover.

        Never NextLogits: endpoints show a few next tokens at most.
        """
        can = self.can
        found: dict[type[Request[Any]], bool] = {
            Complete: can.chat or can.completions, Embed: can.embeddings, ScoreTokens: can.scores,
            ScoreLabels: can.scores or can.scores_first_tokens,
        }  # fmt: skip
        return frozenset(kind for kind, there in found.items() if there)

    def check(self, requests: Sequence[Request[Any]], /) -> None:
        """Refuse asks that the capabilities do not cover.

        The length of a prompt is not known here: the endpoint refuses it.
        """
        for ask in requests:
            if type(ask) not in self.supports:
                raise TargetError(
                    f"{self.name} cannot answer {type(ask).__name__}: {self.why(type(ask))}"
                )
            self._check_form(ask)

    def why(self, kind: type[Request[Any]]) -> str:
        """Why a kind of ask is not answered, and what to do."""
        can = self.can
        if kind is NextLogits:
            return "an endpoint shows some next tokens at most, never all of them; use a local model (pocket or hf/...)."
        if kind is Embed:
            return "its capabilities do not name embeddings; state them if it has /embeddings, or give --embedder."
        if kind in (ScoreTokens, ScoreLabels) and can.echo and can.echo_shift is None:
            return (
                "some servers echo log-probabilities one position late, and nobody has looked "
                "whether this one does; look "
                "with leakbound probe, or state echo_shift=0 if you know that it does not."
            )
        if kind in (ScoreTokens, ScoreLabels) and can.echo and can.echo_shift:
            return "it echoes log-probabilities one position late (echo_shift=1), so no token has its own."
        return "its capabilities are text only as far as stated; find them with leakbound probe and state them with --capabilities, or use a local model."

    def _check_form(self, ask: Any) -> None:
        if isinstance(ask, Embed):
            return
        if isinstance(ask.prompt, Parts):
            return self._check_images(ask)
        parts = [
            ask.prompt,
            *getattr(ask, "labels", ()),
            *([ask.response] if isinstance(ask, ScoreTokens) else []),
        ]
        ids = [not isinstance(part, str) for part in parts]
        if any(ids) and not (self.can.completions and self.can.token_ids):
            raise TargetError(
                f"{self.name} takes no token ids as far as stated; state completions,token_ids, "
                "or use a local model."
            )
        if (
            any(ids)
            and not isinstance(ask, Complete)
            and not (all(ids) and self.can.prompt_logprobs)
        ):
            raise TargetError(
                f"{self.name} scores token ids behind token ids, with prompt_logprobs only; use "
                "text, or a local model."
            )
        if not isinstance(ask, Complete) and not all(parts[1:]):
            raise TargetError(f"{self.name} cannot score an empty text; it has no token.")

    def _check_images(self, ask: Any) -> None:
        """Images stand in messages only, and behind a message a first token is all that can be
        scored.
        """
        if not self.can.chat or (
            not isinstance(ask, Complete) and not self.can.scores_first_tokens
        ):
            raise TargetError(
                f"{self.name} takes images in the messages of a chat only, as far as stated; "
                "state chat (and top_logprobs=K to score "
                "labels) with --capabilities, or use a local model."
            )

    def answer(self, requests: Sequence[Request[R]], /) -> list[R]:
        """One answer an ask, in order; equal asks are sent once.

        Raises TargetError, or LimitReached.
        """
        self.check(requests)
        parts = [self._parts(ask) for ask in requests]
        order = list(dict.fromkeys(part for some in parts for part in some))
        replies = dict(
            zip(order, self.client.send([self.request(part) for part in order]), strict=True)
        )
        return [
            self._whole(ask, [replies[p] for p in some])
            for ask, some in zip(requests, parts, strict=True)
        ]

    def _parts(self, ask: Request[Any]) -> list[Request[Any]]:
        """Asks of one request each:

        labels are scored one by one where whole texts can be scored.
        """
        if isinstance(ask, ScoreLabels) and self._wholly(ask):
            return [ScoreTokens(ask.prompt, label) for label in ask.labels]
        return [ask]

    def _wholly(self, ask: ScoreLabels) -> bool:
        return self.can.scores and not isinstance(ask.prompt, Parts)

    def _whole(self, ask: Request[Any], replies: list[Any]) -> Any:
        if isinstance(ask, ScoreLabels) and self._wholly(ask):
            return np.array([float(scores.sum(dtype=np.float64)) for scores in replies], np.float32)
        return replies[0]

    def request(self, ask: Request[Any]) -> HttpRequest:
        """What is sent for an ask of one request."""
        return http_request_for(ask, self._served, self.can)

    def most_cost(self, requests: Sequence[Request[Any]]) -> float | None:
        """US dollars that these asks cost at most, without retries; None if the price is unknown."""
        if self.price is None:
            return None
        order = dict.fromkeys(part for ask in requests for part in self._parts(ask))
        return sum(cost_of(self.request(part).size, self.price) for part in order)

    def close(self) -> None:
        """End the connections; the next answer opens new ones."""
        self.client.close()
