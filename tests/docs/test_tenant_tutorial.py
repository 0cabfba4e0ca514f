"""The tutorial on two tenants, typed as it stands, with its application on another port."""

from __future__ import annotations

import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from commands import cli

pytestmark = [pytest.mark.process, pytest.mark.slow]
ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "tutorial-tenants.md").read_text(encoding="utf-8")
KEYS = {"ACME_KEY": "key-of-acme", "GLOBEX_KEY": "key-of-globex"}


def fences(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, flags=re.M | re.S)


def started(folder: Path, port: int) -> subprocess.Popen[bytes]:
    found = subprocess.Popen([sys.executable, "desk.py"], cwd=folder)
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            assert found.poll() is None
            time.sleep(0.05)
        else:
            return found


def test_two_tenants_and_one_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "two_tenants"
    shutil.copytree(ROOT / "examples" / "two_tenants", folder)
    code, settings = folder / "desk.py", folder / "desk.yaml"
    shown, fix = fences("py")
    assert shown in code.read_text()
    assert fences("yaml") == [settings.read_text()]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for file in (code, settings):
        file.write_text(file.read_text().replace("8000", str(port)))
    for name, key in KEYS.items():
        assert f"{name}={key}" in PAGE
        monkeypatch.setenv(name, key)
    desk = started(folder, port)
    try:
        for line in "".join(fences("text")).splitlines():
            if line.startswith("kill"):
                code.write_text(code.read_text().replace("    key = question\n", fix))
                desk.kill()
                desk.wait()
                desk = started(folder, port)
            elif line.startswith("leakbound "):
                command, _, note = line.partition("#")
                done = cli(*shlex.split(command)[1:], cwd=folder)
                assert done.returncode == ("exit 1" in note), (command, done.stdout, done.stderr)
    finally:
        desk.kill()
        desk.wait()
