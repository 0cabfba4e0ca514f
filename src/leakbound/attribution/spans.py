"""Find the context in a prompt, as token ids, and the spans of it that are ablated.

Units of the text that people think in (documents, paragraphs, lines, sentences, chunks) are found
with exact characters, and ablated as the tokens that contain them.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from leakbound.attribution.cases import Case
from leakbound.errors import TargetError, UsageError
from leakbound.models import Chat, ChatMessage

if TYPE_CHECKING:
    from leakbound.models.local import TransformersModel
    from leakbound.models.local.text_ids import ShownMessage, TextIds


TEMPLATE = "Document: {context}\n\nQuestion: {query}\nAnswer:"
Ids = tuple[int, ...]
Span = tuple[int, int]  # first token and end (exclusive)


@dataclass(frozen=True, slots=True, repr=False)
class PromptParts:
    """A prompt in parts of token ids (PRIVATE).

    Attributes:
        head: Tokens before the context, with any start token.
        context: The context, at least one token.
        tail: Tokens after the context.
        fixed: Token ids within the context that are never ablated, such as those between two
            messages, each with the index of the context token that they precede.

    Raises:
        UsageError: If the context has no token, or nothing is left without it.

    Examples:
        >>> PromptParts((1,), (5, 6, 7), (2,)).without((1, 2))
        (1, 5, 7, 2)
        >>> PromptParts((1,), (5, 6, 7), (2,)).without((0, 1), (2, 3))
        (1, 6, 2)
        >>> PromptParts((1,), (5, 6, 7), (2,), ((1, (9,)),)).without((0, 2))
        (1, 9, 7, 2)
    """

    head: Ids
    context: Ids
    tail: Ids
    fixed: tuple[tuple[int, Ids], ...] = ()

    def __post_init__(self) -> None:
        if not self.context:
            raise UsageError(
                "the context has no token; it must have at least one. Give a context that is not "
                "empty."
            )
        if not self.head + self.tail:
            raise UsageError(
                "the prompt is empty without the context; add a query or a start token."
            )

    def without(self, *spans: Span) -> Ids:
        """The prompt with spans of the context ablated.

        Args:
            *spans: First context token and end (exclusive) of each span, in order and disjoint.
                Without any, the whole prompt.
        """
        kept, begin = list(self.head), 0
        for end, between in (*self.fixed, (len(self.context), ())):
            kept += self._kept(begin, end, spans)
            kept += between
            begin = end
        return (*kept, *self.tail)

    def _kept(self, begin: int, end: int, spans: Sequence[Span]) -> list[int]:
        """The context tokens in an index range that no span ablates."""
        kept: list[int] = []
        for first, last in spans:
            if last > begin and first < end:
                kept += self.context[begin:first]
                begin = last
        return [*kept, *self.context[begin:end]]

    @property
    def places(self) -> Ids:
        """Where each context token stands in the whole prompt."""
        shift = [len(self.head)] * len(self.context)
        for before, between in self.fixed:
            shift[before:] = [one + len(between) for one in shift[before:]]
        return tuple(at + one for at, one in enumerate(shift))

    @property
    def whole(self) -> Span:
        """The span of the whole context."""
        return 0, len(self.context)


@dataclass(frozen=True, slots=True, repr=False)
class LocatedContext:
    """A context found in its prompt (PRIVATE).

    Attributes:
        parts: The prompt as token ids.
        bounds: (tokens + 1,) the character of the context's text where each of its tokens begins,
            from 0 to its length.
        response: Token ids of the response of the case; None if it has none.
    """

    parts: PromptParts
    bounds: Ids
    response: Ids | None = None


def blocks(length: int, n: int, stride: int | None = None) -> tuple[Span, ...]:
    """Spans of n tokens: disjoint blocks, or sliding windows.

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
    return (*sorted({n for n in ngrams if n < length}), length)


@dataclass(frozen=True, slots=True)
class _ContextPiece:
    message: int
    begin: int
    first: int
    length: int


@dataclass(frozen=True, slots=True, repr=False)
class _ContextPrompt:
    """A prompt, and the pieces of the context in it (PRIVATE)."""

    prompt: Chat
    pieces: tuple[_ContextPiece, ...]
    messages: bool


