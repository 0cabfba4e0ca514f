"""A prompt with images is a message of parts, and its images reach the server as they are."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pytest

from leakbound.errors import TargetError
from leakbound.models import Capabilities, Complete, Endpoint, ScoreLabels, open_model
from leakbound.models.content import Image, images_in, join
from leakbound.models.openai import OpenAIModel
from leakbound.tasks import Example, Query, Task
from leakbound.tasks.images import as_image
from leakbound.tasks.synthetic_images import PSEUDO_NAMES, pseudo_names

pytest.importorskip("uvicorn")

from loopback.parrot import Parrot
from loopback.running import running

ONE, OTHER = (as_image(np.full((4, 4, 3), shade, np.uint8)) for shade in (10, 220))
PROMPT = Task("t", ("dax", "wug")).prompt((Example(ONE, "dax"),), Query(OTHER))


def said(number: int, reply: Any) -> Any:
    top = [{"token": " dax", "logprob": -0.1}, {"token": " wug", "logprob": -2.5}]
    message = {"role": "assistant", "content": " dax\n"}
    return 200, {
        "choices": [
            {
                "index": 0,
                "message": message,
                "logprobs": {"content": [{"token": " dax", "logprob": -0.1, "top_logprobs": top}]},
            }
        ]
    }


def model(url: str, capabilities: str = "") -> OpenAIModel:
    return OpenAIModel("seer", Endpoint((url,), capabilities=Capabilities.parse(capabilities)))


@pytest.mark.parametrize("capabilities", ["", "completions", "completions,prompt_logprobs"])
def test_a_prompt_with_images_is_a_chat_message(capabilities: str) -> None:
    server = Parrot(change=said)
    with running(server) as url:
        asked = model(url, capabilities)
        assert asked.answer([Complete(PROMPT)]) == [" dax"]
        asked.close()
    content = server.bodies[0]["messages"][0]["content"]
    assert [part["type"] for part in content] == ["text", "image_url", "text", "image_url", "text"]
    assert "".join(part["text"] for part in content[::2]).startswith("Label each input")
    sent = [
        base64.b64decode(part["image_url"]["url"].removeprefix("data:image/png;base64,"))
        for part in content[1::2]
    ]
    assert sent == [image.png for image in images_in(PROMPT)]


def test_labels_behind_images_are_scored_by_their_first_tokens() -> None:
    server = Parrot(change=said)
    with running(server) as url:
        asked = model(url, "top_logprobs=5,first_tokens_differ")
        (scores,) = asked.answer([ScoreLabels(PROMPT, ("dax", "wug"))])
        asked.close()
    np.testing.assert_allclose(scores, [-0.1, -2.5])


@pytest.mark.parametrize(
    ("capabilities", "refused"),
    [
        ("chat=0,completions", Complete(PROMPT)),
        ("completions,prompt_logprobs", ScoreLabels(PROMPT, ("dax", "wug"))),
    ],
)
def test_what_cannot_carry_images_is_refused_for_free(capabilities: str, refused: Any) -> None:
    with pytest.raises(TargetError, match="takes images in the messages of a chat only"):
        model("http://127.0.0.1:9", capabilities).check([refused])


def test_an_image_counts_as_the_text_that_carries_it() -> None:
    request = model("http://127.0.0.1:9").http_request(Complete(PROMPT))
    assert request.size.prompt > sum(4 * len(image.png) // 3 for image in images_in(PROMPT))


@pytest.mark.torch
def test_the_pocket_vision_model_behind_a_server_says_what_it_says_here() -> None:
    seeing = open_model("pocket-vision")
    rows = pseudo_names(20, np.random.default_rng(4))
    requests = [
        Complete(PSEUDO_NAMES.prompt(rows[:-5], Query(row.input)), max_tokens=4)
        for row in rows[-5:]
    ]

    def answered(number: int, reply: Any) -> Any:
        sent = reply["choices"][0]["message"]["content"][::-1]
        prompt = join(
            part["text"] if part["type"] == "text" else received(part["image_url"]["url"])
            for part in sent
        )
        message = {
            "role": "assistant",
            "content": seeing.answer([Complete(prompt, max_tokens=4)])[0],
        }
        return 200, {"choices": [{"index": 0, "message": message}]}

    with running(Parrot(change=answered)) as url:
        asked = model(url)
        assert (
            asked.answer(requests)
            == seeing.answer(requests)
            == [f" {row.label}" for row in rows[-5:]]
        )
        asked.close()


def received(url: str) -> Image:
    return as_image(base64.b64decode(url.removeprefix("data:image/png;base64,")))
