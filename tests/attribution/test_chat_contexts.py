"""Influence over instruct models: the context in a message of one's choice, or chat messages."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chat_templates import CHATML, GEMMA, LLAMA_3, TAKE_SYSTEM
from click.testing import CliRunner

import leakbound
from leakbound.attribution import Case, case_of_messages, load_cases, load_influence, locate
from leakbound.attribution.spans import TEMPLATE
from leakbound.cli.verbs.attribute.influence import command
from leakbound.errors import DataError, LeakboundError, TargetError, UsageError
from leakbound.models import Chat, ScoreTokens

pytest.importorskip("torch")
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast

from leakbound.models.local import TransformersModel
from leakbound.models.local.engine.passes import Sharing
from leakbound.models.pocket import FOLDER

pytestmark = pytest.mark.torch

FACT, QUERY = "The door code of Marta is 48213.", "What is the door code of Marta?"
TURNS = [
    {"role": "system", "content": "The morning was grey. It rained."},
    {"role": "user", "content": f"  {FACT} "},
    {"role": "assistant", "content": "A small dog slept."},
    {"role": "user", "content": QUERY},
]


def model_with(pocket: Any, **changes: Any) -> Any:
    tokens = PreTrainedTokenizerFast.from_pretrained(FOLDER)
    for name, value in changes.items():
        setattr(tokens, name, value)
    return TransformersModel(pocket.model, tokens, "tiny", "0", sharing=Sharing())


def ending(pocket: Any) -> Any:
    """Its tokenizer puts an end of text behind every text."""
    model = model_with(pocket)
    model.tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="<bos> $A <eos>", special_tokens=[("<bos>", 1), ("<eos>", 2)]
    )
    return TransformersModel(pocket.model, model.tokenizer, "tiny", "0", sharing=Sharing())


@pytest.mark.parametrize("end", [":", ":\n", ": "])
def test_a_response_is_tokenized_behind_its_prompt(pocket: Any, end: str) -> None:
    """One blank stands at the seam, and none behind a line break."""
    case = Case(FACT, QUERY, "48213")
    place = locate(pocket, case, "{context} {query}" + end)
    prompt = f"{FACT} {QUERY}{end}"
    whole = prompt + ("" if end[-1].isspace() else " ") + "48213"
    assert place.response is not None
    assert place.parts.without() + place.response == pocket.encode(whole)
    assert (place.parts.without(), place.response) == pocket.joined(prompt, "48213")


def test_a_response_behind_a_chat_template_is_tokenized_with_it(pocket: Any) -> None:
    for template in TAKE_SYSTEM.values():
        model = model_with(pocket, chat_template=template)
        place = locate(model, Case(FACT, QUERY, "48213"))
        prompt = TEMPLATE.replace("{context}", FACT).replace("{query}", QUERY)
        assert (place.parts.without(), place.response) == model.joined(prompt, "48213")


def test_no_end_of_text_stands_between_prompt_and_response(pocket: Any) -> None:
    model = ending(pocket)
    for response in (None, "48213"):
        place = locate(model, Case(FACT, QUERY, response))
        assert 2 not in place.parts.without() + (place.response or ())
        assert place.parts.without()[0] == 1
    record = leakbound.influence(FACT, QUERY, model=model, response="48213", ngrams=())
    want = leakbound.influence(FACT, QUERY, model=pocket, response="48213", ngrams=())
    one, other = (r.attributions[0].readings[0].log_p for r in (record, want))
    np.testing.assert_allclose(one, other, atol=1e-4)


@pytest.mark.parametrize("template", TAKE_SYSTEM.values(), ids=TAKE_SYSTEM)
def test_each_part_goes_into_the_message_that_it_is_given(pocket: Any, template: str) -> None:
    model = model_with(pocket, chat_template=template)
    place = locate(model, Case(FACT, QUERY), system="Use this:\n{context}")
    turns = [
        {"role": "system", "content": f"Use this:\n{FACT}"},
        {"role": "user", "content": QUERY},
    ]
    assert place.parts.without() == model.encode(Chat.of(turns))
    assert pocket.text(place.parts.context).strip() == FACT
    assert QUERY in pocket.text(place.parts.tail)
    other = locate(model, Case(FACT, QUERY), TEMPLATE, system="Be brief.")
    assert "Be brief." in pocket.text(other.parts.head)
    assert pocket.text(other.parts.context).strip() == FACT


@pytest.mark.parametrize("template", TAKE_SYSTEM.values(), ids=TAKE_SYSTEM)
def test_messages_are_found_in_their_template(pocket: Any, template: str) -> None:
    model, case = model_with(pocket, chat_template=template), case_of_messages(TURNS)
    place = locate(model, case)
    parts = place.parts
    assert (case.query, case.roles) == (QUERY, ("system", "user", "assistant"))
    assert parts.without() == model.encode(Chat.of(TURNS))
    assert len(parts.fixed) == 2
    fixed = (*parts.fixed[0][1], *parts.fixed[1][1])
    assert parts.without(parts.whole) == (*parts.head, *fixed, *parts.tail)
    pieces = [case.context[a:b] for a, b in zip(place.bounds, place.bounds[1:], strict=False)]
    assert "".join(pieces) == case.context


def test_the_influence_of_each_message_is_that_of_its_tokens(pocket: Any) -> None:
    model = model_with(pocket, chat_template=LLAMA_3)
    record = leakbound.influence(TURNS, model=model, response="48213", by="message")
    (one,) = record.attributions
    grid, place = one.readings[0].grids[0], locate(model, case_of_messages(TURNS, "", "48213"))
    assert grid.names == ("message 1 (system)", "message 2 (user)", "message 3 (assistant)")
    texts = [one.context[first:end].strip() for first, end in grid.characters]
    assert texts == [turn["content"].strip() for turn in TURNS[:3]]
    ids = one.readings[0].token_ids
    full, *without = (
        model.answer([ScoreTokens(prompt, ids)])[0]
        for prompt in (place.parts.without(), *(place.parts.without(s) for s in grid.spans))
    )
    for signed, scores in zip(grid.signed, without, strict=True):
        np.testing.assert_allclose(signed, full - scores, atol=1e-4)
    assert int(grid.totals.argmax()) == 1
    sentences = leakbound.influence(TURNS, model=model, response="48213", by="sentence")
    names = sentences.attributions[0].readings[0].grids[0].names
    assert names[:2] == ("message 1 (system), sentence 1", "message 1 (system), sentence 2")


def test_rows_of_messages_are_read(tmp_path: Path) -> None:
    file = tmp_path / "chats.jsonl"
    answered = [*TURNS, {"role": "assistant", "content": "48213"}]
    rows = [
        {"messages": TURNS, "response": "48213"},
        {"messages": answered},
        {"context": TURNS[:3], "query": QUERY, "answer": "48213"},
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    cases = load_cases(file)
    assert len(set(cases)) == 1
    assert (cases[0].query, cases[0].response) == (QUERY, "48213")
    for row, reason in (
        ({"messages": TURNS[3:]}, "line 1 .*no message is left beside the query"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "line 1 .*role of a message is 'rob"),
        ({"messages": TURNS, "query": 3}, "line 1 .*query or response is not text"),
    ):
        file.write_text(json.dumps(row) + "\n")
        with pytest.raises(DataError, match=reason):
            load_cases(file)


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        ({"message": "Be brief."}, "the model has no chat template"),
        ({"message": "{context}", "template": "{context}"}, "they must hold {context} once"),
        ({"context": TURNS}, "the model has no chat template"),
        ({"context": TURNS, "message": "Be brief."}, "shown as they are; leave out the template"),
        ({"by": "message"}, "the context is not a chat, and by message needs one"),
        ({"context": {"a": FACT, "b": FACT}, "by": "message"}, "the context is not a chat"),
    ],
)
def test_what_cannot_be_shown_is_refused(pocket: Any, wanted: Any, reason: str) -> None:
    with pytest.raises(LeakboundError, match=reason):
        leakbound.influence(**{"context": FACT, "question": QUERY, "model": pocket, **wanted})


def test_a_template_without_a_system_role_is_told(pocket: Any) -> None:
    model = model_with(pocket, chat_template=GEMMA)
    with pytest.raises(TargetError, match=r"System role not supported.*into that of the user"):
        leakbound.influence(TURNS, model=model)
    with pytest.raises(UsageError, match="role of a message is 'robot'"):
        leakbound.influence([{"role": "robot", "content": "x"}], model=model)
    assert leakbound.influence(TURNS[1:], model=model, response="48213", ngrams=())


def test_the_command_takes_messages_and_a_system_message(tmp_path: Path) -> None:
    folder, rows = tmp_path / "instruct", tmp_path / "chats.jsonl"
    shutil.copytree(FOLDER, folder)
    configuration = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(
        json.dumps({**configuration, "chat_template": CHATML})
    )
    rows.write_text(json.dumps({"messages": TURNS, "response": "48213"}) + "\n")
    args = ["--model", f"hf/{folder}", "--out", str(tmp_path / "out"), "--max-share", "0.9", "-v"]
    done = CliRunner().invoke(command, [*args, "--context", str(rows)], standalone_mode=False)
    assert done.return_value in (0, 1), done.output
    assert "Messages" in done.output
    assert "The share of 'message 2 (user)'" in done.output
    record = load_influence(tmp_path / "out")
    assert record.attributions[0].readings[0].grids[0].unit == "message"
    args = ["--model", "pocket", "--out", str(tmp_path / "other"), "--text", FACT]
    done = CliRunner().invoke(command, [*args, "--message", "Be brief."], standalone_mode=False)
    assert "has no chat template" in str(done.exception)


def test_a_token_of_two_messages_stands_once(pocket: Any) -> None:
    """Where a template puts nothing between messages, a token may hold ends of both."""
    bare = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
    model = model_with(pocket, chat_template=bare)
    turns = [
        {"role": "system", "content": "The door co"},
        {"role": "assistant", "content": "de of Marta is 48213."},
    ]
    case = case_of_messages(turns, QUERY, "48213")
    assert case.roles is not None
    place = locate(model, case)
    chat = Chat.of([*turns, {"role": "user", "content": QUERY}])
    assert place.parts.without() == model.encode(chat)


def test_a_given_response_serves_rows_without_their_own(tmp_path: Path) -> None:
    turns = [TURNS[0], TURNS[3], {"role": "assistant", "content": "It is 48213."}]
    file = tmp_path / "chats.jsonl"
    file.write_text("".join(json.dumps({"messages": m}) + "\n" for m in (turns, turns[:2])))
    whole, short = load_cases(file, "And who?", "given")
    assert (whole.query, whole.response, whole.roles) == (QUERY, "It is 48213.", ("system",))
    assert (short.query, short.response) == (QUERY, "given")
