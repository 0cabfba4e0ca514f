"""How often a model notices canaries is assumed, or read from a pilot, by plan, result and gate."""

from __future__ import annotations

import shutil
import zlib
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from leakbound.auditing import load_result, make_spec, prepare, run_audit
from leakbound.auditing.plan import plan
from leakbound.auditing.prepare.build import Handed
from leakbound.auditing.prepare.prepared import Prepared
from leakbound.cli import main
from leakbound.cli.options.spec import overrides, spec_from
from leakbound.cli.verbs.audit.plan import described
from leakbound.errors import UsageError
from leakbound.gating.gate import Gate, check_gate
from leakbound.gating.rates import pilot_rates
from leakbound.models import Counted, Embed, Scripted
from leakbound.models.cache import Answers, Cached
from leakbound.models.model import WithEmbedder, Wrapper
from leakbound.report import page, summary
from leakbound.stats import Assumption
from leakbound.systems import SystemMechanism
from leakbound.tasks import Example, Task

DATA = tuple(Example(f"row {i}", "ab"[i % 2]) for i in range(40))
NAMED = Handed(task=Task("rows", ("a", "b")))
WEAK = {"assume_hit": 0.6, "assume_false_alarm": 0.05}


def often(prompt: str) -> str:
    """Sees a canary that stands in the context three times; single ones by randomised response."""
    text = prompt.split('"')[-2]
    there, coin = prompt.count(text) - 1, zlib.crc32(text.encode()) % 3
    return "yes" if there > 2 or bool(there) == bool(coin) else "no"


def tells(prompt: str) -> str:
    return "yes" if prompt.count(prompt.split('"')[-2]) > 1 else "no"


