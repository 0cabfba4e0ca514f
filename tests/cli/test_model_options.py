"""Options that the chosen model does not take are refused, not ignored."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from in_process import run

import leakbound
from leakbound.cli.main import group
from leakbound.errors import UsageError
from leakbound.models import Endpoint, Local
from leakbound.models.address import open_shared

URL = "http://127.0.0.1:9/v1"


def refused(*args: str) -> str:
    """Why a command is refused before it does anything."""
    done = run(*args)
    assert isinstance(done.exception, UsageError), done.output
    return str(done.exception)


@pytest.mark.parametrize(
    "words",
    [
        ("audit", "--pairs", "4"),
        ("plan", "--pairs", "4"),
        ("tune", "--reflection-model", "none"),
        ("sweep", "--grid", "shots=3,4", "--pairs", "4"),
        ("influence", "--text", "A b c."),
        ("probe", "pocket"),
        ("answer", "q", "--labels", "a,b"),
    ],
    ids=lambda words: words[0],
)
def test_a_bundled_model_has_no_server(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = refused(*words, "--base-url", URL)
    assert "--base-url is an option of openai/<model>, and would be ignored: pocket takes" in said
    has_local = words[0] not in ("tune", "probe")
    assert ("--memory, --dtype, --device" in said) == has_local
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "words", [("audit", "--pairs", "4"), ("influence", "--text", "A b c.")], ids=lambda w: w[0]
)
def test_a_model_behind_a_server_has_no_number_format(words: tuple[str, ...]) -> None:
    said = refused(*words, "--model", "openai/m", "--base-url", URL, "--dtype", "bfloat16")
    assert "--dtype is an option of pocket, pocket-half, pocket-vision, pocket-vision-short" in said
    assert "openai/m takes --base-url, --key-env" in said


def test_one_of_several_models_is_enough_and_the_environment_is_no_mistake(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LEAKBOUND_BASE_URL", URL)
    runner, words = CliRunner(), ("plan", "--pairs", "10", "--mechanism", "keyword_mean")
    assert runner.invoke(group, words, standalone_mode=False).return_value == 0
    judged = ("--judge-model", "openai/m", "--base-url", URL)
    assert runner.invoke(group, (*words, *judged), standalone_mode=False).return_value == 0


def test_the_options_of_a_system_are_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("app.py").write_text("def answer(context, query): return 'no'\n")
    words = ("plan", "--system", "python:app.py:answer", "--pairs", "10", "--connections", "2")
    assert CliRunner().invoke(group, words, standalone_mode=False).return_value == 0


@pytest.mark.parametrize(
    ("address", "options", "takes"),
    [
        ("pocket", {"endpoint": Endpoint((URL,))}, "takes local"),
        ("pocket", {"trust_remote_code": True}, "takes local"),
        ("hf/./m", {"endpoint": Endpoint((URL,))}, "takes local and trust_remote_code"),
        ("openai/m", {"local": Local(dtype="float16")}, "takes endpoint"),
    ],
)
def test_open_model_names_the_options_that_exist(
    address: str, options: dict[str, object], takes: str
) -> None:
    with pytest.raises(UsageError, match=f"would be ignored: the model '{address}' {takes}"):
        leakbound.open_model(address, **options)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="the model address 'gpt' is not known"):
        leakbound.open_model("gpt", **options)  # type: ignore[arg-type]


def test_models_that_share_options_each_take_their_own() -> None:
    assert open_shared("openai/m", endpoint=Endpoint((URL,)), local=Local(dtype="float16"))
    assert leakbound.open_model("openai/m", endpoint=Endpoint((URL,)), local=Local())


def test_a_model_beside_a_system_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("app.py").write_text("def answer(context, query): return 'no'\n")
    words = ("plan", "--system", "python:app.py:answer", "--pairs", "10", "--model", "openai/m")
    with pytest.raises(UsageError, match="asks its own model, and --model openai/m is given"):
        CliRunner().invoke(group, words, standalone_mode=False, catch_exceptions=False)
