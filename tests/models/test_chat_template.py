"""Whether prompts go through a model's chat template is the user's choice, and part of a record."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from chat_templates import CHATML
from in_process import run

from leakbound.errors import UsageError
from leakbound.models import Complete, Local, ScoreLabels, open_model

pytest.importorskip("torch")

from leakbound.models.pocket import FOLDER

pytestmark = pytest.mark.torch
PROMPT = "Label each input: red, blue.\n\nInput: a note\nLabel: red\n\nInput: a fee\nLabel:"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The pocket model as an instruct model."""
    made = tmp_path / "instruct"
    shutil.copytree(FOLDER, made)
    configuration = json.loads((made / "tokenizer_config.json").read_text())
    (made / "tokenizer_config.json").write_text(
        json.dumps({**configuration, "chat_template": CHATML})
    )
    return made


def test_without_its_template_a_model_reads_prompts_as_they_are(folder: Path) -> None:
    """A small instruct model predicted one label, with any examples; no option turned this off."""
    asked = [ScoreLabels(PROMPT, ("red", "blue")), Complete(PROMPT, max_tokens=4)]
    auto, on, off = (
        open_model(f"hf/{folder}", local=Local(chat_template=how)) for how in ("auto", "on", "off")
    )
    plain = open_model("pocket").answer(asked)
    found = off.answer(asked)
    np.testing.assert_allclose(found[0], plain[0], atol=1e-5)
    assert found[1] == plain[1]
    assert not np.allclose(auto.answer(asked)[0], plain[0], atol=1e-3)
    assert auto.fingerprint == on.fingerprint
    assert off.fingerprint == f"{auto.fingerprint}-without-chat-template"


def test_a_template_that_is_not_there_cannot_be_wanted() -> None:
    with pytest.raises(UsageError, match="has no chat template, and --chat-template is on"):
        open_model("pocket", local=Local(chat_template="on"))
    plain = open_model("pocket", local=Local(chat_template="off"))
    assert plain.fingerprint == open_model("pocket").fingerprint
    with pytest.raises(UsageError, match="must be one of auto, on, off"):
        open_model("pocket", local=Local(chat_template="none"))


@pytest.mark.slow
def test_the_command_takes_it(folder: Path, tmp_path: Path) -> None:
    given = ("--model", f"hf/{folder}", "--pairs", "8", "--shots", "4", "--out", str(tmp_path))
    records = []
    for how in ("auto", "off"):
        run("audit", *given, "--chat-template", how, "--quiet")
        files = {*tmp_path.glob("*/record.json")}
        records.append(files)
    assert len(records[1] - records[0]) == 1
