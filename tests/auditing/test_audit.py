"""An audit from rows to record: cost, seeds, verdicts, privacy of what is stored."""

from __future__ import annotations

import json
import math
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leakbound
from leakbound.attacks import Attack, Hex, Membership, PredictedMember
from leakbound.auditing import load_result, make_spec, prepare, run_audit
from leakbound.auditing.decide.obstacles import conclude
from leakbound.auditing.design.pairs import design, generator
from leakbound.auditing.store.run_store import EvidenceRow, RunStore
from leakbound.errors import DataError, StoreError, TargetError, UsageError
from leakbound.estimators import (
    Claim,
    ClopperPearson,
    Observations,
    PairedScores,
    TrialDesign,
)
from leakbound.estimators.error_counts import AccuracyLogOdds
from leakbound.models import Counted, Scripted
from leakbound.privacy import Gaussian
from leakbound.report import page, summary
from leakbound.stats import Split, clopper_pearson, gdp
from leakbound.tasks import Context, Example, Task, Votes

TASK = Task("t", ("odd", "plain"))
VOTING: dict[str, Any] = {"mechanism": "report_noisy_max", "labels": ["odd", "plain"]}
ATTACK = Attack(Hex(), Membership(), PredictedMember())


def run(rows: Context, model: Scripted, out: Path, **options: Any) -> leakbound.AuditResult:
    return run_audit(prepare(make_spec(options), model, rows=rows), out)[0]


def test_the_e_process_decides_and_may_stop_early(
    rows: Context, leaky: Scripted, tmp_path: Path
) -> None:
    counted = Counted(leaky)
    values = {"pairs": 60, "estimator": "e_process", "batch_pairs": 2}
    early = make_spec({**values, "stop_when_rejected": True})
    record, _ = run_audit(prepare(early, counted, rows=rows), tmp_path)
    assert record.verdict == "violation"
    assert record.counts["pairs"] < 20
    assert counted.calls == record.counts["model_calls"] == 2 * (16 + record.counts["pairs"])
    again, _ = run_audit(prepare(early, counted, rows=rows), tmp_path)
    assert again == record
    whole, _ = run_audit(prepare(make_spec(values), leaky, rows=rows), tmp_path)
    assert record.e_values is not None
    assert record.e_values.rejected_at is not None
    assert record.e_values.rejected_at <= record.counts["pairs"]
    assert whole.counts["pairs"] == 60
    assert (whole.estimate("e_process").epsilon or 0) > (record.estimate("e_process").epsilon or 0)


@pytest.mark.slow
def test_the_e_process_leaves_private_voting_alone(
    rows: Context, leaky: Scripted, tmp_path: Path
) -> None:
    options = {
        **VOTING,
        "epsilon": 4,
        "estimator": "e_process",
        "simulations": 4_000,
    }
    record = run(rows, leaky, tmp_path, pairs=100, **options)
    assert record.verdict == "no_violation"
    assert (
        0.5 * record.guarantee.mu < (record.estimate("e_process_mu").mu or 0) <= record.guarantee.mu
    )  # type: ignore[operator]


def test_stopping_early_needs_an_anytime_valid_estimator(rows: Context, leaky: Scripted) -> None:
    with pytest.raises(UsageError, match="add --estimator e_process"):
        prepare(
            make_spec({"stop_when_rejected": True, "estimator": "clopper_pearson"}),
            leaky,
            rows=rows,
        )


def test_a_leaky_system_is_refuted(rows: Context, leaky: Scripted, tmp_path: Path) -> None:
    record = run(rows, leaky, tmp_path, pairs=40)
    assert record.verdict == "violation"
    bound = record.estimate("clopper_pearson")
    assert bound.epsilon == pytest.approx(
        math.log((0.025 ** (1 / 40) - 1e-5) / (1 - 0.025 ** (1 / 40))), abs=1e-6
    )
    assert record.estimate("accuracy_log_odds").epsilon == math.inf
    assert record.counts["model_calls"] == 80 + 32


@pytest.mark.slow
def test_private_voting_is_consistent_and_mu_rises(
    rows: Context, leaky: Scripted, tmp_path: Path
) -> None:
    bounds = []
    for epsilon in (1, 8):
        record = run(
            rows,
            leaky,
            tmp_path,
            pairs=80,
            **VOTING,
            epsilon=epsilon,
            simulations=1_000,
        )
        assert record.verdict == "no_violation"
        assert record.estimate("gdp").mu <= record.guarantee.mu  # type: ignore[operator]
        bounds.append(record.estimate("gdp").mu or 0)
    assert bounds == sorted(bounds)
    assert bounds[-1] > 0.9


