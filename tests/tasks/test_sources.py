"""Where rows come from:

every format gives the same rows, no copy of them stays behind, and every mistake gets a sentence.
"""

from __future__ import annotations

import builtins
import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakbound._install import install_hint
from leakbound.auditing import make_spec
from leakbound.auditing.prepare.rows import load_data
from leakbound.errors import DataError, UsageError
from leakbound.tasks import Example
from leakbound.tasks.rows.datasets import as_examples, inline_rows, load_rows
from leakbound.tasks.rows.fields import FieldMap
from leakbound.tasks.rows.sources import hub_rows, source_rows

datasets = pytest.importorskip("datasets")
pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

ROWS = [{"title": f"No. {i}", "text": f"naïve “{i}”, a {{text}}", "kind": i % 2} for i in range(6)]
EXPECTED = tuple(Example(f"No. {i}\nnaïve “{i}”, a {{text}}", "ab"[i % 2]) for i in range(6))
TEMPLATE = "{title}\n{text}"


def table() -> Any:
    kinds = datasets.ClassLabel(names=["a", "b"])
    features = datasets.Features(
        {"title": datasets.Value("string"), "text": datasets.Value("string"), "kind": kinds}
    )
    return datasets.Dataset.from_list(ROWS, features=features, split="train")


@pytest.fixture
def places(tmp_path: Path) -> dict[str, str]:
    """The same rows in every form."""
    words = [{**row, "kind": "ab"[row["kind"]]} for row in ROWS]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in words))
    pa.Table.from_pylist(words).to_pandas().to_csv(tmp_path / "a.csv", index=False)
    parquet.write_table(pa.Table.from_pylist(words), tmp_path / "a.parquet")
    (tmp_path / "folder").mkdir()
    parquet.write_table(pa.Table.from_pylist(words), tmp_path / "folder" / "train.parquet")
    table().save_to_disk(str(tmp_path / "one"))
    both = {"train": table(), "test": table().select(range(2))}
    datasets.DatasetDict(both).save_to_disk(str(tmp_path / "both"))
    hub = {name: f"hf:{tmp_path / name}" for name in ("folder", "one", "both")}
    return {**hub, **{end: str(tmp_path / f"a.{end}") for end in ("jsonl", "csv", "parquet")}}


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet", "folder", "one", "both"])
def test_every_form_gives_the_same_rows(places: dict[str, str], form: str) -> None:
    assert load_rows(places[form], None, "kind", TEMPLATE) == EXPECTED


def test_splits_have_names(places: dict[str, str]) -> None:
    assert load_rows(places["both"] + ":test", None, "kind", TEMPLATE) == EXPECTED[:2]
    for place, known in (("both", "train, test"), ("one", "train")):
        with pytest.raises(DataError, match=f"has no split 'dev'; it has {known}: write"):
            load_rows(places[place] + ":dev")


@pytest.mark.slow
@pytest.mark.process
def test_the_library_keeps_no_copy_of_private_rows(places: dict[str, str], tmp_path: Path) -> None:
    csv_folder = _folder(tmp_path / "csv", "train.csv", Path(places["csv"]).read_text("utf-8"))
    code = (
        "from leakbound.tasks.rows.datasets import load_rows\n"
        f"load_rows({places['folder']!r}, 'text', 'kind')\n"
        f"load_rows({csv_folder!r}, 'text', 'kind')"
    )
    home = tmp_path / "home"
    home.mkdir()
    env = {**os.environ, "HOME": str(home), "HF_HOME": str(home / "hf"), "TMPDIR": str(home)}
    subprocess.run([sys.executable, "-c", code], check=True, env=env)
    assert not [f for f in home.rglob("*") if f.is_file() and "naïve".encode() in f.read_bytes()]


def _folder(folder: Path, name: str, content: str) -> str:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(content, "utf-8")
    return f"hf:{folder}"


def _lines(*texts: object) -> str:
    return "".join(json.dumps({"text": text, "label": "a"}) + "\n" for text in texts)


UNTYPED = [
    ("train.csv", "text,label\n007,a\n5,a\n", "text,label\n007,a\n5.5,a\n", "007"),
    ("train.csv", "text,label\n1e3,a\nNone,a\n", "text,label\n1e3,a\nsome words,a\n", "1e3"),
    ("train.tsv", "text\tlabel\n7\ta\n5\ta\n", "text\tlabel\n7\ta\n5.5\ta\n", "7"),
    ("train.jsonl", _lines(7, 5), _lines(7, 5.5), "7"),
    ("train.jsonl", _lines("2020-01-01", "2020-01-02"), _lines("2020-01-01", "b"), "2020-01-01"),
    ("train.json", '[{"text": 7, "label": "a"}]', '[{"text": 7, "label": "a"}, {}]', "7"),
]


@pytest.mark.parametrize(("name", "before", "after", "text"), UNTYPED)
def test_no_row_of_a_folder_changes_how_another_one_reads(
    tmp_path: Path, name: str, before: str, after: str, text: str
) -> None:
    for at, content in enumerate((before, after)):
        rows = hub_rows(_folder(tmp_path / f"{at}", name, content).removeprefix("hf:"))
        assert str(rows[0].fields["text"]) == text


def test_files_without_types_have_splits_nested_fields_and_class_names(tmp_path: Path) -> None:
    names = "{class_label: {names: {'0': neg, '1': pos}}}"
    card = f"---\ndataset_info: {{features: [{{name: label, dtype: {names}}}]}}\n---\n"
    _folder(tmp_path / "d", "README.md", card)
    _folder(tmp_path / "d", "train.jsonl", '{"label": 1, "about": {"place": {"x": "Ulm"}}}\n')
    address = _folder(tmp_path / "d", "test.jsonl", '{"label": -1}\n{"label": "pos"}\n')
    (row,) = source_rows(address)
    assert row.fields == {"label": "pos", "about.place.x": "Ulm"}
    assert [row.fields["label"] for row in source_rows(f"{address}:test")] == [None, "pos"]
    with pytest.raises(DataError, match="has no split 'dev'; it has train, test"):
        source_rows(f"{address}:dev")


