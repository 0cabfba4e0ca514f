"""The wheel and the source distribution, built from a clean checkout and used in empty
environments. Every line of README that installs or uses leakbound is typed there.

They come from the last commit, and the tests need a package index. A machine without one skips
them, unless REQUIRE_INDEX is set, as in CI. TORCH_PIP: options of pip for torch, as for make.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from loopback.running import running
from loopback.speaking import speaking

pytestmark = pytest.mark.hosts

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
TYPED = re.findall(r"`([^`\n]+)`", README)  # code within sentences and tables
INSTALLING = [line for line in TYPED if re.match(r"(pip|pipx|uvx) .*\.", line)]
SLOW = {"leakbound selftest"}  # by tests/conformance/test_selftest.py
LOCAL_HINT = '-m pip install "accelerate'
VERDICTS = (0, 1, 3)
Typed = tuple[str, int]


def run(
    *words: str | Path, cwd: Path, path: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """A command in an environment that names no other Python; `path` comes first in PATH."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV"))}
    found = {**kept, "OMP_NUM_THREADS": "1", "PIPX_HOME": str(cwd / "pipx"),
             "PIPX_DEFAULT_BACKEND": "pip",  # uv would take a GPU build of torch, 5 GB
             "PIPX_BIN_DIR": str(cwd / "bin"), "PIPX_MAN_DIR": str(cwd / "man"),
             "PATH": os.pathsep.join(filter(None, (path and str(path), kept["PATH"])))}  # fmt: skip
    return subprocess.run(map(str, words), cwd=cwd, env=found, capture_output=True, text=True)


def done(*words: str | Path, cwd: Path, path: Path | None = None) -> str:
    """What a command printed, which must end with 0."""
    ended = run(*words, cwd=cwd, path=path)
    assert ended.returncode == 0, (words, ended.stdout[-2000:], ended.stderr[-4000:])
    return ended.stdout


def environment(folder: Path) -> Path:
    """The folder of the programs of a new, empty environment."""
    done(sys.executable, "-m", "venv", folder, cwd=folder.parent)
    return folder / "bin"


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs that README and this file build and install with."""
    programs = environment(tmp_path_factory.mktemp("tools") / "env")
    got = run(programs / "pip", "install", "--quiet", "build", "pipx", "uv", cwd=programs)
    if got.returncode and not os.environ.get("REQUIRE_INDEX"):
        pytest.skip(f"no package index can be reached here: {got.stderr.strip()[-300:]}")
    assert got.returncode == 0, got.stderr
    return programs


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The last commit, and nothing else that lies in this folder."""
    folder = tmp_path_factory.mktemp("clean") / "leakbound"
    done("git", "clone", "--quiet", ROOT, folder, cwd=folder.parent)
    return folder


