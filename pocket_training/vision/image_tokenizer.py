"""Learn the tokenizer of the pocket vision model:

byte-level BPE in which a field name or a pseudo-name is one token.
"""

from __future__ import annotations

import image_words as w
import numpy as np
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    pre_tokenizers,
    processors,
    trainers,
)

from leakbound.attacks import templates
from leakbound.mechanisms.baselines import L1, L2
from leakbound.tasks.synthetic_images import NAMES

SPECIALS = ["<pad>", "<bos>", "<eos>", "<image>"]
# a field name takes the line ends before it along
PIECES = r"\n*\p{L}+:| ?\p{L}+| ?\p{N}| ?[^\s\p{L}\p{N}]+|\s"


def corpus(seed: int, texts: int = 4000) -> list[str]:
    rng = np.random.default_rng(seed)
    fixed = [
        templates.MEMBERSHIP,
        templates.MEMBERSHIP_IMAGE,
        templates.IF_THEN,
        L1,
        L2,
        *w.INSTRUCTIONS,
    ] * 40
    fields = [
        f"\n\n{a}: x\n{b}: {label}"
        for a, b in w.FIELDS
        for label in (*NAMES, *w.LABELS, "yes", "no")
    ] * 10
    return fixed + fields + [w.salad(rng) for _ in range(texts)]


def learn(vocab_size: int, seed: int) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=[AddedToken(text, special=True, lstrip=text == "<image>")
                        for text in SPECIALS],
    )  # fmt: skip
    tokenizer.train_from_iterator(corpus(seed), trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<bos> $A", special_tokens=[("<bos>", 1)]
    )
    return tokenizer
