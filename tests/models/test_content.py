"""Text and images in order:

joining is concatenation, and nothing of a content shows where it should not.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakbound.errors import UsageError
from leakbound.models import Complete
from leakbound.models.content import (
    Image,
    Parts,
    content_key,
    content_size,
    fill,
    images_in,
    join,
    readable,
    text_only,
    without,
)
from leakbound.models.request import prompt_seed
from leakbound.tasks import Example, Query, Task
from leakbound.tasks.images import as_image

IMAGES = [as_image(np.full((4, 6, 3), shade, np.uint8)) for shade in (0, 90, 200)]
TEXTS = st.text("ab<> ", max_size=4)
CONTENTS = st.lists(st.one_of(TEXTS, st.sampled_from(IMAGES)), max_size=6)


def flat(content: object) -> list[object]:
    """Characters and images, one by one."""
    parts = content.parts if isinstance(content, Parts) else (content,)
    return [one for part in parts for one in (part if isinstance(part, str) else [part])]


@given(CONTENTS)
def test_joining_is_concatenation(contents: list[str | Image]) -> None:
    joined = join(contents)
    assert flat(joined) == [one for content in contents for one in flat(content)]
    assert isinstance(joined, str) == (not images_in(joined))
    if isinstance(joined, Parts):
        assert all(joined.parts)
        assert not any(
            isinstance(a, str) and isinstance(b, str)
            for a, b in zip(joined.parts, joined.parts[1:], strict=False)
        )


@given(CONTENTS, CONTENTS)
def test_contents_are_equal_where_their_keys_are(
    one: list[str | Image], other: list[str | Image]
) -> None:
    a, b = join(one), join(other)
    assert (a == b) == (content_key(a) == content_key(b))
    assert a != b or prompt_seed(a) == prompt_seed(b)


@given(TEXTS, TEXTS, st.sampled_from(IMAGES))
def test_a_filled_template_holds_the_content_at_the_slot(
    before: str, after: str, image: Image
) -> None:
    assert flat(fill(f"{before}{{x}}{after}", "{x}", image)) == [*before, image, *after]
    assert fill(f"{before}{{x}}{after}", "{x}", "word") == f"{before}word{after}"


def test_a_task_of_texts_renders_as_ever() -> None:
    task, rows = Task("t", ("a", "b")), (Example("one", "a"), Example("two", "b"))
    assert task.prompt(rows, Query("three")) == (
        "Label each input with one of: a, b.\n\nInput: one\nLabel: a\n\nInput: two\nLabel: "
        "b\n\nInput: three\nLabel:"
    )


def test_a_task_of_images_keeps_them_in_their_places() -> None:
    prompt = Task("t", ("a", "b")).prompt((Example(IMAGES[0], "a"),), Query(IMAGES[1]))
    assert isinstance(prompt, Parts)
    assert prompt.parts[1::2] == (IMAGES[0], IMAGES[1])
    assert prompt.parts[2] == "\nLabel: a\n\nInput: "


def test_nothing_private_is_shown() -> None:
    prompt = join(("secret", IMAGES[0]))
    told = " ".join(map(repr, (IMAGES[0], prompt, Complete(prompt), Example(prompt, "a"))))
    assert "secret" not in told
    assert "PNG" not in told
    assert IMAGES[0].sha256 not in told
    assert readable(prompt) == "secret[an image of 6 x 4 pixels]"
    assert content_size(prompt) == "6 characters, an image of 6 x 4 pixels"
    assert without(prompt, IMAGES[0], "[canary]") == "secret[canary]"
    assert without(prompt, "cre", "-") == join(("se-t", IMAGES[0]))


def test_who_needs_a_text_says_so() -> None:
    assert text_only("x", "tuning") == "x"
    with pytest.raises(UsageError, match="tuning takes texts only"):
        text_only(IMAGES[0], "tuning")
