"""Malformed input gets a sentence with the cause and the remedy, and a documented exit code.

Every case failed before: with a crash (code 70), or with a sentence that blamed something else,
spoke of Python's classes, or was not said at all.
"""

from __future__ import annotations

import gzip
import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from leakbound_lab.tuning import tune

import leakbound
from leakbound.attribution import InfluenceSettings
from leakbound.attribution.measure import TokenDistribution
from leakbound.cli.main import main
from leakbound.errors import StoreError, TargetError, UsageError, reason_of, unknown_name

APP = """
def leaky(context, query):
    canary = query.split('"')[1]
    return "yes" if any(row.input == canary for row in context) else "no"

def nothing(context, query):
    return None

class Sized:
    def __init__(self, size):
        raise RuntimeError(size)

class Broken:
    def __init__(self):
        raise RuntimeError

TEXT = "hello"
"""
JARGON = re.compile(
    r"Traceback|internal error|pydantic|\w+Error\b|Errno|NoneType|codec|validation error"
    r"|Input should|unable to parse|datetime\.|<class"
)
NOT_TEXT = b"\x80\x81\xff"
FILES: dict[str, str | bytes] = {
    "app.py": APP,
    "rows.jsonl": "".join(
        json.dumps({"text": f"item {i}", "label": "ab"[i % 2]}) + "\n" for i in range(40)
    ),
    "half.json": '[{"text": "a", "label": "b"}, {"te',
    "half.jsonl.gz": gzip.compress(b"{}" * 100)[:-12],
    "plain.jsonl.gz": "{}",
    "other.parquet": b"PAR1 and more",
    "other-kind.json": '{"schema_version": 2, "name": 5}',
    "twice.yaml": "pairs: 5\npairs: 6\n",
    "not-text": NOT_TEXT,
    "not-text.json": NOT_TEXT,
    "not-text.jsonl": NOT_TEXT,
    "not-text.yaml": NOT_TEXT,
    "tab.yaml": "pairs: 5\n\tseed: 1\n",
    "list.yaml": "design: [1, 2]\n",
    "group.yaml": "design: 5\n",
    "kind.yaml": "mechanism: {kind: 5}\n",
    "date.yaml": "pairs: 2024-01-01\n",
    "yes.yaml": "pairs: yes\n",
    "part.yaml": "pairs: 5.5\n",
    "number.yaml": "1: 5\n",
    "merge.yaml": "design: &same {pairs: 0}\n<<: {seed: 1}\n",
    "documents.yaml": "design: {layout: paired, documents: 50}\n",
    "grid.yaml": "grid: {epsilon: [1, 2]}\n",
    "cert.pem": "no certificate",
}
SYSTEM = ("--data", "rows.jsonl", "--shots", "6", "--pairs", "6", "--system")
LEAKY = (*SYSTEM, "python:app.py:leaky")
SERVED = ("--data", "rows.jsonl", "--labels", "a,b", "--mechanism", "report_noisy_max:partitions=5",
          "--shots", "20")  # fmt: skip