def prepared(model: Any = None, **options: Any) -> Prepared:
    spec = make_spec(
        {"shots": 10, "simulations": 2_000, "pairs": 40, "detect_change": 0, **options}
    )
    return prepare(spec, model or Scripted(complete=often), rows=DATA, handed=NAMED)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Holds one run of 40 pairs, in which every canary is noticed."""
    folder = tmp_path_factory.mktemp("pilot")
    run_audit(prepared(Scripted(complete=tells)), folder)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["few_shot", "report_noisy_max"])
def test_the_plan_and_the_result_state_the_power_of_the_assumed_model(
    mechanism: str, tmp_path: Path
) -> None:
    """Against a Gaussian guarantee it was 1.00 whatever the model sees."""
    perfect, weak = prepared(mechanism=mechanism), prepared(mechanism=mechanism, **WEAK)
    best, worst = dict(plan(perfect).power)[4.0], dict(plan(weak).power)[4.0]
    assert worst.chance < best.chance == 1.0
    assert plan(weak).assumption == Assumption(0.6, 0.05)
    model = Counted(Scripted(complete=often))
    first, _ = run_audit(prepared(model, mechanism=mechanism), tmp_path)
    calls = model.calls
    assert first.stored_on is None
    assert "nothing was asked" not in summary(first)
    second, _ = run_audit(prepared(model, mechanism=mechanism, **WEAK), tmp_path)
    said = (
        f"({second.stored_on}) were used: no model call now; --fresh or another --out asks again."
    )
    assert said in " ".join(summary(second, verbose=True).split())
    assert f"answers of {second.stored_on} reused; nothing was asked now" in summary(second)
    assert said in page([second])
    assert said in str(second)
    assert "Stored outputs" not in str(first)
    assert "stored_on" not in second.to_json()
    assert model.calls == calls  # an assumption changes no question
    assert dict(second.power)[4.0] <= worst.safe < dict(first.power)[4.0] <= best.safe
    if mechanism == "few_shot":
        why = check_gate(first, Gate(1.0, min_power=0.9, factor=4)).why
        assert "no rates of the model were given" in why
        why = check_gate(second, Gate(1.0, min_power=0.9, factor=4)).why
        assert "notices a canary with probability 0.6 and raises a false alarm with " in why


def test_a_pilot_gives_the_ends_of_its_intervals_that_are_worse(out: Path) -> None:
    pilot = load_result(next(out.iterdir()))
    found = pilot_rates(pilot)
    assert found == Assumption(0.911, 0.089)  # 40 of 40, at 97.5 % each
    assert pilot_rates(pilot, 0.5).hit > found.hit


def test_a_pilot_is_given_by_its_folder(out: Path, tmp_path: Path) -> None:
    keys = {"pairs": 30, "assume_hit": 0.911, "assume_false_alarm": 0.089}
    for folder in (out, next(out.iterdir())):
        assert overrides((), {"pilot": folder, "pairs": 30}) == keys
    with pytest.raises(UsageError, match="leave out --pilot"):
        overrides((), {"pilot": out, "assume_hit": 0.5})
    both = tmp_path / "both"
    for name in ("one", "other"):
        shutil.copytree(next(out.iterdir()), both / name)
    with pytest.raises(UsageError, match="holds 2 runs; name the folder of one"):
        overrides((), {"pilot": both})


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"model": "openai/other"}, r"model is pocket there and openai/other here"),
        ({"address": "python:app.py:answer"}, "system is not given there and python:app.py:ans"),
        ({"query": "membership:repeats=3"}, "query is "),
        ({"canary": "natural"}, "canary is hex there and natural here"),
        ({"score": "score_margin"}, "score is not given there and score_margin here"),
        ({"insertion": "append"}, "insertion is replace there and append here"),
        ({"shots": 20}, "shots is 10 there, and what answers here has 20 examples"),
        ({"mechanism": "report_noisy_max"}, "what answers here has 1 examples"),
    ],
)
def test_a_pilot_of_another_audit_is_refused(
    out: Path, changed: dict[str, Any], named: str
) -> None:
    """Rates of another system, attack or size were taken over in silence."""
    with pytest.raises(UsageError, match=named):
        spec_from(None, (), {"pilot": out, "shots": 10, **changed})


def test_a_pilot_that_is_alike_is_taken(out: Path) -> None:
    given = {"pilot": out, "pairs": 60, "epsilon": 4.0}
    parts = {"mechanism": "report_noisy_max:partitions=3"}
    for options in ({"shots": 10}, {"shots": 29, **parts}, {"shots": 30, **parts}):
        assert spec_from(None, (), {**given, **options}).decision.assume_hit == 0.911
    with pytest.raises(UsageError, match="here has 11 examples"):
        spec_from(None, (), {**given, "shots": 33, **parts})


@pytest.mark.parametrize(
    ("grid", "named"),
    [
        ("canary=natural,unigram", "canary is hex there and natural here"),
        ("shots=20,30", "shots is 10 there, and what answers here has 30 examples"),
        ("assume_hit=0.5,0.9", "the grid lists assume_hit; leave one of them out"),
    ],
)
def test_a_pilot_of_other_points_of_a_sweep_is_refused(
    out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], grid: str, named: str
) -> None:
    """A sweep took its rates over for every point."""
    with pytest.raises(SystemExit) as ended:
        main(["sweep", "--pilot", str(out), "--grid", grid, "--out", str(tmp_path / "sweep")])
    assert ended.value.code == 2
    assert named in capsys.readouterr().err
    assert not (tmp_path / "sweep").exists()


def test_a_pilot_whose_noise_hides_the_model_is_refused(tmp_path: Path) -> None:
    noisy, _ = run_audit(prepared(mechanism="report_noisy_max", pairs=10), tmp_path)
    with pytest.raises(UsageError, match="give a run of few_shot, with as many --shots as a part"):
        pilot_rates(noisy)


def test_a_pilot_that_ended_early_is_refused(tmp_path: Path) -> None:
    early, _ = run_audit(prepared(Scripted(complete=tells), stop_when_rejected=True), tmp_path)
    assert early.counts["pairs"] < 40
    with pytest.raises(UsageError, match="without --stop-when-rejected"):
        pilot_rates(early)


def test_the_plan_states_the_power_against_the_claim_for_all_that_a_trial_sees() -> None:
    """Two questions in a session: of each, the claim is 2."""
    note = "note {0}: a red lamp and a green chair stand beside the old window of clerk {1}"
    rows = tuple(Example(note.format(i, i * 7), "ab"[i % 2]) for i in range(40))
    system = SystemMechanism(lambda context, query: "no", name="mine")
    spec = make_spec({"query": "differential", "estimator": "clopper_pearson", "epsilon": 2,
                      "shots": 10, "pairs": 40})  # fmt: skip
    twice = prepare(spec, Scripted(), rows=rows, handed=replace(NAMED, mechanism=system))
    assert "true ε = 4 " in described(plan(twice), twice.trial_design.claim)


def test_the_plan_prints_assumption_and_interval() -> None:
    weak = prepared(**WEAK)
    text = described(plan(weak), weak.trial_design.claim)
    assert (
        "if the model notices a canary with probability 0.6 and raises a false alarm with "
        "probability 0.05 (--assume-hit, --assume-false-alarm):"
    ) in text
    assert "by 200 simulated audits)" in text
    exact = prepared(estimator="clopper_pearson")
    assert "(exact)" in described(plan(exact), exact.trial_design.claim)
    with pytest.raises(UsageError, match=r"1\.5; it must be a probability from 0 to 1"):
        prepared(assume_hit=1.5)


@pytest.mark.parametrize(
    ("given", "meant"), [(95, "0.95"), (99.9, "0.999"), (5, "0.95"), (0.01, "0.99"), (0.2, "0.8")]
)
def test_a_confidence_in_per_cent_or_below_a_half_gets_a_hint(given: float, meant: str) -> None:
    with pytest.raises(UsageError, match=rf"at least 0\.5 and below 1. Did you mean {meant}\?"):
        make_spec({"confidence": given})


def test_a_resumed_audit_says_of_no_stored_outputs_that_they_are_all(tmp_path: Path) -> None:
    run_audit(prepared(mechanism="few_shot", pairs=16), tmp_path)
    again, _ = run_audit(prepared(mechanism="few_shot", pairs=16), tmp_path)
    more, _ = run_audit(prepared(mechanism="few_shot", pairs=24), tmp_path)
    assert date.fromisoformat(again.stored_on or "") <= date.today()
    assert more.stored_on is None


class Priced(Wrapper):
    """A model at a dollar a request."""

    def most_cost(self, requests: Any) -> float | None:
        return float(len(requests))

    def answer(self, requests: Any, /) -> list[Any]:
        return self.model.answer(requests)


def test_a_plan_knows_the_cost_through_a_cache_and_an_embedder(tmp_path: Path) -> None:
    """The cost was unknown wherever a wrapper stood around the priced model."""
    pytest.importorskip("cryptography")
    model = Priced(Scripted(complete=often))
    cached = Cached(model, Answers(tmp_path / "answers.sqlite"))
    assert plan(prepared(cached)).cost == plan(prepared(model)).cost == 112.0
    assert plan(prepared(Scripted(complete=often))).cost is None
    embedded = WithEmbedder(cached, Scripted(complete=often))
    assert embedded.most_cost([Embed("a"), Embed("b")]) == 0.0
    assert WithEmbedder(cached, model).most_cost([Embed("a"), Embed("b")]) == 2.0
    assert WithEmbedder(Scripted(complete=often), model).most_cost([Embed("a")]) is None
