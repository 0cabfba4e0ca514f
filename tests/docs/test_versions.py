"""`make docs-version` keeps the site of each version, and offers the choice between them."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def _git(repository: Path, *args: str) -> str:
    done = subprocess.run(["git", *args], cwd=repository, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.process
@pytest.mark.slow
def test_two_versions_stand_beside_each_other(tmp_path: Path) -> None:
    """In a clone, so that the branch of this repository stays as it is."""
    for name in ("mike", "material", "mkdocstrings"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    _git(ROOT, "clone", "--quiet", str(ROOT), str(tmp_path / "clone"))
    clone = tmp_path / "clone"
    for key in ("user.name", "user.email"):
        _git(clone, "config", key, "docs@example.org")
    for version in ("0.1", "0.2"):
        with (clone / "docs" / "index.md").open("a") as page:
            page.write(f"\n\nThis is version {version}.\n")
        make = ["make", "-o", "install", "docs-version", f"VERSION={version}"]
        done = subprocess.run(
            [*make, f"VENV={sys.prefix}"], cwd=clone, capture_output=True, text=True,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert "WARNING" not in done.stderr, done.stderr
    shown = json.loads(_git(clone, "show", "gh-pages:versions.json"))
    assert [(one["version"], one["aliases"]) for one in shown] == [("0.2", ["latest"]), ("0.1", [])]
    old, new = (_git(clone, "show", f"gh-pages:{one}/index.html") for one in ("0.1", "0.2"))
    assert "This is version 0.2" in new
    assert "This is version 0.2" not in old
    assert "This is version 0.1" in old
    assert '"provider": "mike"' in new
    assert _git(clone, "show", "gh-pages:0.1/llms.txt").startswith("# leakbound")
    assert "latest/" in _git(clone, "show", "gh-pages:index.html")
    assert "../0.2/" in _git(clone, "show", "gh-pages:latest/cli.html")


@pytest.mark.process
def test_a_version_has_to_be_named() -> None:
    done = subprocess.run(
        ["make", "-n", "-o", "install", "docs-version"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "name the version, such as make docs-version VERSION=0.1" in done.stderr
