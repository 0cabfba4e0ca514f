"""Options beside --system that an application does not take are refused, not ignored."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import pytest
from in_process import run

from leakbound.errors import LimitReached, UsageError

APP = """
from pathlib import Path

def answer(context, query):
    with Path("calls.txt").open("a") as calls:
        calls.write("x")
    return "no"
"""
SYSTEM = "--system", "python:app.py:answer"
URL = "http://127.0.0.1:9/v1"
AUDIT = "audit", *SYSTEM, "--pairs", "6", "--shots", "3", "--batch-pairs", "2"
OF_SERVERS = (
    ("--base-url", URL), ("--key-env", "KEY"), ("--insecure",), ("--capabilities", "seed"),
    ("--param", "min_p=1"), ("--omit", "seed"), ("--rename", "max_tokens=most"),
    ("--price-in", "1"), ("--price-out", "1"),
)  # fmt: skip
OF_LOCAL = ("--device", "cpu"), ("--memory", "4GB"), ("--dtype", "float32")
COMMANDS = (
    ("audit",), ("plan",), ("sweep", "--grid", "epsilon=1,2"), ("answer", "q", "--budget", "inf"),
    ("tune", "--reflection-model", "none"),
)  # fmt: skip


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("app.py").write_text(APP)


def refused(*args: str) -> str:
    """Why a command is refused before it asks or writes anything."""
    done = run(*args)
    assert isinstance(done.exception, UsageError), done.output
    found = {path.name for path in Path().iterdir()}
    assert found <= {"app.py", "config.yaml", "desk.yaml", "__pycache__"}
    return str(done.exception)


@pytest.mark.parametrize("given", [*OF_SERVERS, *OF_LOCAL], ids=lambda given: given[0])
def test_options_of_models_are_refused(given: tuple[str, ...]) -> None:
    said = refused(*AUDIT, *given)
    assert said.startswith(f"{given[0]} is an option of ")
    assert "would be ignored: the application 'python:app.py:answer' makes its own calls" in said
    assert "--connections, --timeout, --retries, --max-minutes. Leave it out." in said


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_every_command_refuses_them(words: tuple[str, ...]) -> None:
    assert "--base-url is an option of openai/<model>" in refused(
        *words, *SYSTEM, "--base-url", URL
    )
    assert "asks its own model, and --model pocket is given" in refused(
        *words, *SYSTEM, "--model", "pocket"
    )
    said = refused(*words, *SYSTEM, "--mechanism", "few_shot")
    assert "answers by itself, and --mechanism few_shot is given beside it; leave one" in said


def test_the_defaults_are_refused_where_the_command_line_names_them() -> None:
    assert "and the key model is given beside it" in refused(*AUDIT, "--set", "model=pocket")
    assert "the key mechanism is given" in refused(*AUDIT, "--set", "mechanism.kind=few_shot")
    swept = "sweep", *SYSTEM, "--grid", "model=pocket"
    assert "the key model is given beside it" in refused(*swept)


def test_a_file_and_the_environment_may_name_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """`export` writes every key, and a variable holds for many commands."""
    Path("config.yaml").write_text(
        "model: pocket\nmechanism: few_shot\nendpoint: {param: {min_p: 1}}\n"
    )
    monkeypatch.setenv("LEAKBOUND_BASE_URL", URL)
    assert run("plan", *SYSTEM, "--config", "config.yaml", "--pairs", "6").return_value == 0
    Path("config.yaml").write_text("model: openai/m\n")
    said = refused("plan", *SYSTEM, "--config", "config.yaml")
    assert "asks its own model, and the model openai/m is named beside it" in said


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--embedder", "m"), "embedder is m, which would be ignored; leave it out."),
        (("--judge-model", "pocket"), "judge_model is pocket, which would be ignored"),
        (("--trust-remote-code",), "trust_remote_code is True, which would be ignored"),
    ],
    ids=lambda given: given[0],
)
def test_models_beside_the_model_are_refused(given: tuple[str, ...], said: str) -> None:
    assert said in refused(*AUDIT, *given)


def test_a_service_is_told_where_its_options_stand() -> None:
    Path("desk.yaml").write_text("url: http://127.0.0.1:9/x\nanswer: a\nbody: {q: '{query}'}\n")
    said = refused("audit", "--system", "http:desk.yaml", "--key-env", "KEY")
    assert said.endswith("Leave it out; what the service needs stands in its file (url, headers, "
                         "insecure).")  # fmt: skip


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_nobody_keeps_a_limit_on_money(words: tuple[str, ...]) -> None:
    said = refused(*words, *SYSTEM, "--max-cost", "5")
    assert "--max-cost (or max_cost of endpoint) is 5" in said
    assert "makes its own calls, and nobody knows what they cost. Leave it out" in said
    Path("config.yaml").write_text("endpoint: {max_cost: 7}\n")
    assert "max_cost of endpoint) is 7" in refused(*words, *SYSTEM, "--config", "config.yaml")


def test_a_model_that_reflects_takes_its_options() -> None:
    words = "tune", *SYSTEM, "--reflection-model", "openai/m", "--base-url", URL
    done = run(*words, "--max-calls", "1")  # too few, or gepa is not installed
    assert isinstance(done.exception, UsageError)
    assert "would be ignored" not in str(done.exception)
    shutil.rmtree("runs", ignore_errors=True)
    said = refused("tune", *SYSTEM, "--reflection-model", "pocket", "--base-url", URL)
    assert "--base-url is an option of openai/<model>" in said


def calls() -> int:
    found = Path("calls.txt")
    return len(found.read_text()) if found.exists() else 0


def test_a_limit_on_minutes_ends_an_audit_and_the_same_command_resumes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = json.loads(run("plan", *AUDIT[1:], "--json").stdout)["plan"]["model_calls"]
    real = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: real() + 3600 * (calls() >= whole // 2))
    words = *AUDIT, "--shard", "1/1"
    stopped = run(*words, "--max-minutes", "50")
    assert isinstance(stopped.exception, LimitReached)
    assert stopped.exception.exit_code == 130
    assert "limit of 50 minutes (--max-minutes) is reached" in str(stopped.exception)
    assert calls() == whole // 2
    assert run(*words, "--max-minutes", "150").return_value == 0
    assert calls() < whole + whole // 2  # finished batches were kept


@pytest.mark.parametrize(
    "words",
    [("sweep", "--grid", "epsilon=1,2"), ("tune", "--reflection-model", "none"),
     ("answer", "q", "--budget", "inf")],
    ids=lambda words: words[0],
)  # fmt: skip
def test_other_commands_keep_the_limit(words: tuple[str, ...]) -> None:
    done = run(*words, *SYSTEM, "--shots", "3", "--max-minutes", "1e-9")
    assert done.exception is not None
    assert not Path("calls.txt").exists()


@pytest.mark.parametrize("command", ["audit", "sweep"])
@pytest.mark.parametrize("option", [("--rate", "2"), ("--disposable-store",)])
def test_options_of_applications_need_one(command: str, option: tuple[str, ...]) -> None:
    grid = ("--grid", "epsilon=1,2") if command == "sweep" else ()
    assert "no --system is given" in refused(command, *option, *grid)
