"""A package that is really built and installed brings a class for each catalogue."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from commands import cli, launch, without_torch

pytestmark = pytest.mark.process

PACKAGE = Path(__file__).parent / "package"
BUILD = [
    sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation",
    "--no-index", "--disable-pip-version-check", "--target",
]  # fmt: skip


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the sample package is installed in."""
    root = tmp_path_factory.mktemp("installed")
    source = root / "source"
    source.mkdir()
    for file in PACKAGE.glob("*.*"):
        (source / file.name).write_bytes(file.read_bytes())
    subprocess.run([*BUILD, str(root / "site"), str(source)], check=True, cwd=root)
    return root / "site"


def leakbound(installed: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command line, with the sample package on its path, and without torch."""
    path = os.pathsep.join([str(installed), without_torch()])
    return cli(*arguments, cwd=folder, PYTHONPATH=path)


@pytest.mark.slow
def test_every_catalogue_lists_what_the_package_brings(installed: Path, tmp_path: Path) -> None:
    listed = leakbound(installed, tmp_path, "list").stdout
    names = ("coin_flip", "dated", "polite", "says_yes", "hoeffding", "sample/...", "sample:...")
    assert [name for name in names if f"  {name} " not in listed] == []


@pytest.mark.slow
def test_a_file_names_the_parts_of_the_package_with_options(
    installed: Path, tmp_path: Path
) -> None:
    (tmp_path / "audit.yaml").write_text(
        """
system: {model: sample/one}
attack:
  query: {kind: polite, please: Say}
  canary: {kind: dated, year: 1875}
  score: says_yes
decision: {estimator: hoeffding}
pairs: 60
""",
        encoding="utf-8",
    )
    done = leakbound(installed, tmp_path, "audit", "--config", "audit.yaml")
    assert done.returncode == 1, done.stderr
    assert "VIOLATION" in done.stdout


@pytest.mark.slow
def test_flags_reach_options_of_the_package(installed: Path, tmp_path: Path) -> None:
    plain = ("audit", "--pairs", "20", "--canary", "dated:year=1901")
    done = leakbound(installed, tmp_path, *plain, "--mechanism", "coin_flip:heads=0.25")
    assert done.returncode in (0, 3), done.stderr
    wrong = leakbound(installed, tmp_path, *plain, "--mechanism", "coin_flip:tails=1")
    assert wrong.returncode == 2
    assert "coin_flip has no option 'tails'" in wrong.stderr


@pytest.mark.slow
def test_a_system_of_the_package_is_audited_at_its_address(installed: Path, tmp_path: Path) -> None:
    done = leakbound(installed, tmp_path, "audit", "--system", "sample:no", "--pairs", "20")
    assert done.returncode in (0, 3), done.stderr


@pytest.mark.slow
def test_a_class_under_another_name_is_listed_with_what_is_wrong(
    installed: Path, tmp_path: Path
) -> None:
    info = next(installed.glob("*.dist-info"))
    other = tmp_path / "site"
    other.mkdir()
    (other / "leakbound_sample.py").write_bytes((installed / "leakbound_sample.py").read_bytes())
    (other / info.name).mkdir()
    (other / info.name / "METADATA").write_bytes((info / "METADATA").read_bytes())
    text = "[leakbound.canaries]\nwrong = leakbound_sample:Dated\n"
    (other / info.name / "entry_points.txt").write_text(text, encoding="utf-8")
    process = launch("list", "canaries", cwd=tmp_path, PYTHONPATH=str(other))
    shown, errors = process.communicate()
    assert process.returncode == 0, errors
    assert "wrong              not used: the canary 'wrong' is registered as" in shown
    assert "must lead to a class whose attribute name is 'wrong'" in shown
