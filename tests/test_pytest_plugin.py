"""The pytest plugin in pytest processes of its own:

live, then from stored trials, on a leaky and a sound system that count their calls.
"""

from __future__ import annotations

import re
import stat
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from commands import MODULE, cli, forked

pytestmark = pytest.mark.process

SYSTEMS = """
from hashlib import sha256
from pathlib import Path

CALLS = Path(__file__).with_name("calls")

def count():
    with CALLS.open("a") as file:
        file.write(".")

def leaky(context, query):
    count()
    return "yes" if any(row.input == query.split('"')[1] for row in context) else "no"

def sound(context, query):
    count()
    text = query.split('"')[1]
    copies = sum(row.input == text for row in context)
    right = int(sha256(text.encode()).hexdigest(), 16) % 10 > 2  # randomised response
    return "yes" if copies > 2 or (copies > 0) == right else "no"
"""
TESTS = """
import pytest
from systems import leaky, sound

ROWS = [(f"row {i}", "ab"[i % 2]) for i in range(30)]

@pytest.mark.privacy
@pytest.mark.parametrize("system", [leaky, sound])
def test_keeps_its_claim(privacy_audit, system):
    record = privacy_audit(ROWS, system, epsilon=1, pairs=24, shots=4, controls=40)
    assert record.counts["pairs"] == 24
    privacy_audit.check(record)

@pytest.mark.privacy
def test_too_few(privacy_audit):
    privacy_audit.check(privacy_audit(ROWS, sound, epsilon=1, pairs=3, shots=4, controls=40))
"""


# Plugins of our own tests, which this package knows nothing of; one of them takes two seconds.
OTHERS = "-p no:hypothesispytest -p no:randomly -p no:xdist -p no:anyio"