def test_files_of_other_kinds_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds xml files, whose columns have no declared types"):
        source_rows(_folder(tmp_path / "d", "train.xml", "<a>b</a>"))


BAD = [
    ("empty.parquet", "holds no rows"),
    ("broken.parquet", "cannot be read as Parquet"),
    ("bytes.parquet", "row 1 of .* has a bytes in the field 'text'; it must be text"),
    ("nested.parquet", "has a dict in the field 'text'"),
    ("hf:empty", "could not be loaded"),
    ("hf:none", r"could not be loaded \("),
    ("hf:./nowhere", "folder './nowhere' does not exist"),
    ("hf:", "names no dataset"),
    ("quotes.csv", "cannot be read as CSV .*check its quotes"),  # it would hold all rows below
    ("commas.csv", "line 2 of .* has more fields than the first line names"),
    ("missing.parquet", "row 2 of .* has an empty field 'label'"),
    ("long.jsonl", "line 1 of .* holds a number of thousands of digits"),
    ("deep.jsonl", "lists within lists"),
]


@pytest.mark.parametrize(("name", "sentence"), BAD)
def test_bad_sources_get_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    csv.field_size_limit(1 << 17)  # as Python has it; other packages of the same process raise it
    schema = pa.schema([("text", pa.string()), ("label", pa.string())])
    parquet.write_table(schema.empty_table(), "empty.parquet")
    Path("broken.parquet").write_bytes(b"PAR1 not at all")
    for kind, value in (("bytes", b"\x00"), ("nested", {"a": 1})):
        parquet.write_table(
            pa.Table.from_pylist([{"text": value, "label": "a"}]), f"{kind}.parquet"
        )
    Path("empty").mkdir()
    parquet.write_table(schema.empty_table(), "empty/train.parquet")
    Path("none").mkdir()
    parquet.write_table(
        pa.table({"text": ["a", "b"], "label": [1.0, float("nan")]}), "missing.parquet"
    )
    Path("quotes.csv").write_text('text,label\nhello,"a\nworld,b\n')
    Path("commas.csv").write_text("text,label\nhello, world,a\n")
    Path("long.jsonl").write_text(f'{{"text": {"9" * 5000}, "label": "a"}}\n')
    Path("deep.jsonl").write_text(f'{{"text": {"[" * 100_000}\n')
    with pytest.raises(DataError, match=sentence):
        load_rows(name)


@pytest.mark.parametrize(("package", "address"), [("pyarrow", "a.parquet"), ("datasets", "hf:one")])
def test_a_missing_package_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str, address: str
) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.partition(".")[0] == package:
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.chdir(tmp_path)
    Path("a.parquet").touch()
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(DataError, match=re.escape(install_hint("data"))):
        load_rows(address)


@given(
    st.dictionaries(
        st.sampled_from("abc"),
        st.text(st.characters(exclude_categories=["Z", "C"]), min_size=1),
        min_size=3,
    )
)
def test_a_template_is_filled_once_with_the_fields_as_they_are(fields: dict[str, str]) -> None:
    found = FieldMap("{a}|{b}", "c").example(("row 1", dict(fields)))
    assert found == Example(f"{fields['a']}|{fields['b']}", fields["c"])


def test_templates_name_fields_that_rows_have(places: dict[str, str]) -> None:
    with pytest.raises(DataError, match="has no field 'titel'; it has title, text, kind"):
        load_rows(places["jsonl"], None, "kind", "{titel}")
    with pytest.raises(DataError, match="must name fields in braces"):
        load_rows(places["jsonl"], None, "kind", "no slots")
    with pytest.raises(DataError, match="both say what the input is; leave one of them out"):
        load_rows(places["jsonl"], "text", "kind", "{text}")


def test_rows_stand_in_the_configuration() -> None:
    rows = [{"text": f"t{i}", "label": "ab"[i % 2]} for i in range(6)]
    spec = make_spec({"rows": rows})
    assert load_data(spec.design)[0] == tuple(Example(f"t{i}", "ab"[i % 2]) for i in range(6))
    assert "t1" not in repr(spec) + spec.model_dump_json()
    for wrong in ([], "t1", [1], {"a": 1}):
        with pytest.raises(DataError, match="rows must be a list of objects") as error:
            inline_rows(wrong)
        assert "t1" not in str(error.value)
    with pytest.raises(DataError, match="row 2 of the configuration has an empty field 'label'"):
        as_examples(inline_rows([*rows[:1], {"text": "x", "label": None}]), "the configuration")


def test_rows_come_from_one_place() -> None:
    with pytest.raises(UsageError, match="data and rows are given"):
        load_data(make_spec({"data": "a.jsonl", "rows": [{}]}).design)
    with pytest.raises(UsageError, match="add --task NAME"):
        load_data(make_spec({"data_dir": "somewhere"}).design)


def test_without_a_network_a_hub_dataset_is_refused_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The library would ask five times, and show the hub's address each time."""
    from huggingface_hub import constants

    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)

    def unknown(host: str, port: int) -> None:
        raise OSError(-2, "Name or service not known")

    monkeypatch.setattr("socket.getaddrinfo", unknown)
    with pytest.raises(DataError, match=r"nor in the cache, and .* cannot be reached"):
        source_rows("hf:nobody/nothing")
    assert constants.HF_HUB_OFFLINE is False