def prompt_of(case: Case, template: str = TEMPLATE, system: str = "") -> _ContextPrompt:
    if case.roles:
        return _of_messages(case, template, system)
    if template == TEMPLATE and "{context}" in system:
        template = "{query}"
    if (system + template).count("{context}") != 1:
        where = "they" if system else "it"
        raise UsageError(
            f"the template is {template!r}{f' and the system message {system!r}' * bool(system)}; "
            f"{where} must hold {{context}} once, and {{query}} where the query stands."
        )
    forms = [("system", system)] * bool(system) + [("user", template)]
    messages = tuple(ChatMessage(role, _fill(text, case)) for role, text in forms)
    at = next(n for n, (_, text) in enumerate(forms) if "{context}" in text)
    begin = len(forms[at][1].partition("{context}")[0].replace("{query}", case.query))
    piece = _ContextPiece(at, begin, 0, len(case.context))
    return _ContextPrompt(Chat(messages), (piece,), bool(system))


def _fill(template: str, case: Case) -> str:
    before, slot, after = template.partition("{context}")
    parts = (part.replace("{query}", case.query) for part in (before, after))
    return (case.context if slot else "").join(parts)


def _of_messages(case: Case, template: str, system: str) -> _ContextPrompt:
    if system or template != TEMPLATE:
        raise UsageError(
            "the context is chat messages, which are shown as they are; leave out the template "
            "and the system message."
        )
    spans = [(first, end) for _, first, end in case.sources]
    messages = [
        ChatMessage(role, case.context[first:end])
        for role, (first, end) in zip(case.roles, spans, strict=True)
    ]
    asked = [ChatMessage("user", case.query)] * bool(case.query)
    pieces = (_ContextPiece(n, 0, a, b - a) for n, (a, b) in enumerate(spans))
    return _ContextPrompt(Chat((*messages, *asked)), tuple(pieces), True)


def locate(
    model: TransformersModel, case: Case, template: str = TEMPLATE, system: str = ""
) -> LocatedContext:
    """Tokenize a prompt together with its response, and find the context in it.

    A token with a character of the context belongs to the context, even if it also has characters
    of the template: tokens are ablated whole. A token with the end of the prompt and the beginning
    of the response belongs to the response.

    Args:
        model: A local model that shows its tokens.
        case: The context (PRIVATE), with its query and optionally a response.
        template: The user message, or the whole prompt of a model without messages. It contains
            {context} once, unless the system message does, and {query} in the place of the query.
        system: Template of the system message; "" for none.

    Returns:
        The prompt in parts, the position of its tokens in the context, and the response.

    Raises:
        UsageError: If the template or the context cannot be used.
        TargetError: If the tokenizer or the chat template hides the position of the context, or the
            model does not support such messages.
    """
    asked, texts = prompt_of(case, template, system), model.texts
    shown, pieces = _show(texts, asked)
    found = texts.encoded(shown, case.response or "")
    if found.spans is None:
        raise TargetError(
            "the tokenizer does not report which characters each token covers; use a fast "
            "tokenizer (tokenizer.json)."
        )
    # assign each token to one piece. A token with the end of one piece and the beginning of the
    # next belongs to the first
    inside = [
        [at for at, (a, b) in enumerate(found.spans) if a < one.end and b > one.first and b > a]
        for one in pieces
    ]
    tokens = [(each[0], each[-1] + 1) if each else (0, 0) for each in inside]
    ends = accumulate((end for _, end in tokens), max, initial=0)
    tokens = [(max(first, before), end) for (first, end), before in zip(tokens, ends, strict=False)]
    if not all(first < end for first, end in tokens):
        raise UsageError(
            "the context has no token; it must have at least one. Give a context that is not empty."
        )
    starts = [
        found.spans[at][0] - piece.shift
        for piece, (first, end) in zip(pieces, tokens, strict=True)
        for at in range(first, end)
    ]
    # character positions that never decrease, from 0 to the length of the text
    length = len(case.context)
    inner = [min(max(start, 0), length) for start in starts[1:]]
    return LocatedContext(
        _parts(found.prompt, tokens),
        tuple(accumulate([0, *inner, length], max)),
        None if case.response is None else found.response,
    )


@dataclass(frozen=True, slots=True)
class _Shown:
    """A piece of the context in the text that the model reads, and the shift of its positions."""

    first: int
    end: int
    shift: int


