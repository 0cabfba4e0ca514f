"""How a run was collected changes none of its results:

at once or in parts, resumed, taken over, cached, replayed, concurrent.
"""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import leakbound
from leakbound.auditing import make_spec, prepare, run_audit
from leakbound.auditing.collect.collect import CollectionPlan, replay_only
from leakbound.auditing.shards import run_shard
from leakbound.auditing.store.run_store import RunStore
from leakbound.cli import main
from leakbound.errors import StoreError
from leakbound.models import Answers, Cached, Counted, Scripted, Unopened
from leakbound.tasks import Context

STATELESS = {"state_check": 0.25}  # as of a system that says so
VOTES = {
    "mechanism": "report_noisy_max",
    "pairs": 24,
    "batch_pairs": 4,
    "simulations": 2000,
    "labels": ["odd", "plain"],
}
EARLY = {"pairs": 60, "batch_pairs": 3, "stop_when_rejected": True}
BATCHES = [*range(-16, 0, 3), *range(0, 60, 3)]  # of EARLY: control pairs have numbers below 0


def whole(rows: Context, model: Any, out: Path, **values: Any) -> leakbound.AuditResult:
    return run_audit(prepare(make_spec(values), model, rows=rows), out)[0]


@pytest.mark.slow
@settings(
    max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(order=st.permutations(BATCHES), cut=st.integers(0, len(BATCHES)), early=st.booleans())
def test_batches_in_any_order_and_in_two_runs(
    rows: Context,
    leaky: Scripted,
    tmp_path_factory: pytest.TempPathFactory,
    order: list[int],
    cut: int,
    early: bool,
) -> None:
    """Some batches are there already, whichever; the rest comes in any order:

    the record has the same bytes.
    """
    out = tmp_path_factory.mktemp("runs")
    made = prepare(make_spec({**EARLY, "stop_when_rejected": early}), leaky, rows=rows)
    store = RunStore(out / made.name, made.manifest)
    for first in order[:cut]:
        batch = CollectionPlan.of(made).ask(first, leaky)
        store.add(batch.first, batch.rows, batch.calls)
    record, _ = run_audit(
        made,
        out,
        ask=lambda asked, model, missing: (asked.ask(f, model) for f in order if f in missing),
    )
    assert record.results() == run_audit(made, out / "alone")[0].results()


def test_an_early_stop_is_the_same_on_answers_of_another_run(
    rows: Context, leaky: Scripted, tmp_path: Path
) -> None:
    """The other run asked for all pairs; this one takes them over, and uses as many as it would
    have asked for.
    """
    alone = whole(rows, leaky, tmp_path / "alone", **EARLY)
    whole(rows, leaky, tmp_path / "both", **{**EARLY, "stop_when_rejected": False})
    counted = Counted(leaky)
    both = whole(rows, counted, tmp_path / "both", **EARLY)
    assert both.results() == alone.results()
    assert (both.counts["looks"], alone.counts["looks"]) == (1, 0)
    assert counted.calls == 0
    assert alone.counts["pairs"] < 20


@pytest.mark.slow
def test_a_cache_changes_no_byte(rows: Context, leaky: Scripted, tmp_path: Path) -> None:
    alone, counted = whole(rows, leaky, tmp_path / "a", **VOTES), Counted(leaky)
    for out in ("b", "c"):
        assert (
            whole(rows, Cached(counted, Answers(tmp_path / "k")), tmp_path / out, **VOTES).results()
            == alone.results()
        )
    assert counted.calls == alone.counts["model_calls"], "the second run asked nothing"


def test_a_replay_opens_no_model(rows: Context, leaky: Scripted, tmp_path: Path) -> None:
    record = whole(rows, leaky, tmp_path, **VOTES)
    unopened = Unopened(leaky.name, leaky.fingerprint)
    made = prepare(make_spec(VOTES), unopened, rows=rows)
    assert run_audit(made, tmp_path, ask=replay_only)[0].to_json() == record.to_json()
    more = prepare(make_spec({**VOTES, "pairs": 28}), unopened, rows=rows)
    with pytest.raises(StoreError, match="1 of 11 batches are not kept"):
        run_audit(more, tmp_path, ask=replay_only)


@pytest.mark.slow
def test_concurrent_answers_give_the_record_of_single_ones(rows: Context, tmp_path: Path) -> None:
    """Asynchronous calls end in any order; names and provenance differ, results do not."""

    def alone(context: Context, query: str) -> str:
        return "yes" if any(row.input == query.split('"')[1] for row in context) else "no"

    async def together(context: Context, query: str) -> str:
        await asyncio.sleep(random.Random(query).random() / 50)
        return alone(context, query)

    one, other = (
        leakbound.audit(rows, system=f, out=tmp_path, pairs=40, batch_pairs=20, **STATELESS)
        for f in (alone, together)
    )
    assert one.name != other.name
    assert one.results() == other.results()
    assert one.digest == other.digest
    assert (
        one.digest
        != leakbound.audit(rows, system=alone, out=tmp_path, pairs=41, **STATELESS).digest
    )


def ends(command: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(command.split())
    return int(ended.value.code or 0)


@pytest.mark.torch
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("--shard 0/2", "must be i/N with 1 <= i <= N"),
        ("--shard 1/2 --stop-when-rejected", "a shard sees every Nth batch"),
        ("--shard 1/2 --replay", "leave --shard out"),
        ("--fresh --replay", "leave one of them out"),
        ("--fresh --cache k", "leave one of them out"),
        ("--ray local --cache k", "ask their own models"),
        ("--ray local --max-minutes 1", "every worker of a cluster is one"),
        ("--workers 2", "add --ray local"),
        ("--cache k --system python:system.py:answer", "stores answers of a model"),
        ("--replay", "holds no run of this model"),
    ],
)
def test_options_that_exclude_each_other_get_a_sentence(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: str,
    sentence: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "system.py").write_text("def answer(context, query):\n    return 'no'\n")
    assert ends(f"audit --pairs 2 {options}") == 2
    assert sentence in capsys.readouterr().err
    assert not list(tmp_path.glob("runs/*/record.json"))


def test_shards_say_that_they_have_no_verdict(
    rows: Context, leaky: Scripted, tmp_path: Path
) -> None:
    folder = run_shard(prepare(make_spec(VOTES), leaky, rows=rows), (2, 3), tmp_path)
    assert not (folder / "record.json").exists()
    assert RunStore(folder, {}).batches() == {4, 16}
    assert RunStore(folder, {}).shards() == [(2, 3)]
