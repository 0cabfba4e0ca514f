"""A result may be shared: what it says of the data confirms no guess about them. The first release
showed a plain hash of all rows, so whoever knew all rows but one could try candidates for that one.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from leakbound.auditing import AuditResult, load_result, make_spec, prepare, run_audit
from leakbound.auditing.store.folder import TRIALS
from leakbound.gating.compare import compare_results
from leakbound.models import Counted, Scripted
from leakbound.tasks import Context, Example
from leakbound.tasks.rows.datasets import fingerprint

SPEC = {"pairs": 6, "shots": 8, "simulations": 200, "mechanism": "few_shot"}
ROWS: Context = tuple(Example(f"row {i}", "ab"[i % 2]) for i in range(30))
OTHER: Context = (*ROWS[:-1], Example("another row", "a"))
LEAKY = Scripted(complete=lambda prompt: "no" if prompt.count('"') < 4 else "yes", name="leaky")


def audited(out: Path, rows: Context = ROWS, model: Counted | Scripted = LEAKY) -> Path:
    return run_audit(prepare(make_spec(SPEC), model, rows=rows), out)[1]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of an operator; only its record.json leaves."""
    return audited(tmp_path_factory.mktemp("operator"))


def test_who_guesses_all_rows_sees_no_more_than_who_guesses_wrong(
    shared: Path, tmp_path: Path
) -> None:
    """Everything but results of the model, for the right rows and for wrong ones."""
    text = (shared / "record.json").read_text()
    found = json.loads(text)["provenance"]
    for name, guess in ("right", ROWS), ("wrong", OTHER):
        folder = audited(tmp_path / name, guess)
        mine = load_result(folder)
        assert fingerprint(guess) not in text
        assert json.loads(text)["name"] == mine.name
        for key in ("data_fingerprint", "evidence", "data_key"):
            assert found[key] != mine.provenance[key]
    hashes = {v for k, v in found.items() if k in ("data_fingerprint", "evidence", "data_key")}
    assert len(hashes) == 3


def test_the_key_is_private_and_stays(shared: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(shared, tmp_path / shared.name)
    key = (folder / "key").read_text()
    assert len(key) == 64
    assert (shared / "key").stat().st_mode & 0o777 == 0o600
    assert key not in (folder / "record.json").read_text()
    counted, before = Counted(LEAKY), (folder / "record.json").read_bytes()
    assert audited(tmp_path, model=counted) == folder
    assert counted.calls == 0
    assert (folder / "record.json").read_bytes() == before


def test_changed_data_are_another_run_and_each_is_resumed(tmp_path: Path) -> None:
    first, second = audited(tmp_path), audited(tmp_path, OTHER)
    assert second.name == f"{first.name}-2"
    for rows, folder in (ROWS, first), (OTHER, second):
        counted = Counted(LEAKY)
        assert audited(tmp_path, rows, counted) == folder
        assert counted.calls == 0
    one, other = load_result(first).provenance, load_result(second).provenance
    assert one["data_key"] == other["data_key"]
    assert one["data_fingerprint"] != other["data_fingerprint"]


def test_evidence_is_still_checked_against_the_result(shared: Path, tmp_path: Path) -> None:
    """Also that of results of earlier versions, which show the head of their chain as it is."""
    folder = shutil.copytree(shared, tmp_path / shared.name)
    silent = Scripted(complete=lambda prompt: "yes", name="leaky")
    other = audited(tmp_path / "other", ROWS, silent)
    shutil.copy(other / TRIALS, folder)
    with pytest.raises(Exception, match=r"not those of record\.json"):
        load_result(folder)


def alone(folder: Path, to: Path) -> AuditResult:
    return load_result(shutil.copy(folder / "record.json", to))


def test_results_are_compared_where_they_show_that_the_data_are_the_same(
    shared: Path, tmp_path: Path
) -> None:
    again, other = audited(tmp_path / "again"), audited(tmp_path / "again", OTHER)
    first, same, changed = (load_result(folder) for folder in (shared, again, other))
    assert first.same_data(same)
    assert not first.same_data(changed)
    assert "data_fingerprint" not in compare_results([first, same]).differing_settings
    assert "(data_fingerprint)" in compare_results([first, changed]).not_compared[0]
    records = [alone(f, tmp_path / f"{i}.json") for i, f in enumerate((shared, again, other))]
    assert records[0].same_data(records[1]) is None
    assert records[1].same_data(records[2]) is False
    (why,) = compare_results(records[:2]).not_compared
    assert "do not show whether the data are the same" in why