def _show(texts: TextIds, asked: _ContextPrompt) -> tuple[str, list[_Shown]]:
    """The text that the model reads, and the positions of the context's pieces in it."""
    if not texts.chat and not asked.messages:
        (message,), (piece,) = asked.prompt.messages, asked.pieces
        place = _Shown(piece.begin, piece.begin + piece.length, piece.begin - piece.first)
        return message.content, [place]
    places = texts.places(asked.prompt)
    return texts.shown(asked.prompt), [
        _within(places[piece.message], piece) for piece in asked.pieces
    ]


def _within(place: ShownMessage, piece: _ContextPiece) -> _Shown:
    """Leave out blanks of a message that the template leaves out."""
    begin = place.first - place.skipped + piece.begin
    first, end = max(begin, place.first), min(begin + piece.length, place.end)
    return _Shown(first, end, begin - piece.first)


def _parts(ids: Ids, tokens: Sequence[Span]) -> PromptParts:
    """The context is every piece; the tokens between two pieces are fixed."""
    context: Ids = ()
    fixed: list[tuple[int, Ids]] = []
    for at, (first, end) in enumerate(tokens):
        if at:
            fixed.append((len(context), ids[tokens[at - 1][1] : first]))
        context += ids[first:end]
    return PromptParts(ids[: tokens[0][0]], context, ids[tokens[-1][1] :], tuple(fixed))


DOCUMENT = "document"
MESSAGE = "message"
WHOLE_TEXT = ("sentence", "line", "paragraph", DOCUMENT, MESSAGE)
SIZED = ("chunk", "tokens")
# Where a sentence may end: a mark with closing quotes and a blank, a Chinese or Japanese mark
# without a blank, or an empty line.
END = re.compile(r"""[.!?…]+["'”’»)\]]*\s+|[。！？]+[」』”’）]*\s*|\s*\n\s*\n\s*""")
EMPTY_LINE = re.compile(r"\n\s*\n")
ABBREVIATIONS = frozenset((
    "mr", "mrs", "ms", "dr", "prof", "st", "jr", "sr", "vs", "e.g", "i.e", "cf", "al", "nos", "fig",
    "figs", "eq", "vol", "pp", "eds", "inc", "ltd", "corp", "dept", "est", "approx", "ca", "jan",
    "feb", "mar", "apr", "jun", "jul", "aug", "sep", "sept", "oct", "nov", "dec",
))  # fmt: skip


@dataclass(frozen=True, slots=True)
class UnitKind:
    """A kind of unit.

    Attributes:
        name: `sentence`, `line`, `paragraph`, `document`, `message`, `chunk` or `tokens`.
        size: The most characters of a chunk, or the tokens of a block; None for other kinds.
    """

    name: str
    size: int | None = None

    @classmethod
    def parse(cls, text: str) -> UnitKind:
        """Read a kind from its name.

        Examples:
            >>> UnitKind.parse("chunk:200")
            UnitKind(name='chunk', size=200)
        """
        name, colon, size = text.strip().partition(":")
        if name in WHOLE_TEXT and not colon:
            return cls(name)
        if name in SIZED and size.isdecimal() and int(size) > 0:
            return cls(name, int(size))
        raise UsageError(
            f"the unit is {text!r}; it must be {', '.join(WHOLE_TEXT)}, chunk:N (at most N "
            "characters, cut between words) or tokens:N, with N at least 1."
        )

    def __str__(self) -> str:
        return self.name if self.size is None else f"{self.name}:{self.size}"


@dataclass(frozen=True, slots=True, repr=False)
class TextUnit:
    name: str
    characters: Span
    source: int | None = None


def find_units(
    text: str, kind: UnitKind, sources: Sequence[tuple[str, int, int]] = ()
) -> tuple[TextUnit, ...]:
    """Find the units of a context, in order. No unit crosses from one source to another."""
    if kind.name in (DOCUMENT, MESSAGE):
        _require_sources(kind, sources)
        return tuple(TextUnit(name, (a, b), at) for at, (name, a, b) in enumerate(sources))
    found: list[TextUnit] = []
    for at, (name, first, end) in enumerate(sources or (("", 0, len(text)),)):
        prefix = f"{name}, " if name else ""
        found += [
            TextUnit(f"{prefix}{kind.name} {number}", span, at if sources else None)
            for number, span in enumerate(_pieces(text, first, end, kind), 1)
        ]
    if not found:
        raise UsageError(f"the context has no {kind.name}; give a context that is not blank.")
    return tuple(found)


