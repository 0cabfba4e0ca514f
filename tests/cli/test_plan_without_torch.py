"""`leakbound plan` asks no model, so it needs none."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from leakbound.cli.main import group
from leakbound.models import address

OPTIONS = ["plan", "--pairs", "20", "--mechanism", "few_shot"]


def planned(torch: bool, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    monkeypatch.setattr(address, "_has_torch", lambda: torch)
    done = CliRunner().invoke(group, OPTIONS, prog_name="leakbound", standalone_mode=False)
    assert done.exception is None
    return done.stdout, done.stderr


@pytest.mark.torch
def test_a_plan_is_the_same_without_torch_and_says_what_was_not_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole, quiet = planned(True, monkeypatch)
    light, said = planned(False, monkeypatch)
    assert light == whole
    assert "nothing checked whether the prompts fit" in said
    assert quiet == ""