OPENAI = ("plan", "--model", "openai/x")
MISTAKES: list[tuple[tuple[str, ...], int, str]] = [
    # values of options
    (("plan", "--set", "pairs=["), 2, "--set got 'pairs=[', whose value is not YAML; close its"),
    (("plan", "--mechanism", "few_shot:a={"), 2, "mechanism is 'few_shot:a={'; it must be NAME"),
    (("plan", "--canary", "hex:digits=8,digits=9"), 2, "each option once and its value as in YAML"),
    (("plan", "--set", "seed=!!python/name:os.system x"), 2, "whose value is not YAML"),
    (("plan", "--set", "seed=2024-01-01"), 2, "seed is 2024-01-01; it must be a whole number."),
    (("plan", "--canary", "hex:foo"), 2, "canary is 'hex:foo'; it must be NAME:option"),
    (("plan", "--canary", "hex:digits=x"), 2, "the option digits of hex is 'x'; it must be a w"),
    (("plan", "--confidence", "95"), 2, "at least 0.5 and below 1. Did you mean 0.95?"),
    (("plan", "--set", "epsilon=one"), 2, "epsilon is 'one'; it must be a number."),
    (("plan", "--set", "design.pairs=3"), 2, "Did you mean 'pairs'?"),
    (("plan", "--pairs", "9" * 20), 2, "it must be less than or equal to 10000000"),
    (("plan", "--threshold", "split:2"), 2, "the threshold is 'split:2', and its fraction is 2.0"),
    (("plan", "--threshold", "split:"), 2, "the threshold is 'split:'; it must be a number, 'sp"),
    (("plan", "--threshold", "[1]"), 2, "threshold is [1]; it must be a string or a number."),
    (("plan", "--design", "pair"), 2, "design (the key layout) is 'pair'; it must be 'paired'"),
    (("plan", "--canary", "HEX"), 2, "Did you mean 'hex'?"),
    (("plan", "--model", "pockt"), 2, "Did you mean 'pocket'?"),
    (("plan", "--model", "./folder"), 2, "Did you mean 'hf/./folder'?"),
    (("plan", "--labels", "a,,b"), 2, "at least two labels, such as work,home, none of them empty"),
    (("plan", "--labels", "a,b"), 2, "the bundled help-desk rows have labels of their own; name"),
    (("plan", "--input-field", "body"), 2, "--input-field says how your rows are read, and none"),
    (("plan", "--delimiter", ";"), 2, "--delimiter says how your rows are read, and none are"),
    (("plan", "--set", "mechanism.partitions=5"), 2, "few_shot has no option 'partitions'; it has"),
    (("plan", "--canaries", "40"), 2, "canaries is 40, and a paired design has one canary for eac"),
    (("plan", "--documents", "5"), 2, "documents is 5, and a paired design has no store to put do"),
    (("plan", "--config", "documents.yaml"), 2, "leave --documents out, or use --design session o"),
    (("plan", "--design", "session", "--canaries", "9"), 2, "canaries is 9, and a session design"),
    (("plan", "--data", ""), 2, "data is empty; it must be a file or folder of rows"),
    ((*OPENAI, "--rename", "a"), 2, "it must be NAME=NEW, such as max_tokens=max_completion_"),
    ((*OPENAI, "--omit", "messages"), 2, "'messages' cannot be left out or renamed; it must be on"),
    ((*OPENAI, "--key-env", ""), 2, "--key-env names the environment variable '', which is not se"),
    ((*OPENAI, "--key-env", "EMPTY_KEY"), 2, "'EMPTY_KEY', which is empty; set it to the API key"),
    ((*OPENAI, "--price", "not-text"), 2, "'not-text' cannot be read; --price takes a JSON file"),
    ((*OPENAI, "--capabilities", "not-text.json"), 2, "cannot be read; write it with leakbound pr"),
    (("plan", "--pairs", "many"), 2, "'many' is not a whole number. Try: leakbound plan --help"),
    (("serve", "--port", "x"), 2, "'x' is not a whole number. Try: leakbound serve --help"),
    (("selftest", "--seed", "-1"), 2, "-1 is not in the range x>=0"),
    (("demo", "--pairs", "0"), 2, "0 is not in the range x>=1"),
    (("influence", "--text", "a", "--seed", "-1"), 2, "seed is -1; it must be a whole number of"),
    (("sweep", *LEAKY, "--grid", "=1,2"), 2, "--grid got '=1,2'; it must be KEY=VALUE,VALUE"),
    (("reproduce", "nosuch"), 2, "more."),
    # configuration files
    (("plan", "--config", "folder"), 2, "'folder' is a folder; name a file."),
    (("plan", "--config", "not-text.yaml"), 2, "cannot be read (it is not UTF-8 text)"),
    (("plan", "--config", "tab.yaml"), 2, "is not YAML: line 2: found character"),
    (("plan", "--config", "list.yaml"), 2, "design (the key layout) is [1, 2]; it must be"),
    (("plan", "--config", "group.yaml"), 2, "design (the key layout) is 5; it must be 'paired'"),
    (("plan", "--config", "kind.yaml"), 2, "mechanism.kind is 5; it must be a string."),
    (("plan", "--config", "date.yaml"), 2, "pairs is 2024-01-01; it must be a whole number."),
    (("plan", "--config", "yes.yaml"), 2, "pairs is true (in YAML also yes, on); it must be a num"),
    (("plan", "--config", "part.yaml"), 2, "pairs is 5.5; it must be a whole number."),
    (("plan", "--config", "number.yaml"), 2, "'1' is not known. `leakbound audit --help-all` show"),
    (("plan", "--config", "merge.yaml"), 2, "pairs is 0; it must be greater than or equal to 1"),
    (("plan", "--config", "twice.yaml"), 2, "the configuration gives 'pairs' twice"),
    (("plan", "--config", "grid.yaml"), 2, "a grid belongs to a sweep; run leakbound sweep"),
    # files of rows and contexts
    (("plan", "--data", "half.json"), 2, "check how it ends, and write it again."),
    (("plan", "--data", "half.jsonl.gz"), 2, "cannot be unpacked: it ends too early."),
    (("plan", "--data", "plain.jsonl.gz"), 2, "cannot be unpacked: it is damaged, or not gzip."),
    (("influence", "--context", "none.txt"), 2, "cannot be read (no such file or directory); name"),
    (("influence", "--context", "not-text"), 2, "cannot be read (it is not UTF-8 text); name a fi"),
    (("influence-study", "temperature", "--context", "folder"), 2, "cannot be read (is a dire"),
    (("score-generations", "none.csv"), 2, "cannot be read (no such file or directory); name a CS"),
    (("audit", *LEAKY, "--canary", "false_fact:file=not-text"), 2,
     "cannot be read (it is not UTF-8 text); give a UTF-8 text file"),
    # systems
    (("audit", *SYSTEM, "app.py:leaky"), 2, "Did you mean 'python:app.py:leaky'?"),
    (("audit", *SYSTEM, "pyton:app.py:leaky"), 2, "Did you mean 'python:app.py:leaky'?"),
    (("audit", *SYSTEM, "python:app.py:leeky"), 2, "Did you mean 'leaky'?"),
    (("audit", *SYSTEM, "http://127.0.0.1:9/x"), 2, "describe its requests in a YAML file"),
    (("audit", *SYSTEM, "python:folder:f"), 2, "'folder' is a folder; name a file.py or a module."),
    (("audit", *SYSTEM, "python:app.py:TEXT"), 4, "is an object of the class str, which cannot be"),
    (("audit", *SYSTEM, "python:app.py:nothing", "--retries", "0"), 4, "returned None; it must re"),
    (("audit", *LEAKY, "--set", "mechanism.partitions=5"), 2, "the key mechanism is given besi"),
    # outputs that cannot be written
    (("audit", *LEAKY, "--out", "app.py"), 2, "cannot be used (not a directory); choose another"),
    (("sweep", *LEAKY, "--grid", "epsilon=1,2", "--out", "app.py"), 2, "cannot be made (file exis"),
    (("init", "rows.jsonl", "--save", "app.py/x"), 2, "'app.py/x' lies below a file; name another"),
    (("gate", "run", "--max-epsilon", "1", "--junit", "app.py/x"), 2, "another file with --junit."),
    (("report", "run", "--html", "folder"), 2, "'folder' cannot be written (it is a folder); name"),
    (("report", "run", "--html", "app.py/x"), 2, "'app.py/x' cannot be written (file exists)"),
    (("report", "run", "--html", ""), 2, "it is empty; name a file or folder"),
    (("compare", "run", "run", "--html", "app.py/x"), 2, "cannot be written (file exists); name a"),
    (("tune", *LEAKY, "--reflection-model", "none", "--out", "app.py"), 2, "used (not a directory"),
    # records, ledgers, servers
    (("report", "not-text.json"), 2, "is damaged, or not a record (it is not UTF-8 text)"),
    (("report", "other-kind.json"), 2, "not a result of schema version 2: name must be a str"),
    (("report", "rows.jsonl"), 2, "not a record (no JSON at line 2: extra data)"),
    (("report", "deep.json"), 2, "not a record (it is nested too deeply)"),
    (("report", "huge.json"), 2, "not a record (it holds a number of thousands of digits)"),
    (("report", "sweep"), 2, "is not a sweep of schema version 2: it is not UTF-8 text."),
    (("report", "sweep-list"), 2, "schema version 2: it is not a JSON object."),
    (("compare", "influence", "influence"), 2, "it is not a JSON object. Restore it from a copy"),
    (("serve", *SERVED, "--budget", "4", "--tls-cert", "cert.pem", "--tls-key", "cert.pem"), 2,
     "cannot be used (not PEM); they must be a certificate chain"),
]  # fmt: skip


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files with one thing wrong each, and the folder of a finished run."""
    folder = tmp_path_factory.mktemp("desk")
    for name, content in FILES.items():
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    for name in ("folder", "sweep", "sweep-list", "influence"):
        (folder / name).mkdir()
    (folder / "sweep" / "sweep.json").write_bytes(NOT_TEXT)
    (folder / "sweep-list" / "sweep.json").write_text("[]")
    (folder / "influence" / "influence.json").write_text("[]")
    (folder / "deep.json").write_text("[" * 100_000)
    (folder / "huge.json").write_text("9" * 6000)
    result = leakbound.audit(system=lambda context, query: "no", pairs=2, shots=4, controls=0)
    (folder / "run").mkdir()
    (folder / "run" / "record.json").write_text(result.to_json())
    return folder


@pytest.mark.parametrize(
    ("args", "code", "sentence"), MISTAKES, ids=[str(number) for number in range(len(MISTAKES))]
)
def test_malformed_input_gets_a_sentence(
    desk: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    args: tuple[str, ...],
    code: int,
    sentence: str,
) -> None:
    monkeypatch.chdir(desk)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("EMPTY_KEY", "")
    monkeypatch.syspath_prepend(os.fspath(desk))
    before = sorted(desk.rglob(".*.partial"))
    with pytest.raises(SystemExit) as end:
        main([*args])
    said = capsys.readouterr().err
    assert sentence in said
    assert end.value.code == code, said
    assert not JARGON.search(said)
    assert sorted(desk.rglob(".*.partial")) == before


def test_parquet_that_is_none_is_said_without_classes(desk: Path) -> None:
    pytest.importorskip("pyarrow")
    with pytest.raises(UsageError, match="as Parquet; it is damaged or of another form") as error:
        leakbound.plan(data=str(desk / "other.parquet"), pairs=5)
    assert not JARGON.search(str(error.value))


def test_a_class_is_blamed_for_missing_arguments_only_where_it_lacks_some(desk: Path) -> None:
    address = f"python:{desk / 'app.py'}:"
    with pytest.raises(TargetError, match=r"Give what it takes \(size\) with system_option"):
        leakbound.audit(system=f"{address}Sized")
    with pytest.raises(TargetError, match="without arguments") as error:
        leakbound.audit(system=f"{address}Broken")
    assert "Give" not in str(error.value)


@pytest.mark.parametrize("command", ["export", "ledger"])
def test_a_group_without_a_command_shows_its_help(
    capsys: pytest.CaptureFixture[str], command: str
) -> None:
    with pytest.raises(SystemExit) as end:
        main([command])
    said = capsys.readouterr()
    assert end.value.code == 2
    assert "leakbound: " not in said.err
    assert f"Usage: leakbound {command}" in said.out + said.err


@pytest.mark.parametrize("address", ["", "mysql://host/database"])
def test_a_ledger_is_a_file_or_a_database(address: str) -> None:
    with pytest.raises(
        UsageError, match="it must be the path of a file, or for a ledger postgresql:"
    ):
        leakbound.Ledger(address, 1.0, 1e-5)


def test_a_broken_key_file_is_named_as_what_it_may_be(desk: Path, tmp_path: Path) -> None:
    said = "the ledger or key file '.*cert.pem' cannot be read or written .*--ledger-key"
    with pytest.raises(StoreError, match=said):
        leakbound.Ledger(tmp_path / "ledger", 1.0, 1e-5, key=desk / "cert.pem")


def test_banned_tokens_are_those_of_the_model() -> None:
    logits = np.zeros((1, 4))
    with pytest.raises(UsageError, match="token id 9 is not one of the model's, which are 0 to 3"):
        TokenDistribution(banned=(9,)).log_probs(logits, logits)


def test_long_catalogues_are_not_listed_whole() -> None:
    error = unknown_name("the recipe", "fig", [f"paper/fig{number}" for number in range(50)])
    assert "42 more" in str(error)


def test_a_reason_shows_no_number_and_no_path(tmp_path: Path) -> None:
    for bad in (tmp_path / "none", tmp_path):
        with pytest.raises((FileNotFoundError, IsADirectoryError)) as error:
            bad.read_text()
        assert str(tmp_path) not in reason_of(error.value)
    assert reason_of(KeyError("base")) == "it lacks 'base'"
    assert issubclass(StoreError, UsageError)


def _spend(folder: Path, records: object) -> object:
    ledger = leakbound.Ledger(folder / "ledger", 1.0, 1e-5)
    return ledger.spend(records, leakbound.PureDP(0.1))  # type: ignore[arg-type]


ARGUMENTS: list[tuple[Callable[[Path], object], str]] = [
    (lambda desk: leakbound.audit([(None, "a"), ("x", "b")]), "the input of a row is NoneType; it"),
    (lambda desk: leakbound.answer("q", [({"text": "x"}, "a")], labels=("a", "b")),
     "the input of a row is dict; it must be text"),
    (lambda desk: leakbound.audit([(b"x", "a")]), "the input of a row is bytes; it must be text"),
    (lambda desk: leakbound.gate(desk / "run", max_epsilon="1"), "max_epsilon is '1'; it must be"),
    (lambda desk: leakbound.gate(desk / "run", min_power="1"), "min_power is '1'; it must be a nu"),
    (lambda desk: leakbound.plan(canaries=40), "set their number with pairs, or use design="),
    (lambda desk: leakbound.plan(settings={"documents": 5}), "leave settings[\"documents\"] out"),
    (lambda desk: leakbound.compare(5), "results is int; it must be a list"),
    (lambda desk: leakbound.compare([]), "results holds 0; it must hold two results or more"),
    (lambda desk: leakbound.load_result(5), "path is 5; it must be a run folder or a record.json"),
    (lambda desk: leakbound.Ledger(None, 1.0, 1e-5), "the ledger or key file is None; it must be"),
    (lambda desk: leakbound.Ledger(desk / "l", 1.0, 1e-5, key=5), "the ledger or key file is 5"),
    (lambda desk: _spend(desk, [1, 2]), "a record is not a text; name each record by a text"),
    (lambda desk: tune(max_calls="9"), "max_calls is '9'; it must be a whole number of"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "sentence"), ARGUMENTS, ids=map(str, range(len(ARGUMENTS))))
def test_bad_arguments_get_a_sentence(
    desk: Path, call: Callable[[Path], object], sentence: str
) -> None:
    with pytest.raises(UsageError) as error:
        call(desk)
    assert sentence in str(error.value)


def test_settings_of_influence_are_checked() -> None:
    for bad in ({"seed": "x"}, {"seed": -1}, {"max_tokens": 0}):
        (name,) = bad
        with pytest.raises(UsageError, match=f"{name} is .*; it must be a whole number of at leas"):
            InfluenceSettings(**bad)  # type: ignore[arg-type]
