"""A prompt that fits however it is tokenized is accepted without being tokenized."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leakbound.errors import TargetError
from leakbound.models import Complete, Model
from leakbound.models.local.text_ids import UNKNOWN, most_tokens, tokens_by_bytes

pytest.importorskip("torch")

pytestmark = pytest.mark.torch
ASCII = st.text(st.characters(max_codepoint=127), max_size=200)


class Built:
    """A tokenizer by its description."""

    def __init__(self, **changes: Any) -> None:
        from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

        self.backend_tokenizer = Tokenizer(changes.get("model", models.BPE()))
        level = pre_tokenizers.ByteLevel(add_prefix_space=changes.get("blank", False))
        self.backend_tokenizer.pre_tokenizer = changes.get("cut", level)
        if "normal" in changes:
            self.backend_tokenizer.normalizer = getattr(normalizers, changes["normal"])()

    def num_special_tokens_to_add(self, pair: bool = False) -> int:
        return 2


def test_the_number_is_known_of_byte_level_tokenizers_alone() -> None:
    from tokenizers import models, pre_tokenizers

    assert tokens_by_bytes(Built()) == tokens_by_bytes(Built(normal="NFC")) == 2  # type: ignore
    unknown: list[Any] = [
        object(), Built(normal="NFKC"), Built(blank=True), Built(model=models.WordLevel()),
        Built(cut=pre_tokenizers.Metaspace()), Built(cut=pre_tokenizers.Whitespace()),
        Built(model=models.BPE(byte_fallback=True)),
    ]  # fmt: skip
    assert [tokens_by_bytes(one) for one in unknown] == [None] * len(unknown)
    assert most_tokens("Stra\u00dfe", 1) == UNKNOWN  # a normalizer may write more characters


@settings(max_examples=60)
@given(ASCII)
def test_no_text_has_more_tokens(pocket: Model, text: str) -> None:
    tokenizer = pocket.tokenizer  # type: ignore[attr-defined]
    most = most_tokens(text, tokens_by_bytes(tokenizer))
    assert len(tokenizer(text)["input_ids"]) <= most < UNKNOWN


def test_only_a_prompt_that_may_not_fit_is_tokenized(
    pocket: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planning 30,000 pairs tokenized 60,000 prompts, most of its minute."""
    seen: list[str] = []
    plain = pocket.texts.plain
    monkeypatch.setattr(pocket.texts, "plain", lambda text, special: (
        seen.append(text), plain(text, special))[1])  # fmt: skip
    pocket.check([Complete("a note " * 100)])
    assert not seen
    long = "a note " * (pocket.window // 4)
    assert len(long) > pocket.window
    pocket.check([Complete(long)])
    assert seen == [long]
    with pytest.raises(TargetError, match=f"the window of .* is {pocket.window}; nothing was sent"):
        pocket.check([Complete(long * 4)])