@pytest.fixture(scope="module")
def built(checkout: Path, tools: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The wheel, made of the source distribution; and that."""
    folder = tmp_path_factory.mktemp("built")
    done(tools / "python", "-m", "build", "--outdir", folder, checkout, cwd=folder)
    return [next(folder.glob(f"leakbound-*{end}")) for end in (".whl", ".tar.gz")]


@pytest.fixture(scope="module")
def light(built: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment that holds the wheel and what it needs."""
    programs = environment(tmp_path_factory.mktemp("light") / "env")
    done(programs / "pip", "install", "--quiet", built[0], cwd=programs)
    return programs


@pytest.fixture(scope="module")
def local(checkout: Path, tools: Path) -> Path:
    """The programs of an environment that `pipx install '.[local]'` makes."""
    (line,) = (one for one in INSTALLING if "[local]" in one)
    for_torch = os.environ.get("TORCH_PIP", "").replace("--index-url", "--extra-index-url")
    options = [f"--pip-args={for_torch}"] if for_torch else []
    home = checkout.parent / "local"  # a clone: another test installs into the checkout itself
    done("git", "clone", "--quiet", checkout, home, cwd=checkout.parent)
    done(*shlex.split(line), *options, cwd=home, path=tools)
    return home / "pipx" / "venvs" / "leakbound" / "bin"


@pytest.fixture
def folder(tmp_path: Path, data_file: Path) -> Path:
    """A folder as README takes it for granted: private rows, the examples, and an application."""
    shutil.copy(data_file, tmp_path / "private.jsonl")
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    (tmp_path / "app").mkdir()
    shutil.copy(ROOT / "examples" / "user_system.py", tmp_path / "app" / "rag.py")
    return tmp_path


def fenced(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, flags=re.M | re.S)


def commands() -> list[Typed]:
    """Each `leakbound` command of README with its exit code: fences, and the table of ways in."""
    lines = [line.partition("#") for fence in fenced("sh") for line in fence.splitlines()]
    typed = [(command.strip(), exit_code(note)) for command, _, note in lines]
    table = [(one, 1) for one in TYPED if one.startswith("leakbound audit --system python:app")]
    # that of an address needs a server, which tests/cli/test_init_address.py starts
    rest = [(one, 0) for one in TYPED if one.startswith("leakbound init private.jsonl python:")]
    return [one for one in (*table, *rest, *typed) if one[0].startswith("leakbound ")]


def exit_code(note: str) -> int:
    found = re.search(r"exit (\d+)", note)
    return int(found[1]) if found else 0


def ended(programs: Path, command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """A command of README, by the programs of an environment."""
    return run(programs / "leakbound", *shlex.split(command)[1:], cwd=cwd)


def files(wheel: Path) -> dict[str, int]:
    with zipfile.ZipFile(wheel) as archive:
        return {one.filename: one.CRC for one in archive.infolist()}


def test_readme_tells_how_to_install() -> None:
    assert {one.split()[0] for one in INSTALLING} == {"pip", "pipx", "uvx"}
    assert len(commands()) > 12


def test_wheels_of_checkout_and_of_source_distribution_are_equal(
    built: list[Path], checkout: Path, tools: Path
) -> None:
    """And they hold the pocket model, templates and the mark of typed packages."""
    (line,) = (one for one in INSTALLING if one.startswith("pip wheel"))
    done(*shlex.split(line), cwd=checkout, path=tools)
    (made,) = checkout.glob("leakbound-*.whl")
    assert files(made) == files(built[0])
    ends = ("pocket/weights/model.safetensors", "base.html.j2", "leakbound/py.typed")
    assert all(any(name.endswith(end) for name in files(made)) for end in ends)


def test_the_light_core_does_what_readme_says_or_names_what_is_missing(
    light: Path, folder: Path
) -> None:
    done(light / "python", "-c", "import importlib.util as u; assert not u.find_spec('torch')",
         cwd=folder)  # fmt: skip
    served = []
    for command, expected in commands():
        if command in SLOW:
            continue
        got = ended(light, command, folder)
        if got.returncode != 4:
            assert got.returncode == expected, (command, got.stdout, got.stderr)
            served.append(command.split()[1])
        else:
            assert LOCAL_HINT in got.stderr, (command, got.stderr)
    assert {"audit", "init", "list", "plan"} <= set(served)
    done(light / "python", "-c", fenced("python")[0], cwd=folder)


def test_the_light_core_audits_a_model_behind_an_address(light: Path, folder: Path) -> None:
    with running(speaking()) as url:
        probed = run(light / "leakbound", "probe", "openai/pocket", "--base-url", url, cwd=folder)
        assert probed.returncode == 0, (probed.stdout, probed.stderr)
        words = ("audit", "--model", "openai/pocket", "--base-url", url, "--pairs", "6")
        audited = run(light / "leakbound", *words, cwd=folder)
    assert audited.returncode in VERDICTS, (audited.stdout, audited.stderr)


def test_the_source_distribution_can_be_installed(
    light: Path, built: list[Path], folder: Path
) -> None:
    words = ("install", "--quiet", "--no-deps", "--force-reinstall", built[1])
    done(light / "pip", *words, cwd=folder)
    command, expected = next(one for one in commands() if "user_system" in one[0])
    assert ended(light, command, folder).returncode == expected


@pytest.mark.parametrize("tool", ["pipx", "uvx"])
def test_lines_that_install_the_light_core_do(tool: str, checkout: Path, tools: Path) -> None:
    """As they stand in README, in the checkout."""
    lines = [*dict.fromkeys(one for one in INSTALLING if one.startswith(tool) and "[" not in one)]
    assert lines
    for line in lines:
        done(*shlex.split(line), cwd=checkout, path=tools)
    if tool == "pipx":
        assert "Usage: leakbound" in done(checkout / "bin" / "leakbound", "--help", cwd=checkout)


def test_everything_in_readme_runs_where_local_models_are_installed(
    local: Path, folder: Path
) -> None:
    for command, expected in commands():
        if command not in SLOW:
            got = ended(local, command, folder)
            assert got.returncode == expected, (command, got.stdout, got.stderr)
    for code in fenced("python"):
        done(local / "python", "-c", code, cwd=folder)
    pocket = next(local.parent.glob("lib/*/site-packages/leakbound/models/pocket/weights"))
    words = ("audit", "--model", f"hf/{pocket}", "--data", "private.jsonl", "--pairs", "20")
    audited = run(local / "leakbound", *words, cwd=folder)
    assert audited.returncode in VERDICTS, (audited.stdout, audited.stderr)
