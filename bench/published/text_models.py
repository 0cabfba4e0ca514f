"""Models for packages that decode: constructed distributions, and the pocket model in a folder."""

from __future__ import annotations

import math
import shutil
import tempfile
from collections.abc import Sequence
from functools import cache
from types import SimpleNamespace
from typing import Any

import torch

from leakbound.models.pocket import FOLDER

TEMPLATE = "{% for message in messages %}{{ message['content'] }}\n{% endfor %}"


class Table(torch.nn.Module):
    """A causal model that gives one distribution to each row of a batch, at every position."""

    def __init__(self, rows: Sequence[Sequence[float]]) -> None:
        super().__init__()
        logits = [[math.log(p) for p in row] for row in rows]
        self.logits = torch.nn.Parameter(torch.tensor(logits), requires_grad=False)
        self.device = torch.device("cpu")

    def forward(self, input_ids: Any, **_: Any) -> SimpleNamespace:
        """The logits of a Hugging Face model."""
        rows, length = input_ids.shape
        logits = self.logits[:rows, None, :].expand(rows, length, -1)
        return SimpleNamespace(logits=logits, past_key_values=())


class Letters:
    """A tokenizer with as little as a decoder asks for."""

    eos_token_id, pad_token_id, pad_token = -1, 0, "_"

    def decode(self, ids: Any, **_: Any) -> str:
        """Token numbers, as text."""
        return " ".join(str(int(one)) for one in ids)


@cache
def chat_folder() -> str:
    """A folder with the pocket model and a chat template."""
    folder = tempfile.mkdtemp()
    shutil.copytree(FOLDER, folder, dirs_exist_ok=True)
    with open(f"{folder}/chat_template.jinja", "w", encoding="utf-8") as file:
        file.write(TEMPLATE)
    return folder


def pocket() -> tuple[Any, Any]:
    """The pocket model and its tokenizer, as Hugging Face loads them."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = chat_folder()
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    return model.eval(), AutoTokenizer.from_pretrained(folder)
