"""compare, gate and export as a user meets them: real processes, exit codes, files."""

from __future__ import annotations

import re
import shutil
import stat
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml
from commands import cli

from leakbound.auditing import load_result

pytestmark = pytest.mark.process

SYSTEM = """
from hashlib import sha256


def leaky(context, query):
    canary = query.split('"')[1]
    return "yes" if any(row.input == canary for row in context) else "no"


def sound(context, query):  # randomised response with epsilon log 2 about a single example
    text = query.split('"')[1]
    copies = sum(row.input == text for row in context)
    right = int(sha256(text.encode()).hexdigest(), 16) % 3 > 0
    return "yes" if copies > 2 or (copies > 0) == right else "no"
"""


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("desk")
    (folder / "app.py").write_text(SYSTEM)
    for name, pairs in (("leaky", 24), ("sound", 24), ("sound", 6)):
        cli(
            "audit",
            "--system",
            f"python:app.py:{name}",
            "--pairs",
            str(pairs),
            "--controls",
            "40",
            "--out",
            f"{name}{pairs}",
            cwd=folder,
        )
    return folder


def run(desk: Path, name: str) -> str:
    (folder,) = [path for path in (desk / name).iterdir() if path.is_dir()]
    return str(folder.relative_to(desk))


@pytest.mark.slow
def test_gate_ends_as_it_says(desk: Path, tmp_path: Path) -> None:
    leaky, sound, few = (run(desk, name) for name in ("leaky24", "sound24", "sound6"))
    for runs, args, code, word in (
        ((sound,), (), 0, "PASSED"),
        ((leaky,), (), 1, "VIOLATION"),
        ((few,), (), 3, "INCONCLUSIVE"),
        ((sound,), ("--min-power", "0.5"), 3, "no rates of the model were given"),
        ((sound,), ("--min-power", "0.5", "--factor", "9"), 2, "it must be at most 8"),
    ):
        done = cli("gate", "-v", *runs, "--max-epsilon", "1", *args, cwd=desk)
        assert done.returncode == code, (done.stdout, done.stderr)
        assert word in done.stdout + done.stderr
    file = tmp_path / "gate.xml"
    every = ("gate", few, leaky, sound, "--max-epsilon", "1", "--junit", str(file))
    assert len(cli(*every, "-v", cwd=desk).stdout.splitlines()) == 4
    page = tmp_path / "gate.html"
    done = cli(*every, "--html", str(page), cwd=desk)
    assert done.returncode == 1
    assert re.match(r"✗ GATE   1 violation, 1 inconclusive, 1 passed: .* exit 1\n", done.stdout)
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    assert all(Path(one).name in page.read_text() for one in (leaky, sound, few))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    (suite,) = ElementTree.parse(file).getroot()
    assert [[child.tag for child in case] for case in suite] == [["error"], ["failure"], []]


MISTAKES = [
    (("gate", "nowhere", "--max-epsilon", "1"), "'nowhere' does not exist; give the folder of a"),
    (("gate", "nowhere"), "--max-epsilon"),
    (("gate", "nowhere", "--max-epsilon", "1", "--min-power", "2"), "must be a probability"),
    (("compare", "nowhere", "elsewhere"), "'nowhere' does not exist; give the folder of a"),
    (("export", "config", "nowhere"), "'nowhere' does not exist; give the folder of a"),
]


@pytest.mark.parametrize(("args", "sentence"), MISTAKES)
def test_a_mistake_is_a_sentence(tmp_path: Path, args: tuple[str, ...], sentence: str) -> None:
    done = cli(*args, cwd=tmp_path)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_folder_stands_for_the_finished_runs_in_it(desk: Path, tmp_path: Path) -> None:
    for name in ("leaky24", "sound24"):
        folder = desk / run(desk, name)
        shutil.copytree(
            folder, tmp_path / "runs" / f"{folder.name}{'.old1' if name == 'leaky24' else ''}"
        )
    done = cli("gate", "-v", "runs", "--max-epsilon", "1", cwd=tmp_path)
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 2), done.stdout + done.stderr
    assert "give two or more" in cli("compare", "runs", cwd=tmp_path).stderr
    cut = tmp_path / "runs" / "cut-short"
    cut.mkdir()
    shutil.copy(desk / run(desk, "sound6") / "manifest.json", cut)
    done = cli("gate", "-v", "runs", "--max-epsilon", "1", cwd=tmp_path)
    assert done.returncode == 3  # a gate needs every run
    assert "INCONCLUSIVE: cut-short: The run is unfinished." in done.stdout
    assert "leakbound: 1 of 2 unfinished: cut-short" in done.stderr
    done = cli("compare", "runs", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (3, "")  # one of two is finished


def test_compare_shows_a_table_and_writes_a_page(desk: Path, tmp_path: Path) -> None:
    page = tmp_path / "pages" / "compare.html"
    both = ("compare", run(desk, "leaky24"), run(desk, "sound24"), "--html", str(page))
    short, done = cli(*both, cwd=desk).stdout, cli(*both, "-v", cwd=desk)
    assert done.returncode == 0, done.stderr
    assert re.match(r"· COMPARE   .* exit 0\n   A +violation, ε ≥ \S+, claim 1 ", short)
    assert "significant" in short
    assert "differs in" in done.stdout
    assert "true-positive rate, B minus A: -0." in done.stdout
    assert "runs compared" in page.read_text()
    assert stat.S_IMODE(page.stat().st_mode) == 0o600


def test_the_configuration_of_an_application_names_no_model(tmp_path: Path) -> None:
    """It named few_shot over pocket, which nobody had asked."""
    (tmp_path / "app.py").write_text("def answer(rows, query):\n    return 'no'\n")
    (tmp_path / "rows.csv").write_text("text\n" + "".join(f"note {i}\n" for i in range(60)))
    given = ("rows.csv", "app.py:answer", "--pairs", "8")
    assert cli("audit", *given, "--out", "once", cwd=tmp_path).returncode == 3
    (first,) = (tmp_path / "once").iterdir()
    exported = cli("export", "config", str(first), cwd=tmp_path)
    assert set(yaml.safe_load(exported.stdout)["system"]) == {"address", "system_options"}
    (tmp_path / "again.yaml").write_text(exported.stdout)
    assert cli("audit", "--config", "again.yaml", "--out", "again", cwd=tmp_path).returncode == 3
    assert [one.name for one in (tmp_path / "again").iterdir()] == [first.name]


@pytest.mark.slow
def test_an_exported_configuration_makes_the_same_run(desk: Path) -> None:
    exported = cli("export", "config", run(desk, "sound24"), cwd=desk)
    assert exported.returncode == 0, exported.stderr
    (desk / "again.yaml").write_text(exported.stdout)
    done = cli("audit", "--config", "again.yaml", "--out", "again", cwd=desk)
    assert done.returncode == 0, done.stderr
    assert Path(run(desk, "again")).name == Path(run(desk, "sound24")).name
    first, again = (load_result(desk / run(desk, name)) for name in ("sound24", "again"))
    assert first.results() == again.results()
