"""leakbound difference: what decides, how it errs, files of tools, and sentences for bad ones."""

from __future__ import annotations

import gzip
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from difference_files import TOOLS, lines, promptfoo, table
from leakbound_hosts.difference import (
    Difference,
    _block_differences,
    _evidence,
    compare_scores,
    decide_together,
    plan_difference,
)
from leakbound_hosts.difference.command import command, plan_rows
from leakbound_hosts.difference.files import columns_of
from scipy import stats

from leakbound.cli.verbs.audit.plan import command as plan_command
from leakbound.errors import DataError, UsageError
from leakbound.tasks.rows import row_files

BETTER, WORSE = [1] * 30 + [0] * 10, [0] * 16 + [1] * 14 + [0] * 10


def run(*args: object) -> tuple[int, str]:
    done = CliRunner().invoke(command, [str(one) for one in args], standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return done.return_value, done.output


@pytest.mark.parametrize("seed", range(4))
def test_the_exact_tests_are_those_of_scipy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = (rng.random(60) < 0.8).astype(float), (rng.random(60) < 0.5).astype(float)
    up, down = int((a > b).sum()), int((a < b).sum())
    expected = stats.binomtest(up, up + down).pvalue
    assert compare_scores(a, b).exact == pytest.approx(expected)
    n, k = int(a.sum()), int(b[:40].sum())
    tails = stats.hypergeom(100, n + k, 60)
    found = compare_scores(a, b[:40], paired=False).exact
    assert found == pytest.approx(min(1, 2 * min(tails.cdf(n), tails.sf(n - 1))))


@pytest.mark.parametrize("effect", [None, 0.1])
def test_a_look_after_every_sample_rarely_errs(effect: float | None) -> None:
    rng = np.random.default_rng(0)
    d = rng.choice([-1.0, 0.0, 1.0], (600, 500), p=[0.15, 0.7, 0.15])
    ever = (_evidence(d, effect) >= np.log(20)).any(1).mean()
    twice = (np.abs(d.cumsum(1)) > 1.96 * np.sqrt((d * d).cumsum(1) + 1)).any(1).mean()
    assert ever <= 0.05 < 0.3 < twice  # what repeated looks at a fixed test do


def test_no_e_value_gains_in_the_mean_after_one_pair() -> None:
    for effect in (None, 0.3):
        up, none, down = (np.exp(_evidence(np.array([d]), effect)[0]) for d in (1.0, 0.0, -1.0))
        assert none == pytest.approx(1)
        assert (up + down) / 2 == pytest.approx(1)


def test_the_interval_holds_the_true_difference_at_every_look() -> None:
    rng, missed = np.random.default_rng(1), 0
    for _ in range(100):
        a, b = (rng.random(300) < 0.8).astype(float), (rng.random(300) < 0.65).astype(float)
        low, high = compare_scores(b, a, look_often=True).interval
        missed += not low <= 0.15 <= high
        assert low < np.mean(a) - np.mean(b) < high
    assert missed <= 5


def test_scores_between_0_and_1_are_compared_by_their_means() -> None:
    rng = np.random.default_rng(2)
    a, b = rng.beta(8, 2, 800), rng.beta(0.8, 0.2, 800)  # the same mean, other shapes
    found = compare_scores(a, b, paired=False)
    assert (found.exact, found.real) == (None, False)
    assert compare_scores(a, b * 0.7).real


def test_blocks_use_every_score_of_the_larger_run() -> None:
    a, b = np.array([1.0, 0.0]), np.array([1.0, 0.0, 0.0, 1.0, 1.0])
    assert _block_differences(a, b).tolist() == pytest.approx([0.5, -2 / 3])
    assert _block_differences(b, a).tolist() == pytest.approx([-0.5, 2 / 3])


def test_of_many_metrics_those_are_real_that_e_bh_rejects() -> None:
    def one(e: float) -> Difference:
        return Difference("m", True, (9, 9), (1, 0), (0, 1), e, 1, None, None, (0, 0), 1, "", False)

    assert [x.real for x in decide_together([one(90), one(45)], 3)] == [True, True]
    assert [x.real for x in decide_together([one(90), one(45)], 5)] == [False, False]


def test_a_plan_is_kept() -> None:
    plan, rng = plan_difference(0.2, 0.3), np.random.default_rng(3)
    d = rng.choice([-1.0, 0.0, 1.0], (400, plan.most), p=[0.05, 0.7, 0.25])
    assert 0.85 < (_evidence(d, 0.2) >= np.log(20)).any(1).mean() < 0.95
    assert plan.mean < 0.8 * plan.fixed < plan.most


def test_the_screen_says_what_decides_and_how_much(tmp_path: Path) -> None:
    a, b = table(tmp_path / "a.csv", BETTER), table(tmp_path / "b.csv", WORSE)
    code, once = run(a, b)
    assert (code, len(once.splitlines())) == (1, 6)
    assert "✗ REAL DIFFERENCE   40 pairs by id" in once
    assert "A 0.750, B 0.350: -0.400" in once
    assert "McNemar's exact test: p = 3.1e-05" in once
    often = run(a, b, "--look-often", "--effect", "0.2")[1]
    assert "decides          an e-value, valid at every look" in often
    assert len(often.splitlines()) == 7
    assert max(map(len, (once + often).splitlines())) <= 80
    assert "Fisher's exact test" in run(a, b, "--unpaired")[1]
    assert json.loads(run(a, b, "--json")[1])["differences"][0]["wins"] == [16, 0]


def test_ids_pair_samples_in_any_order(tmp_path: Path) -> None:
    rows = [{"id": f"q{i}", "accuracy": s == 1} for i, s in enumerate(WORSE)]
    a, b = table(tmp_path / "a.csv", BETTER), lines(tmp_path / "b.jsonl", rows[::-1])
    code, text = run(a, b)
    assert (code, "16 higher in A, 0 higher in B" in text) == (1, True)
    same = table(tmp_path / "c.csv", WORSE)
    assert run(same, b)[0] == 0


@pytest.mark.parametrize("tool", TOOLS)
def test_files_of_tools_are_read(tool: str, tmp_path: Path) -> None:
    write, metric = TOOLS[tool]
    a, b = write(tmp_path / "a", BETTER), write(tmp_path / "b", WORSE)
    code, text = run(a, b, "--metric", metric)
    assert (code, "40 pairs by id" in text) == (1, True)
    assert "A 0.750, B 0.350: -0.400" in text


def test_without_a_metric_all_that_can_differ_are_compared(tmp_path: Path) -> None:
    write, _ = TOOLS["lm-eval"]
    a, b = write(tmp_path / "a", BETTER), write(tmp_path / "b", WORSE)
    text = run(a, b)[1]
    assert "e-BH over 2 metrics, at 5% FDR" in text
    assert len(re.findall("✗ A 0.750, B 0.350", text)) == 2
    assert "perplexity" not in text


OTHER = [0, 1, 1, 0, 1]


@pytest.mark.parametrize(
    ("pair", "sentence"),
    [
        (([0, 1, 1], OTHER), "3 samples in A, 5 in B, 3 in both"),
        (([0, 1, "nan", 0, 1], OTHER), "sample 3 of .* is missing or NaN"),
        (([0, 1, "", 0, 1], OTHER), "sample 3 of .* is missing or NaN"),
        ((["good", 1, 1, 0, 1], OTHER), "share no metric"),
        (([7, 1, 1, 0, 1], OTHER), "share no metric"),
        (([1], [0]), "1 score in a run"),
        (([1, 1], [1, 1]), "a constant metric cannot differ"),
        (([], [0]), "at least one row|holds no|has no"),
    ],
)
def test_bad_files_end_in_a_sentence(
    pair: tuple[Sequence[object], Sequence[object]], sentence: str, tmp_path: Path
) -> None:
    a, b = (table(tmp_path / f"{name}.csv", one) for name, one in zip("ab", pair, strict=True))
    with pytest.raises(UsageError, match=sentence) as caught:
        run(a, b)
    assert caught.value.exit_code == 2


def test_what_is_no_score_or_counts_twice_is_refused(tmp_path: Path) -> None:
    twice = lines(tmp_path / "t.jsonl", [{"id": i // 2, "acc": i % 2} for i in range(3)])
    with pytest.raises(DataError, match="1 of 3 samples of 'acc' have the id of an earlier one"):
        run(twice, twice)
    failed = promptfoo(tmp_path / "b", WORSE, failure=2)
    with pytest.raises(DataError, match=r"test 0 .* ended with an error of the provider"):
        run(failed, failed)


def test_tests_that_ended_in_another_order_are_read_in_their_own(tmp_path: Path) -> None:
    whole = json.loads((file := promptfoo(tmp_path / "a", BETTER)).read_text())
    found = columns_of(file)["success"]
    whole["results"]["results"].sort(key=lambda row: row["score"])
    file.write_text(json.dumps(whole))
    ended = columns_of(file)["success"]
    assert (ended.ids, ended.values.tolist()) == (found.ids, BETTER)


def test_what_unpacks_without_end_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_files, "MOST_UNPACKED", 1 << 10)
    packed, whole = tmp_path / "a.csv.gz", promptfoo(tmp_path / "b", BETTER)
    packed.write_bytes(gzip.compress(b"id,accuracy\n" + b"1,1\n" * 1000))
    for file in (packed, whole):
        with pytest.raises(DataError, match="unpacks to more than"):
            run(file, file)


def test_a_log_of_inspect_needs_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "leakbound_hosts.inspect.stopping", None)
    log = tmp_path / "log.json"
    log.write_text(json.dumps({"version": 2, "eval": {}, "samples": []}))
    with pytest.raises(UsageError, match="inspect_ai is not installed"):
        run(log, log)


def test_unequal_numbers_of_scores_make_no_pairs() -> None:
    with pytest.raises(DataError, match="3 and 2 scores make no pairs"):
        compare_scores([0.0, 1.0, 1.0], [0.0, 1.0])


@pytest.mark.parametrize(
    ("effect", "discordant"), [(0.05, 0.1), (0.05, 0.2), (0.1, 0.2), (0.1, 0.4)]
)
def test_plan_says_how_many_samples_show_a_difference(effect: float, discordant: float) -> None:
    rows, plan = plan_rows(effect, discordant)
    assert plan == plan_difference(effect, discordant)
    assert plan.mean <= 0.75 * plan.fixed  # at least 25 % fewer than McNemar's test, power 0.9
    assert dict(rows)["one look"] == f"{plan.fixed:,} pairs, all of them"
    assert f"~{plan.mean:,} pairs in the mean" in dict(rows)["every look"]
    with pytest.raises(UsageError, match="needs as many samples at least"):
        plan_rows(discordant, effect)


def test_plan_prints_it_in_place_of_an_audit() -> None:
    done = CliRunner().invoke(plan_command, ["--effect", "0.1", "--discordant", "0.25"])
    assert done.exit_code == 0, done.output
    assert done.output.startswith("· PLAN   a difference")
    assert "268 pairs" in done.output
    assert "~185 pairs in the mean (31% fewer), most 392" in done.output
