"""Systems as users have them: packages, classes with arguments, objects of frameworks."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from leakbound._sources import source_files
from leakbound.auditing import make_spec, prepare
from leakbound.cli import main
from leakbound.errors import TargetError, UsageError
from leakbound.models import Scripted
from leakbound.systems import Reply, SystemMechanism, load_system
from leakbound.systems.replies import as_reply
from leakbound.tasks import Context, Example, GeneratedText, Job, Query, Task, Votes

TASK = Task("t", ("a", "b"))
JOB = Job((Example("private kite", "a"),), Query("q"))
A, B = [Votes((1, 0, 0))], [Votes((0, 1, 0))]

RAG = """
from .parts import LABEL
from . import parts

class Chain:
    def __init__(self, label, shout=False):
        self.label = label.upper() if shout else label
    def invoke(self, inputs, config=None, **kwargs):
        assert "private kite" in inputs["context"] and inputs["question"] == "q"
        return {"answer": self.label}

class Holder:
    chain = Chain("b")

def answer(context, query, label=LABEL):
    return label
def make(label):
    return Chain(label)
def make_default():
    return Chain("b")
def fails(context, query):
    return parts.fail(context[0].input)
async def fails_later(context, query):
    return parts.fail(context[0].input)
"""
PARTS = """
import json
LABEL = "b"
def fail(text):
    return json.loads(text)
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package below the working directory, with imports of its own."""
    name = f"app_{tmp_path.name}"
    folder = tmp_path / name
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "rag.py").write_text(RAG)
    (folder / "parts.py").write_text(PARTS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield folder
    for module in [one for one in sys.modules if one.partition(".")[0] == name]:
        del sys.modules[module]


def answers(system: Any) -> list[Any]:
    mechanism = system if isinstance(system, SystemMechanism) else SystemMechanism(system)
    return mechanism.collect(TASK, [JOB], [0], Scripted())


def test_a_module_of_a_package_is_named_as_an_import_names_it(package: Path) -> None:
    """On the first release: "is not of the form", and a file with relative imports failed."""
    for place in (f"{package.name}.rag", f"{package.name}/rag.py", str(package / "rag.py")):
        assert answers(load_system(f"python:{place}:answer")) == B
    system = load_system(f"python:{package.name}.rag:answer")
    assert system.name == f"python:{package.name}.rag:answer"
    assert answers(load_system(f"python:{package.name}.rag:Holder.chain")) == B
    with pytest.raises(UsageError, match="has no callable 'nothing'"):
        load_system(f"python:{package.name}.rag:nothing")
    with pytest.raises(UsageError, match=r"no module 'no_such_\w+' in this folder"):
        load_system("python:no_such_package.rag:answer")
    with pytest.raises(UsageError, match="neither a file nor a module"):
        load_system("python:no-module:answer")


def test_a_package_that_cannot_be_imported_says_where(package: Path) -> None:
    (package / "rag.py").write_text("import no_such_thing\n")
    with pytest.raises(TargetError, match=r"no module 'no_such_thing'\) in .*/rag\.py, line 1"):
        load_system(f"python:{package.name}.rag:answer")
    (package / "parts.py").write_text("a = 1\ndef b(:\n")
    (package / "rag.py").write_text("from . import parts\n")
    with pytest.raises(TargetError, match=r"\(SyntaxError\) in .*/parts\.py, line 2"):
        load_system(f"python:{package.name}.rag:answer")


def test_a_change_anywhere_in_a_package_is_another_system_and_is_run(package: Path) -> None:
    """Stored answers of another version must never be taken for those of this one."""
    address, seen = f"python:{package.name}.rag:answer", set()
    for label, expected in (("b", B), ("a", A), ("b  ", B)):
        (package / "parts.py").write_text(f"# {label * 3}\n" + PARTS.replace('"b"', f'"{label}"'))
        system = load_system(address)
        seen.add(system.source)
        assert answers(system) == expected
    assert len(seen) == 3
    (package / "__init__.py").write_text("SETTING = 1\n")
    assert load_system(address).source not in seen
    (package.parent / "unused.py").write_text("x = 1\n")
    names = [file.name for file in source_files(package / "rag.py")]
    assert names == ["rag.py", "__init__.py", "parts.py"]
    by_file = load_system(f"python:{package.name}/rag.py:answer")
    assert by_file.source == load_system(address).source


def test_modules_of_the_working_directory_are_found_and_are_part_of_the_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "alone.py").write_text(
        "def answer(context, query):\n    import beside_here\n    return beside_here.LABEL\n"
    )
    (tmp_path / "beside_here.py").write_text("LABEL = 'b'\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    first = load_system("python:deep/alone.py:answer")
    assert answers(first) == B
    (tmp_path / "beside_here.py").write_text("LABEL = 'a'  # now\n")
    other = load_system("python:deep/alone.py:answer")
    assert (answers(other), other.source == first.source) == (A, False)


def test_options_are_arguments_of_a_class_a_factory_or_a_function(package: Path) -> None:
    """On the first release: "its class raised TypeError without arguments"."""
    place = f"python:{package.name}.rag"
    seen = set()
    for name, options, expected in (
        ("Chain", {"label": "b"}, B),
        ("Chain", {"label": "a", "shout": False}, A),
        ("make", {"label": "a"}, A),
        ("answer", {"label": "a"}, A),
        ("make_default", {}, B),
    ):
        system = load_system(f"{place}:{name}", options=options)
        assert answers(system) == expected
        seen.add(system.name + system.source)
    assert len(seen) == 5, "a system with other arguments is another system"
    with pytest.raises(TargetError, match=r"Give what it takes \(label, shout\)"):
        load_system(f"{place}:Chain")
    with pytest.raises(TargetError, match="its class raised TypeError with labels"):
        load_system(f"{place}:Chain", options={"labels": "b"})
    with pytest.raises(TargetError, match="takes no option 'top_k'"):
        load_system(f"{place}:answer", options={"top_k": 1})
    with pytest.raises(UsageError, match=r"takes no options, and top_k is given; write it into"):
        load_system("http:desk.yaml", options={"top_k": 1})


def test_options_are_part_of_a_run(package: Path, rows: Context) -> None:
    given = {"system": f"python:{package.name}.rag:Chain", "pairs": 2, "shots": 4}
    names = {
        prepare(make_spec(given | {"system_options": {"label": label}}), rows=rows).name
        for label in ("a", "b", "b")
    }
    assert len(names) == 2
    with pytest.raises(UsageError, match="no --system is given"):
        prepare(make_spec({"system_options": {"label": "b"}}), rows=rows)


class Twice:
    def __init__(self) -> None:
        self.stateful = True

    async def arun(self, context: Context, query: str) -> str:
        return "b"


def method(name: str, function: Any) -> Any:
    return type("Framework", (), {name: function})()


def pieces(context: Context, query: str) -> Iterator[Any]:
    yield from ("the answer ", {"documents": []}, SimpleNamespace(content="is "), "b")


async def later_pieces(context: Context, query: str) -> AsyncIterator[str]:
    for piece in ("the answer ", "is ", "b"):
        yield piece


async def _later(self: Any, inputs: Any, config: Any = None) -> Any:
    return SimpleNamespace(content=inputs["input"].replace("q", "b"))


SHAPES: dict[str, Any] = {
    "invoke with one mapping": method("invoke", lambda self, inputs, config=None: inputs["query"]
                                      .replace("q", "b")),
    "ainvoke with one mapping": method("ainvoke", _later),
    "invoke": method("invoke", lambda self, context, query: {"output": "b"}),
    "query": method("query", lambda self, context, query: SimpleNamespace(response="b")),
    "predict by name": method("predict", lambda self, *, question, documents: [{"text": "b"}]),
    "run": method("run", lambda self, context, query: {"replies": ["b"]}),
    "arun": Twice(),
    "generator": pieces,
    "asynchronous generator": later_pieces,
    "a coroutine of a plain function": lambda context, query: _later(None, {"input": query}),
}  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
def test_objects_are_called_as_frameworks_name_their_methods(shape: str) -> None:
    """On the first release each of them was refused."""
    assert answers(SHAPES[shape]) == B


def test_a_stateful_object_is_called_one_by_one_under_any_name() -> None:
    assert SystemMechanism(Twice()).at_once == 1
    assert SystemMechanism(method("ainvoke", _later)).at_once == 64


TEXTS: list[Any] = [
    SimpleNamespace(content="b"), SimpleNamespace(content=[{"type": "text", "text": "b"}]),
    SimpleNamespace(response="b"), {"answer": "b", "context": []}, {"output": "b"},
    {"result": "b", "source_documents": []}, {"response": {"content": "b"}},
    {"messages": [SimpleNamespace(content="q"), SimpleNamespace(content="b", type="ai")]},
    {"choices": [{"message": {"content": "b"}}]}, {"content": "", "text": "b"}, ["b"],
    {"label": "b", "confidence": 0.9},
]  # fmt: skip


@pytest.mark.parametrize("answer", TEXTS, ids=str)
def test_the_text_of_an_answer_is_found_where_frameworks_put_it(answer: Any) -> None:
    assert as_reply(answer, "mine").text == "b"


@pytest.mark.parametrize("answer", [None, 7, {"answer": None}, {"content": 7}, {"choices": []}])
def test_an_answer_without_a_text_is_refused_by_its_type(answer: Any) -> None:
    with pytest.raises(TargetError, match="must return the answer as str"):
        as_reply(answer, "mine")


class Engine:
    """As of an index: it takes the query alone."""

    def __init__(self, context: Context) -> None:
        self.context = context

    def query(self, text: str) -> Any:
        return SimpleNamespace(response="b" if self.context else "a")


def test_what_a_session_opens_may_be_an_engine_of_a_framework() -> None:
    class Opens:
        def open(self, context: Context) -> Engine:
            return Engine(context)

    assert answers(Opens()) == B
    with pytest.raises(TargetError, match=r"takes .* in its method query; it must take"):
        answers(Engine(()))
    nothing = SimpleNamespace(open=lambda context: 3)
    with pytest.raises(TargetError, match="opened int; it must open an object with a method ask"):
        answers(nothing)


@pytest.mark.parametrize("name", ["fails", "fails_later"])
def test_the_place_of_an_error_in_the_users_code_is_told_and_nothing_private(
    package: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """On the first release: "raised JSONDecodeError", and nothing else."""
    (package.parent / "rows.jsonl").write_text(
        "".join(f'{{"text": "zanzibar {i}", "label": "{"ab"[i % 2]}"}}\n' for i in range(20))
    )
    given = ["audit", "--system", f"python:{package.name}.rag:{name}", "--data", "rows.jsonl",
             "--pairs", "2", "--shots", "4"]  # fmt: skip
    told = []
    for more in ([], ["--debug"]):
        with pytest.raises(SystemExit) as ended:
            main([*given, *more])
        told.append("".join(capsys.readouterr()))
        assert ended.value.code == 4
        assert f"raised JSONDecodeError in {package.name}/parts.py, line 5, in fail" in told[-1]
        assert "zanzibar" not in told[-1]
    (kept,) = package.parent.glob("runs/*/debug.txt")
    assert kept.stat().st_mode & 0o777 == 0o600
    assert str(kept.relative_to(package.parent)) in told[1]
    text = kept.read_text()
    assert text.startswith("Query:\n")
    assert "JSONDecodeError: Expecting value" in text
    assert "parts.py" in text


def test_a_reply_keeps_what_it_is() -> None:
    reply = Reply("b", tokens=3)
    assert as_reply(reply, "mine") == reply


def _query_first(question: str, documents: Context) -> str:
    return f"{question}: {len(documents)}"


def _query_first_by_one_name(query: str, found: Context) -> str:
    return f"{query}: {len(found)}"


def _usual(text: Context, question: str) -> str:
    return f"{question}: {len(text)}"


async def _query_first_later(question: str, documents: Context) -> str:
    return _query_first(question, documents)


def _context_last(question: str, top_k: int = 3, documents: Context = ()) -> str:
    return f"{question}: {len(documents) if top_k == 3 else 'none'}"


def _list_last(asked: str, k: int = 3, items: list[str] | None = None) -> str:
    return f"{asked}: {len(items or []) if k == 3 else 'none'}"


class _WithHistory:
    def __call__(self, query: str, history: Any = None, documents: Context = ()) -> str:
        return f"{query}: {len(documents) if history is None else 'none'}"


def _asked_last(documents: Context, k: int = 3, question: str = "") -> str:
    return f"{question}: {len(documents) if k == 3 else 'none'}"


def _two_lists(question: str, history: Any = (), articles: list[str] | None = None) -> str:
    return f"{question}: {len(articles or [])}"


def _two_contexts(question: str, docs: Any = (), context: str = "") -> str:
    raise AssertionError


def _needs_more(question: str, user: str, documents: Any = ()) -> str:
    raise AssertionError


@pytest.mark.parametrize("function", [_two_contexts, _needs_more])
def test_a_function_that_does_not_say_where_rows_go_is_refused(function: Any) -> None:
    """One of them was chosen, and rows may have gone where nothing reads them."""
    with pytest.raises(TargetError, match="does not say which of them takes the rows"):
        SystemMechanism(function)


@pytest.mark.parametrize(
    "function",
    [
        _query_first,
        _query_first_by_one_name,
        _usual,
        _query_first_later,
        _context_last,
        _list_last,
        _WithHistory(),
        _asked_last,
        _two_lists,
    ],
    ids=lambda system: getattr(system, "__name__", type(system).__name__),
)
def test_a_function_gets_what_its_names_say(function: Any) -> None:
    """The query and the documents were swapped without a word."""
    (found,) = SystemMechanism(function).collect(Task("t"), [JOB], [1], Scripted())
    assert found == GeneratedText("q: 1", reply=found.reply)


class AsyncEngine:
    closed = 0

    async def query(self, text: str) -> str:
        return f"b: {text}"

    async def close(self) -> None:
        AsyncEngine.closed += 1


class AsyncSessionOf(AsyncEngine):
    async def ask(self, text: str) -> str:
        return await self.query(text)


async def words() -> AsyncIterator[str]:
    yield "b: "
    yield "q"


@pytest.mark.parametrize(
    "system",
    [lambda context, query: words(), SimpleNamespace(open=lambda context: AsyncEngine()),
     SimpleNamespace(open=lambda context: AsyncSessionOf())],
    ids=["generator", "engine", "session"],
)  # fmt: skip
def test_asynchronous_answers_of_synchronous_code_are_awaited(system: Any) -> None:
    """They were refused: "returned coroutine"."""
    before = AsyncEngine.closed
    (found,) = SystemMechanism(system).collect(Task("t"), [JOB], [1], Scripted())
    assert found == GeneratedText("b: q", reply=found.reply)
    assert AsyncEngine.closed == before + hasattr(system, "open")


def test_code_that_is_named_after_a_row_is_not_shown() -> None:
    def answer(context: Context, query: str) -> str:
        exec(compile("raise ValueError(1)", str(context[0].input), "exec"))
        return "b"

    with pytest.raises(TargetError, match="raised ValueError in code of no file, line 1") as told:
        SystemMechanism(answer).collect(TASK, [JOB], [1], Scripted())
    assert "kite" not in str(told.value)
