"""A secret planted in every row is searched for in everything that an audit leaves behind:

files, output, reprs, errors.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from leakbound.auditing import AuditSpec, make_spec, prepare, run_audit
from leakbound.errors import LeakboundError, UsageError
from leakbound.mechanisms import MECHANISMS, option_names
from leakbound.models import Model, Scripted
from leakbound.report import page, summary
from leakbound.tasks import Context, Example


@pytest.fixture
def rows(secret: str) -> Context:
    return tuple(Example(f"{secret} kite, number {i}", ("plain", "odd")[i % 2]) for i in range(40))


def holds(folder: Path, text: str) -> list[str]:
    """Files that hold the text."""
    return [
        path.name
        for path in folder.rglob("*")
        if path.is_file() and text.encode() in path.read_bytes()
    ]


SMALL = {"partitions": 2, "subsamples": 4, "tokens": 3, "candidates": 5}


def spec_of(mechanism: str, keep: str, **more: Any) -> AuditSpec:
    small: dict[str, Any] = {
        "pairs": 1, "controls": 1, "shots": 4, "simulations": 100, "threshold": 0.5,
        "store_text": keep, "labels": ["odd", "plain"],
    }  # fmt: skip
    options = option_names(MECHANISMS[mechanism])
    small |= {f"mechanism.{name}": size for name, size in SMALL.items() if name in options}
    if mechanism == "subsample_average":
        small |= {"insertion": "add"}
    return make_spec({**small, "mechanism": mechanism, **more})


def audited(
    spec: AuditSpec, rows: Context, model: Model, out: Path, paged: bool = True
) -> tuple[str, set[str]]:
    """All that a user is shown, and the canaries."""
    prepared = prepare(spec, model, rows=rows)
    record, folder = run_audit(prepared, out)
    if paged:
        (folder / "report.html").write_text(page([record]))
    shown = (
        summary(record)
        + repr(record)
        + repr(prepared)
        + repr(prepared.pairs)
        + repr(prepared.pairs[0])
    )
    return shown, {prepared.pairs[i].canary.input for i in range(spec.design.pairs)}


# A page is made of the record, which is looked at for each mechanism: one with votes, one without.
PAGED = {"few_shot", "report_noisy_max"}


@pytest.mark.slow
@pytest.mark.parametrize("keep", ["none", "canary_only"])
@pytest.mark.parametrize("mechanism", sorted(MECHANISMS))
def test_no_file_and_no_repr_holds_a_row(
    pocket: Model, rows: Context, secret: str, tmp_path: Path, capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture, mechanism: str, keep: str,
) -> None:  # fmt: skip
    caplog.set_level(logging.DEBUG)
    spec = spec_of(mechanism, keep)
    shown, canaries = audited(spec, rows, pocket, tmp_path, paged=mechanism in PAGED)
    output = "".join(capfd.readouterr()) + caplog.text + shown
    assert holds(tmp_path, secret) == []
    assert secret not in output
    if keep == "none":
        assert [name for canary in canaries for name in holds(tmp_path, canary)] == []
    assert not [canary for canary in canaries if keep == "none" and canary in output]


FREE = [
    ("injection", "hex"),
    ("repeat", "natural"),
    ("signal_pair", "false_fact"),
    ("brainwash", "mislabeled"),
]


def parrot() -> Scripted:
    """Answers with the whole prompt."""
    return Scripted(complete=lambda prompt: " ".join(prompt.split()), name="parrot")


def marked(rows: Context) -> Context:
    """Rows with a word each that no other row and no canary has."""
    return tuple(Example(f"{row.input} zweifel{i}.", row.label) for i, row in enumerate(rows))


def kept(folder: Path) -> set[str]:
    """The marks that files hold."""
    found = "".join(
        path.read_bytes().decode("latin-1") for path in folder.rglob("*") if path.is_file()
    )
    return set(re.findall(r"zweifel\d+\.", found))


@pytest.mark.parametrize(("query", "canary"), FREE)
def test_free_answers_keep_only_words_of_the_canary(
    rows: Context, tmp_path: Path, query: str, canary: str
) -> None:
    prepared = prepare(
        spec_of("few_shot", "canary_only", query=query, canary=canary),
        parrot(),
        rows=marked(rows),
    )
    run_audit(prepared, tmp_path)
    pairs = [*prepared.controls, *(prepared.pairs[i] for i in range(1))]
    own = " ".join(pair.canary.input for pair in pairs)
    assert kept(tmp_path) <= set(re.findall(r"zweifel\d+\.", own))


def test_what_is_glued_to_the_canary_is_not_kept(
    rows: Context, secret: str, tmp_path: Path
) -> None:
    def glued(prompt: str) -> str:
        canary = re.search(r"Input: (\w{16})\n", prompt)
        return f'{{"note":"{canary[1] if canary else ""}","next":"{secret}"}}'

    spec = spec_of("few_shot", "canary_only", query="injection")
    record, folder = run_audit(prepare(spec, Scripted(complete=glued), rows=rows), tmp_path)
    assert not holds(folder, secret)
    assert record.estimate("clopper_pearson").counts["tp"] > 0


def test_a_run_takes_over_no_text_that_it_may_not_keep(rows: Context, tmp_path: Path) -> None:
    for keep in ("all", "canary_only"):
        prepared = prepare(
            spec_of("few_shot", keep, query="injection"), parrot(), rows=marked(rows)
        )
        _, folder = run_audit(prepared, tmp_path)
        assert bool(kept(folder)) == (keep == "all")


def test_all_keeps_the_example_and_shows_it_nowhere_else(
    pocket: Model, rows: Context, secret: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    audited(spec_of("few_shot", "all"), rows, pocket, tmp_path)
    assert set(holds(tmp_path, secret)) == {"record.json", "report.html"}
    assert secret not in "".join(capfd.readouterr())


def test_the_text_of_a_given_canary_stands_in_the_configuration_so_none_is_refused(
    rows: Context,
) -> None:
    given = {"canary": "given", "canary.text": "zweifel", "canary.label": "odd"}
    with pytest.raises(UsageError, match="use --store-text canary_only, or another canary"):
        prepare(spec_of("few_shot", "none", **given), parrot(), rows=rows)


SYSTEMS = """
calls = 0
def breaks(context, query):
    global calls
    calls += 1
    if calls > 6:
        raise ValueError(f"cannot read {context[0].input}")
    return "yes"
