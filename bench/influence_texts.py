"""Texts with sentences for bench/influence_speed.py: the same ones for every program."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from leakbound_lab.studies.bundled import notes
from transformers import PreTrainedTokenizerFast

from leakbound.attribution.spans import TEMPLATE, UnitKind, find_units
from leakbound.models.pocket import FOLDER

Case = dict[str, Any]
ABLATIONS = 64  # of context-cite, its default


def text_case(context: str, query: str, answer: str) -> Case:
    """A text with its sentences, the same ones for all programs."""
    units = [unit.characters for unit in find_units(context, UnitKind("sentence"))]
    ends = [0, *(end for _, end in units)]
    return {
        "context": context, "query": query, "answer": answer,
        "parts": [context[first:end] for first, end in units],
        "separators": [context[a:b] for a, (b, _) in zip(ends, units, strict=False)],
    }  # fmt: skip


def long_text(sentences: int, tokens: int) -> Case:
    """Sentences of equal length that make up about so many tokens, and an answer of about 50."""
    tokenizer = PreTrainedTokenizerFast.from_pretrained(FOLDER)
    words = sorted({word for one in notes(20) for word in one.context.split() if word.isalpha()})
    rng = np.random.default_rng(0)

    def text(size: int) -> str:
        chosen: list[str] = []
        while len(tokenizer.encode(" ".join(chosen), add_special_tokens=False)) < size - 1:
            chosen.append(str(rng.choice(words)).lower())
        return " ".join(chosen).capitalize() + "."

    context = " ".join(text(tokens // sentences) for _ in range(sentences))
    return text_case(context, "what is said of the order?", text(50).lower())


def text_settings(texts: list[Case]) -> Case:
    """What every program needs to score texts."""
    warm = text_case("The parcel is late. Thank you.", "What is late?", "the parcel")
    return {
        "tokenizer": str(FOLDER), "template": TEMPLATE, "texts": texts, "warm": warm,
        "ablations": ABLATIONS, "features": 0,
    }  # fmt: skip


def row_texts(path: Path, rows: int, words: int, said: int) -> list[Case]:
    """The first words of rows of a data set, with their own questions and answers."""
    lines = path.read_text(encoding="utf-8").splitlines()[:rows]
    return [
        text_case(
            " ".join((row.get("context") or row["document"]).split()[:words]),
            row.get("question", "What is this about?"),
            " ".join((row.get("answer") or row["summary"]).split()[:said]),
        )
        for row in map(json.loads, lines)
    ]
