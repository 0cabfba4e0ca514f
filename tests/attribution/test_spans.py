"""Where the context stands in the ids:

the prompt's own ids, any text, chat templates, tokenizers without a start token.
"""

from __future__ import annotations

import copy
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leakbound.attribution import Case, locate
from leakbound.attribution.spans import TEMPLATE
from leakbound.errors import TargetError, UsageError

pytestmark = pytest.mark.torch

CHAT = (
    "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] | trim }}\n{% endfor %}<|assistant|>"
)


class Words:
    """The pocket tokenizer with something changed about it."""

    def __init__(self, model: Any, **changes: Any) -> None:
        text_ids = pytest.importorskip("leakbound.models.local.text_ids")
        self.tokenizer = copy.deepcopy(model.tokenizer)
        for name, value in changes.items():
            setattr(self.tokenizer, name, value)
        self.texts = text_ids.TextIds(self.tokenizer)


@pytest.mark.slow
@given(
    text=st.text(
        st.characters(codec="utf-8", exclude_characters="\r"), min_size=1, max_size=60
    ).filter(str.strip)
)
@settings(max_examples=60, deadline=None)
def test_any_text_is_found_whole(pocket: Any, text: str) -> None:
    place = locate(pocket, Case(text, "Who {context} {query}?"))
    assert place.parts.without() == pocket.encode(
        f"Document: {text}\n\nQuestion: Who {{context}} {{query}}?\nAnswer:"
    )
    assert "".join(text[a:b] for a, b in pairwise(place.bounds)) == text
    assert place.parts.head[0] == 1
    before = pocket.text(place.parts.head[1:])
    assert "Document:".startswith(before.strip())


def test_a_chat_template_is_kept_around_the_context(pocket: Any) -> None:
    words = Words(pocket, chat_template=CHAT)
    text = "The door code of Marta is 48213."
    place = locate(words, Case(text, "What is it?"), "  \n" + TEMPLATE)
    assert "user" in pocket.text(place.parts.head)
    assert pocket.text(place.parts.context).strip() == text
    assert pocket.text(place.parts.tail).endswith("<|assistant|>")
    assert place.parts.head[0] != 1  # the template writes its own start


def test_what_cannot_be_found_is_said(pocket: Any) -> None:
    shouting = CHAT.replace("trim", "upper")
    with pytest.raises(TargetError, match="rewrites the prompt"):
        locate(Words(pocket, chat_template=shouting), Case("a secret", "q"))
    with pytest.raises(UsageError, match="once"):
        locate(pocket, Case("a", "q"), "{context} {context}")
