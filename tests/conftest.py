"""Shared fixtures: a socket guard for every test, a few hand-written rows, a scripted model that
leaks. What is marked `torch` is skipped without it.
"""

from __future__ import annotations

import gc
import json
import os
import shutil
import signal
import socket
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("SOURCE_DATE_EPOCH", "1767225600")  # equal pages on both sides of midnight

import commands
import pytest
from hypothesis import HealthCheck, settings
from limits import PATIENCE

from leakbound.models import Model, Scripted, open_model
from leakbound.models.http import transport
from leakbound.tasks import Example

# Equal examples in every run, and no failure of an example that took long beside other work.
settings.register_profile("suite", derandomize=True, deadline=None,
                          suppress_health_check=[HealthCheck.too_slow])  # fmt: skip
settings.load_profile("suite")

# A shell that starts this in the background has it ignore Ctrl-C, and so would its children.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

LOOPBACK = ("127.", "::1", "localhost")
MEMORY = "/dev/shm"


def pytest_configure() -> None:
    """Files of tests are in memory where there is enough: SQLite waits for a disk at every commit,
    and nothing of a test outlives it."""
    if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > 4 * 2**30:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", MEMORY)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """`torch` for tests of the pocket model; tests that start no process come last, as they are
    short and even out the workers' ends.
    """
    for item in items:
        if "pocket" in getattr(item, "fixturenames", ()):
            item.add_marker("torch")
    items.sort(key=lambda item: item.get_closest_marker("process") is None)


def pytest_collection_finish() -> None:
    """What is imported stays: the collector of garbage need not look at it again."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    if "PYTEST_XDIST_WORKER" not in os.environ:
        shutil.rmtree(commands.folder(), ignore_errors=True)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("torch"):
        pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any connection beyond loopback fails the test."""
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: Any) -> None:
        if self.family != socket.AF_UNIX and not str(address[0]).startswith(LOOPBACK):
            raise AssertionError(f"a test tried to reach {address}")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)


@pytest.fixture(autouse=True)
def soon_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What failed is tried again after a hundredth of the usual wait, which changes no result."""
    monkeypatch.setattr(transport, "FIRST", transport.FIRST / 100)


@pytest.fixture(autouse=True)
def own_warnings_are_errors() -> None:
    """A warning that our packages raise, or that names a line of theirs, fails a test.

    Those of others do not: a new release of theirs must not fail the suite. What it announces of
    what they call fails tests/test_announced_removals.py.
    """
    warnings.filterwarnings("error", module=r"leakbound(_lab|_hosts)?(\.|$)")


@pytest.fixture(scope="session")
def rows() -> tuple[Example, ...]:
    """Sixty hand-made rows of two classes, one class rarer than the other."""
    things = (
        "a red kite over the bay",
        "the long wet road",
        "an empty theatre seat",
        "soup with too much salt",
    )
    return tuple(
        Example(f"{things[i % 4]}, number {i}", "plain" if i % 3 else "odd") for i in range(60)
    )


@pytest.fixture
def data_file(tmp_path: Path, rows: tuple[Example, ...]) -> Path:
    """The rows as a JSONL file."""
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps({"text": r.input, "label": r.label}) + "\n" for r in rows))
    return path


def said(prompt: str) -> str:
    """Answers a membership query truthfully: does the quoted text stand before it as well?"""
    canary = prompt.split('"')[-2]
    return "yes" if prompt.count(canary) > 1 else "no"


@pytest.fixture
def leaky() -> Scripted:
    """A model that finds every canary."""
    return Scripted(complete=said, name="leaky")


@pytest.fixture(scope="session")
def pocket() -> Model:
    """The real pocket model."""
    return open_model("pocket")


FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync",
         "--window-size=1100,1600")  # fmt: skip


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One browser for all tests of a process; `browser` clears what a test leaves."""
    if not (shutil.which("chromium") and shutil.which("chromedriver")):
        pytest.skip("chromium and chromedriver are not installed")
    webdriver = pytest.importorskip("selenium.webdriver")
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(
        options=options, service=webdriver.ChromeService(shutil.which("chromedriver"))
    )
    driver.set_script_timeout(PATIENCE)
    yield driver
    driver.quit()


@pytest.fixture
def browser(chromium: Any) -> Any:
    """An empty page in the usual window, without a log of earlier pages."""
    chromium.get("about:blank")
    chromium.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})
    chromium.execute_cdp_cmd("Network.setBlockedURLs", {"urls": []})
    for kind in ("browser", "performance"):
        chromium.get_log(kind)
    return chromium
