"""A causal language model behind the one verb `answer`:

asks become rows of token ids, logits become answers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt
import torch

from leakbound.errors import TargetError
from leakbound.models.content import Parts
from leakbound.models.local.budget import Budget
from leakbound.models.local.passes import Ids, Passes, State
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

__all__ = ["TransformersModel"]

R = TypeVar("R")


class TransformersModel:
    """A causal language model behind the one verb `answer`."""

    supports: frozenset[type[Request[Any]]] = frozenset(
        {Complete, ScoreLabels, ScoreTokens, NextLogits, Embed}
    )

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        name: str,
        fingerprint: str,
        budget: Budget | None = None,
    ) -> None:
        self.model, self.tokenizer = model, tokenizer
        self.name, self.fingerprint = name, fingerprint
        text = model.config.get_text_config(decoder=True)
        self.window: int = getattr(text, "max_position_embeddings", 0) or 1 << 30
        self.passes = Passes(model, budget or Budget.of(model))

    # --- the verb
    # -------------------------------------------------------------------------------------------------

    def check(self, requests: Sequence[Request[Any]], /) -> None:
        """Refuse asks of an unknown kind and prompts that do not fit the window; never truncates."""
        for ask in requests:
            if type(ask) not in self.supports:
                raise TargetError(f"{self.name} cannot answer {type(ask).__name__}.")
            need = self._length(ask)
            if need > self.window:
                raise TargetError(
                    f"a prompt and its answer need {need} tokens, and the window of {self.name} "
                    f"is {self.window}; "
                    "nothing was sent. Put less into the prompt (a shorter context, or fewer "
                    "examples with --shots), or use a model with a longer "
                    "window."
                )
            self.passes.require(need)

    def answer(self, requests: Sequence[Request[R]], /) -> list[R]:
        """Answer a batch; asks of different kinds may be mixed."""
        self.check(requests)
        out: list[Any] = [None] * len(requests)
        by_kind: dict[type[Any], list[int]] = {}
        for i, ask in enumerate(requests):
            by_kind.setdefault(type(ask), []).append(i)
        with torch.inference_mode():
            for kind, rows in by_kind.items():
                for i, reply in zip(
                    rows, self._verbs()[kind]([requests[i] for i in rows]), strict=True
                ):
                    out[i] = reply
        return out

    def forget(self) -> None:
        """Throw out the keys and values of earlier prompts (private) that are kept in memory for
        later calls.
        """
        self.passes.store.clear()

    def _verbs(self) -> dict[type[Any], Any]:
        return {
            Complete: self._complete, ScoreLabels: self._score_labels, ScoreTokens: self._score_tokens,
            NextLogits: self._next_logits, Embed: self._embed,
        }  # fmt: skip

    # --- text to token ids
    # ----------------------------------------------------------------------------------------

    def encode(self, prompt: Prompt) -> Ids:
        """Token ids of a prompt:

        as given, or by the tokenizer, through the chat template of a chat model.
        """
        if isinstance(prompt, Parts):
            raise TargetError(
                f"{self.name} reads text only, and a prompt holds an image; use a model that sees "
                "(pocket-vision)."
            )
        if not isinstance(prompt, str):
            return tuple(prompt) or (self._first(),)
        if getattr(self.tokenizer, "chat_template", None):
            turn = [{"role": "user", "content": prompt}]
            text = self.tokenizer.apply_chat_template(
                turn, add_generation_prompt=True, tokenize=False
            )
            return tuple(self.tokenizer(text, add_special_tokens=False)["input_ids"])
        return tuple(self.tokenizer(prompt)["input_ids"]) or (self._first(),)

    def encode_response(self, response: Prompt) -> Ids:
        """Token ids of a continuation: no special tokens, one leading blank as after a prompt."""
        if not isinstance(response, str):
            return tuple(cast(Ids, response))  # a response holds no image
        text = response if response[:1].isspace() or not response else f" {response}"
        return tuple(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def _first(self) -> int:
        ids = (self.tokenizer.bos_token_id, self.tokenizer.eos_token_id, 0)
        return int(next(i for i in ids if i is not None))

    def _length(self, ask: Any) -> int:
        if isinstance(ask, Embed):
            return len(self.encode(ask.text))
        prompt = len(self.encode(ask.prompt))
        if isinstance(ask, Complete):
            return prompt + ask.max_tokens
        if isinstance(ask, ScoreLabels):
            return prompt + max(len(self.encode_response(label)) for label in ask.labels)
        return prompt + len(self.encode_response(ask.response))

    # --- answers
    # --------------------------------------------------------------------------------------------------

    def _complete(self, requests: Sequence[Complete]) -> list[str]:
        rows = [self.encode(ask.prompt) for ask in requests]
        out: list[str] = [""] * len(requests)
        for group in self.passes.groups(rows, growth=max(ask.max_tokens for ask in requests)):
            state, logits = self.passes.run(group, rows, keep=1)
            texts = self._decode(state, logits[:, -1], [requests[i] for i in group.rows])
            for i, text in zip(group.rows, texts, strict=True):
                out[i] = text
        return out

    def _decode(
        self, state: State, logits: torch.Tensor, requests: Sequence[Complete]
    ) -> list[str]:
        """One token a step for all rows at once, until each has stopped."""
        taken: list[list[int]] = [[] for _ in requests]
        texts: list[str | None] = [None] * len(requests)
        for step in range(max(ask.max_tokens for ask in requests)):
            chosen = [
                _choose(row, ask, step)
                for row, ask in zip(logits.float().cpu().numpy(), requests, strict=True)
            ]
            for i, token in enumerate(chosen):
                if texts[i] is None:
                    taken[i].append(token)
                    texts[i] = self._finished(taken[i], requests[i])
            if all(text is not None for text in texts):
                break
            logits = self.passes.step(state, chosen)
        return [
            text if text is not None else self.text(ids)
            for text, ids in zip(texts, taken, strict=True)
        ]

    def _finished(self, ids: list[int], ask: Complete) -> str | None:
        """The text of a row if it has stopped, else None."""
        ended = ids[-1] in self.end_ids()
        text = self.text(ids[:-1] if ended else ids)
        cuts = [at for stop in ask.stop if (at := text.find(stop)) >= 0]
        if cuts:
            return text[: min(cuts)]
        return text if ended or len(ids) >= ask.max_tokens else None

    def end_ids(self) -> set[int]:
        """Tokens that end an answer."""
        configured = (
            self.model.generation_config.eos_token_id if self.model.generation_config else None
        )
        ends = (
            configured
            if isinstance(configured, list)
            else [configured, self.tokenizer.eos_token_id]
        )
        return {int(i) for i in ends if i is not None}

    def text(self, ids: Sequence[int]) -> str:
        """The text of token ids, without special tokens."""
        return str(self.tokenizer.decode(ids, skip_special_tokens=True))

    def _score_labels(self, requests: Sequence[ScoreLabels]) -> list[npt.NDArray[np.float32]]:
        flat = [ScoreTokens(ask.prompt, label) for ask in requests for label in ask.labels]
        totals = iter([float(scores.sum()) for scores in self._score_tokens(flat)])
        return [np.array([next(totals) for _ in ask.labels], np.float32) for ask in requests]

    def _score_tokens(self, requests: Sequence[ScoreTokens]) -> list[npt.NDArray[np.float32]]:
        return self._along(requests, _log_probabilities)

    def _next_logits(self, requests: Sequence[NextLogits]) -> list[npt.NDArray[np.float32]]:
        return self._along(requests, lambda logits, ids: logits.float().cpu().numpy())

    def _along(self, requests: Sequence[Any], read: Callable[[torch.Tensor, Ids], R]) -> list[R]:
        """What `read` makes of the logits before each response token and after the last one, and of
        the response's ids.

        One teacher-forced pass a group; its logits are gone before the next group makes its own.
        """
        answers = [self.encode_response(ask.response) for ask in requests]
        rows = [self.encode(ask.prompt) + ids for ask, ids in zip(requests, answers, strict=True)]
        out: list[Any] = [None] * len(requests)
        for group in self.passes.groups(rows, [len(ids) + 1 for ids in answers]):
            keep = max(len(answers[i]) for i in group.rows) + 1
            state, logits = self.passes.run(group, rows, keep)
            self.passes.store.hold(state)
            for at, i in enumerate(group.rows):
                out[i] = read(logits[at, keep - 1 - len(answers[i]) :], answers[i])
            del state, logits  # before the next group makes its own
        return out

    def _embed(self, requests: Sequence[Embed]) -> list[npt.NDArray[np.float32]]:
        """Mean of the last hidden states over the tokens of the text, each text on its own."""
        out = []
        for ask in requests:
            ids = torch.tensor([self.encode(ask.text)], device=self.model.device)
            hidden = self.model(
                input_ids=ids, output_hidden_states=True, use_cache=False, logits_to_keep=1
            ).hidden_states[-1]
            out.append(hidden[0].float().mean(0).cpu().numpy())
        return out


def _log_probabilities(logits: torch.Tensor, ids: Ids) -> npt.NDArray[np.float32]:
    """(tokens,) of each token of a response, from the logits before each and after the last."""
    table = torch.log_softmax(logits[:-1].float(), -1)
    return (
        table.gather(-1, torch.tensor(ids, dtype=torch.long, device=table.device)[:, None])[:, 0]
        .cpu()
        .numpy()
    )


def _choose(logits: npt.NDArray[np.float32], ask: Complete, step: int) -> int:
    """Greedy, or one Gumbel draw whose seed is the ask's own:

    no other prompt, draw or step shares it.
    """
    if ask.temperature == 0:
        return int(logits.argmax())
    seed = [ask.draw, step, prompt_seed(ask.prompt)]
    noise = np.random.default_rng(seed).gumbel(size=logits.shape)
    return int((logits / ask.temperature + noise).argmax())
