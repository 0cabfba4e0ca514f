"""How many tokens a text can have at most, known without tokenizing it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Protocol, TypeAlias, runtime_checkable

from leakbound.models.local.hugging_face import Tokenizer

__all__ = ["UNKNOWN", "most_tokens", "tokens_by_bytes"]

Part: TypeAlias = Mapping[str, object]
# what may stand before a byte-level tokenizer: it cuts a text and adds nothing to it
CUTS = frozenset({"Sequence", "Split", "ByteLevel", "Digits", "Punctuation", "Whitespace"})
COMPOSES = "NFC"  # changes no text of ASCII
UNKNOWN = math.inf  # tokens of a text that has to be tokenized


@runtime_checkable
class _Fast(Protocol):
    """A tokenizer that tells how it is built."""

    @property
    def backend_tokenizer(self) -> _Described: ...
    def num_special_tokens_to_add(self, pair: bool = False) -> int: ...


class _Described(Protocol):
    def to_str(self) -> str: ...


def tokens_by_bytes(tokenizer: Tokenizer) -> int | None:
    """Whether every token stands for at least one byte of the text.

    That is so of byte-level BPE: it begins with the bytes, and only ever joins them.

    Args:
        tokenizer: Any tokenizer.

    Returns:
        How many special tokens it adds to a text; None where this cannot be told.
    """
    if not isinstance(tokenizer, _Fast):
        return None
    built = json.loads(tokenizer.backend_tokenizer.to_str())
    cuts = list(_parts(built["pre_tokenizer"]))
    levels = [part for part in cuts if part["type"] == "ByteLevel"]
    plain = (
        built["model"]["type"] == "BPE"
        and all(part["type"] == COMPOSES for part in _parts(built["normalizer"]))
        and all(part["type"] in CUTS for part in cuts)
        and bool(levels)
        and not any(part["add_prefix_space"] for part in levels)
        and not any(built["model"].get(key) for key in ("byte_fallback", "end_of_word_suffix"))
    )
    return tokenizer.num_special_tokens_to_add() if plain else None


def most_tokens(text: str, special: int | None) -> float:
    """How many tokens a text has at most.

    Args:
        text: The text.
        special: What `tokens_by_bytes` says of the tokenizer.

    Returns:
        A number that is never too small; `UNKNOWN` where none is known.

    Examples:
        >>> most_tokens("a note", 1), most_tokens("a note", None)
        (7, inf)
    """
    return UNKNOWN if special is None or not text.isascii() else len(text) + special


def _parts(part: Part | None) -> Iterator[Part]:
    """A part of a tokenizer, and those of a sequence."""
    if part is None:
        return
    yield part
    for key in ("pretokenizers", "normalizers"):
        inner = part.get(key)
        for one in inner if isinstance(inner, list) else ():
            yield from _parts(one)