def _require_sources(kind: UnitKind, sources: Sequence[tuple[str, int, int]]) -> None:
    if kind.name == DOCUMENT and len(sources) < 2:
        raise UsageError(
            f"the context has {len(sources) or 'no'} named source{'s' * (len(sources) != 1)}, and "
            "--by document needs at least two: give --context more than once, or a .jsonl file "
            'with {"question": ..., "chunks": [{"id": ..., "text": ...}, ...]} in each row.'
        )
    if not sources:
        raise UsageError(
            "the context is not a chat, and --by message needs one: give chat messages, such as a "
            '.jsonl file with {"messages": [{"role": "system", "content": "..."}, ...]} in each '
            "row."
        )


def _pieces(text: str, first: int, end: int, kind: UnitKind) -> Iterator[Span]:
    """Spans of a part of the text, without blanks at their ends."""
    if kind.name == "sentence":
        cuts: Iterable[int] = _sentence_cuts(text, first, end)
    elif kind.name == "paragraph":
        cuts = (match.end() for match in EMPTY_LINE.finditer(text, first, end))
    elif kind.name == "line":
        cuts = (at + 1 for at in range(first, end) if text[at] == "\n")
    else:
        cuts = _chunk_cuts(text, first, end, kind.size or 1)
    begin = first
    for cut in (*cuts, end):
        if text[begin:cut].strip():
            piece = text[begin:cut]
            yield (cut - len(piece.lstrip()), begin + len(piece.rstrip()))
        begin = cut


def _sentence_cuts(text: str, first: int, end: int) -> Iterator[int]:
    begin = first
    for match in END.finditer(text, first, end):
        if EMPTY_LINE.search(match[0]) or not _goes_on(text, begin, match, end):
            yield match.end()
            begin = match.end()


def _goes_on(text: str, begin: int, match: re.Match[str], end: int) -> bool:
    """Whether the mark ends an abbreviation, initial or number, or a lower-case letter follows."""
    after = text[match.end() : match.end() + 1] if match.end() < end else ""
    if after.islower():
        return True
    sentence = text[begin : match.start()].strip()
    word = sentence.rpartition(" ")[2].lstrip("(\"'“‘[")
    if match[0][0] != "." or match[0].startswith(".."):
        return False
    initial = len(word) == 1 and word.isupper()
    return initial or word.lower() in ABBREVIATIONS or (word == sentence and word.isdecimal())


def _chunk_cuts(text: str, first: int, end: int, size: int) -> Iterator[int]:
    """End each chunk after the last blank that fits; a longer word is cut."""
    begin = first
    while end - begin > size:
        blank = next((at for at in range(begin + size, begin, -1) if text[at].isspace()), None)
        begin = begin + size if blank is None else blank + 1
        yield begin


def unit_spans(
    units: Sequence[TextUnit], text: str, bounds: Sequence[int]
) -> tuple[tuple[TextUnit, Span], ...]:
    """The tokens of each unit, by first non-blank characters; a unit without any joins another."""
    starts = [unit.characters[0] for unit in units]
    owners = [max(0, bisect_right(starts, at) - 1) for at in _places(text, bounds)]
    owners[0] = 0
    found: list[tuple[TextUnit, Span]] = []
    for at, unit in enumerate(units):
        first, end = bisect_right(owners, at - 1), bisect_right(owners, at)
        if first < end:
            found.append((unit, (first, end)))
        else:
            one = found[-1][0]
            characters = one.characters[0], unit.characters[1]
            found[-1] = (
                TextUnit(f"{one.name} and {unit.name}", characters, one.source),
                found[-1][1],
            )
    return tuple(found)


def _places(text: str, bounds: Sequence[int]) -> Iterator[int]:
    """The first non-blank character of each token, or its first one."""
    for first, end in pairwise(bounds):
        piece = text[first:end]
        yield first + (len(piece) - len(piece.lstrip()) if piece.strip() else 0)
