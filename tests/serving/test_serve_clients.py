"""The official client against a real server on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from services import TOKEN, private, running

from leakbound.serving import PrivateICL, application

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
openai = pytest.importorskip("openai")

TURN: list[Any] = [{"role": "user", "content": "what is this"}]
ANSWERS = {"odd", "plain", "(no answer)"}


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[tuple[PrivateICL, Any]]:
    """A service, and a client of it with the client's own defaults."""
    served = private(tmp_path, 99.0)
    with running(application(served, TOKEN)) as url:
        client = openai.OpenAI(base_url=f"{url}/v1", api_key=TOKEN)
        yield served, client
        client.close()


def test_every_endpoint_of_the_client_answers(desk: tuple[PrivateICL, Any]) -> None:
    """Completions, responses and models.retrieve were 404."""
    served, client = desk
    chat = client.chat.completions.create(model="support-desk", messages=TURN)
    completion = client.completions.create(model="support-desk", prompt="what is this")
    response = client.responses.create(model="support-desk", input="what is this")
    texts = {chat.choices[0].message.content, completion.choices[0].text, response.output_text}
    assert texts <= ANSWERS
    assert (response.status, response.store, response.model) == ("completed", False, "support-desk")
    assert served.state.answers == 3
    assert client.models.retrieve("support-desk").id == "support-desk"
    assert [model.id for model in client.models.list()] == ["support-desk"]
    with pytest.raises(openai.NotFoundError, match="use support-desk"):
        client.models.retrieve("gpt-4/mini")


def test_streams_end_with_usage(desk: tuple[PrivateICL, Any]) -> None:
    _, client = desk
    options = {"include_usage": True}
    for create, content in (
        (client.chat.completions.create, {"messages": TURN}),
        (client.completions.create, {"prompt": "what is this"}),
    ):
        *chunks, last = create(model="x", stream=True, stream_options=options, **content)
        assert last.choices == []
        assert last.usage.total_tokens == 0
        assert all(chunk.usage is None for chunk in chunks)
        assert chunks[-1].choices[0].finish_reason == "stop"
        plain = list(create(model="x", stream=True, **content))
        assert len(plain) == 2
        assert plain[-1].leakbound["epsilon_spent"] > 0


def test_the_stream_of_a_response_is_the_one_that_the_client_knows(
    desk: tuple[PrivateICL, Any],
) -> None:
    _, client = desk
    with client.responses.stream(model="x", input="what is this") as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_response()
    assert kinds[0] == "response.created"
    assert kinds[-1] == "response.completed"
    assert "response.output_text.delta" in kinds
    assert final.output_text in ANSWERS
    assert final.usage.total_tokens == 0


def test_a_conversation_goes_back_as_the_client_got_it(desk: tuple[PrivateICL, Any]) -> None:
    served, client = desk
    first = client.chat.completions.create(model="x", messages=TURN).choices[0].message
    turns = [*TURN, first, {"role": "user", "content": "and this"}]
    client.chat.completions.create(model="x", messages=turns)
    client.chat.completions.create(model="x", messages=[*TURN, first.model_dump(), *TURN])
    response = client.responses.create(model="x", input="what is this")
    client.responses.create(
        model="x", input=[*TURN, *response.output, {"role": "user", "content": "and this"}]
    )
    assert served.state.answers == 5


@pytest.mark.parametrize("content", ["(no answer)", None])
def test_an_earlier_refusal_is_part_of_the_conversation(
    desk: tuple[PrivateICL, Any], content: str | None
) -> None:
    """What a reply without an answer holds, and what OpenAI's own refusals look like."""
    served, client = desk
    earlier = {"role": "assistant", "content": content, "refusal": "There is no answer."}
    client.chat.completions.create(model="x", messages=[*TURN, earlier, *TURN])
    with pytest.raises(openai.BadRequestError, match="holds refusal"):
        client.chat.completions.create(model="x", messages=[{**TURN[0], "refusal": "no"}])
    assert served.state.answers == 1


def test_errors_are_those_that_the_client_has_classes_for(desk: tuple[PrivateICL, Any]) -> None:
    served, client = desk
    with pytest.raises(openai.BadRequestError, match="max_tokens is 5"):
        client.chat.completions.create(model="x", messages=TURN, max_tokens=5)
    with pytest.raises(openai.BadRequestError, match="send the earlier messages"):
        client.responses.create(model="x", input="a", previous_response_id="resp_1")
    with pytest.raises(openai.AuthenticationError):
        client.with_options(api_key="wrong").models.list()
    assert served.state.answers == 0
