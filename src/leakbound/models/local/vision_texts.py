"""Texts of prompts with images, with the chat template of a processor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from leakbound.models.chat import Chat
from leakbound.models.content import Image, Parts
from leakbound.models.local.hugging_face import Processor
from leakbound.models.local.text_ids import TextIds


class VisionTexts(TextIds):
    """Token ids of prompts and responses, with the chat template of a processor."""

    def __init__(self, processor: Processor) -> None:
        super().__init__(processor.tokenizer)
        self._processor = processor

    @property
    def chat(self) -> bool:
        """Whether prompts go through a chat template."""
        return bool(getattr(self._processor, "chat_template", None))

    def _render(self, turns: list[dict[str, str]]) -> str:
        made = [{**turn, "content": turn_content((turn["content"],))} for turn in turns]
        return rendered(self._processor, made)


def rendered(processor: Processor, turns: Sequence[Mapping[str, object]]) -> str:
    """Render turns as the model reads them."""
    return processor.apply_chat_template(turns, add_generation_prompt=True, tokenize=False)


def turn_content(parts: Sequence[str | Image]) -> list[dict[str, str]]:
    """The content of a turn in the form that processors expect."""
    return [{"type": "text", "text": p} if isinstance(p, str) else {"type": "image"} for p in parts]


def texts_in(prompt: str | Parts | Chat) -> list[str]:
    """The texts of a prompt."""
    if isinstance(prompt, Chat):
        return [message.content for message in prompt.messages]
    parts = prompt.parts if isinstance(prompt, Parts) else (prompt,)
    return [part for part in parts if isinstance(part, str)]
