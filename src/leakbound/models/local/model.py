"""A causal language model behind the one verb `answer`.

Requests become rows of token ids, and logits become answers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeVar, cast

import numpy as np
import numpy.typing as npt
import torch

from leakbound.errors import TargetError
from leakbound.models.content import Chat, Parts
from leakbound.models.local.engine.budget import Budget
from leakbound.models.local.engine.passes import Passes, Sharing, equal_rows, spare_others
from leakbound.models.local.engine.prefixes import Ids, State
from leakbound.models.local.engine.self_check import check_sharing
from leakbound.models.local.hugging_face import CausalModel, Tokenizer, parameters_of, window_of
from leakbound.models.local.text_ids import UNKNOWN, TextIds, most_tokens, tokens_by_bytes
from leakbound.models.request import (
    Complete,
    Embed,
    NextLogits,
    Prompt,
    Request,
    ScoreLabels,
    ScoreTokens,
    prompt_seed,
)

R = TypeVar("R")
Floats = npt.NDArray[np.float32]
# for a row that runs alone and whose logits are not numbers
NO_SCORE, NO_LOGITS = np.full(1, np.nan, np.float32), np.zeros((1, 0), np.float32)
# how to combine the log-probabilities of a label's tokens into one number
LABEL_SCORES: dict[str, Callable[[Floats], float]] = {
    "sum": lambda scores: float(scores.sum()),
    "mean": lambda scores: float(scores.mean()),
    "first_token": lambda scores: float(scores[0]),
}


def check_labels(labels: Sequence[str]) -> None:
    """Refuse a label without tokens: its score of 0 would exceed every other score."""
    empty = [label for label in labels if not label.strip()]
    if empty:
        raise TargetError(
            f"a label is {empty[0]!r}; it must have at least one non-blank character, because "
            "the score of no token exceeds every other. Give it a name, such as none."
        )
    if not labels:
        raise TargetError("there is no label to score; give at least one.")


def plain_logits(logits: torch.Tensor, ids: Ids) -> Floats:
    return logits.float().cpu().numpy()


def log_probabilities(logits: torch.Tensor, ids: Ids) -> Floats:
    table = torch.log_softmax(logits[: len(ids)].float(), -1)
    own = torch.tensor(ids, dtype=torch.long, device=table.device)[:, None]
    return table.gather(-1, own)[:, 0].cpu().numpy()


def choose(logits: Floats, request: Complete, step: int) -> int:
    """The next token: greedy, or a Gumbel draw with its own seed by prompt, draw and step."""
    if request.temperature == 0:
        return int(logits.argmax())
    seed = [request.draw, step, prompt_seed(request.prompt)]
    noise = np.random.default_rng(seed).gumbel(size=logits.shape)
    return int((logits / request.temperature + noise).argmax())


class TransformersModel:
    limits: ClassVar[tuple[str, ...]] = ()
    may_change: ClassVar[bool] = False
    supports: frozenset[type[Request[object]]] = frozenset(
        {Complete, ScoreLabels, ScoreTokens, NextLogits, Embed}
    )

    reads: ClassVar[type[TextIds]] = TextIds

    def __init__(
        self,
        model: CausalModel,
        tokenizer: Tokenizer,
        name: str,
        fingerprint: str,
        budget: Budget | None = None,
        sharing: Sharing | None = None,
        label_scores: str = "sum",
    ) -> None:
        self.model, self.texts = model, self.reads(tokenizer)
        self.name, self.fingerprint, self.tokenizer = name, fingerprint, self.texts.tokenizer
        self.label_scores, self._special = label_scores, tokens_by_bytes(self.tokenizer)
        self._pairs: dict[tuple[str | Chat, str], tuple[Ids, Ids]] = {}  # during one call (PRIVATE)
        self.window = window_of(model)
        self.rounding = float(torch.finfo(model.dtype).eps)  # of logits, relative
        checked = sharing or check_sharing(model, name)
        self.passes = Passes(model, budget or Budget.of(model), checked)
        self._begin()

    def _begin(self) -> None:
        """What a model needs that reads more than texts."""

    @property
    def computation(self) -> str:
        """How answers are computed, for records: outcome and limits of the self-check."""
        found = self.passes.sharing
        scored = "" if self.label_scores == "sum" else f"label scores: {self.label_scores}"
        return "; ".join(part for part in (found.outcome, found.sentence, scored) if part)

    def label_ids(self, prompt: Prompt, labels: Sequence[str]) -> dict[str, Ids]:
        """The tokens used to score labels after a prompt, for records."""
        return {label: self.joined(prompt, label)[1] for label in labels}

    # --- the verb

    def check(self, requests: Sequence[Request[object]], /) -> None:
        """Refuse requests that cannot be answered. Nothing is ever truncated."""
        try:
            self._check(requests)
        finally:
            self._pairs.clear()

    def _check(self, requests: Sequence[Request[object]]) -> None:
        for request in requests:
            if isinstance(request, ScoreLabels):
                check_labels(request.labels)
            if type(request) not in self.supports:
                raise TargetError(f"{self.name} cannot answer {type(request).__name__}.")
            if (most := self._most(request)) <= self.window and self.passes.fits(most):
                continue
            need = self._length(request)
            if need > self.window:
                raise TargetError(
                    f"a prompt and its answer need {need} tokens, and the window of {self.name} "
                    f"is {self.window}; nothing was sent. Put less into the prompt (a shorter "
                    "context, or fewer examples with --shots), or use a model with a longer window."
                )
            self.passes.require(need)

    def answer(self, requests: Sequence[Request[R]], /) -> list[R]:
        """Answer a batch; kinds may be mixed."""
        try:
            self._check(requests)
            by_kind: dict[type[Request[object]], list[int]] = {}
            for i, request in enumerate(requests):
                by_kind.setdefault(type(request), []).append(i)
            found: dict[int, R] = {}
            with torch.inference_mode():
                for kind, rows in by_kind.items():
                    answers = self._answer_kind(kind, [requests[i] for i in rows])
                    found.update(zip(rows, answers, strict=True))
            return [found[i] for i in range(len(requests))]
        finally:
            self._pairs.clear()

    def forget(self) -> None:
        """Drop the keys and values of earlier prompts (PRIVATE) from memory."""
        self.passes.forget()

    @property
    def masks(self) -> bool:
        """Whether `masked_log_probs` can hide tokens."""
        return self.passes.masks

    def masked_log_probs(
        self, prompt: Ids, response: Ids, hidden: Sequence[tuple[int, int]], end: int
    ) -> list[Floats]:
        """(response tokens,) ln p for each range of tokens that those from `end` on do not see."""
        end = min(end, len(prompt) - 1)
        rest = prompt[end:] + response[:-1]
        with torch.inference_mode():
            found = self.passes.masked(prompt[:end], hidden, rest, len(response))
            return [log_probabilities(logits, response) for logits in found]

    def _answer_kind(self, kind: type[Request[object]], requests: Sequence[Any]) -> Sequence[Any]:
        if kind is Complete:
            return self._complete(requests)
        if kind is ScoreLabels:
            return self._score_labels(requests)
        if kind is ScoreTokens:
            return self._along(requests, [], log_probabilities, NO_SCORE, after=0)
        if kind is NextLogits:
            owners = [i if request.alone else None for i, request in enumerate(requests)]
            return self._along(requests, owners, plain_logits, NO_LOGITS)
        return [self._embed(request.text) for request in requests]

    # --- text to token ids

    def encode(self, prompt: Prompt) -> Ids:
        if isinstance(prompt, Parts):
            raise TargetError(
                f"{self.name} reads text only, and a prompt holds an image; use a vision model "
                "(pocket-vision)."
            )
        if not isinstance(prompt, str | Chat):
            return tuple(prompt) or (self.texts.first(),)
        return self.texts.prompt(prompt)

    def joined(self, prompt: Prompt, response: Prompt) -> tuple[Ids, Ids]:
        if not (isinstance(prompt, str | Chat) and isinstance(response, str)):
            return (ids := self.encode(prompt)), self.encode_response(response, ids)
        if (prompt, response) not in self._pairs:
            self._pairs[prompt, response] = self.texts.joined(prompt, response)
        return self._pairs[prompt, response]

    def encode_response(self, response: Prompt, behind: Ids = ()) -> Ids:
        """Token ids of a continuation of token ids. If the prompt is a text, `joined` is exact."""
        if not isinstance(response, str):
            return tuple(cast(Ids, response))  # a response holds no image
        return self.texts.behind(behind, response)

    def _most(self, request: Request[object]) -> float:
        """An upper bound on the tokens of a prompt with the longest answer, if quickly known."""
        if not isinstance(request, Complete) or not isinstance(request.prompt, str | Chat):
            return UNKNOWN
        return most_tokens(self.texts.shown(request.prompt), self._special) + request.max_tokens

    def _length(self, request: Request[object]) -> int:
        if isinstance(request, Complete):
            return len(self.encode(request.prompt)) + request.max_tokens
        if isinstance(request, ScoreLabels):
            return max(self._tokens_of(request.prompt, label) for label in request.labels)
        if isinstance(request, ScoreTokens | NextLogits):
            reserved = request.reserve if isinstance(request, NextLogits) else 0
            return self._tokens_of(request.prompt, request.response) + reserved
        return len(self.encode(cast(Embed, request).text))

    def _tokens_of(self, prompt: Prompt, response: Prompt) -> int:
        return sum(map(len, self.joined(prompt, response)))

    # --- answers

    def _complete(self, requests: Sequence[Complete]) -> list[str]:
        rows = [self.encode(request.prompt) for request in requests]
        out: list[str] = [""] * len(requests)
        growth = max(request.max_tokens for request in requests)
        owners = [i if request.alone else None for i, request in enumerate(requests)]
        for group in self.passes.groups(rows, growth=growth, owners=owners):
            with spare_others(group):
                state, logits = self.passes.run(group, rows, keep=1)
                texts = self._decode(state, logits[:, -1], [requests[i] for i in group.rows])
                for i, text in zip(group.rows, texts, strict=True):
                    out[i] = text
        return out

    def _decode(
        self, state: State, logits: torch.Tensor, requests: Sequence[Complete]
    ) -> list[str]:
        """Generate one token per step for all rows at once, until each has stopped."""
        taken: list[list[int]] = [[] for _ in requests]
        texts: list[str | None] = [None] * len(requests)
        for step in range(max(request.max_tokens for request in requests)):
            chosen = [
                choose(row, request, step)
                for row, request in zip(logits.float().cpu().numpy(), requests, strict=True)
            ]
            for i, token in enumerate(chosen):
                if texts[i] is None:
                    taken[i].append(token)
                    texts[i] = self._finished(taken[i], requests[i])
            if all(text is not None for text in texts):
                break
            logits = self.passes.step(state, chosen)
        rows = zip(texts, taken, strict=True)
        return [text if text is not None else self.text(ids) for text, ids in rows]

    def _finished(self, ids: list[int], request: Complete) -> str | None:
        """Text of a row if it has stopped, otherwise None."""
        ended = ids[-1] in self.end_ids()
        text = self.text(ids[:-1] if ended else ids)
        cuts = [at for stop in request.stop if (at := text.find(stop)) >= 0]
        if cuts:
            return text[: min(cuts)]
        return text if ended or len(ids) >= request.max_tokens else None

    def end_ids(self) -> set[int]:
        given = self.model.generation_config
        own = given.eos_token_id if given else None
        ends = own if isinstance(own, list) else [own, self.tokenizer.eos_token_id]
        return {int(i) for i in ends if i is not None}

    def text(self, ids: Sequence[int]) -> str:
        return str(self.tokenizer.decode(ids, skip_special_tokens=True))

    def _score_labels(self, requests: Sequence[ScoreLabels]) -> list[Floats]:
        flat = [ScoreTokens(one.prompt, label) for one in requests for label in one.labels]
        owners = [i if r.alone else None for i, r in enumerate(requests) for _ in r.labels]
        scores = self._along(flat, owners, log_probabilities, NO_SCORE, after=0)
        totals = iter([LABEL_SCORES[self.label_scores](one) for one in scores])
        return [np.array([next(totals) for _ in one.labels], np.float32) for one in requests]

    def _along(
        self,
        requests: Sequence[ScoreTokens | NextLogits],
        owners: Sequence[int | None],
        read: Callable[[torch.Tensor, Ids], Floats],
        failed: Floats,
        after: int = 1,
    ) -> list[Floats]:
        """Apply `read` to the logits before each token of a response, and after it if `after` is 1.

        Each group takes one teacher-forced pass; equal rows with the same owner run once. A row
        with an owner whose logits are not numbers gets `failed`.
        """
        pairs = [self.joined(request.prompt, request.response) for request in requests]
        answers = [ids for _, ids in pairs]
        rows = [prompt + ids[: len(ids) - 1 + after] for prompt, ids in pairs]
        out = [failed] * len(requests)
        tails = [max(1, len(ids) + after) for ids in answers]
        copies = equal_rows(rows, tails, owners)
        alone = [i for i, owner in enumerate(owners) if owner is not None and not answers[i]]
        state_of = dict(zip(alone, self.passes.own.take([rows[i] for i in alone]), strict=True))
        growing = set(alone) if self.passes.own.fits(len(alone)) else set()
        for group in self.passes.groups(rows, tails, owners=owners, members=list(copies)):
            keep, first = max(tails[i] for i in group.rows), group.rows[0]
            with spare_others(group):
                state, logits = self.passes.run(group, rows, keep, state_of.pop(first, None))
                for at, i in enumerate(group.rows):
                    for copy in copies[i]:
                        out[copy] = read(logits[at, keep - tails[i] :], answers[copy])
                if not group.alone:
                    self.passes.store.hold(state)
                elif first in growing:
                    state_of[first] = state
                del state, logits  # free them before the next group makes its own
        self.passes.own.hold([rows[i] for i in alone], [state_of.get(i) for i in alone])
        return out

    def _embed(self, text: str) -> Floats:
        """Mean of the last hidden states over the tokens of a text."""
        ids = torch.tensor([self.encode(text)], device=self.model.device)
        last = {"logits_to_keep": 1} if "logits_to_keep" in parameters_of(self.model) else {}
        how = {"output_hidden_states": True, "use_cache": False, **last}
        hidden: torch.Tensor = self.model(input_ids=ids, **how).hidden_states[-1]
        return hidden[0].float().mean(0).cpu().numpy()
