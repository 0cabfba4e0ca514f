"""Runs whose rows may not be passed on are computed again from their outputs and public labels."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path

import pytest
from commands import cli

pytestmark = [pytest.mark.process, pytest.mark.torch]
LABELS = ("home", "work")
OF_EACH_ROW = "".join(str(n % 3 // 2) for n in range(40))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs, and instead of their rows a file with the labels."""
    desk = tmp_path_factory.mktemp("desk")
    rows = [{"text": f"note {n} of day {7 * n}", "label": LABELS[int(at)]}
            for n, at in enumerate(OF_EACH_ROW)]  # fmt: skip
    (desk / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    asked = ("--data", "rows.jsonl", "--labels", "home,work", "--pairs", "8", "--shots", "4",
             "--controls", "2", "--out", "evidence")  # fmt: skip
    for system in ("few_shot", "report_noisy_max:partitions=2"):
        done = cli("audit", "--mechanism", system, *asked, cwd=desk)
        assert done.returncode in (0, 1, 3), done.stderr
    (manifest, _) = desk.glob("evidence/*/manifest.json")
    data = {
        json.loads(manifest.read_text())["data"]: {"labels": LABELS, "of_each_row": OF_EACH_ROW}
    }
    text = json.dumps({"schema_version": 1, "data": data})
    (desk / "evidence" / "left-out-rows.json").write_text(text)
    (desk / "rows.jsonl").unlink()
    return desk


@pytest.mark.slow
def test_a_store_without_rows_is_computed_again(store: Path) -> None:
    done = cli("verify", "evidence", cwd=store)
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("computed again from the stored trials, are the same") == 2


@pytest.mark.slow
def test_an_edited_output_or_record_is_found(store: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(store / "evidence", tmp_path / "evidence")
    (run, other) = sorted(one.parent for one in copy.glob("*/record.json"))
    with sqlite3.connect(run / "trials.sqlite") as db:
        db.execute("UPDATE evidence SET member = nonmember, nonmember = member WHERE pair = 0")
    db.close()
    record = json.loads((other / "record.json").read_text())
    record["verdict"] = "no_violation"
    (other / "record.json").write_text(json.dumps(record))
    done = cli("verify", "evidence", cwd=tmp_path)
    assert (done.returncode, done.stdout.count("NOT AS WRITTEN")) == (1, 2)
    assert cli("verify", "nowhere", cwd=tmp_path).returncode == 2


@pytest.mark.slow
def test_labels_of_other_rows_compute_nothing_as_the_same(store: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(store / "evidence", tmp_path / "evidence")
    file = copy / "left-out-rows.json"
    file.write_text(file.read_text().replace('"schema_version": 1', '"schema_version": 9'))
    done = cli("verify", "evidence", cwd=tmp_path)
    assert done.returncode == 2
    assert "has schema version 9, not 1" in done.stdout
    for text in ("[]", "no JSON", '{"schema_version": 1}'):
        file.write_text(text)
        done = cli("verify", "evidence", cwd=tmp_path)
        assert (done.returncode, done.stdout.count("cannot be read")) == (2, 2)
    file.unlink()
    done = cli("verify", "evidence", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout.count("bounds were not computed again") == 2


@pytest.mark.slow
def test_where_a_row_is_the_canary_nothing_is_computed_without_it(
    store: Path, tmp_path: Path
) -> None:
    """Its scores read the row; other texts would make an honest run look edited."""
    rows = "".join(json.dumps({"text": f"note {n} of day {7 * n}", "label": LABELS[int(at)]}) + "\n"
                   for n, at in enumerate(OF_EACH_ROW))  # fmt: skip
    (tmp_path / "rows.jsonl").write_text(rows)
    asked = ("--labels", "home,work", "--pairs", "4", "--shots", "4", "--controls", "2")
    done = cli("audit", "--data", "rows.jsonl", *asked, "--canary", "natural", "--out", "evidence",
               cwd=tmp_path)  # fmt: skip
    assert done.returncode in (0, 1, 3), done.stderr
    shutil.copy(store / "evidence" / "left-out-rows.json", tmp_path / "evidence")
    done = cli("verify", "evidence", cwd=tmp_path)
    assert (done.returncode, "the canary is a row" in done.stdout) == (2, True)
    assert "NOT AS WRITTEN" not in done.stdout