def returns(context, query):
    return {"text": context}
"""


@pytest.mark.parametrize("keep", ["none", "canary_only", "all"])
def test_nothing_is_told_by_an_error_in_the_middle(
    desk: Path, run: Callable[..., Any], secret: str, keep: str
) -> None:
    (desk / "mine.py").write_text(SYSTEMS)
    given = [
        "audit",
        "--data",
        "rows.jsonl",
        "--pairs",
        "8",
        "--shots",
        "4",
        "--batch-pairs",
        "2",
        "--store-text",
        keep,
    ]
    done = run(
        [*given, "--system", "python:mine.py:breaks"],
        [*given, "--system", "python:mine.py:returns"],
        codes=[4, 4],
    )
    assert "raised ValueError" in done.stderr
    assert "returned tuple" in done.stderr
    assert secret not in done.stdout + done.stderr
    assert holds(desk / "runs", secret) == []


def test_rows_of_a_configuration_stay_out_of_the_run(
    pocket: Model, secret: str, tmp_path: Path, rows: Context
) -> None:
    inline = [{"text": row.input, "label": row.label} for row in rows]
    spec = spec_of("few_shot", "canary_only", rows=inline)
    run_audit(prepare(spec, pocket), tmp_path)
    assert holds(tmp_path, secret) == []
    with pytest.raises(LeakboundError) as told:
        prepare(spec_of("few_shot", "none", rows=[*inline, {"text": secret}]), pocket)
    assert secret not in str(told.value)