def test_a_pair_costs_one_call_more_than_partitions(
    rows: Context, leaky: Scripted, tmp_path: Path
) -> None:
    counted = Counted(leaky)
    spec = make_spec({**VOTING, "pairs": 12, "mechanism.partitions": 10, "simulations": 0})
    record, _ = run_audit(prepare(spec, counted, rows=rows), tmp_path)
    assert counted.calls == record.counts["model_calls"] == (16 + 12) * (10 + 1)
    run_audit(prepare(spec, counted, rows=rows), tmp_path)
    assert counted.calls == 28 * 11, "a finished run asks nothing again"


@pytest.mark.slow
def test_other_questions_of_the_same_answers_ask_nothing(
    rows: Context, leaky: Scripted, tmp_path: Path
) -> None:
    """Another epsilon, estimator or threshold takes the answers over; --fresh (reuse=False) asks
    again.
    """
    counted, base = (
        Counted(leaky),
        {**VOTING, "pairs": 20, "simulations": 2000},
    )
    first, folder = run_audit(prepare(make_spec(base), counted, rows=rows), tmp_path)
    asked = counted.calls
    for other in (
        {"epsilon": 4},
        {"estimator": "unconditional"},
        {"threshold": "bonferroni"},
        {"score": "predicted_member", "background_copies": 0},
    ):
        record, elsewhere = run_audit(
            prepare(make_spec(base | other), counted, rows=rows), tmp_path
        )
        assert elsewhere != folder
        assert record.counts["model_calls"] == first.counts["model_calls"]
    assert counted.calls == asked
    fewer, _ = run_audit(prepare(make_spec(base | {"pairs": 12}), counted, rows=rows), tmp_path)
    assert counted.calls == asked + 4 * 11, "whole batches of 8 are taken over"
    assert fewer.counts["model_calls"] == (16 + 12) * 11
    run_audit(prepare(make_spec(base | {"epsilon": 3}), counted, rows=rows), tmp_path, reuse=False)
    assert counted.calls == 2 * asked + 4 * 11


@pytest.mark.slow
def test_votes_and_laws_give_bounds_of_their_own(
    rows: Context, leaky: Scripted, tmp_path: Path
) -> None:
    record = run(
        rows,
        leaky,
        tmp_path,
        pairs=100,
        **VOTING,
        epsilon=4,
        simulations=2_000,
    )
    mu = record.guarantee.mu or 0.0
    by_method = {e.method: e for e in record.estimates}
    assert by_method["exact"].mu == pytest.approx(mu)
    assert by_method["exact"].epsilon == pytest.approx(4)
    assert 0.9 * mu < (by_method["e_process_mu"].mu or 0) <= mu
    assert record.profile is not None
    at_claim = record.profile.worst[record.profile.epsilon.index(4.0)]
    assert at_claim == pytest.approx(1e-5, rel=1e-3)
    assert "exact" not in {
        e.method for e in leakbound.audit(rows, system=lambda c, q: "no", out=tmp_path).estimates
    }


