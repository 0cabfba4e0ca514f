"""Texts as token ids, as the model was trained to read them.

A prompt and what follows it are tokenized together: the tokens of a response may depend on what
stands before it, and a response behind a chat template has no blank before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from leakbound.models.local.hugging_face import Tokenizer
from leakbound.models.local.prefixes import Ids, alike

__all__ = ["TextIds"]

Spans = Sequence[tuple[int, int]]


class TextIds:
    """Token ids of prompts and responses.

    Args:
        tokenizer: Of the model.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self._ending = self._added_behind()

    @property
    def chat(self) -> bool:
        """Whether prompts go through a chat template."""
        return bool(getattr(self.tokenizer, "chat_template", None))

    def plain(self, text: str, special: bool) -> Ids:
        """Token ids of a text.

        Args:
            text: The text.
            special: Whether the tokenizer may put special tokens before it; those that it puts
                behind a text are left out, because more text follows.

        Returns:
            Token ids, perhaps none.
        """
        found = tuple(
            cast(Sequence[int], self.tokenizer(text, add_special_tokens=special)["input_ids"])
        )
        return found[: len(found) - self._ending] if special else found

    def prompt(self, text: str) -> Ids:
        """Token ids of a prompt, through the chat template of a chat model.

        Args:
            text: The prompt.

        Returns:
            At least one token id.
        """
        return self.plain(self.shown(text), not self.chat) or (self.first(),)

    def shown(self, text: str) -> str:
        """A prompt as the model reads it.

        Args:
            text: The prompt.

        Returns:
            The text, within the chat template of a chat model.
        """
        if not self.chat:
            return text
        turn = [{"role": "user", "content": text}]
        return self.tokenizer.apply_chat_template(turn, add_generation_prompt=True, tokenize=False)

    def joined(self, text: str, response: str) -> tuple[Ids, Ids]:
        """Token ids of a prompt and of the response behind it, tokenized together.

        Args:
            text: The prompt.
            response: The response. Without a chat template, one blank is put before it where there
                is none at the seam.

        Returns:
            Both. A token that holds text of both is the response's.
        """
        before = self.shown(text)
        whole = before + self._seam(before, response) + response
        if not response:
            return self.prompt(text), ()
        ids, spans = self._with_spans(whole, not self.chat)
        if spans is None:
            at = alike(ids, self.prompt(text))
        else:
            ends = (n for n, (_, end) in enumerate(spans) if end > len(before))
            at = next(ends, len(ids))
        return ids[:at] or (self.first(),), ids[at:]

    def response(self, text: str) -> Ids:
        """Token ids of a response behind no prompt in particular.

        Args:
            text: The response.

        Returns:
            As behind a text that ends with a word; behind an empty prompt of a chat model.
        """
        if self.chat:
            return self.joined("", text)[1]
        return self.plain(self._seam("a", text) + text, False)

    def first(self) -> int:
        """The token that begins a row where there is no other."""
        ids = (self.tokenizer.bos_token_id, self.tokenizer.eos_token_id, 0)
        return int(next(i for i in ids if i is not None))

    def _seam(self, before: str, response: str) -> str:
        """The blank between a prompt and a response."""
        none = self.chat or not response or response[0].isspace() or before[-1:].isspace()
        return "" if none else " "

    def _with_spans(self, text: str, special: bool) -> tuple[Ids, Spans | None]:
        """Token ids, and the characters of each; None from tokenizers that do not tell them."""
        try:
            found = self.tokenizer(text, add_special_tokens=special, return_offsets_mapping=True)
        except NotImplementedError:  # tokenizers written in Python
            return self.plain(text, special), None
        ids = tuple(cast(Sequence[int], found["input_ids"]))
        count = len(ids) - (self._ending if special else 0)
        return ids[:count], cast(Spans, found["offset_mapping"])[:count]

    def _added_behind(self) -> int:
        """How many special tokens, such as an end of text, the tokenizer puts behind a text."""
        alone = cast(Sequence[int], self.tokenizer("a", add_special_tokens=False)["input_ids"])
        found = cast(Sequence[int], self.tokenizer("a")["input_ids"])
        last = max((n for n, token in enumerate(found) if token in alone), default=len(found) - 1)
        return len(found) - 1 - last
