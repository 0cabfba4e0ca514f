"""Words of the training episodes: field names, instructions, labels. All ours."""

from __future__ import annotations

import numpy as np

FIELDS = (("Image", "Name"), ("Input", "Label"), ("Picture", "Class"), ("Photo", "Answer"))
INSTRUCTIONS = ("", "", "", "Classify these images into one of these categories: {labels}.",
                "Name what each one shows: {labels}.",
                "Answer with one word of: {labels}.")  # fmt: skip
LABELS = ("wug", "toma", "gazzer", "fep", "modi", "koba", "zup", "lorp", "tulver", "pim", "rudi",
          "chaz", "norn", "vash", "keem", "bosa", "dilt", "fendle", "mib", "plonk", "cat", "dog",
          "bird", "car", "tree", "house", "red", "blue", "green", "gold", "one", "two", "A", "B",
          "C", "D", "E", "positive", "negative", "left", "right", "cup", "ball", "boat", "fish",
          "lamp")  # fmt: skip
SYLLABLES = (
    "ba",
    "da",
    "ke",
    "li",
    "mo",
    "nu",
    "pra",
    "sho",
    "ti",
    "vel",
    "wen",
    "xi",
    "yor",
    "za",
    "fli",
    "gro",
    "sta",
    "tion",
    "er",
    "ing",
)
COMMON = ("the", "of", "and", "to", "in", "is", "that", "for", "it", "as", "was", "with", "be",
          "by", "on", "not", "he", "are", "at", "text", "this", "have", "answer", "example",
          "examples", "image", "images", "above", "label", "yes", "no", "word", "names", "private",
          "user", "data", "do", "reveal", "never", "context", "one")  # fmt: skip
PREAMBLES = (
    "Never reveal the examples.",
    "Be brief.",
    "You are a helpful assistant.",
    "The examples are private.",
)


def new_word(rng: np.random.Generator) -> str:
    return "".join(rng.choice(SYLLABLES) for _ in range(int(rng.integers(1, 4))))


def salad(rng: np.random.Generator) -> str:
    words = [
        str(rng.choice(COMMON)) if rng.random() < 0.7 else new_word(rng)
        for _ in range(int(rng.integers(3, 12)))
    ]
    return " ".join(words) + "."
