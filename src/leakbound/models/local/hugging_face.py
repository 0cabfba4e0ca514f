"""Protocols for the classes of transformers, which declare few of their attributes."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from typing import Protocol

import torch
from torch import nn


class TextConfig(Protocol):
    hidden_size: int
    num_attention_heads: int
    num_hidden_layers: int
    vocab_size: int


class ModelConfig(Protocol):
    model_type: str

    def get_text_config(self, decoder: bool = ...) -> TextConfig: ...


class ModelOutput(Protocol):
    logits: torch.Tensor
    hidden_states: tuple[torch.Tensor, ...]


class GenerationConfig(Protocol):
    eos_token_id: int | list[int] | None


class CausalModel(Protocol):
    """A causal language model, possibly with a vision tower."""

    config: ModelConfig
    device: torch.device
    dtype: torch.dtype
    generation_config: GenerationConfig | None

    def __call__(self, **inputs: object) -> ModelOutput: ...
    def forward(self, **inputs: object) -> ModelOutput: ...
    def get_image_features(
        self, **inputs: torch.Tensor
    ) -> torch.Tensor | list[torch.Tensor] | tuple[torch.Tensor, ...]: ...
    def get_input_embeddings(self) -> nn.Module: ...
    def get_output_embeddings(self) -> nn.Module | None: ...
    def modules(self) -> Iterable[nn.Module]: ...
    def parameters(self) -> Iterable[nn.Parameter]: ...


class ModelInputs(Protocol):
    """Named tensors that a tokenizer or processor makes from texts and images."""

    def __getitem__(self, name: str, /) -> object: ...
    def items(self) -> Iterable[tuple[str, object]]: ...
    def keys(self) -> Iterable[str]: ...
    def to(self, device: torch.device, dtype: torch.dtype | None = ...) -> ModelInputs: ...


class Tokenizer(Protocol):
    bos_token_id: int | None
    eos_token_id: int | None

    def __call__(self, text: object, *more: object, **options: object) -> ModelInputs: ...
    def apply_chat_template(self, turns: object, **options: object) -> str: ...
    def convert_tokens_to_ids(self, token: str) -> int: ...
    def decode(self, ids: Sequence[int], **options: object) -> str: ...


class Processor(Protocol):
    image_token: str
    tokenizer: Tokenizer

    def __call__(self, **inputs: object) -> ModelInputs: ...
    def apply_chat_template(self, turns: object, **options: object) -> str: ...


class KeysAndValues(Protocol):
    """One layer of a cache: (rows, heads, length, dim) keys and values."""

    is_initialized: bool
    keys: torch.Tensor
    values: torch.Tensor

    def lazy_initialization(self, keys: torch.Tensor, values: torch.Tensor) -> None: ...


def first_line(error: Exception) -> str:
    """Why a library of others failed."""
    return (str(error).splitlines() or [type(error).__name__])[0]


def window_of(model: CausalModel) -> int:
    """The most tokens of a prompt with its answer."""
    text = model.config.get_text_config(decoder=True)
    return int(getattr(text, "max_position_embeddings", 0) or 1 << 30)


def parameters_of(model: CausalModel) -> frozenset[str]:
    """The names of the parameters of a model's forward pass."""
    return frozenset(inspect.signature(model.forward).parameters)
