"""The JSON of each dialect, as the servers themselves write it:

choices, log-probabilities, prompt log-probabilities.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from loopback.generating import GeneratedText, Ids

__all__ = ["Shapes"]

Row = npt.NDArray[np.float64]
FLOOR = -9999.0  # what vLLM writes for minus infinity


@dataclass(frozen=True)
class Shapes:
    """Writes what was spoken in one dialect.

    `shifted`: echoed log-probabilities stand one token too early.
    """

    dialect: str
    tokenizer: Any
    shifted: bool = False

    def completion(
        self, name: str, choices: list[dict[str, Any]], spoken: list[GeneratedText]
    ) -> dict[str, Any]:
        return self._body("cmpl", "text_completion", name, choices, spoken)

    def chat(self, name: str, choice: dict[str, Any], spoken: GeneratedText) -> dict[str, Any]:
        return self._body("chatcmpl", "chat.completion", name, [choice], [spoken])

    def _body(
        self, kind: str, what: str, name: str, choices: Any, spoken: list[GeneratedText]
    ) -> dict[str, Any]:
        asked, made = (
            sum(len(one.prompt) for one in spoken),
            sum(len(one.generated) for one in spoken),
        )
        usage = {"prompt_tokens": asked, "completion_tokens": made, "total_tokens": asked + made}
        return {"id": f"{kind}-{uuid.uuid4().hex}", "object": what, "created": int(time.time()),
                "model": name, "choices": choices, "usage": usage}  # fmt: skip

    # --- log-probabilities

    def completion_logprobs(
        self, spoken: GeneratedText, k: int, echo: bool, as_ids: bool
    ) -> dict[str, Any]:
        """The legacy shape: four lists side by side; the first echoed token has no value."""
        out: dict[str, Any] = {
            "tokens": [],
            "text_offset": [],
            "token_logprobs": [],
            "top_logprobs": [],
        }
        at = 0
        for token, row in self._echoed(spoken) if echo else self._answered(spoken):
            name = self._name(token, as_ids)
            out["tokens"].append(name)
            out["text_offset"].append(at)
            out["token_logprobs"].append(None if row is None else max(float(row[token]), FLOOR))
            out["top_logprobs"].append(None if row is None else self._top(row, token, k, as_ids))
            at += len(name)
        return out

    def chat_logprobs(self, spoken: GeneratedText, k: int) -> dict[str, Any]:
        """The chat shape: one entry a token."""
        entries = []
        for token, row in self._answered(spoken):
            top = [self._entry(i, row) for i in self._best(row, k)]
            entries.append({**self._entry(token, row), "top_logprobs": top})
        return (
            {"content": entries}
            if self.dialect == "vllm"
            else {"content": entries, "refusal": None}
        )

    def prompt_logprobs(self, spoken: GeneratedText, k: int) -> list[dict[str, Any] | None]:
        """vLLM's own shape: by token id, with rank and text; the first token has none."""
        return [None if row is None else {
            str(i): {"logprob": max(float(row[i]), FLOOR), "rank": int((row > row[i]).sum()) + 1,
                     "decoded_token": self._name(i)}
            for i in dict.fromkeys([token, *self._best(row, k)])
        } for token, row in list(self._echoed(spoken))[: len(spoken.prompt)]]  # fmt: skip

    def _echoed(self, spoken: GeneratedText) -> Iterator[tuple[int, Row | None]]:
        """Each token of prompt and answer with the distribution that the server pairs it with."""
        ids: Ids = spoken.prompt + spoken.generated
        if self.dialect == "llamacpp":
            has_first = ids[0] == self.tokenizer.bos_token_id
            pairs = list(zip(ids[1 if has_first else 0 :], spoken.rows[:-1], strict=False))
        else:
            pairs = list(
                zip(ids[1:], spoken.rows[1:] if self.shifted else spoken.rows, strict=False)
            )
            yield ids[0], None
        for at, (token, row) in enumerate(pairs):
            yield token, None if at == 0 and self.dialect == "llamacpp" else row

    def _answered(self, spoken: GeneratedText) -> Iterator[tuple[int, Row]]:
        yield from zip(spoken.generated, spoken.rows[len(spoken.prompt) - 1 :], strict=False)

    def _top(self, row: Row, token: int, k: int, as_ids: bool) -> dict[str, float]:
        best = self._best(row, k)
        order = [token, *best] if self.dialect == "vllm" else [*best, token]
        return {self._name(i, as_ids): max(float(row[i]), FLOOR) for i in order}

    def _best(self, row: Row, k: int) -> list[int]:
        most = np.argpartition(-row, min(k, len(row) - 1))[:k]
        return [int(i) for i in most[np.argsort(-row[most], kind="stable")]]

    def _entry(self, token: int, row: Row) -> dict[str, Any]:
        name = self._name(token)
        raw = list(name.encode()) if self.dialect == "vllm" else None
        return {"token": name, "logprob": max(float(row[token]), FLOOR), "bytes": raw}

    def _name(self, token: int, as_ids: bool = False) -> str:
        return f"token_id:{token}" if as_ids else str(self.tokenizer.decode([token]))
