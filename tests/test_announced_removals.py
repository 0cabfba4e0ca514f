"""No release that is installed announces the removal of something that this package calls.

Such an announcement is the only word that a later release, within the range that pyproject.toml
allows, will break every user. It is looked for where real work runs, and counts if the function
that announces it was called from a file of this package.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import io
import logging
import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
from commands import batch
from sources import PACKAGES

import leakbound
from leakbound.models import Complete, NextLogits, ScoreLabels, ScoreTokens, open_model
from leakbound.report.audit.page import page

pytestmark = pytest.mark.process

SOURCE = tuple(map(str, PACKAGES))
ANNOUNCEMENTS = (DeprecationWarning, PendingDeprecationWarning, FutureWarning)
REMOVAL = re.compile(r"deprecated|be removed|removed in", re.IGNORECASE)
# Files through which a call passes on its way: the dispatch of torch, and the machinery of classes.
DISPATCH = ("torch/nn/modules/module.py", "torch/utils/_contextlib.py", "<frozen", "abc.py")


def package_of(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def before(frame: FrameType, package: str) -> FrameType | None:
    """The frame that called into a package, from a frame in it."""
    at: FrameType | None = frame
    while at and (package_of(at) == package or at.f_code.co_filename.endswith(DISPATCH)):
        at = at.f_back
    return at


def announced(run: Callable[[], object]) -> list[str]:
    """What is announced while `run` runs, of which the caller is a file of this package."""
    found = []

    def note(text: object, at: FrameType | None) -> None:
        # the function of another that warns, whose caller counts; or what called code in C
        says_so = at and any("warn" in name for name in at.f_code.co_names)
        if at and says_so and not at.f_code.co_filename.startswith(SOURCE):
            at = before(at, package_of(at))
        if at and at.f_code.co_filename.startswith(SOURCE):
            found.append(f"{at.f_code.co_filename}:{at.f_lineno}: {text}")

    def show(message: object, category: type[Warning], *_: object, **__: object) -> None:
        if issubclass(category, ANNOUNCEMENTS) or REMOVAL.search(str(message)):
            note(message, before(sys._getframe(1), "warnings"))

    def make(*args: Any, **options: Any) -> logging.LogRecord:
        record = usual(*args, **options)
        if record.levelno >= logging.WARNING and REMOVAL.search(record.getMessage()):
            note(record.getMessage(), before(sys._getframe(1), "logging"))
        return record

    usual = logging.getLogRecordFactory()
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = show
        logging.setLogRecordFactory(make)
        try:
            run()
        finally:
            logging.setLogRecordFactory(usual)
    return found


def use_text_model() -> None:
    model = open_model("pocket")
    prompt = "The code is"
    model.answer([Complete(prompt, max_tokens=3), ScoreTokens(prompt, " one")])
    model.answer([ScoreLabels(prompt, ("a", "b")), NextLogits(prompt, " one")])
    leakbound.influence("The code is seven. The door is red.", "What is the code?", max_tokens=3)


def use_vision_model() -> None:
    from leakbound.tasks.synthetic_images import PSEUDO_NAMES, pseudo_names

    rows = pseudo_names(3, np.random.default_rng(3))
    prompt = PSEUDO_NAMES.prompt(rows[:2], leakbound.Query(rows[-1].input))
    open_model("pocket-vision").answer([Complete(prompt, max_tokens=3)])


def use_audit(folder: Path) -> None:
    rows = [(str(i), "ab"[i % 2]) for i in range(40)]
    result = leakbound.audit(
        rows, model=leakbound.Scripted(lambda prompt: "a"), pairs=4, simulations=10,
        out=str(folder / "run"),
    )  # fmt: skip
    assert "<html" in page([result])


def use_commands() -> None:
    main = importlib.import_module("leakbound.cli").main
    for words in (["--help"], ["audit", "--help"], ["list"], ["calibrate", "--epsilon", "1"]):
        with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
            main(words)


def deprecated() -> None:
    warnings.warn("gone in 6.0", FutureWarning, stacklevel=9)


IN_C = functools.partial(warnings.warn, "gone in 6.0", FutureWarning)


def logged() -> None:
    logging.getLogger("library").warning("`old` is deprecated")


@pytest.mark.parametrize("deprecated", [deprecated, logged])
def test_an_announcement_counts_if_this_package_called_it(deprecated: Callable[[], None]) -> None:
    """Whatever line the warning names; and not if one library called another."""
    called = compile("def call(run): run()", f"{SOURCE[0]}/models/call.py", "exec")
    ours: dict[str, Callable[[Callable[[], None]], None]] = {}
    exec(called, {"__name__": "leakbound.models.call"}, ours)  # type: ignore[arg-type]
    other: dict[str, Callable[[Callable[[], None]], None]] = {}
    exec(compile("def call(run): run()", "/library.py", "exec"), {"__name__": "library"}, other)  # type: ignore[arg-type]
    assert len(announced(lambda: ours["call"](deprecated))) == 1
    assert announced(lambda: other["call"](deprecated)) == []
    assert announced(lambda: ours["call"](lambda: other["call"](deprecated))) == []
    assert announced(lambda: ours["call"](lambda: other["call"](IN_C))) == []
    assert len(announced(lambda: ours["call"](IN_C))) == 1


@pytest.mark.torch
@pytest.mark.parametrize("use", [use_text_model, use_vision_model])
def test_nothing_of_the_local_engine_is_announced(use: Callable[[], None]) -> None:
    """transformers 5.24 announced the removal of `past_key_values`, which the engine passed."""
    pytest.importorskip("PIL")
    assert announced(use) == []


def test_nothing_of_audits_pages_and_commands_is_announced(tmp_path: Path) -> None:
    assert announced(lambda: use_audit(tmp_path)) == []
    assert announced(use_commands) == []


def test_no_module_is_written_against_what_is_announced() -> None:
    """In a new interpreter: models of pydantic are made, and decorators run."""
    code = (
        "import importlib, pkgutil, warnings, leakbound, leakbound_lab\n"
        "warnings.filterwarnings('error', module='leakbound')\n"
        "for of in (leakbound, leakbound_lab):\n"
        "    for info in pkgutil.walk_packages(of.__path__, of.__name__ + '.'):\n"
        "        if not info.name.startswith('leakbound.models.local'):\n"
        "            if '__main__' not in info.name: importlib.import_module(info.name)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.torch
def test_no_warning_of_others_reaches_the_screen(tmp_path: Path) -> None:
    """In one new interpreter, as each says a thing once: the systems of the demonstration, an
    attribution, a private answer and images.
    """
    pytest.importorskip("PIL")
    few = ["--shots", "2", "--pairs", "2", "--controls", "1"]
    voting = ["--mechanism", "report_noisy_max:partitions=2", "--threshold", "0"]
    images = ["--task", "pseudo_names", "--model", "pocket-vision", "--canary", "patchwork"]
    codes, _, errors = batch(
        ["audit", *few],
        ["audit", *few, *voting],
        ["influence", "--text", "The code is 7.", "--question", "Which?", "--max-tokens", "3"],
        ["answer", "--shots", "4", "my card was charged"],
        ["audit", *images, *few],
        cwd=tmp_path,
        OMP_NUM_THREADS="1",
    )
    assert codes == [3, 3, 0, 0, 3], errors
    assert not re.search(r"Warning|deprecated|site-packages|LOAD REPORT", errors), errors
