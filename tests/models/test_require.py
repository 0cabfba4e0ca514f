"""What a model lacks is named in a sentence."""

from __future__ import annotations

import pytest

from leakbound.errors import TargetError
from leakbound.models import Complete, Scripted
from leakbound.models.model import require


def test_a_model_that_answers_nothing_says_so() -> None:
    expected = "few_shot needs Complete from its model, and empty answers no requests; choose"
    with pytest.raises(TargetError, match=expected):
        require(Scripted(name="empty"), {Complete}, "few_shot")
