"""Rows full of markup, paths, escape sequences and odd characters are data:

shown as they are, never obeyed.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakbound.cli.screen.output import printable
from leakbound.errors import DataError
from leakbound.tasks.rows.datasets import load_rows

EVIL = (
    "<script>document.title='owned'</script>", '"><img src=x onerror="document.title=\'owned\'">',
    "</title><svg onload=alert(1)>", "../../../escaped", "/tmp/../escaped\x00.txt",
    "\x1b[31mred\x1b[0m \x1b]0;owned\x07", "a\x00b", "it's \"quoted\" `too`", "{{ 7*7 }} {% raw %}",
    "${HOME} $(touch escaped) %s {0}", "\u202egnp.exe", "=cmd|' /C calc'!A0",
)  # fmt: skip


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A folder in a folder: what climbs out of it can be seen."""
    inner = tmp_path / "outer" / "inner"
    inner.mkdir(parents=True)
    rows = [
        {"text": f"{EVIL[i % len(EVIL)]} {i}", "label": ("plain<marquee>", "../odd")[i % 2]}
        for i in range(48)
    ]
    (inner / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (inner / "keys.jsonl").write_text(json.dumps({"\x1b]0;owned\x07body": "a", "b": "c"}) + "\n")
    (inner / "note.txt").write_text(
        "\n".join(EVIL).replace("\x00", "") + "\nThe door code of Marta is 48213.\n"
    )
    return inner


@pytest.fixture
def desk(hostile: Path) -> Path:
    """Where `run` runs."""
    return hostile


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.torch
def test_hostile_rows_are_audited_reported_and_escaped(
    hostile: Path, run: Callable[..., Any], browser: Any, tmp_path: Path
) -> None:
    before = {path for path in tmp_path.rglob("*") if "profile" not in path.parts}
    done = run(
        ["audit", "--data", "rows.jsonl", "--pairs", "4", "--shots", "12", "--store-text", "all",
         "--canary", "natural"],
        ["influence", "--context", "note.txt", "--question", "What is the door code of Marta?",
         "--response", " \x1b]0;owned\x07 48213", "--ngram", "8"],
        ["audit", "--data", "keys.jsonl"],
        codes=[3, 0, 2],
    )  # fmt: skip
    assert "\x1b" not in done.stdout + done.stderr
    assert "\x07" not in done.stdout + done.stderr
    made = {
        path for path in tmp_path.rglob("*") if path.is_file() and "profile" not in path.parts
    } - before
    assert {path.relative_to(hostile).parts[0] for path in made} == {"runs", "influence"}
    for page in [path for path in made if path.suffix == ".html"]:
        browser.get(page.as_uri())
        assert browser.title != "owned"
        assert (
            browser.execute_script(
                "return document.querySelectorAll('img[src=x], svg[onload], marquee').length"
            )
            == 0
        )
        assert "<script>document.title" in browser.execute_script(
            "return document.body.textContent"
        )


@given(st.text())
def test_no_control_character_reaches_a_terminal(text: str) -> None:
    shown = printable(text)
    assert len(shown) == len(text)
    assert not any((ord(c) < 32 and c not in "\n\t") or 0x7F <= ord(c) < 0xA0 for c in shown)
    assert printable(shown) == shown
    shown.encode()


def test_plain_text_of_any_language_is_shown_as_it_is() -> None:
    for text in ("naïve “kite”\n\tДом 家 ☂ 👩‍👧", "a\u00a0b\u3000c"):
        assert printable(text) == text


def test_half_a_character_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "a \\ud800", "label": "b"}\n')
    with pytest.raises(DataError, match=r"line 1 of .* has half a character"):
        load_rows(tmp_path / "a.jsonl")
