"""Where the context stands in a prompt, as token ids, and the spans of it that are ablated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Protocol

from leakbound.errors import TargetError, UsageError

__all__ = [
    "TEMPLATE", "Ids", "LocatedContext", "PromptParts", "Span", "TokenModel", "blocks", "locate",
    "span_sizes",
]  # fmt: skip

Ids = tuple[int, ...]
Span = tuple[int, int]  # first token, and the one after the last
TEMPLATE = "Document: {context}\n\nQuestion: {query}\nAnswer:"


class OffsetTokenizer(Protocol):
    """What is used of a Hugging Face tokenizer."""

    is_fast: bool
    chat_template: str | None

    def __call__(
        self, text: str, *, add_special_tokens: bool, return_offsets_mapping: bool
    ) -> Mapping[str, list[int] | list[tuple[int, int]]]:
        """Token ids (`input_ids`) of a text, and their characters (`offset_mapping`)."""

    def apply_chat_template(
        self, turns: list[dict[str, str]], *, add_generation_prompt: bool, tokenize: bool
    ) -> str:
        """The prompt of a conversation."""


class TokenModel(Protocol):
    """A local model that shows its tokens."""

    @property
    def tokenizer(self) -> OffsetTokenizer:
        """The model's own tokenizer."""

    def encode_response(self, text: str) -> Sequence[int]:
        """Token ids of a response, without a start token."""

    def text(self, ids: Sequence[int], /) -> str:
        """The text of token ids."""

    def end_ids(self) -> frozenset[int]:
        """Tokens that end a response."""


@dataclass(frozen=True, slots=True, repr=False)
class PromptParts:
    """A prompt in three parts of token ids (PRIVATE).

    Attributes:
        head: What stands before the context, with any start token.
        context: The context, at least one token.
        tail: What stands after it.

    Raises:
        UsageError: If the context has no token, or nothing is left without it.

    Examples:
        >>> PromptParts((1,), (5, 6, 7), (2,)).without((1, 2))
        (1, 5, 7, 2)
        >>> PromptParts((1,), (5, 6, 7), (2,)).without((0, 1), (2, 3))
        (1, 6, 2)
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

    def without(self, *spans: Span) -> Ids:
        """The prompt with spans of the context ablated.

        Args:
            *spans: First token of the context, and the one after the last; in order and disjoint.
                Without any, the whole prompt.

        Returns:
            Token ids.
        """
        kept, at = list(self.head), 0
        for first, end in spans:
            kept += self.context[at:first]
            at = end
        return (*kept, *self.context[at:], *self.tail)

    @property
    def whole(self) -> Span:
        """The span that is the whole context."""
        return 0, len(self.context)


@dataclass(frozen=True, slots=True, repr=False)
class LocatedContext:
    """A context found in its prompt (PRIVATE).

    Attributes:
        parts: The prompt as token ids.
        bounds: (tokens + 1,) the character of the context's text at which each of its tokens
            begins, from 0 to its length.
    """

    parts: PromptParts
    bounds: Ids


def blocks(length: int, n: int, stride: int | None = None) -> tuple[Span, ...]:
    """Spans of n tokens: disjoint blocks, or sliding windows.

    Args:
        length: Tokens of the context.
        n: Tokens of a span, at least 1; the last block may be shorter.
        stride: Tokens from the beginning of one window to the next, from 1 to n; None for disjoint
            blocks.

    Returns:
        Spans that cover the context, in order.

    Raises:
        UsageError: If n or stride lies outside its range.

    Reference:
        CI: disjoint blocks in the definition, windows in the authors' code.

    Examples:
        >>> blocks(5, 2), blocks(5, 2, stride=1)
        (((0, 2), (2, 4), (4, 5)), ((0, 2), (1, 3), (2, 4), (3, 5)))
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


def span_sizes(length: int, ngrams: Sequence[int]) -> tuple[int, ...]:
    """The span sizes that are measured.

    Args:
        length: Tokens of the context.
        ngrams: Sizes that were asked for.

    Returns:
        Those below the context's length, in order, and the length itself: the whole context is
        always measured.

    Examples:
        >>> span_sizes(10, (8, 1, 128))
        (1, 8, 10)
    """
    return (*sorted({n for n in ngrams if n < length}), length)


def locate(model: TokenModel, context: str, query: str, template: str = TEMPLATE) -> LocatedContext:
    """Tokenize a prompt once and find the context in it.

    A token that holds a character of the context belongs to the context, also where it holds
    others of the template: what is ablated is ablated whole.

    Args:
        model: A local model that shows its tokens.
        context: The context (PRIVATE).
        query: The query about it.
        template: Must hold {context} once, and {query} where the query stands.

    Returns:
        The prompt in parts, and where its tokens stand in the context.

    Raises:
        UsageError: If the template or the context cannot be used.
        TargetError: If the tokenizer or the chat template hides where the context stands.
    """
    before, after = _filled(template, query)
    tokenizer = model.tokenizer
    text, start, special = _rendered(tokenizer, before, context, after)
    if not tokenizer.is_fast:
        raise TargetError(
            "the tokenizer does not tell which characters a token stands for; use a fast one "
            "(tokenizer.json)."
        )
    ids, offsets = _encoded(tokenizer, text, special)
    end = start + len(context)
    inside = [i for i, (a, b) in enumerate(offsets) if a < end and b > start and b > a]
    if not inside:
        raise UsageError(
            "the context has no token; it must have at least one. Give a context that is not empty."
        )
    first, last = inside[0], inside[-1] + 1
    parts = PromptParts(ids[:first], ids[first:last], ids[last:])
    bounds = _bounds([offsets[i][0] - start for i in range(first, last)], len(context))
    return LocatedContext(parts, bounds)


def _encoded(tokenizer: OffsetTokenizer, text: str, special: bool) -> tuple[Ids, list[Span]]:
    """Token ids of a text, and the characters of each."""
    found = tokenizer(text, add_special_tokens=special, return_offsets_mapping=True)
    ids: Ids = tuple(found["input_ids"])  # type: ignore[arg-type]
    offsets: list[Span] = list(found["offset_mapping"])  # type: ignore[arg-type]
    return ids, offsets


def _filled(template: str, query: str) -> tuple[str, str]:
    if template.count("{context}") != 1:
        raise UsageError(
            f"the template is {template!r}; it must hold {{context}} once, and {{query}} where "
            "the query stands."
        )
    before, after = (part.replace("{query}", query) for part in template.split("{context}"))
    return before, after


def _rendered(
    tokenizer: OffsetTokenizer, before: str, context: str, after: str
) -> tuple[str, int, bool]:
    """The text to tokenize, where the context begins, and whether it lacks a start token."""
    text = before + context + after
    if not tokenizer.chat_template:
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
