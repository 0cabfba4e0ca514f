"""leakbound init: what it says of rows and a system, and that the file it writes is audited."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from leakbound.cli.main import group
from leakbound.errors import UsageError
from leakbound.systems import SystemFailed

SYSTEMS = """
def words(context, query):
    quoted = query.split('"')[1] if '"' in query else "-"
    return "yes" if any(quoted in row.text for row in context) else "no"
def text(context, query):
    return "I know of " + "; ".join(row.text for row in context)
def label(context, query):
    return "Work" if "note" in query else "home"
def refuse(context, query):
    return "I'm sorry, I can't help with that."
def mute(context, query):
    return ""
def broken(context, query):
    raise ValueError(context[0].text)
"""


def run(*args: str) -> Result:
    return CliRunner().invoke(group, args, prog_name="leakbound", standalone_mode=False)


@pytest.fixture(autouse=True)
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("app.py").write_text(SYSTEMS)
    rows = [f"a note about {n},{['work', 'home'][n % 2]}" for n in range(60)]
    Path("private.csv").write_text("\n".join(["text,label", *rows]))
    return tmp_path


@pytest.mark.parametrize(
    ("name", "said", "query"),
    [
        ("words", "answers with the words that a query allows", "membership"),
        ("text", "answers in free text", "repeat"),
        ("label", "answers a label whatever it is asked", "input_output"),
        ("refuse", "gives the same answer to two questions", "membership"),
        ("mute", "refuses, or does not answer", "membership"),
    ],
)
def test_the_kind_of_answers_decides_the_query(name: str, said: str, query: str) -> None:
    shown = run("init", "private.csv", f"python:app.py:{name}", "--epsilon", "2").stdout
    assert said in shown
    assert "Next: leakbound audit --config audit.yaml" in shown
    written = yaml.safe_load(Path("audit.yaml").read_text())
    assert written["attack"]["query"]["kind"] == query
    assert written["decision"]["epsilon"] == 2
    assert "a note about" not in shown + Path("audit.yaml").read_text()


def test_what_it_writes_is_audited_and_a_claim_that_nobody_stated_stays_so() -> None:
    run("init", "private.csv", "python:app.py:words", "--pairs", "16")
    assert "# epsilon: 1.0  # YOUR CLAIM" in Path("audit.yaml").read_text()
    done = run("audit", "--config", "audit.yaml", "--out", "runs")
    assert done.return_value == 1
    assert "nobody stated it" in done.stdout


def test_fields_with_unusual_names_are_named_and_written() -> None:
    rows = [f"row {n},a{n % 2}" for n in range(60)]
    Path("odd.csv").write_text("\n".join(["te xt,kind of", *rows]))
    fields = ("--input-field", "te xt", "--label-field", "kind of")
    run("init", "odd.csv", "python:app.py:words", *fields)
    written = yaml.safe_load(Path("audit.yaml").read_text())["design"]
    assert (written["input_field"], written["label_field"]) == ("te xt", "kind of")


def test_a_model_is_named_and_asked_nothing() -> None:
    pytest.importorskip("torch")
    shown = run("init", "private.csv", "pocket").stdout
    assert "bundled with leakbound: it is not your model" in shown
    assert yaml.safe_load(Path("audit.yaml").read_text())["system"]["model"] == "pocket"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "name a file of rows, a system or a model"),
        (("app.py",), "python:app.py:OBJECT"),
        (("http://127.0.0.1:9/v1",), "name its model as openai/MODEL"),
        (("private.csv", "other.csv"), "are both read as a file of rows; name one"),
        (("nothing.csv", "python:app.py:words"), "does not exist"),
    ],
)
def test_what_cannot_be_used_gets_a_sentence_and_no_file(
    words: tuple[str, ...], sentence: str
) -> None:
    done = run("init", *words)
    assert sentence in str(done.exception)
    assert not Path("audit.yaml").exists()


def test_a_system_that_fails_is_named_without_a_row() -> None:
    done = run("init", "private.csv", "python:app.py:broken")
    assert isinstance(done.exception, SystemFailed)
    assert "raised ValueError in app.py" in str(done.exception)
    assert "a note about" not in str(done.exception)


def test_a_file_that_is_there_is_kept() -> None:
    Path("audit.yaml").write_text("mine")
    done = run("init", "private.csv", "python:app.py:words")
    assert isinstance(done.exception, UsageError)
    assert Path("audit.yaml").read_text() == "mine"
    run("init", "private.csv", "python:app.py:words", "--force")
    assert Path("audit.yaml").read_text() != "mine"
