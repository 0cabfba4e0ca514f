"""--preset: a bundle of options, shown as what it stands for, and refused where contradicted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from leakbound.auditing.spec.audit_spec import make_spec
from leakbound.cli.main import group
from leakbound.cli.options.spec import PRESETS, spec_from
from leakbound.errors import UsageError


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_the_options_it_stands_for(name: str) -> None:
    spec = spec_from(None, (), {"preset": name})
    assert spec == make_spec(PRESETS[name])
    assert "preset" not in spec.flat(), "the record shows the options"


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ({"query": "gap"}, "means query input_output, and query gap is given"),
        ({"shots": 4}, "means shots 20, and shots 4 is given"),
        ({"query": "input_output:exact=false"}, "means query exact True, and query exact False"),
        ({"preset": "contextlake"}, "Did you mean 'contextleak'"),
    ],
)
def test_what_contradicts_a_preset_is_refused(flags: dict[str, object], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        spec_from(None, (), {"preset": "contextleak", **flags})


def test_what_a_preset_does_not_say_may_be_said_beside_it() -> None:
    spec = spec_from(None, ("pairs=200",), {"preset": "contextleak", "canary": "hex:digits=64"})
    assert spec.attack.canary.options == {"digits": 64}
    assert spec.attack.query.options == {"exact": True}


@pytest.mark.torch
def test_the_preset_of_influence_sets_the_sampling_of_the_record(tmp_path: Path) -> None:
    run = ["influence", "--text", "The code is 4711.", "--response", "4711", "--out", str(tmp_path)]
    done = CliRunner().invoke(group, [*run, "--preset", "influence"], catch_exceptions=False)
    assert done.exit_code == 0
    settings = json.loads((tmp_path / "influence.json").read_text())["settings"]
    assert (settings["temperature"], settings["max_tokens"]) == (0.8, 50)
    with pytest.raises(UsageError, match=r"means --temperature 0\.8, and --temperature 1 is"):
        CliRunner().invoke(
            group, [*run, "--preset", "influence", "--temperature", "1"], catch_exceptions=False
        )
