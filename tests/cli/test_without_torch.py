"""The first minute of somebody who has installed the wheel alone, in processes of their own."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from commands import cli, launch, without_torch

pytestmark = pytest.mark.process

APP = """
def answer(context, query):
    quoted = query.split('"')[1]
    return "yes" if any(quoted in row.text for row in context) else "no"
"""
PAIRS = ("--pairs", "20", "--out", "runs")


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(APP)
    rows = [f"a note about {n},{['work', 'home'][n % 2]}" for n in range(60)]
    (tmp_path / "mine.csv").write_text("\n".join(["text,label", *rows]))
    return tmp_path


def ended(desk: Path, *words: str) -> tuple[int, str, str]:
    done = cli(*words, cwd=desk, PYTHONPATH=without_torch())
    return done.returncode, done.stdout, done.stderr


def test_the_demo_audits_a_script_and_says_so(desk: Path) -> None:
    code, out, err = ended(desk, "demo", "--pairs", "20")
    assert code == 0, err
    assert "torch is not installed, so these are scripted systems" in out
    assert "AUDITS (3 violations, 1 no violation): few_shot" in out
    assert (desk / "runs" / "demo" / "report.html").is_file()


@pytest.mark.parametrize("system", ["app:answer", "app.py:answer", "python:app.py:answer"])
def test_rows_and_a_system_are_taken_by_position(desk: Path, system: str) -> None:
    code, out, err = ended(desk, "audit", "mine.csv", system, *PAIRS)
    assert (code, out.split("   ")[0]) == (1, "✗ VIOLATION"), err


def test_rows_without_a_system_get_a_sentence_and_what_to_do(desk: Path) -> None:
    code, _, err = ended(desk, "audit", "mine.csv", *PAIRS)
    assert code == 4
    assert "a system of your own (leakbound audit ROWS app.py:answer); or install them with" in err
    code, _, err = ended(desk, "audit", "mine.csv", "http://127.0.0.1:9/ask")
    assert code == 2
    assert "`leakbound init ROWS http://127.0.0.1:9/ask` finds out how it is asked" in err
    code, _, err = ended(desk, "audit", "mine.csv", "--data", "mine.csv")
    assert (code, "'mine.csv' and --data mine.csv are both given" in err) == (2, True)


@pytest.mark.slow
def test_a_damaged_torch_is_named(desk: Path) -> None:
    """As on a machine whose libraries it was not built for; it ended with 70."""
    damaged = desk / "damaged"
    damaged.mkdir()
    (damaged / "torch.py").write_text("raise OSError('libcudart.so.12: cannot open')")
    process = launch("audit", "mine.csv", *PAIRS, cwd=desk, PYTHONPATH=str(damaged))
    said = process.communicate()[1]
    assert process.returncode == 4, said
    assert "cannot be imported (OSError: libcudart.so.12: cannot open)" in said


def test_init_keeps_what_it_read_and_says_what_to_fill_in(desk: Path) -> None:
    code, out, err = ended(desk, "init", "mine.csv")
    assert code == 0, err
    assert "No system is named: replace TODO in it, with python:app.py:answer" in out
    written = (desk / "audit.yaml").read_text()
    assert yaml.safe_load(written)["system"] == {"address": "TODO"}
    assert yaml.safe_load(written)["design"]["labels"] == ["home", "work"]
    assert ended(desk, "audit", "--config", "audit.yaml")[0] == 2
    assert ended(desk, "audit", "app:answer", "--config", "audit.yaml", *PAIRS)[0] == 1
    (desk / "audit.yaml").write_text(written.replace("TODO", "python:app.py:answer"))
    assert ended(desk, "audit", "--config", "audit.yaml", *PAIRS)[0] == 1
