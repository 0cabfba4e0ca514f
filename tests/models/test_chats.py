"""Prompts that are chat messages: roles reach the model as they are, or the prompt is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chat_templates import CHATML, FORGETFUL, GEMMA, TAKE_SYSTEM

from leakbound.errors import TargetError, UsageError
from leakbound.models import (
    Answers,
    Cached,
    Capabilities,
    Chat,
    Complete,
    Endpoint,
    ScoreLabels,
    ScoreTokens,
    Scripted,
    open_model,
)
from leakbound.models.openai.requests import http_request_for
from leakbound.models.request import prompt_seed

TURNS = [
    {"role": "system", "content": " The door code of Marta is 48213.\n"},
    {"role": "user", "content": "user"},
    {"role": "assistant", "content": "system assistant user"},
    {"role": "user", "content": "What is the code?"},
]
CHAT = Chat.of(TURNS)
LABELS = ("yes", "48213", "quite another thing")


def instruct(pocket: Any, template: str | None) -> Any:
    """The pocket model behind a chat template."""
    local = pytest.importorskip("leakbound.models.local")
    sharing = pytest.importorskip("leakbound.models.local.engine.passes")
    pocket_folder = pytest.importorskip("leakbound.models.pocket").FOLDER
    transformers = pytest.importorskip("transformers")
    tokens = transformers.PreTrainedTokenizerFast.from_pretrained(pocket_folder)
    tokens.chat_template = template
    return local.TransformersModel(pocket.model, tokens, "tiny", "0", sharing=sharing.Sharing())


@pytest.mark.parametrize("template", TAKE_SYSTEM.values(), ids=TAKE_SYSTEM)
def test_a_chat_is_read_as_its_template_shows_it(pocket: Any, template: str) -> None:
    model = instruct(pocket, template)
    shown = model.tokenizer.apply_chat_template(TURNS, add_generation_prompt=True, tokenize=False)
    assert model.texts.shown(CHAT) == shown
    ids = tuple(model.tokenizer(shown, add_special_tokens=False)["input_ids"])
    assert model.encode(CHAT) == ids
    places = [shown[place.first : place.end] for place in model.texts.places(CHAT)]
    assert [text.strip() for text in places] == [turn["content"].strip() for turn in TURNS]
    assert places[1:] == [turn["content"] for turn in TURNS[1:]]
    behind = tuple(model.tokenizer(shown + LABELS[1], add_special_tokens=False)["input_ids"])
    assert sum(model.joined(CHAT, LABELS[1]), ()) == behind


def test_a_chat_is_answered_and_scored_by_what_the_template_shows(pocket: Any) -> None:
    model = instruct(pocket, CHATML)
    shown, label = model.joined(CHAT, LABELS[1])
    asked = [Complete(CHAT, 4, stop=()), ScoreLabels(CHAT, LABELS), ScoreTokens(CHAT, LABELS[1])]
    text, scores, tokens = model.answer(asked)
    assert text == model.answer([Complete(shown, 4, stop=())])[0]
    want = model.answer([ScoreTokens(shown, label)])[0]
    np.testing.assert_allclose(tokens, want, atol=1e-4)
    np.testing.assert_allclose(scores[1], want.sum(), atol=1e-4)
    said = [TURNS[1], *TURNS[1:]]  # the same without what the system message says
    assert abs(model.answer([ScoreLabels(Chat.of(said), LABELS)])[0][1] - scores[1]) > 0.01


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        (
            GEMMA,
            r"not accept these messages \(System role not supported\): system, user, assistant",
        ),
        (FORGETFUL, "leaves out message 1, of the system"),
        (None, "has no chat template, so it accepts one text and no messages"),
    ],
)
def test_a_system_message_that_would_not_be_read_is_refused(
    pocket: Any, template: str | None, reason: str
) -> None:
    model = instruct(pocket, template)
    with pytest.raises(TargetError, match=reason):
        model.check([ScoreLabels(CHAT, LABELS)])
    with pytest.raises(TargetError, match=reason):
        model.answer([Complete(CHAT, 2)])
    if template is not None:
        assert model.answer([Complete(Chat.of(TURNS[1:]), 2)])


def test_answers_are_kept_by_role_and_text(tmp_path: Path) -> None:
    """Another role, or the same words as one text, is another question."""
    pytest.importorskip("cryptography")
    asked: list[Any] = []

    def says(prompt: Any) -> str:
        asked.append(prompt)
        return "x"

    model = Cached(Scripted(complete=says, name="m"), Answers(tmp_path / "answers"))
    one = {"role": "user", "content": "Hi."}
    chats = [Chat.of([one]), Chat.of([{**one, "role": "system"}]), Chat.of([one, one])]
    prompts: list[Any] = [*chats, "Hi.", str(chats[0].plain())]
    for _ in range(2):
        model.answer([Complete(prompt) for prompt in prompts])
    assert asked == prompts
    assert len({prompt_seed(prompt) for prompt in prompts[:4]}) == 4


def test_an_endpoint_gets_messages_as_they_are() -> None:
    both = Capabilities(completions=True, chat=True, top_logprobs=5, first_tokens_differ=True)
    for can in (Capabilities(), both):
        sent = http_request_for(Complete(CHAT, 3), "m", can)
        assert (sent.path, sent.body["messages"]) == ("/chat/completions", TURNS)
        assert sent.size.prompt > sum(len(turn["content"]) for turn in TURNS)
    labels = http_request_for(ScoreLabels(CHAT, LABELS), "m", both)
    assert (labels.path, labels.body["messages"]) == ("/chat/completions", TURNS)


def test_an_endpoint_without_a_chat_refuses_messages() -> None:
    def opened(can: Capabilities) -> Any:
        endpoint = Endpoint(("http://127.0.0.1:1/v1",), capabilities=can)
        return open_model("openai/m", endpoint=endpoint)

    scoring = Capabilities(completions=True, chat=True, echo=True, echo_shift=0)
    with pytest.raises(TargetError, match="takes chat messages only with the capability chat"):
        opened(scoring).check([ScoreTokens(CHAT, "yes")])
    text_only = Capabilities(completions=True, chat=False)
    with pytest.raises(TargetError, match="takes chat messages only with the capability chat"):
        opened(text_only).check([Complete(CHAT)])
    opened(scoring).check([Complete(CHAT)])


def test_what_is_no_message_is_refused_and_none_is_shown() -> None:
    for messages, reason in (
        ([], "there is no message"),
        (["Hi."], "message 1 has no object"),
        ([{"content": "Hi."}], "message 1 has fields content"),
        ([{"role": "user", "content": "Hi.", "name": "Jo"}], "message 1 has fields content, name"),
        ([{"role": "robot", "content": "Hi."}], "the role of a message is 'robot'"),
        ([{"role": "user", "content": " "}], "of the user is blank or not a text"),
        ([{"role": "user", "content": [{"type": "text"}]}], "of the user is blank or not a text"),
    ):
        with pytest.raises(UsageError, match=reason):
            Chat.of(messages)  # type: ignore[arg-type]
    assert "48213" not in f"{CHAT!r} {CHAT.messages[0]!r} {Complete(CHAT)!r}"


PARTS_ONLY = "{% for message in messages %}{{ message['content'][0]['text'] }}{% endfor %}"
NEEDS_SYSTEM = (
    "{% if messages[0]['role'] != 'system' %}{{ raise_exception('no system message') }}{% endif %}"
)
ADDS = "{{ messages[0]['content'] + 1 }}"


@pytest.mark.parametrize("template", [PARTS_ONLY, NEEDS_SYSTEM, ADDS])
def test_a_template_that_fails_gets_a_sentence(pocket: Any, template: str) -> None:
    """For a plain text, too, which is the message of a user."""
    model = instruct(pocket, template)
    turns = Chat.of([{"role": "user", "content": "hello"}])
    for prompt in ("hello", turns):
        for request in (Complete(prompt, 4), ScoreLabels(prompt, LABELS)):
            with pytest.raises(
                TargetError, match=r"does not accept these messages|leaves out message 1"
            ):
                model.answer([request])
