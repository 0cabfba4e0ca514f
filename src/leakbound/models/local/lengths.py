"""An upper bound on the number of tokens of a text, without tokenizing it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Protocol, TypeAlias, runtime_checkable

from leakbound.models.local.hugging_face import Tokenizer

Part: TypeAlias = Mapping[str, object]
# allowed before a byte-level tokenizer: these steps split a text and add nothing to it
CUTS = frozenset({"Sequence", "Split", "ByteLevel", "Digits", "Punctuation", "Whitespace"})
COMPOSES = "NFC"  # changes no ASCII text
UNKNOWN = math.inf  # for a text that must be tokenized


@runtime_checkable
class _Fast(Protocol):
    """A tokenizer that describes how it is built."""

    @property
    def backend_tokenizer(self) -> _Described: ...
    def num_special_tokens_to_add(self, pair: bool = False) -> int: ...


class _Described(Protocol):
    def to_str(self) -> str: ...


def tokens_by_bytes(tokenizer: Tokenizer) -> int | None:
    """Whether every token represents at least one byte of the text.

    This is true for byte-level BPE, which starts with bytes and only joins them.
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
    """The most tokens that a text can have.

    Examples:
        >>> most_tokens("a note", 1), most_tokens("a note", None)
        (7, inf)
    """
    return UNKNOWN if special is None or not text.isascii() else len(text) + special


def _parts(part: Part | None) -> Iterator[Part]:
    """A part of a tokenizer, and the parts of a sequence."""
    if part is None:
        return
    yield part
    for key in ("pretokenizers", "normalizers"):
        inner = part.get(key)
        for one in inner if isinstance(inner, list) else ():
            yield from _parts(one)
