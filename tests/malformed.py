"""What every malformed input must end with, whichever command it is given to."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from leakbound.cli.main import main

PRIVATE = "kite-777"  # stands in every private row that these tests write
JARGON = re.compile(
    r"Traceback|internal error|pydantic|\w+Error\b|Errno|NoneType|\bNone\b|codec|validation error"
    r"|Value error|Input should|unable to parse|datetime\.|<class|/tmp/|\.\. |a array"
)


def _files() -> list[Path]:
    """What stands in the current folder, but for what Python compiles."""
    return sorted(one for one in Path().rglob("*") if "__pycache__" not in one.parts)


def mistaken(
    capsys: pytest.CaptureFixture[str], args: Sequence[str], code: int, sentence: str
) -> str:
    """Run a command that must be refused in the current folder; what it said.

    It says `sentence`, ends with `code`, shows neither a private row nor a word of Python, and
    leaves no new file.
    """
    before = _files()
    with pytest.raises(SystemExit) as end:
        main([*args])
    shown = capsys.readouterr()
    assert sentence in shown.err
    assert end.value.code == code, shown.err
    assert not JARGON.search(shown.err)
    assert PRIVATE not in shown.out + shown.err
    assert _files() == before
    return shown.err


def written(folder: Path, files: dict[str, str | bytes]) -> Path:
    """The folder, with these files in it."""
    for name, content in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder
