"""Systems of the user in every shape; what cannot be called rightly is refused before any call."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import leakbound
from leakbound._sources import source_digest, source_files
from leakbound.auditing import make_spec, prepare
from leakbound.errors import TargetError, UsageError
from leakbound.models import Scripted
from leakbound.systems import SystemMechanism, answerer, load_system
from leakbound.tasks import Context, Example, Job, Query, Task, Vector, Votes

TASK = Task("t", ("a", "b"))
JOB = Job((Example("private kite", "a"),), Query("q"))

SYSTEMS = """
from __future__ import annotations
from dataclasses import dataclass
from beside import LABEL

def plain(context, query): return LABEL
async def later(context, query): return LABEL
class Called:
    def __call__(self, context, query): return LABEL
class CalledLater:
    async def __call__(self, context, query): return LABEL
class Answers:
    def answer(self, context, query): return LABEL
class AnswersLater:
    async def answer(self, context, query): return LABEL
made = Answers()
@dataclass
class Reply:
    text: str
    scores: dict
def rich(context, query): return Reply(LABEL, {"a": 0.25, "b": 0.75})
def mapped(context, query): return {"text": LABEL, "scores": {"a": 0.25, "b": 0.75}}
"""


def test_async_systems_answer_where_a_loop_runs_already() -> None:
    """As in a cell of a notebook."""

    async def later(context: Context, query: str) -> str:
        await asyncio.sleep(0)
        return "b"

    async def cell() -> Any:
        return SystemMechanism(later).collect(TASK, [JOB, JOB], [0, 0], Scripted())

    assert asyncio.run(cell()) == [Votes((0, 1, 0))] * 2


def test_so_many_async_calls_at_once_and_no_more() -> None:
    live, most = 0, 0

    async def later(context: Context, query: str) -> str:
        nonlocal live, most
        live += 1
        most = max(most, live)
        await asyncio.sleep(0)
        live -= 1
        return "a"

    assert (
        SystemMechanism(later).collect(TASK, [JOB] * 300, range(300), Scripted())
        == [Votes((1, 0, 0))] * 300
    )
    assert most == 64


def test_a_system_that_exits_does_not_end_the_audit_with_its_own_status(tmp_path: Path) -> None:
    def leaves(context: Context, query: str) -> str:
        raise SystemExit(0)

    with pytest.raises(TargetError, match="raised SystemExit"):
        SystemMechanism(leaves).collect(TASK, [JOB], [0], Scripted())
    (tmp_path / "script.py").write_text(
        "import sys\ndef answer(context, query): return 'a'\nsys.exit(0)\n"
    )
    with pytest.raises(TargetError, match=r"cannot be imported \(SystemExit\)"):
        load_system(f"python:{tmp_path / 'script.py'}:answer")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("systems")
    (folder / "beside.py").write_text("LABEL = 'b'\n")
    (folder / "mine.py").write_text(SYSTEMS)
    return folder / "mine.py"


@pytest.mark.parametrize(
    "name",
    [
        "plain",
        "later",
        "Called",
        "CalledLater",
        "Answers",
        "AnswersLater",
        "made",
        "rich",
        "mapped",
    ],
)
def test_every_shape_of_a_system_answers(file: Path, name: str) -> None:
    system = load_system(f"python:{file}:{name}")
    assert system.collect(TASK, [JOB, JOB], [0, 0], Scripted()) == [Votes((0, 1, 0))] * 2
    assert system.access == {"black_box"}


@pytest.mark.parametrize("name", ["rich", "mapped"])
def test_scores_are_released_beside_the_text_where_they_are_asked_for(
    file: Path, name: str
) -> None:
    system = load_system(f"python:{file}:{name}", scored=True)
    (aggregate,) = system.collect(TASK, [JOB], [0], Scripted())
    assert aggregate == Vector((0.25, 0.75, 0.0, 1.0, 0.0))
    released = system.release(aggregate, 3, np.random.default_rng(0))
    assert released.answers.tolist() == [1, 1, 1]
    assert released.noisy is not None
    assert released.noisy.tolist() == [[0.25, 0.75]] * 3


def test_async_calls_run_together_and_stateful_ones_one_by_one() -> None:
    class Together:
        inside = most = 0

        async def __call__(self, context: Context, query: str) -> str:
            self.inside += 1
            self.most = max(self.most, self.inside)
            await asyncio.sleep(0)
            self.inside -= 1
            return "a"

    class Alone(Together):
        stateful = True

    for kind, most in ((Together, 4), (Alone, 1)):
        system = kind()
        SystemMechanism(system).collect(TASK, [JOB] * 4, range(4), Scripted())
        assert system.most == most


WRONG: list[tuple[Any, str]] = [
    (lambda context: "a", r"takes \(context\); it must take \(context, query\)"),
    (lambda context, query, more: "a", "it must take"),
    (lambda *, context, query: "a", "it must take"),
    (lambda context, query, more=1, **rest: "a", ""),
    (lambda *both: "a", ""),
]


@pytest.mark.parametrize(("function", "sentence"), WRONG)
def test_a_wrong_number_of_arguments_is_refused_before_any_call(
    function: Callable[..., str], sentence: str
) -> None:
    if not sentence:
        assert SystemMechanism(function).collect(TASK, [JOB], [0], Scripted()) == [Votes((1, 0, 0))]
        return
    with pytest.raises(TargetError, match=sentence):
        SystemMechanism(function)


def test_what_cannot_be_called_is_refused(tmp_path: Path) -> None:
    class NeedsMore:
        def __init__(self, key: str) -> None: ...

    for thing, sentence in (
        (3, "must be callable, or have a method answer"),
        (NeedsMore, "raised TypeError without arguments"),
    ):
        with pytest.raises(TargetError, match=sentence):
            answerer(thing, "mine")
    for address in ("python:mine.py", "http:", "https:host", "mine.py"):
        with pytest.raises(UsageError, match="not of the form"):
            load_system(address)
    with pytest.raises(UsageError, match="is the address of a service; describe its requests"):
        load_system("https://host/path")
    for address in ("python:none.py:answer", "http:none.yaml"):  # bad input, as a missing data file
        with pytest.raises(UsageError, match="does not exist; give its path"):
            load_system(address)


def texts_in_a_list(documents: list[str], query: str) -> str:
    return repr(documents)


def texts_in_a_tuple(question: str, documents: tuple[str, ...]) -> str:
    return repr(documents)


def texts_of_any_kind(documents: Sequence[str], query: str) -> str:
    return repr(documents)


def one_text(context: str, query: str) -> str:
    return context


def rows(context: Sequence[Example], query: str) -> str:
    return repr([(row.text, row.label) for row in context])


class Engine:
    def query(self, question: str, documents: list[str]) -> str:
        return repr(documents)


class Later:
    async def __call__(self, documents: Iterable[str], query: str) -> str:
        return repr(documents)


@pytest.mark.parametrize(
    ("function", "handed"),
    [
        (texts_in_a_list, "['private kite', 'red oar']"),
        (functools.partial(texts_in_a_list), "['private kite', 'red oar']"),
        (texts_in_a_tuple, "('private kite', 'red oar')"),
        (texts_of_any_kind, "['private kite', 'red oar']"),
        (Engine(), "['private kite', 'red oar']"),
        (Later(), "['private kite', 'red oar']"),
        (one_text, "Input: private kite\nLabel: a\n\nInput: red oar\nLabel: b\n\n"),
        (rows, "[('private kite', 'a'), ('red oar', 'b')]"),
    ],
)
def test_a_context_comes_as_the_function_declares_it(function: Any, handed: str) -> None:
    context = (Example("private kite", "a"), Example("red oar", "b"))
    answered = answerer(function, "mine")(context, "q")
    found = asyncio.run(answered) if asyncio.iscoroutine(answered) else answered
    assert found == handed


REPLIES: list[tuple[Any, str]] = [
    (7, "returned int"),
    ({"scores": {}}, "returned a dict with no text under the names of an answer"),
    ("a", "gave no scores"),
    ({"text": "a", "scores": {"a": 1}}, "a finite number for each of a, b"),
    ({"text": "a", "scores": {"a": 1, "b": float("nan")}}, "a finite number"),
    (SimpleNamespace(text="a", scores=[1, 2]), "gave no scores"),
]


@pytest.mark.parametrize(("reply", "sentence"), REPLIES)
def test_replies_that_cannot_be_read_get_a_sentence(reply: Any, sentence: str) -> None:
    with pytest.raises(TargetError, match=sentence) as told:
        SystemMechanism(lambda context, query: reply, scored=True).collect(
            TASK, [JOB], [0], Scripted()
        )
    assert "kite" not in str(told.value)


@dataclass
class Hints:
    """Always says no; its scores tell, by the unit of `size`, whether the quoted text is in the
    context.
    """

    size: float

    def answer(self, context: Context, query: str) -> dict[str, Any]:
        inside = any(row.input in query for row in context)
        return {"text": "no", "scores": {"yes": self.size * inside, "no": self.size * (1 - inside)}}


@pytest.mark.slow
@pytest.mark.parametrize("size", [0.05, pytest.param(1.0, marks=pytest.mark.slow), 300.0])
def test_scores_give_away_what_the_text_does_not(
    rows: Context, tmp_path: Path, size: float
) -> None:
    given: dict[str, Any] = {"pairs": 20, "shots": 6, "epsilon": 1.0, "access": "white_box"}
    white = leakbound.audit(rows, system=Hints(size), out=tmp_path, **given)
    assert white.verdict == "violation"
    assert white.counts["simulated_outputs"] == 40


@pytest.mark.slow
def test_the_text_gives_nothing_away_beside_scores_that_do(rows: Context, tmp_path: Path) -> None:
    given: dict[str, Any] = {"pairs": 50, "shots": 6, "epsilon": 1.0}
    black = leakbound.audit(rows, system=Hints(300.0), out=tmp_path, **given)
    assert (black.verdict, black.reason) == ("no_violation", "context_unused")


def test_a_changed_system_is_another_run(tmp_path: Path, rows: Context) -> None:
    file, names = tmp_path / "mine.py", set()
    for label in ("no", "yes", "yes"):
        file.write_text(f"def answer(context, query): return {label!r}\n")
        names.add(
            prepare(
                make_spec({"system": f"python:{file}:answer", "pairs": 2, "shots": 4}), rows=rows
            ).name
        )
    assert len(names) == 2


def test_a_system_is_told_from_itself_by_what_it_imports_from_its_folder(tmp_path: Path) -> None:
    """A leak that had moved into a module beside the file was answered from stored outputs."""
    app, package = tmp_path / "app.py", tmp_path / "parts"
    package.mkdir()
    (tmp_path / "unused.py").write_text("")
    (tmp_path / "helper_of_app.py").write_text("import parts.deep\n")
    (package / "__init__.py").write_text("")
    (package / "deep.py").write_text("from . import near\n")
    (package / "near.py").write_text("from .. import unused_above\nYES = 'no'\n")
    app.write_text("import json\ndef answer(c, q):\n    import helper_of_app\n    return 'no'\n")
    names = [str(f.relative_to(tmp_path)) for f in source_files(app)]
    assert names == [
        "app.py", "helper_of_app.py", "parts/__init__.py", "parts/deep.py", "parts/near.py"
    ]  # fmt: skip
    seen = {load_system(f"python:{app}:answer").source}
    for changed in ("helper_of_app.py", "parts/near.py"):
        (tmp_path / changed).write_text((tmp_path / changed).read_text() + "# now it leaks\n")
        seen.add(load_system(f"python:{app}:answer").source)
    assert len(seen) == 3
    (tmp_path / "unused.py").write_text("x = 1")
    assert source_digest(app) in seen
    (package / "near.py").write_text("this is no Python")
    assert source_digest(app) not in seen
