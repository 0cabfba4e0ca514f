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
from leakbound._install import PUBLISHED, install_hint

SOURCES = Path(leakbound.__file__).parent
ROOT = SOURCES.parents[1]
ASK = """import sys
sys.prefix = {!r}
from leakbound._install import install_hint
print(install_hint("gguf"))"""
CHECKOUT, NAMED = 'pip install -e ".[gguf]"', '"torch>=2.6" "gguf>=0.17"'
WITH = '--with "torch>=2.6" --with "gguf>=0.17"'
NEEDS = ("numpy>=2.0", "torch>=2.6; extra == 'local'", "leakbound[local]; extra == 'gguf'",
         "gguf>=0.17; extra == 'gguf'", "scipy; extra == 'other'")  # fmt: skip
EDITABLE = '{"url": "file:///src", "dir_info": {"editable": true}}'
FOLDER, WHEEL = '{"url": "file:///my%20src", "dir_info": {}}', '{"url": "file:///a.whl"}'
PIP = f"{sys.executable} -m pip install {NAMED}"


def test_this_checkout_says_so() -> None:
    assert install_hint("local") == 'pip install -e ".[local]"'


@pytest.mark.process
@pytest.mark.parametrize(
    ("origin", "beside", "prefix", "hint"),
    [
        (None, True, "env", PIP),
        (FOLDER, True, "env", PIP),
        (EDITABLE, True, "env", CHECKOUT),
        (None, False, "env", CHECKOUT),
        (WHEEL, True, "env/pipx_metadata.json", f"pipx inject leakbound {NAMED}"),
        (WHEEL, True, "archive-v0/x/none", f"uvx --from /a.whl {WITH} leakbound"),
        (FOLDER, True, "env/uv-receipt.toml", f"uv tool install '/my src' {WITH}"),
    ],
)
def test_the_hint_names_what_installed_the_package_and_packages_of_the_index(
    tmp_path: Path, origin: str | None, beside: bool, prefix: str, hint: str
) -> None:
    """`beside`: the package that runs lies beside the metadata, as after an ordinary install.

    `prefix`: the environment, and a file in it that tells who made it.
    """
    site, tree = tmp_path / "site", tmp_path / "tree"
    package = (site if beside else tree) / "leakbound"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    shutil.copy(SOURCES / "_install.py", package)
    about = site / "leakbound-9.9.dist-info"
    about.mkdir(parents=True)
    head = "Metadata-Version: 2.1\nName: leakbound\nVersion: 9.9\n"
    (about / "METADATA").write_text(head + "".join(f"Requires-Dist: {one}\n" for one in NEEDS))
    if origin:
        (about / "direct_url.json").write_text(origin)
    mark = tmp_path / prefix
    mark.parent.mkdir(parents=True, exist_ok=True)
    mark.touch()
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (tree, site)))}
    here = str(mark.parent if mark.suffix or mark.name == "none" else mark)
    done = subprocess.run(
        [sys.executable, "-S", "-c", ASK.format(here)],
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == hint


def test_nothing_names_an_extra_of_a_distribution_that_is_not_ours_on_the_index() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").iterdir()]
    files = [one for one in (*pages, *SOURCES.rglob("*.py")) if one.is_file()]
    named = re.compile(
        r"leakbound\[\w|(pip|pipx|tool|uvx) (install|inject|--from)? ?[\"']?leakbound\b(?! \./)"
    )
    found = [str(one) for one in files if named.search(one.read_text("utf-8"))]
    assert PUBLISHED or found == [str(SOURCES / "_install.py")]


def test_no_other_file_writes_an_install_command() -> None:
    found = [
        str(file.relative_to(SOURCES))
        for file in SOURCES.rglob("*.py")
        if re.search(r"pip install", file.read_text(encoding="utf-8"))
    ]
    assert found == ["_install.py"]


def test_the_image_runs_the_command_as_a_user_without_rights() -> None:
    """Read, not built: there may be no engine here."""
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    last = {line.split()[0]: line for line in lines if line and line[0].isupper()}
    assert last["ENTRYPOINT"] == 'ENTRYPOINT ["/venv/bin/leakbound"]'
    assert last["USER"] == "USER leakbound"
    assert any("install --directory --owner leakbound /work" in line for line in lines)
    assert last["WORKDIR"] == "WORKDIR /work"


def test_the_image_has_one_base_by_its_digest_and_packages_by_hashes() -> None:
    """A tag names another image each month."""
    text = (ROOT / "Dockerfile").read_text()
    assert re.findall(r"^FROM (\S+)", text, re.M) == ["${BASE}"] * 2
    assert re.search(r"^ARG BASE=python:3\.12-slim@sha256:[0-9a-f]{64}$", text, re.M)
    assert "--require-hashes -r requirements/local.txt" in text


def test_workflows_name_actions_by_commit() -> None:
    used = [
        line.split("uses:")[1].split()[0]
        for file in [ROOT / "action.yml", *ROOT.glob(".github/workflows/*.yml")]
        for line in file.read_text().splitlines() if "uses:" in line
    ]  # fmt: skip
    assert used
    assert all(re.fullmatch(r"[\w/.-]+@[0-9a-f]{40}", one) for one in used)
