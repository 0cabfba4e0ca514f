"""Gates: bounds decide, point estimates do not, power is that of the plan, and a run that could
refute nothing does not pass.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from coins import says_yes
from hypothesis import given
from hypothesis import strategies as st

import leakbound
from leakbound.auditing import AuditResult, make_spec, prepare, run_audit
from leakbound.auditing.plan import plan
from leakbound.auditing.prepare.prepared import Prepared
from leakbound.auditing.result.audit_result import Finding
from leakbound.errors import UsageError
from leakbound.estimators import Bounds
from leakbound.gating.gate import Gate, GateResult, check_gate, power
from leakbound.models import Scripted
from leakbound.report.export.gate_files import junit
from leakbound.stats import cut
from leakbound.stats.power import NO_POWER
from leakbound.tasks import Example

DATA = tuple(Example(f"row {i}", "ab"[i % 2]) for i in range(40))


def tells(prompt: str) -> str:
    return "yes" if prompt.count(prompt.split('"')[-2]) > 1 else "no"


def often(prompt: str) -> str:
    """Sees a canary that stands in the context three times, and no single one."""
    return "yes" if prompt.count(prompt.split('"')[-2]) > 3 else "no"


def guarded(prompt: str) -> str:
    """The same; of a single one, randomised response with epsilon log 2."""
    text = prompt.split('"')[-2]
    return "yes" if says_yes(prompt.count(text) - 1, text) else "no"


def audited(out: Path, **options: Any) -> tuple[Prepared, AuditResult]:
    model = Scripted(complete=options.pop("answers_by", tells))
    given = {"shots": 10, "simulations": 2_000, "labels": ["a", "b"], "detect_change": 0}
    spec = make_spec({**given, **options})
    prepared = prepare(spec, model, rows=DATA)
    return prepared, run_audit(prepared, out)[0]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Prepared, AuditResult]]:
    out = tmp_path_factory.mktemp("runs")
    return {
        "leaky": audited(out, pairs=40),
        "sound": audited(out / "sound", pairs=40, **SOUND, **NEARLY),
        "unstated": audited(out / "unstated", pairs=40, **SOUND),
        "silent": audited(out / "silent", pairs=40, answers_by=often),
        "few": audited(out / "few", pairs=8, **SOUND),
        "counted": audited(
            out / "sound", pairs=40, estimator="clopper_pearson", threshold="split:0.25", **SOUND
        ),
        "blind": audited(out / "blind", pairs=40, answers_by=often, mechanism="report_noisy_max"),
        "tried": audited(out / "noisy", pairs=20, **TRIED),
        "thrice": audited(out / "thrice", pairs=40, answers=3, epsilon=0.1, **COUNTED, **NEARLY),
        "noisy": audited(out, pairs=60, mechanism="report_noisy_max", epsilon=4.0),
        "votes": audited(
            out, pairs=60, mechanism="report_noisy_max", epsilon=4.0, estimator="unconditional"
        ),
    }


SOUND: dict[str, Any] = {"answers_by": guarded, "controls": 40}
NEARLY = {"assume_hit": 0.99, "assume_false_alarm": 0.001}
COUNTED: dict[str, Any] = {
    "estimator": "clopper_pearson",
    "mechanism": "report_noisy_max",
    "threshold": "split:0.25",
}
TRIED = COUNTED | {"threshold": "bonferroni"}
Runs = dict[str, tuple[Prepared, AuditResult]]


def outcome(runs: Runs, name: str, *args: Any, **options: Any) -> str:
    return check_gate(runs[name][1], Gate(*args, **options)).outcome


def test_outcomes(runs: Runs) -> None:
    assert outcome(runs, "leaky", 1.0) == "violation"
    assert outcome(runs, "leaky", 9.0) == "violation"  # its own claim is refuted
    assert outcome(runs, "sound", 1.0) == "passed"
    assert outcome(runs, "few", 1.0) == "inconclusive"
    assert outcome(runs, "few", 100.0) == "inconclusive"
    assert outcome(runs, "few", 0.1) == "passed"  # eight pairs certify 0.40 at most
    assert outcome(runs, "few", 0.1, no_violation=True) == "inconclusive"
    assert outcome(runs, "noisy", 4.0) == "passed"
    for limit in (0.1, 1.0, 4.0):
        assert outcome(runs, "blind", limit) == "inconclusive"  # the attack saw nothing
        assert outcome(runs, "silent", limit) == "inconclusive"  # only where it stood often


def test_a_bound_above_the_gate_is_a_violation_although_the_claim_stands(runs: Runs) -> None:
    record = runs["noisy"][1]
    assert record.verdict == "no_violation"
    bound = record.bound.epsilon or 0.0
    assert 0 < bound < 4
    assert outcome(runs, "noisy", 0.5 * bound) == "violation"
    assert "is above" in check_gate(record, Gate(0.5 * bound)).why


@given(st.floats(0.01, 20), st.floats(1, 4))
def test_a_wider_gate_never_turns_a_pass_into_a_violation(
    runs: Runs, limit: float, wider: float
) -> None:
    for _, record in runs.values():
        narrow, wide = (check_gate(record, Gate(x)).outcome for x in (limit, wider * limit))
        assert not (narrow != "violation" and wide == "violation")


def test_point_estimates_take_no_part(runs: Runs) -> None:
    for _, record in runs.values():
        loud = tuple(
            replace(e, epsilon=99.0) if e.kind != "lower_bound" else e for e in record.estimates
        )
        for limit in (0.3, 1.0, 4.0):
            assert check_gate(record, Gate(limit)) == check_gate(
                record.model_copy(update={"estimates": loud}), Gate(limit)
            )


@pytest.mark.parametrize("name", ["sound", "few", "counted", "tried", "thrice", "noisy", "votes"])
def test_power_and_largest_certifiable_are_those_of_the_plan(runs: Runs, name: str) -> None:
    prepared, record = runs[name]
    planned = plan(prepared)
    assert record.largest_certifiable == Bounds(planned.largest_epsilon, planned.largest_mu)
    for factor, chance in planned.power:
        if factor > 1:
            assert power(record, factor) == (factor, pytest.approx(chance.safe, abs=1e-6))
            assert power(record, factor)[1] <= chance.safe  # type: ignore[index]


def test_a_factor_that_the_result_lacks_takes_the_next_lower_one_and_says_so(runs: Runs) -> None:
    record = runs["sound"][1]
    assert power(record, 2.9) == power(record, 2.0)
    assert power(record, 50.0) == power(record, 8.0)
    why = check_gate(record, Gate(1.0, min_power=0.999, factor=2.9)).why
    assert "leaks 2 times as much as what is tested (the nearest below 2.9 for which" in why
    assert power(record, 1.1) is None
    found = check_gate(record, Gate(1.0, min_power=0.5, factor=1.1))
    assert found.outcome == "inconclusive"
    assert "use a factor of at least 1.25" in found.why


def test_the_claim_of_several_answers_is_met_by_its_printed_value(runs: Runs) -> None:
    assert runs["thrice"][1].claim.epsilon > 0.3  # 3 times 0.1, rounded
    assert outcome(runs, "thrice", 0.3, no_violation=True) == "passed"
    found = check_gate(runs["thrice"][1], Gate(0.3, min_power=0.001))  # votes of ten partitions
    assert found.outcome == "inconclusive"
    assert "No power is known for this design" in found.why


def test_too_little_power_is_inconclusive(runs: Runs) -> None:
    _, chance = power(runs["sound"][1], 2.0) or (0.0, 0.0)
    assert 0.2 < chance < 0.99
    assert outcome(runs, "sound", 1.0, min_power=chance - 0.1) == "passed"
    assert outcome(runs, "sound", 1.0, min_power=chance + 0.005) == "inconclusive"
    assert outcome(runs, "sound", 1.0, min_power=0.9, factor=4.0) == "passed"
    assert outcome(runs, "leaky", 1.0, min_power=1.0) == "violation"
    assert power(runs["votes"][1], 2.0) is None
    assert outcome(runs, "votes", 4.0, min_power=0.5) == "inconclusive"
    why = check_gate(runs["votes"][1], Gate(4.0, min_power=0.5)).why
    assert "No power is known for this design with unconditional; run a pilot" in why
    assert NO_POWER in runs["votes"][1].warnings


def test_a_perfect_model_is_not_assumed_in_silence(runs: Runs) -> None:
    """A weak model let a leaky system pass at a power of 1.00 that nobody had given rates for."""
    found = check_gate(runs["unstated"][1], Gate(1.0, min_power=0.9, factor=4.0))
    assert found.outcome == "inconclusive"
    assert "with --assume-hit and --assume-false-alarm, or with --pilot" in found.why
    assert outcome(runs, "unstated", 1.0) == "passed"


def test_a_pass_names_factor_power_and_rates(runs: Runs) -> None:
    record = runs["sound"][1]
    _, chance = power(record, 4.0) or (0.0, 0.0)
    said = (
        f"leaks 4 times as much as what is tested with a probability of at least {cut(chance)}, "
        "if the model notices a canary with probability 0.99 and raises a false alarm with "
        "probability 0.001. Another attack might."
    )
    assert said in check_gate(record, Gate(1.0, min_power=0.5, factor=4.0)).why
    near = check_gate(record, Gate(1.0, min_power=0.5, factor=5.0))
    assert "leaks 4 times as much as what is tested (the nearest below 5 for which" in near.why


@pytest.mark.parametrize("factor", [8.1, 1e9, float("inf")])
def test_a_factor_beyond_the_table_is_refused(factor: float) -> None:
    with pytest.raises(UsageError, match="it must be at most 8, the largest for which"):
        Gate(1.0, min_power=0.5, factor=factor)


def test_what_makes_no_gate_is_refused(runs: Runs) -> None:
    for wrong in (
        {"max_epsilon": float("nan")},
        {"max_epsilon": 1, "min_power": 0},
        {"max_epsilon": 1, "factor": 1},
    ):
        with pytest.raises(UsageError, match="must be"):
            Gate(**wrong)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"audit with --epsilon 0\.5"):
        check_gate(runs["sound"][1], Gate(0.5, min_power=0.5))


@given(st.text(max_size=40), st.text(max_size=80))
def test_junit_is_xml_whatever_the_text(run: str, why: str) -> None:
    outcomes = ("passed", "violation", "inconclusive")
    text = junit([GateResult(run, one, why) for one in outcomes])  # type: ignore[arg-type]
    (suite,) = ElementTree.fromstring(text.encode("utf-8", "strict"))
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("3", "1", "1")
    assert [[child.tag for child in case] for case in suite] == [[], ["failure"], ["error"]]


def test_junit_escapes_and_keeps_what_xml_can_hold() -> None:
    (suite,) = ElementTree.fromstring(
        junit([GateResult('<a "b">&\x1b\x00', "violation", "ε ≥ 1 < 2 & more]]>")])
    )
    assert suite[0].get("name") == '<a "b">&��'
    assert suite[0][0].get("message") == "ε ≥ 1 < 2 & more]]>"


def test_a_gate_reads_a_record_from_its_file(runs: Runs, tmp_path: Path) -> None:
    file = tmp_path / "record.json"
    for _, record in runs.values():
        file.write_text(record.to_json())
        again = leakbound.load_result(file)
        assert check_gate(again, Gate(0.5)) == check_gate(record, Gate(0.5))


def test_a_large_delta_does_not_pass(runs: Runs) -> None:
    """A system that gives every second record away keeps any epsilon at delta 0.5."""
    record = runs["sound"][1]
    loose = record.model_copy(update={"claim": replace(record.claim, delta=0.5)})
    found = check_gate(loose, Gate(1.0))
    assert found.outcome == "inconclusive"
    assert "delta 0.5" in found.why
    assert check_gate(loose, Gate(1.0, max_delta=0.6)).outcome == "passed"


def test_findings_stand_beside_a_verdict_that_passes(runs: Runs) -> None:
    record = runs["sound"][1]
    said = "the guarantee that is declared does not imply the claim"
    noted = record.model_copy(update={"findings": (Finding("unsupported_claim", said),)})
    assert said in str(noted)
    assert said in check_gate(noted, Gate(1.0)).why
    assert said not in str(record)
