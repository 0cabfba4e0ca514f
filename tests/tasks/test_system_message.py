"""Which part of a prompt goes into the system message of an instruct model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import leakbound
from leakbound.errors import TargetError, UsageError
from leakbound.models import Chat, Scripted
from leakbound.models.content import Image
from leakbound.tasks import Example, Query, Task

TASK = Task("mail", ("work", "home"), instruction="Sort the mail.")
ROWS = (Example("a fee", "work"), Example("a cake", "home"))
ASKED = Query("a stove")
SETTINGS = {"system_message": "examples", "labels": ["plain", "odd"]}


@pytest.mark.parametrize(
    ("shown", "system", "user"),
    [
        ("instruction", "Be brief.\n\nSort the mail.", "Input: a fee\nLabel: work\n\n"
         "Input: a cake\nLabel: home\n\nInput: a stove\nLabel:"),
        ("examples", "Be brief.\n\nSort the mail.\n\nInput: a fee\nLabel: work\n\n"
         "Input: a cake\nLabel: home", "Input: a stove\nLabel:"),
    ],
)  # fmt: skip
def test_each_part_stands_in_its_message(shown: Any, system: str, user: str) -> None:
    chat = replace(TASK, system_message=shown).prompt(ROWS, ASKED, "Be brief.")
    assert isinstance(chat, Chat)
    assert chat.plain() == [
        {"role": "system", "content": system},
        {"role": "user", "content": user},
    ]
    plain = TASK.prompt(ROWS, ASKED, "Be brief.")
    assert plain == f"{system}\n\n{user}"  # the same words in one text


def test_what_no_message_holds_is_refused() -> None:
    image = Image("0" * 64, b"")
    with pytest.raises(UsageError, match="a prompt with a system message takes texts only"):
        replace(TASK, system_message="examples").prompt((Example(image, "work"),), ASKED)
    with pytest.raises(UsageError, match="system_message is 'all'; it must be instruction"):
        Task("mail", system_message="all")  # type: ignore[arg-type]


def noting(asked: list[Any]) -> Scripted:
    """A model that notes what it is asked, and always gives one answer."""

    def says(prompt: Any) -> str:
        asked.append(prompt)
        return "plain"

    def scores(prompt: Any, labels: tuple[str, ...]) -> list[float]:
        asked.append(prompt)
        return [0.0, -1.0][: len(labels)]

    return Scripted(complete=says, label_scores=scores, name="instruct")


def test_an_audit_shows_messages_and_says_so(rows: Any, tmp_path: Path) -> None:
    asked: list[Any] = []
    model = noting(asked)
    result = leakbound.audit(
        rows, mechanism="few_shot", model=model, pairs=4, shots=6, settings=SETTINGS, out=tmp_path
    )
    assert asked
    assert all(isinstance(prompt, Chat) for prompt in asked)
    assert {prompt.roles for prompt in asked} == {("system", "user")}
    assert result.spec["system_message"] == "examples"
    assert len({prompt.messages[0].content for prompt in asked}) > 4  # examples stand there


def test_private_answers_come_from_messages_too(rows: Any, tmp_path: Path) -> None:
    asked: list[Any] = []
    model = noting(asked)
    task = Task("things", ("plain", "odd"), system_message="instruction")
    leakbound.answer(
        "a blue kite", rows, task=task, model=model, epsilon=8.0, budget=20.0,
        ledger=tmp_path / "ledger",
    )  # fmt: skip
    assert {prompt.roles for prompt in asked} == {("system", "user")}


def test_a_model_that_takes_no_messages_is_refused_before_any_call(
    rows: Any, pocket: Any, tmp_path: Path
) -> None:
    with pytest.raises(TargetError, match="no chat template"):
        leakbound.audit(rows, model=pocket, pairs=4, shots=6, settings=SETTINGS, out=tmp_path)
    assert not list(tmp_path.iterdir())