def test_a_vote_that_counts_twice_is_refuted_by_the_exact_law(
    rows: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Partitions that share the canary:

    two votes move, the loss of the pair is twice the guarantee.
    """
    from leakbound.mechanisms.parts import single

    split = single.split

    def overlapping(*of: Any) -> list[Context]:
        parts = split(*of)
        return [p + q[:1] for p, q in zip(parts, parts[1:] + parts[:1], strict=True)]

    monkeypatch.setattr(single, "split", overlapping)
    model = Scripted(complete=lambda p: "yes" if p.count(p.split('"')[-2]) > 1 else "no")
    record = run(rows, model, tmp_path, pairs=30, **VOTING, epsilon=1, simulations=2000)
    assert record.verdict == "violation"
    assert "the output distributions of one pair have epsilon" in record.sentences[-1]


@pytest.mark.parametrize(
    ("threshold", "methods"),
    [
        ("0.5", {"clopper_pearson", "gdp", "accuracy_bound", "joint_beta", "accuracy_log_odds"}),
        (
            "split:0.3",
            {"clopper_pearson", "gdp", "accuracy_bound", "joint_beta", "accuracy_log_odds"},
        ),
        ("bonferroni", {"clopper_pearson", "gdp"}),
        ("best", {"accuracy_log_odds"}),
    ],
)
def test_threshold_rules(
    rows: Context, leaky: Scripted, tmp_path: Path, threshold: str, methods: set[str]
) -> None:
    options = {
        **VOTING,
        "epsilon": 8,
        "simulations": 2000,
        "threshold": threshold,
    }
    found = [
        e
        for e in run(rows, leaky, tmp_path, pairs=40, **options).estimates
        if e.counts.keys() != {"pairs"}
    ]
    assert {e.method for e in found} == methods
    name = {"0.5": "fixed at 0.5", "split:0.3": "split: chosen on the first 30%"}.get(
        threshold, "best"
    )
    assert all(name in e.threshold for e in found)


def test_an_early_stop_needs_no_threshold(rows: Context, leaky: Scripted, tmp_path: Path) -> None:
    options = {"threshold": "split:0.05", "batch_pairs": 12, "stop_when_rejected": True}
    record = run(rows, leaky, tmp_path, pairs=200, **options)
    assert record.counts["pairs"] == 12
    assert record.verdict == "violation"
    assert "clopper_pearson" not in {e.method for e in record.estimates}
    assert "VIOLATION" in page([record])


def test_an_attack_that_sees_nothing_says_so(rows: Context, tmp_path: Path) -> None:
    silent = Scripted(complete=lambda p: "no")
    record = run(rows, silent, tmp_path, pairs=20, detect_change=0)
    assert (record.verdict, record.reason) == ("inconclusive", "attack_blind")
    assert record.controls is not None
    assert not record.controls.seen
    assert "othing shows that this attack sees the canary" in record.sentences[0]
    assert "no canary is detected" in summary(record)


def test_half_the_noise_is_found(
    rows: Context, leaky: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mechanism whose release adds half of the noise it declares breaks its own guarantee."""
    from leakbound.mechanisms import ReportNoisyMax

    sound = ReportNoisyMax.release

    def halved(self: ReportNoisyMax, aggregate: Votes, draws: int, rng: np.random.Generator) -> Any:
        return sound(ReportNoisyMax(self.sigma / 2, self.partitions), aggregate, draws, rng)

    monkeypatch.setattr(ReportNoisyMax, "release", halved)
    record = run(rows, leaky, tmp_path, pairs=60, **VOTING, epsilon=8, simulations=5_000)
    assert record.verdict == "violation"
    assert "does not satisfy its own guarantee" in record.sentences[0]


def test_worlds_differ_in_one_example_and_seeds_decide(rows: Context) -> None:
    pairs = design(rows, TASK, ATTACK, 30, 20, seed=4)
    for pair in pairs:
        differ = [
            i
            for i, (a, b) in enumerate(
                zip(pair.member.context, pair.nonmember.context, strict=True)
            )
            if a != b
        ]
        assert differ == [pair.position]
        assert pair.member.context[pair.position] == pair.canary
        assert pair.canary not in pair.nonmember.context
    assert list(pairs) == list(design(rows, TASK, ATTACK, 30, 20, seed=4))
    assert list(pairs[:10]) == list(design(rows, TASK, ATTACK, 10, 20, seed=4)), (
        "more pairs never change the first ones"
    )
    assert list(pairs) != list(design(rows, TASK, ATTACK, 30, 20, seed=5))


def test_append_keeps_the_example(rows: Context) -> None:
    pair = design(
        rows, TASK, Attack(Hex(), Membership(), PredictedMember(), "append"), 1, 5, seed=0
    )[0]
    old, new = pair.nonmember.context[pair.position], pair.member.context[pair.position]
    assert new.input == f"{old.input} {pair.canary.input}"
    assert new.label == old.label


def test_seed_streams_are_disjoint() -> None:
    draws = {
        generator(1, purpose, i).random()
        for purpose in ("design", "release", "simulate", "pilot", "tuning")
        for i in range(20)
    }
    assert len(draws) == 100


@pytest.mark.slow
def test_batch_size_changes_nothing_but_the_batches(
    rows: Context, leaky: Scripted, tmp_path: Path
) -> None:
    records = [
        run(rows, leaky, tmp_path / str(n), pairs=11, batch_pairs=n, **VOTING) for n in (1, 4, 50)
    ]
    assert len({tuple(r.estimates[0].counts.items()) for r in records}) == 1


def test_too_long_prompts_are_refused_before_any_call(rows: Context, tmp_path: Path) -> None:
    calls: list[str] = []
    model = Scripted(complete=lambda p: calls.append(p) or "yes", window=40)  # type: ignore[func-returns-value]
    with pytest.raises(TargetError, match="does not fit the window"):
        run(rows, model, tmp_path, pairs=10)
    assert not calls
    assert not any(tmp_path.iterdir())


def test_a_model_that_lacks_an_ask_is_refused(rows: Context, tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="few_shot needs Complete"):
        run(rows, Scripted(embed=lambda t: [0.0]), tmp_path)


def test_small_data_is_refused(rows: Context, leaky: Scripted, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="need 21 rows, and the data has 10"):
        run(rows[:10], leaky, tmp_path)


def test_few_pairs_are_inconclusive(rows: Context, leaky: Scripted, tmp_path: Path) -> None:
    record = run(rows, leaky, tmp_path, pairs=5)
    assert record.verdict == "inconclusive"
    assert record.reason == "too_few_trials"
    assert "Use more pairs" in record.sentences[0]


def test_unparsable_answers_are_counted(rows: Context, tmp_path: Path) -> None:
    record = run(rows, Scripted(complete=lambda p: "I would rather not say"), tmp_path, pairs=40)
    assert record.counts["unparsable_answers"] == record.counts["answers"] == 80
    assert (record.verdict, record.reason) == ("inconclusive", "unreadable_answers")


def test_user_systems_sync_and_async(rows: Context, tmp_path: Path) -> None:
    async def later(context: tuple[Example, ...], query: str) -> str:
        return "yes" if any(e.input == query.split('"')[1] for e in context) else "no"

    record = leakbound.audit(rows, system=later, out=tmp_path, pairs=40)
    assert record.verdict == "violation"
    assert record.state is not None
    repeated = record.state.repeats
    assert 2 <= repeated <= 25, "it says that it keeps no state: a quarter of the pairs"
    assert 112 + repeated <= record.counts["model_calls"] <= 112 + 3 * repeated


def test_private_text_stays_out(rows: Context, leaky: Scripted, tmp_path: Path) -> None:
    for keep, shown in (("none", False), ("canary_only", True)):
        spec = make_spec({"pairs": 8, "store_text": keep})
        prepared = prepare(spec, leaky, rows=rows)
        record, folder = run_audit(prepared, tmp_path)
        stored = b"".join(p.read_bytes() for p in folder.iterdir())
        assert not any(word in stored for word in (b"kite", b"theatre", b"salt"))
        assert (prepared.pairs[0].canary.input in record.example_prompt) is shown
        hidden = prepared.pairs[6:] if shown else prepared.pairs  # a few trials are shown
        assert not [pair for pair in hidden if pair.canary.input.encode() in stored]
        assert all(
            stat.S_IMODE(p.stat().st_mode) == 0o600
            for p in folder.iterdir()
            if not p.name.endswith(("-wal", "-shm"))
        )
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    everything, _ = run_audit(
        prepare(make_spec({"pairs": 8, "store_text": "all"}), leaky, rows=rows), tmp_path
    )
    assert "kite" in everything.example_prompt


def test_records_round_trip(rows: Context, leaky: Scripted, tmp_path: Path) -> None:
    record, folder = run_audit(prepare(make_spec({"pairs": 40}), leaky, rows=rows), tmp_path)
    again = load_result(folder)
    assert again == record
    assert again.to_json() == record.to_json() == (folder / "record.json").read_text()
    json.loads(record.to_json(), parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


def test_every_number_says_what_it_is(rows: Context, leaky: Scripted, tmp_path: Path) -> None:
    for e in run(rows, leaky, tmp_path, pairs=40).estimates:
        assert e.method
        assert e.kind in {"lower_bound", "point_estimate", "credible"}
        assert (e.confidence is None) == (e.kind == "point_estimate")
        assert e.counts
        assert e.assumptions
        assert e.threshold


def shown(member: Any, nonmember: Any) -> Observations:
    """One output per context is all that is simulated."""
    one, other = np.asarray(member, float), np.asarray(nonmember, float)
    simulated = PairedScores(one[:, None], other[:, None])
    return Observations(0, len(one), PairedScores(one, other), simulated)


def test_point_estimates_decide_nothing() -> None:
    design = TrialDesign(Claim(1.0, 0.0), pairs=7)
    found = {}
    for estimator in (ClopperPearson(), AccuracyLogOdds()):
        observer = estimator.begin(design)
        observer.observe(shown(np.ones(7), np.zeros(7)))
        found[estimator.name] = observer.bounds()
    assert found["accuracy_log_odds"][0].epsilon == math.inf
    largest = ClopperPearson().largest_certifiable(design, 7)
    bounds = found["clopper_pearson"]
    said = conclude(design, ClopperPearson(), bounds, None, 7, largest)
    assert said.verdict == "inconclusive"


def test_split_pairs_enter_no_bound() -> None:
    rng = np.random.default_rng(0)
    observer = ClopperPearson().begin(TrialDesign(Claim(1.0, 1e-5), pairs=50, rule=Split(0.2)))
    observer.observe(shown(rng.normal(1, 1, 50), rng.normal(0, 1, 50)))
    assert sum(observer.bounds()[0].counts.values()) == 80


def test_too_few_pairs_for_a_split_are_refused(rows: Context, leaky: Scripted) -> None:
    with pytest.raises(UsageError, match="leave none to choose a threshold on"):
        prepare(make_spec({**VOTING, "pairs": 3}), leaky, rows=rows)


@pytest.mark.parametrize("mechanism", ["report_noisy_max", "zero_shot", "few_shot"])
def test_labels_are_not_inferred_from_rows_that_are_handed_over(
    rows: Context, leaky: Scripted, mechanism: str
) -> None:
    """Where something is guaranteed; the label of one row would stand in every prompt."""
    spec = make_spec({"mechanism": mechanism, "pairs": 40})
    if mechanism == "few_shot":
        assert prepare(spec, leaky, rows=rows).inferred
    else:
        with pytest.raises(UsageError, match="gives a guarantee, so its labels have to be public"):
            prepare(spec, leaky, rows=rows)


@pytest.mark.parametrize(("mu", "verdict"), [(1.0, "violation"), (4.0, "inconclusive")])
def test_a_guarantee_is_tested_by_mu(mu: float, verdict: str) -> None:
    bounds = [of(95, 5, 5, 95, 1e-5) for of in (clopper_pearson, gdp)]
    design = TrialDesign(Claim(8.0, 1e-5), Gaussian(mu, 1.0), pairs=100)
    largest = ClopperPearson().largest_certifiable(design, 100)
    assert conclude(design, ClopperPearson(), bounds, None, 100, largest).verdict == verdict


def test_the_accountant_speaks_before_any_trial(rows: Context, leaky: Scripted) -> None:
    spec = make_spec({**VOTING, "epsilon": 10, "mechanism.calibration": "classical"})
    assert "gives epsilon 10.4" in prepare(spec, leaky, rows=rows).warnings[0]


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"query": "membrship"}, "Did you mean 'membership'"),
        ({"mechanism": "report_noisymax"}, "Did you mean 'report_noisy_max'"),
        ({"epsilom": 1}, "'epsilom' is not known. Did you mean 'epsilon'"),
        ({"epsilon": -1}, "epsilon is -1; it must be"),
        ({"delta": 1}, "delta is 1; it must be"),
        ({"pairs": 0}, "pairs is 0"),
        ({"threshold": "bes"}, "the threshold is 'bes'; it must be a number, 'split'"),
        ({"threshold": "nan"}, "value is NaN"),
        ({"threshold": "split:2"}, "fraction is 2"),
        ({"store_text": "some"}, "'none', 'canary_only' or 'all'"),
    ],
)
def test_bad_options_get_a_sentence(values: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        make_spec(values)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"threshold": "best", "estimator": "clopper_pearson"}, "gives no valid bound"),
        ({"mechanism": "report_noisy_max", "delta": 0}, "Gaussian noise needs a delta above 0"),
    ],
)
def test_what_could_give_no_bound_is_refused(
    rows: Context, leaky: Scripted, values: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(UsageError, match=sentence):
        prepare(make_spec(values), leaky, rows=rows)


def test_a_batch_is_stored_once(tmp_path: Path) -> None:
    store = RunStore(tmp_path / "run", {})
    row = EvidenceRow(0, Votes((1, 0)), Votes((0, 1)))
    store.add(0, [row], 3)
    store.add(0, [EvidenceRow(0, Votes((0, 1)), Votes((0, 1)))], 3)
    assert list(store.evidence()) == [row]
    assert store.calls() == 3


def test_a_broken_store_gets_a_sentence(tmp_path: Path) -> None:
    store = RunStore(tmp_path / "run", {})
    (tmp_path / "run" / "trials.sqlite").write_bytes(
        b"not a database, and longer than a header would be " * 9
    )
    with pytest.raises(StoreError, match="cannot be read or written"):
        list(store.evidence())


def test_bad_run_folders_get_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match="cannot be used"):
        RunStore(tmp_path / "file" / "run", {})
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "record.json").write_text("{}")
    with pytest.raises(StoreError, match="not a result of schema version 2"):
        load_result(tmp_path / "broken")
    with pytest.raises(StoreError, match=r"does not exist; give the folder"):
        load_result(tmp_path / "nothing")
