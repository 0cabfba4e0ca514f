"""Models with random weights in folders, small enough for every recipe: `hf/./tiny` and others."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from leakbound.models.pocket import FOLDER, SEEING

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

__all__ = ["save_tiny_gguf", "save_tiny_text_model", "save_tiny_vision_model"]

WIDTH, LAYERS, HEADS, ROPE, NORM = 32, 2, 2, 1e4, 1e-6  # of the model that is also a GGUF file
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


def save_tiny_gguf(folder: Path, seed: int = 0) -> tuple[Path, Path]:
    """One Llama twice: a folder as transformers saves it, and a GGUF file of half precision."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    tokenizer = _byte_tokenizer()
    torch.manual_seed(seed)
    config = AutoConfig.for_model(
        "llama", hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
        num_key_value_heads=1, intermediate_size=2 * WIDTH, vocab_size=len(tokenizer),
        max_position_embeddings=4096, bos_token_id=0, eos_token_id=1, initializer_range=0.3,
        rope_parameters={"rope_type": "default", "rope_theta": ROPE}, rms_norm_eps=NORM,
        tie_word_embeddings=True,
    )  # fmt: skip
    net = AutoModelForCausalLM.from_config(config).half().float()
    there, file = folder / "saved", folder / "tiny.gguf"
    net.save_pretrained(there)
    tokenizer.save_pretrained(there)
    _write_gguf(file, net, tokenizer)
    return there, file


def _byte_tokenizer() -> PreTrainedTokenizerFast:
    """Two special tokens and all bytes, of which "th" and "the" are merged."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    known = ["<|start|>", "<|end|>", *sorted(pre_tokenizers.ByteLevel.alphabet()), "th", "the"]
    vocabulary = {token: at for at, token in enumerate(known)}
    made = Tokenizer(models.BPE(vocabulary, [("t", "h"), ("th", "e")]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    special = {"bos_token": "<|start|>", "eos_token": "<|end|>", "unk_token": "<|end|>"}
    kind: Any = PreTrainedTokenizerFast  # its constructor declares no types
    return cast("PreTrainedTokenizerFast", kind(tokenizer_object=made, **special))


def _write_gguf(file: Path, net: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast) -> None:
    """With the names of llama.cpp, and the halves of each attention head interleaved as there."""
    import numpy as np
    from gguf import MODEL_ARCH, GGUFWriter, TokenType, get_tensor_name_map

    writer = GGUFWriter(file, "llama")
    writer.add_context_length(4096)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(2 * WIDTH)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(1)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_rope_freq_base(ROPE)
    writer.add_layer_norm_rms_eps(NORM)
    writer.add_vocab_size(len(tokenizer))
    known = sorted(tokenizer.get_vocab().items(), key=lambda one: one[1])
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list([token for token, _ in known])
    writer.add_token_types([TokenType.CONTROL] * 2 + [TokenType.NORMAL] * (len(known) - 2))
    writer.add_token_merges(["t h", "th e"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    names, heads = get_tensor_name_map(MODEL_ARCH.LLAMA, LAYERS), {"q_proj": HEADS, "k_proj": 1}
    for name, value in net.state_dict().items():
        stem, _, kind = name.rpartition(".")
        found, found_as = value.numpy(), names.get_name(stem)
        if found_as is None or name == "lm_head.weight":  # the embedding speaks for it
            continue
        if many := heads.get(stem.rpartition(".")[2]):
            halves = found.reshape(many, 2, -1, found.shape[1])
            found = halves.swapaxes(1, 2).reshape(found.shape)
        whole = found.ndim == 1  # norms stay in single precision
        writer.add_tensor(f"{found_as}.{kind}", found.astype(np.float32 if whole else np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
