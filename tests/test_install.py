"""The install hints of error messages name what is really installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import leakbound
from leakbound._install import install_hint

SOURCES = Path(leakbound.__file__).parent
ASK = "from leakbound._install import install_hint; print(install_hint('cache'))"
PACKAGED, CHECKOUT = 'pip install "leakbound[cache]"', 'pip install -e ".[cache]"'
EDITABLE = '{"url": "file:///src", "dir_info": {"editable": true}}'
FOLDER = '{"url": "file:///src", "dir_info": {}}'


def test_this_checkout_says_so() -> None:
    assert install_hint("local") == 'pip install -e ".[local]"'


@pytest.mark.parametrize(
    ("origin", "beside", "hint"),
    [(None, True, PACKAGED), (FOLDER, True, PACKAGED), (EDITABLE, True, CHECKOUT),
     (None, False, CHECKOUT)],
)  # fmt: skip
def test_the_hint_follows_how_the_package_was_installed(
    tmp_path: Path, origin: str | None, beside: bool, hint: str
) -> None:
    """`beside`: the package that runs lies beside the metadata, as after an ordinary install."""
    site, tree = tmp_path / "site", tmp_path / "tree"
    package = (site if beside else tree) / "leakbound"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    shutil.copy(SOURCES / "_install.py", package)
    about = site / "leakbound-9.9.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: leakbound\nVersion: 9.9\n")
    if origin:
        (about / "direct_url.json").write_text(origin)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (tree, site)))}
    done = subprocess.run(
        [sys.executable, "-c", ASK], env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == hint


def test_no_other_file_writes_an_install_command() -> None:
    found = [
        str(file.relative_to(SOURCES))
        for file in SOURCES.rglob("*.py")
        if re.search(r"pip install", file.read_text(encoding="utf-8"))
    ]
    assert found == ["_install.py"]


def test_the_image_runs_the_command_as_a_user_without_rights() -> None:
    """Read, not built: there may be no engine here."""
    lines = (SOURCES.parents[1] / "Dockerfile").read_text().splitlines()
    last = {line.split()[0]: line for line in lines if line and line[0].isupper()}
    assert last["ENTRYPOINT"] == 'ENTRYPOINT ["/venv/bin/leakbound"]'
    assert last["USER"] == "USER leakbound"
    assert any("install --directory --owner leakbound /work" in line for line in lines)
    assert last["WORKDIR"] == "WORKDIR /work"
