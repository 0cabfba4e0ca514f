"""Models with random weights in folders, small enough for every recipe: `hf/./tiny` and others."""

from __future__ import annotations

import shutil
from pathlib import Path

from leakbound.models.pocket import FOLDER, SEEING

__all__ = ["save_tiny_text_model", "save_tiny_vision_model"]

TEXTS = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")


def save_tiny_text_model(folder: Path, seed: int = 0) -> None:
    """A Llama of one layer, with the tokenizer of the pocket model."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(seed)
    config = AutoConfig.for_model(
        "llama", hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32,
        vocab_size=AutoConfig.from_pretrained(FOLDER).vocab_size, max_position_embeddings=4096,
        pad_token_id=0, bos_token_id=1, eos_token_id=2, initializer_range=0.3,
    )  # fmt: skip
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    for name in TEXTS:
        if (FOLDER / name).exists():
            shutil.copy(FOLDER / name, folder / name)


def save_tiny_vision_model(folder: Path, seed: int = 0) -> None:
    """The shape of the pocket vision model."""
    import torch
    from transformers import AutoConfig, AutoModelForImageTextToText

    shutil.copytree(SEEING, folder)
    for weights in folder.glob("*.safetensors*"):
        weights.unlink()
    torch.manual_seed(seed)
    net = AutoModelForImageTextToText.from_config(AutoConfig.from_pretrained(SEEING))
    net.save_pretrained(folder)
