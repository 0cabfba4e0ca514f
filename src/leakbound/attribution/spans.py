"""Where the context stands in a prompt, as token ids, and the spans of it that are removed one at a
time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from leakbound.errors import TargetError, UsageError

__all__ = ["TEMPLATE", "Ids", "Parts", "Place", "Span", "blocks", "locate", "sizes"]

Ids = tuple[int, ...]
Span = tuple[int, int]  # first token, and the one after the last
TEMPLATE = "Document: {context}\n\nQuestion: {query}\nAnswer:"


@dataclass(frozen=True, slots=True, repr=False)
class Parts:
    """A prompt in three parts of token ids (PRIVATE):

    before the context (with any start token), context, and after it.
    """

    head: Ids
    context: Ids
    tail: Ids

    def __post_init__(self) -> None:
        if not self.context:
            raise UsageError(
                "the context has no token; it must have at least one. Give a context that is not "
                "empty."
            )
        if not self.head + self.tail:
            raise UsageError(
                "nothing is left of the prompt without the context; put a query or a start token "
                "beside it."
            )

    def without(self, span: Span | None = None) -> Ids:
        """The prompt with a span of the context removed from its token ids; None removes nothing."""
        first, end = span or (0, 0)
        return self.head + self.context[:first] + self.context[end:] + self.tail

    @property
    def whole(self) -> Span:
        """The span that is the whole context."""
        return 0, len(self.context)


@dataclass(frozen=True, slots=True, repr=False)
class Place:
    """Parts, and the character of the context's text at which each of its tokens begins:

    (tokens + 1,), from 0 to its length.
    """

    parts: Parts
    bounds: Ids


def blocks(length: int, n: int, stride: int | None = None) -> tuple[Span, ...]:
    """Spans of n tokens: disjoint blocks (the last may be shorter), or windows that begin every
    `stride` tokens.
    """
    for name, value in (("n-gram size", n), ("stride", n if stride is None else stride)):
        if value < 1:
            raise UsageError(f"the {name} is {value}; it must be at least 1 token.")
    if stride is not None and stride > n:
        raise UsageError(
            f"the stride is {stride} with n = {n}; it must be at most n, or tokens would be left "
            "out."
        )
    step = stride or n
    last = max(0, -(-(length - n) // step)) * step  # the first window that reaches the end
    return tuple((at, min(at + n, length)) for at in range(0, last + 1, step))


def sizes(length: int, ngrams: Sequence[int]) -> tuple[int, ...]:
    """The sizes below the context's length, in order, and the length itself:

    the whole context is always measured.
    """
    return (*sorted({n for n in ngrams if n < length}), length)


def locate(words: Any, context: str, query: str, template: str = TEMPLATE) -> Place:
    """Tokenize the prompt once and find the context in it; `words` is a local model that shows its
    tokens.

    A token that holds a character of the context belongs to the context, also where it holds others
    of the template: what is
    removed is removed whole. Raises UsageError or TargetError with a sentence.
    """
    before, after = _filled(template, query)
    text, start, special = _rendered(words.tokenizer, before, context, after)
    if not getattr(words.tokenizer, "is_fast", False):
        raise TargetError(
            "the tokenizer does not tell which characters a token stands for; use a fast one "
            "(tokenizer.json)."
        )
    encoded = words.tokenizer(text, add_special_tokens=special, return_offsets_mapping=True)
    ids, offsets = tuple(encoded["input_ids"]), encoded["offset_mapping"]
    inside = [
        i for i, (a, b) in enumerate(offsets) if a < start + len(context) and b > start and b > a
    ]
    if not inside:
        raise UsageError(
            "the context has no token; it must have at least one. Give a context that is not empty."
        )
    first, end = inside[0], inside[-1] + 1
    parts = Parts(ids[:first], ids[first:end], ids[end:])
    return Place(parts, _bounds([offsets[i][0] - start for i in range(first, end)], len(context)))


def _filled(template: str, query: str) -> tuple[str, str]:
    if template.count("{context}") != 1:
        raise UsageError(
            f"the template is {template!r}; it must hold {{context}} once, and {{query}} where "
            "the query stands."
        )
    before, after = (part.replace("{query}", query) for part in template.split("{context}"))
    return before, after


def _rendered(tokenizer: Any, before: str, context: str, after: str) -> tuple[str, int, bool]:
    """The text that is tokenized, where the context begins in it, and whether the tokenizer adds
    its start token.
    """
    text = before + context + after
    if not getattr(tokenizer, "chat_template", None):
        return text, len(before), True
    turn = [{"role": "user", "content": text}]
    chat = str(tokenizer.apply_chat_template(turn, add_generation_prompt=True, tokenize=False))
    at = chat.find(text.strip())
    if at < 0:
        raise TargetError(
            "the chat template rewrites the prompt, so the context cannot be found in it; use a "
            "template that keeps it."
        )
    return chat, at + len(before) - (len(text) - len(text.lstrip())), False


def _bounds(starts: list[int], length: int) -> Ids:
    """Non-decreasing, from 0 to the length of the text."""
    inner = [min(max(start, 0), length) for start in starts[1:]]
    return tuple(accumulate([0, *inner, length], max))
