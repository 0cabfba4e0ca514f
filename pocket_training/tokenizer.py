"""Learn the pocket tokenizer:

byte-level BPE on generated text and English words, so any text has a lossless encoding.
"""

from __future__ import annotations

from english import load
from episodes import corpus
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from topics import Topics

SPECIALS = ["<pad>", "<bos>", "<eos>"]
PIECES = r"\n| ?\p{L}+| ?\p{N}| ?[^\s\p{L}\p{N}]+|\s"


def learn(vocab_size: int, seed: int, texts: int = 800) -> Tokenizer:
    """Each newline and each digit is its own piece, so prompt blocks always split at the same
    places.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size, special_tokens=SPECIALS, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )  # fmt: skip
    tokenizer.train_from_iterator(corpus(texts, seed, Topics(load())), trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<bos> $A", special_tokens=[("<bos>", 1)]
    )
    return tokenizer