@pytest.fixture
def app(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text(
        f"[pytest]\naddopts = --strict-markers -W error -p no:cacheprovider {OTHERS}\n"
    )
    (tmp_path / "systems.py").write_text(SYSTEMS)
    (tmp_path / "test_app.py").write_text(TESTS)
    return tmp_path


def pytest_in(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """A forked process, in which `leakbound` is imported before pytest: a warning says so."""
    imported = "ignore:Module already imported:pytest.PytestAssertRewriteWarning"
    return forked(MODULE.format("pytest"), "pytest", "-W", imported, *args, cwd=folder)


def new_pytest_in(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """A new interpreter."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", *args], cwd=folder, capture_output=True, text=True
    )


def counts(done: subprocess.CompletedProcess[str]) -> dict[str, int]:
    return {
        name: int(number)
        for number, name in re.findall(r"(\d+) (passed|failed|error)", done.stdout.splitlines()[-1])
    }


def calls(app: Path) -> int:
    return len((app / "calls").read_text()) if (app / "calls").exists() else 0


def asked_for(*numbers: int) -> bool:
    """Whether calls, the last number, are those of audits of so many pairs: 40 control pairs of
    each kind before them and 40 behind, and for each pair two contexts, the first query again, and
    at most two neutral queries before it; at most 20 pairs four times before each ends.
    """
    *pairs, calls = numbers
    least = sum(2 * 3 * 40 + 3 * number for number in pairs)
    return least <= calls <= least + 2 * sum(pairs) + 160 * len(pairs)


def assert_report_is_made(app: Path, said: str) -> None:
    """By the command that a failure names."""
    run = re.search(r"leakbound (report .leakbound/\S*leaky\S+)", said)
    assert run, said
    made = cli(*run[1].split(), cwd=app)
    assert made.stdout.startswith("✗ VIOLATION   leaky"), made.stderr


def assert_private(folder: Path) -> None:
    """Trials are readable by their owner only, and out of version control."""
    assert (folder / ".gitignore").read_text() == "*\n"
    for path in (folder, *folder.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


@pytest.mark.slow
def test_live_then_replay_then_a_changed_system(app: Path) -> None:
    unknown = pytest_in(app)
    assert counts(unknown) == {"failed": 3}, unknown.stdout + unknown.stderr
    assert "24 of 24 pairs of this audit are not stored" in unknown.stdout
    assert "pytest 'test_app.py::test_keeps_its_claim[leaky]' --privacy-live" in unknown.stdout
    assert calls(app) == 0

    live = pytest_in(app, "--privacy-live")
    assert counts(live) == {"passed": 1, "failed": 2}, live.stdout
    asked = calls(app)
    assert asked_for(24, 24, 3, asked)

    replay = pytest_in(app)
    assert counts(replay) == counts(live)
    assert calls(app) == asked
    assert "✗ VIOLATION   leaky" in replay.stdout
    assert "claim 1" in replay.stdout
    assert "reused; nothing was asked now" in replay.stdout
    assert "pytest 'test_app.py::test_keeps_its_claim[leaky]'" in replay.stdout
    assert "? INCONCLUSIVE   sound" in replay.stdout
    assert "Traceback" not in replay.stdout
    assert_report_is_made(app, replay.stdout)
    assert_private(app / ".leakbound")

    (app / "systems.py").write_text(SYSTEMS.replace("> 2", "> 3"))
    changed = pytest_in(app)
    assert counts(changed) == {"failed": 3}
    assert calls(app) == asked


HELD = """
from systems import System, made

ROWS = [(f"row {i}", "ab"[i % 2]) for i in range(30)]

def test_object(privacy_audit):
    privacy_audit.check(privacy_audit(ROWS, System(HOW), epsilon=1, pairs=24, shots=4, controls=40))

def test_closure(privacy_audit):
    privacy_audit.check(privacy_audit(ROWS, made(HOW), epsilon=1, pairs=24, shots=4, controls=40))
"""
MAKERS = """
class System:
    def __init__(self, leaks):
        self.leaks, self.lock = leaks, object()

    def __call__(self, context, query):
        return leaky(context, query) if self.leaks else sound(context, query)

def made(leaks):
    return lambda context, query: leaky(context, query) if leaks else sound(context, query)
"""


@pytest.mark.slow
def test_a_system_that_holds_something_else_is_another(app: Path) -> None:
    (app / "systems.py").write_text(SYSTEMS + MAKERS)
    test = app / "test_held.py"
    test.write_text(HELD.replace("HOW", "False"))
    for flags in (["--privacy-live"], []):
        done = pytest_in(app, "test_held.py", *flags)
        assert counts(done) == {"passed": 2}, done.stdout
    assert asked_for(24, 24, calls(app))
    test.write_text(HELD.replace("HOW", "True"))
    stored = pytest_in(app, "test_held.py")
    assert counts(stored) == {"failed": 2}, stored.stdout
    assert "24 of 24 pairs of this audit are not stored" in stored.stdout
    assert "VIOLATION" in pytest_in(app, "test_held.py", "--privacy-live").stdout


@pytest.mark.slow
@pytest.mark.torch
def test_a_model_is_not_opened_for_stored_trials(app: Path) -> None:
    (app / "test_model.py").write_text(
        "import sys\n\ndef test_it(privacy_audit, request):\n"
        "    record = privacy_audit(mechanism='zero_shot', pairs=24, shots=4)\n"
        "    privacy_audit.check(record)\n"
        "    assert ('torch' in sys.modules) == request.config.getoption('--privacy-live')\n"
    )
    assert "no trials of this model are stored" in pytest_in(app, "test_model.py").stdout
    for run, flags in ((pytest_in, ["--privacy-live", "-W", "default"]), (new_pytest_in, [])):
        done = run(app, "test_model.py", *flags)
        assert counts(done) == {"passed": 1}, done.stdout


MISTAKES = {
    "two systems of one name": """
from systems import sound
def make(n):
    def answer(context, query):
        return "no"
    return answer
def test_it(privacy_audit):
    rows = [(f"row {i}", "ab"[i % 2]) for i in range(30)]
    for n in (1, 2):
        privacy_audit(rows, make(n), pairs=3, shots=4)
""",
    "is not defined in a file below": """
import functools
from systems import sound
def test_it(privacy_audit):
    rows = [(f"row {i}", "ab"[i % 2]) for i in range(30)]
    privacy_audit(rows, functools.partial(sound), pairs=3, shots=4)
""",
    "Did you mean 'pairs'": """
from systems import sound
def test_it(privacy_audit):
    privacy_audit([(f"row {i}", "ab"[i % 2]) for i in range(30)], sound, pears=3)
""",
}  # fmt: skip


def test_what_cannot_be_told_apart_is_refused(app: Path) -> None:
    for number, text in enumerate(MISTAKES.values()):
        (app / f"test_mistake_{number}.py").write_text(text)
    done = pytest_in(app, "--privacy-live", "-k", "mistake")
    assert counts(done) == {"failed": 3}, done.stdout
    for sentence in MISTAKES:
        assert sentence in done.stdout
    assert "row 1" not in done.stdout


def test_the_plugin_is_an_entry_point_and_loads_nothing_heavy() -> None:
    (found,) = [point for point in entry_points(group="pytest11") if point.name == "leakbound"]
    assert found.value == "leakbound_hosts.pytest_plugin"
    code = (
        "import sys, leakbound_hosts.pytest_plugin\n"
        "print(sorted({'numpy', 'scipy', 'pydantic', 'yaml', 'click'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
