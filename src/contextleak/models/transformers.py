"""Any Hugging Face causal language model, from a folder or a hub id, on CPU or GPU.

How a batch is run: prompts are token ids; ids that start alike are grouped and the common part is computed once
(its keys and values are reused); the rest is padded on the left behind it and masked, so every row sees exactly its
own tokens, whatever else is in the batch; logits are made only at the positions that are asked for.
"""

from __future__ import annotations

import hashlib
import inspect
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt
import torch
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache
from transformers.utils.logging import disable_progress_bar

from contextleak.errors import TargetError, UsageError
from contextleak.models.asks import Ask, Complete, Embed, NextLogits, Prompt, ScoreLabels, ScoreTokens

__all__ = ["TransformersModel", "load"]

R = TypeVar("R")
Ids = tuple[int, ...]
SHARE = 16  # a common prefix shorter than this is not worth a pass of its own


def load(address: str, name: str | None = None, dtype: str = "auto", device: str = "auto", trust_remote_code: bool = False) -> TransformersModel:
    """Load a causal model and its tokenizer; a folder never touches the network. Raises TargetError with what is missing."""
    folder = Path(address)
    if folder.exists():
        _check_folder(folder)
    elif address.startswith((".", "/", "~")):
        raise TargetError(f"the model folder {address!r} does not exist; give a folder with config.json, tokenizer and weights.")
    disable_progress_bar()
    where = _device(device)
    kwargs = {"trust_remote_code": trust_remote_code, "local_files_only": folder.exists()}
    try:
        tokenizer = AutoTokenizer.from_pretrained(address, **kwargs)
        model = AutoModelForCausalLM.from_pretrained(address, dtype=_dtype(dtype, where), **kwargs)
    except (OSError, ValueError, RuntimeError, KeyError, SafetensorError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise TargetError(f"the model {address!r} could not be loaded: {reason}") from None
    fingerprint = _fingerprint(folder) if folder.exists() else hashlib.sha256(address.encode()).hexdigest()[:16]
    return TransformersModel(model.to(where).eval(), tokenizer, name or f"hf/{address}", fingerprint)


def _check_folder(folder: Path) -> None:
    if not (folder / "config.json").is_file():
        raise TargetError(f"the model folder {str(folder)!r} has no config.json; give a folder saved with save_pretrained.")
    if not _weights(folder):
        raise TargetError(
            f"the model folder {str(folder)!r} has no weights; it must hold *.safetensors (or pytorch_model*.bin) beside config.json."
        )


def _weights(folder: Path) -> list[Path]:
    return sorted([*folder.glob("*.safetensors"), *folder.glob("pytorch_model*.bin")])


def _fingerprint(folder: Path) -> str:
    """Of configuration, tokenizer, and the size and both ends of every weight file."""
    digest = hashlib.sha256()
    for path in sorted([*folder.glob("*.json"), *_weights(folder)]):
        with path.open("rb") as file:
            digest.update(f"{path.name} {path.stat().st_size}".encode() + file.read(1 << 20))
            file.seek(max(0, path.stat().st_size - (1 << 20)))
            digest.update(file.read())
    return digest.hexdigest()[:16]


def _device(device: str) -> torch.device:
    if device != "auto":
        return torch.device(device)
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def _dtype(dtype: str, device: torch.device) -> torch.dtype:
    if dtype == "auto":
        return torch.float32 if device.type == "cpu" else torch.bfloat16
    if not isinstance(getattr(torch, dtype, None), torch.dtype):
        raise UsageError(f"dtype is {dtype!r}; it must be auto, float32, bfloat16 or float16.")
    return cast(torch.dtype, getattr(torch, dtype))


@dataclass
class _Group:
    """Rows that share a prefix of token ids."""

    prefix: Ids
    rows: list[int]


@dataclass
class _State:
    """What a pass leaves behind: the cache, which of its slots each row may see, and each row's length."""

    cache: DynamicCache
    mask: torch.Tensor
    lengths: torch.Tensor


class TransformersModel:
    """A causal language model behind the one verb `answer`."""

    supports: frozenset[type[Ask[Any]]] = frozenset({Complete, ScoreLabels, ScoreTokens, NextLogits, Embed})

    def __init__(self, model: Any, tokenizer: Any, name: str, fingerprint: str, batch_tokens: int = 8192) -> None:
        self.model, self.tokenizer = model, tokenizer
        self.name, self.fingerprint, self.batch_tokens = name, fingerprint, batch_tokens
        self.window: int = getattr(model.config, "max_position_embeddings", 0) or 1 << 30
        self._sliding = int(getattr(model.config, "sliding_window", 0) or 0)
        self._positions = "position_ids" in inspect.signature(model.forward).parameters

    # --- the verb -------------------------------------------------------------------------------------------------

    def check(self, asks: Sequence[Ask[Any]], /) -> None:
        """Refuse asks of an unknown kind and prompts that do not fit the window; never truncates."""
        for ask in asks:
            if type(ask) not in self.supports:
                raise TargetError(f"{self.name} cannot answer {type(ask).__name__}.")
            need = self._length(ask)
            if need > self.window:
                raise TargetError(
                    f"a prompt and its answer need {need} tokens, and the window of {self.name} is {self.window}; "
                    "nothing was sent. Use fewer or shorter exemplars (--shots), or a model with a longer window."
                )

    def answer(self, asks: Sequence[Ask[R]], /) -> list[R]:
        """Answer a batch; asks of different kinds may be mixed."""
        self.check(asks)
        out: list[Any] = [None] * len(asks)
        by_kind: dict[type[Any], list[int]] = {}
        for i, ask in enumerate(asks):
            by_kind.setdefault(type(ask), []).append(i)
        with torch.inference_mode():
            for kind, rows in by_kind.items():
                for i, reply in zip(rows, self._verbs()[kind]([asks[i] for i in rows]), strict=True):
                    out[i] = reply
        return out

    def _verbs(self) -> dict[type[Any], Any]:
        return {
            Complete: self._complete, ScoreLabels: self._score_labels, ScoreTokens: self._score_tokens,
            NextLogits: self._next_logits, Embed: self._embed,
        }  # fmt: skip

    # --- text to token ids ----------------------------------------------------------------------------------------

    def encode(self, prompt: Prompt) -> Ids:
        """Token ids of a prompt: as given, or by the tokenizer, through the chat template of a chat model."""
        if not isinstance(prompt, str):
            return tuple(prompt)
        if getattr(self.tokenizer, "chat_template", None):
            turn = [{"role": "user", "content": prompt}]
            text = self.tokenizer.apply_chat_template(turn, add_generation_prompt=True, tokenize=False)
            return tuple(self.tokenizer(text, add_special_tokens=False)["input_ids"])
        return tuple(self.tokenizer(prompt)["input_ids"]) or (self._first(),)

    def encode_response(self, response: Prompt) -> Ids:
        """Token ids of a continuation: no special tokens, one leading blank as after a prompt."""
        if not isinstance(response, str):
            return tuple(response)
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

    # --- answers --------------------------------------------------------------------------------------------------

    def _complete(self, asks: Sequence[Complete]) -> list[str]:
        rows = [self.encode(ask.prompt) for ask in asks]
        out: list[str] = [""] * len(asks)
        for group in self._groups(rows):
            state, logits, _ = self._run(group, rows, keep=1)
            texts = self._decode(state, logits[:, -1], [asks[i] for i in group.rows])
            for i, text in zip(group.rows, texts, strict=True):
                out[i] = text
        return out

    def _decode(self, state: _State, logits: torch.Tensor, asks: Sequence[Complete]) -> list[str]:
        """One token a step for all rows at once, until each has stopped."""
        taken: list[list[int]] = [[] for _ in asks]
        texts: list[str | None] = [None] * len(asks)
        for step in range(max(ask.max_tokens for ask in asks)):
            chosen = [_choose(row, ask, step) for row, ask in zip(logits.float().cpu().numpy(), asks, strict=True)]
            for i, token in enumerate(chosen):
                if texts[i] is None:
                    taken[i].append(token)
                    texts[i] = self._finished(taken[i], asks[i])
            if all(text is not None for text in texts):
                break
            logits = self._step(state, chosen)
        return [text if text is not None else self._text(ids) for text, ids in zip(texts, taken, strict=True)]

    def _finished(self, ids: list[int], ask: Complete) -> str | None:
        """The text of a row if it has stopped, else None."""
        ended = ids[-1] in self._end_ids()
        text = self._text(ids[:-1] if ended else ids)
        cuts = [at for stop in ask.stop if (at := text.find(stop)) >= 0]
        if cuts:
            return text[: min(cuts)]
        return text if ended or len(ids) >= ask.max_tokens else None

    def _end_ids(self) -> set[int]:
        configured = self.model.generation_config.eos_token_id if self.model.generation_config else None
        ends = configured if isinstance(configured, list) else [configured, self.tokenizer.eos_token_id]
        return {int(i) for i in ends if i is not None}

    def _text(self, ids: Sequence[int]) -> str:
        return str(self.tokenizer.decode(ids, skip_special_tokens=True))

    def _score_labels(self, asks: Sequence[ScoreLabels]) -> list[npt.NDArray[np.float32]]:
        flat = [ScoreTokens(ask.prompt, label) for ask in asks for label in ask.labels]
        totals = iter([float(scores.sum()) for scores in self._score_tokens(flat)])
        return [np.array([next(totals) for _ in ask.labels], np.float32) for ask in asks]

    def _score_tokens(self, asks: Sequence[ScoreTokens]) -> list[npt.NDArray[np.float32]]:
        answers = [self.encode_response(ask.response) for ask in asks]
        out: list[npt.NDArray[np.float32]] = []
        for logits, ids in zip(self._response_logits(asks, answers, after=False), answers, strict=True):
            table = torch.log_softmax(logits.float(), -1)
            out.append(table.gather(-1, torch.tensor(ids, device=table.device)[:, None])[:, 0].cpu().numpy())
        return out

    def _next_logits(self, asks: Sequence[NextLogits]) -> list[npt.NDArray[np.float32]]:
        answers = [self.encode_response(ask.response) for ask in asks]
        return [logits.float().cpu().numpy() for logits in self._response_logits(asks, answers, after=True)]

    def _response_logits(self, asks: Sequence[Any], answers: list[Ids], after: bool) -> list[torch.Tensor]:
        """Logits before each response token (and after the last one), one teacher-forced pass."""
        rows = [self.encode(ask.prompt) + ids for ask, ids in zip(asks, answers, strict=True)]
        out: list[torch.Tensor] = [torch.empty(0)] * len(asks)
        for group in self._groups(rows, [len(ids) + 1 for ids in answers]):
            keep = max(len(answers[i]) for i in group.rows) + 1
            _, logits, _ = self._run(group, rows, keep)
            for at, i in enumerate(group.rows):
                tail = logits[at, keep - 1 - len(answers[i]) :]
                out[i] = tail if after else tail[:-1]
        return out

    def _embed(self, asks: Sequence[Embed]) -> list[npt.NDArray[np.float32]]:
        """Mean of the last hidden states over the tokens of the text, each text on its own."""
        out = []
        for ask in asks:
            ids = torch.tensor([self.encode(ask.text)], device=self.model.device)
            hidden = self.model(input_ids=ids, output_hidden_states=True, use_cache=False, logits_to_keep=1).hidden_states[-1]
            out.append(hidden[0].float().mean(0).cpu().numpy())
        return out

    # --- passes ---------------------------------------------------------------------------------------------------

    def _groups(self, rows: list[Ids], tails: list[int] | None = None) -> Iterator[_Group]:
        """Cut a batch into groups with a common prefix, each within the token budget.

        A prefix is never the whole of a row: at least its last `tail` tokens are left to be run.
        """
        tails = tails or [1] * len(rows)
        order = sorted(range(len(rows)), key=lambda i: rows[i])
        group: list[int] = []
        shared = 0
        for i in order:
            common = min(_common(rows[group[0]], rows[i]), len(rows[i]) - tails[i], shared) if group else len(rows[i]) - tails[i]
            if group and not self._fits(rows, [*group, i], common, shared):
                yield _Group(rows[group[0]][:shared], group)
                group, common = [], len(rows[i]) - tails[i]
            group.append(i)
            shared = common
        if group:
            yield _Group(rows[group[0]][:shared], group)

    def _fits(self, rows: list[Ids], group: list[int], common: int, before: int) -> bool:
        """May the last row join? Not if it breaks up a long shared prefix, breaks the budget, or widens a sliding window."""
        lengths = {len(rows[i]) for i in group}
        if self._sliding and len(lengths) > 1 and max(lengths) > self._sliding:
            return False
        if common < 1 or (len(group) > 2 and before - common > SHARE and common < before // 2):
            return False
        return (max(lengths) - common) * len(group) <= self.batch_tokens

    def _run(self, group: _Group, rows: list[Ids], keep: int) -> tuple[_State, torch.Tensor, int]:
        """One pass over the prefix, one over all the rest: state after it, logits at its last `keep` positions."""
        count, device = len(group.rows), self.model.device
        prefix = group.prefix if len(group.prefix) >= SHARE or count > 1 else group.prefix[:0]
        cache = DynamicCache(config=self.model.config)
        if prefix:
            self._forward(torch.tensor([prefix], device=device), None, torch.arange(len(prefix), device=device)[None], cache, 1)
            if count > 1:
                cache.batch_repeat_interleave(count)
        rest = [rows[i][len(prefix) :] for i in group.rows]
        width = max(map(len, rest))
        ids = torch.tensor([[0] * (width - len(r)) + list(r) for r in rest], device=device)
        lengths = torch.tensor([len(r) for r in rest], device=device)
        real = torch.arange(width, device=device)[None] >= width - lengths[:, None]
        mask = torch.cat([torch.ones(count, len(prefix), dtype=torch.bool, device=device), real], 1)
        position = (torch.arange(width, device=device)[None] - (width - lengths[:, None])).clamp(min=0) + len(prefix)
        logits = self._forward(ids, mask, position, cache, min(keep, width))
        return _State(cache, mask, lengths + len(prefix)), logits, len(prefix)

    def _step(self, state: _State, tokens: list[int]) -> torch.Tensor:
        """Append one token to every row; (rows, vocabulary) logits after it."""
        device = self.model.device
        state.mask = torch.cat([state.mask, torch.ones(len(tokens), 1, dtype=torch.bool, device=device)], 1)
        ids = torch.tensor(tokens, device=device)[:, None]
        logits = self._forward(ids, state.mask, state.lengths[:, None], state.cache, 1)
        state.lengths = state.lengths + 1
        return logits[:, -1]

    def _forward(self, ids: torch.Tensor, mask: torch.Tensor | None, position: torch.Tensor, cache: DynamicCache, keep: int) -> torch.Tensor:
        extra = {"position_ids": position} if self._positions else {}
        if mask is not None and not bool(mask.all()):
            extra["attention_mask"] = mask.long()
        out = self.model(input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=keep, **extra)
        return cast(torch.Tensor, out.logits)


def _common(a: Ids, b: Ids) -> int:
    """Length of the common prefix."""
    limit = min(len(a), len(b))
    for i in range(limit):
        if a[i] != b[i]:
            return i
    return limit


def _choose(logits: npt.NDArray[np.float32], ask: Complete, step: int) -> int:
    """Greedy, or one Gumbel draw whose seed is the ask's own: no other prompt, draw or step shares it."""
    if ask.temperature == 0:
        return int(logits.argmax())
    seed = [ask.draw, step, zlib.crc32(repr(ask.prompt).encode())]
    noise = np.random.default_rng(seed).gumbel(size=logits.shape)
    return int((logits / ask.temperature + noise).argmax())
