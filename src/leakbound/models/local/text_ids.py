"""Convert texts to token ids as the model was trained to read them.

A prompt and its continuation are tokenized together: the tokens of a response may depend on the
text before it, and a response after a chat template has no leading blank.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

from jinja2 import TemplateError

from leakbound.errors import TargetError
from leakbound.models.content import Chat
from leakbound.models.local.engine.prefixes import Ids, alike
from leakbound.models.local.hugging_face import Tokenizer

Turns = list[dict[str, str]]
FAILURES = (TemplateError, TypeError, ValueError, LookupError, AttributeError)  # in templates
MARK = "\ue0aa{}\ue0ab"  # characters for private use, which no template contains


@dataclass(frozen=True, slots=True)
class ShownMessage:
    """The position of a message in the text that the model reads."""

    first: int
    end: int
    skipped: int


class _ChatTemplate:
    """Renders messages as a model reads them, and refuses what its template would not show."""

    def __init__(self, render: Callable[[Turns], str]) -> None:
        self._render = render
        self._frames: dict[tuple[str, ...], str] = {}  # by roles, without message texts

    def shown(self, turns: Turns) -> str:
        self._frame(tuple(turn["role"] for turn in turns))
        return self._rendered(turns)

    def places(self, chat: Chat, shown: str) -> tuple[ShownMessage, ...]:
        frame, at, found = self._frame(chat.roles), 0, []
        for number, message in enumerate(chat.messages):
            before, _, frame = frame.partition(MARK.format(number))
            after = frame.partition(MARK.format(number + 1))[0]
            forms = (message.content, message.content.strip(), message.content.lstrip())
            first = at + len(before)
            fits = (form for form in forms if shown.startswith(before + form + after, at))
            form = next(fits, None)
            if form is None:
                raise TargetError(
                    f"the chat template rewrites the prompt ({_name(number, message.role)}), so "
                    "the context cannot be found in it; use a template that keeps it."
                )
            blanks = len(message.content) - len(message.content.lstrip())
            skipped = 0 if form is message.content else blanks
            at = first + len(form)
            found.append(ShownMessage(first, at, skipped))
        return tuple(found)

    def _frame(self, roles: tuple[str, ...]) -> str:
        if roles not in self._frames:
            marks = [{"role": r, "content": MARK.format(n)} for n, r in enumerate(roles)]
            frame = self._rendered(marks)
            for number, role in enumerate(roles):
                if MARK.format(number) not in frame:
                    raise TargetError(
                        f"the chat template leaves out {_name(number, role)}, so the model would "
                        "never read it; put its text into the message of the user."
                    )
            self._frames[roles] = frame
        return self._frames[roles]

    def _rendered(self, turns: Turns) -> str:
        try:
            return self._render(turns)
        except FAILURES as error:
            why = error if isinstance(error, TemplateError) else type(error).__name__
            raise TargetError(
                f"the chat template of this model does not accept these messages ({why}): "
                f"{', '.join(turn['role'] for turn in turns)}. Put the text of a system message "
                "into that of the user, and let user and assistant take turns."
            ) from None


def _name(number: int, role: str) -> str:
    return f"message {number + 1}, of the {role}"


Spans = Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True, repr=False)
class _JoinedIds:
    """A prompt and the response after it, tokenized together (PRIVATE)."""

    prompt: Ids
    spans: Spans | None
    response: Ids


class TextIds:
    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        # how many special tokens, such as an end of text, the tokenizer adds after a text
        alone = tokenizer("a", add_special_tokens=False)["input_ids"]
        found = tokenizer("a")["input_ids"]
        last = max((n for n, token in enumerate(found) if token in alone), default=len(found) - 1)
        self._ending = len(found) - 1 - last
        self._template = _ChatTemplate(self._render)

    @property
    def chat(self) -> bool:
        return bool(getattr(self.tokenizer, "chat_template", None))

    def plain(self, text: str, special: bool) -> Ids:
        found: Ids = tuple(self.tokenizer(text, add_special_tokens=special)["input_ids"])
        return found[: len(found) - self._ending] if special else found

    def prompt(self, prompt: str | Chat) -> Ids:
        return self.plain(self.shown(prompt), not self.chat) or (self.first(),)

    def shown(self, prompt: str | Chat) -> str:
        if isinstance(prompt, Chat):
            if not self.chat:
                raise TargetError(
                    "the model has no chat template, so it accepts one text and no messages; use "
                    "an instruct model, or put everything into one text."
                )
            return self._template.shown(prompt.plain())
        return self._template.shown([{"role": "user", "content": prompt}]) if self.chat else prompt

    def places(self, chat: Chat) -> tuple[ShownMessage, ...]:
        """The position of each message in the result of `shown`."""
        return self._template.places(chat, self.shown(chat))

    def joined(self, prompt: str | Chat, response: str) -> tuple[Ids, Ids]:
        """Token ids of a prompt and of the response after it, tokenized together."""
        if not response:
            return self.prompt(prompt), ()
        found = self.encoded(self.shown(prompt), response)
        return found.prompt or (self.first(),), found.response

    def encoded(self, shown: str, response: str = "") -> _JoinedIds:
        """Token ids of a prompt, with their characters, and of the response after it."""
        special = not self.chat
        ids, spans = self._with_spans(shown + self._seam(shown, response) + response, special)
        if spans is None:
            at = alike(ids, self.plain(shown, special)) if response else len(ids)
            return _JoinedIds(ids[:at], None, ids[at:])
        ends = (n for n, (_, end) in enumerate(spans) if end > len(shown))
        at = next(ends, len(ids))
        return _JoinedIds(ids[:at], spans[:at], ids[at:])

    def behind(self, ids: Ids, response: str) -> Ids:
        """Token ids of a response after a prompt that is already token ids."""
        if self.chat and not ids:
            return self.joined("", response)[1]
        decoded = str(self.tokenizer.decode(ids[-1:], skip_special_tokens=True))
        last = decoded or ("" if self.chat else "a")  # as behind a word
        ids, spans = self._with_spans(last + self._seam(last, response) + response, special=False)
        if spans is None or any(first < len(last) < end for first, end in spans):
            return self.plain(self._seam(last, response) + response, special=False)
        return tuple(i for i, (_, end) in zip(ids, spans, strict=True) if end > len(last))

    def first(self) -> int:
        """The token that begins a row if there is no other."""
        ids = (self.tokenizer.bos_token_id, self.tokenizer.eos_token_id, 0)
        return int(next(i for i in ids if i is not None))

    def _render(self, turns: list[dict[str, str]]) -> str:
        how = {"add_generation_prompt": True, "tokenize": False}
        return str(self.tokenizer.apply_chat_template(turns, **how))

    def _seam(self, before: str, response: str) -> str:
        none = self.chat or not response or response[0].isspace() or before[-1:].isspace()
        return "" if none else " "

    def _with_spans(self, text: str, special: bool) -> tuple[Ids, Spans | None]:
        """Token ids and the characters of each; None if the tokenizer does not report them."""
        try:
            found = self.tokenizer(text, add_special_tokens=special, return_offsets_mapping=True)
        except NotImplementedError:  # tokenizers written in Python
            return self.plain(text, special), None
        ids: Ids = tuple(found["input_ids"])
        count = len(ids) - (self._ending if special else 0)
        return ids[:count], found["offset_mapping"][:count]


# --- lengths without tokenizing

Part: TypeAlias = Mapping[str, object]
# allowed before a byte-level tokenizer: these steps split a text and add nothing to it
CUTS = frozenset({"Sequence", "Split", "ByteLevel", "Digits", "Punctuation", "Whitespace"})
COMPOSES = "NFC"  # changes no ASCII text
UNKNOWN = math.inf  # for a text that must be tokenized


@runtime_checkable
class _Fast(Protocol):
    """A tokenizer that describes how it is built."""

    backend_tokenizer: Any

    def num_special_tokens_to_add(self) -> int: ...


def tokens_by_bytes(tokenizer: Tokenizer) -> int | None:
    """Special tokens of byte-level BPE, whose other tokens are a byte of the text at least."""
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
    return UNKNOWN if special is None or not text.isascii() else len(text) + special


def _parts(part: Part | None) -> Iterator[Part]:
    if part is None:
        return
    yield part
    for key in ("pretokenizers", "normalizers"):
        inner = part.get(key)
        for one in inner if isinstance(inner, list) else ():
            yield from _parts(one)
