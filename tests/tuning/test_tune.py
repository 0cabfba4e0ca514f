"""Tuning: a better query within a budget, found on pairs that no audit of the same seed sees."""

from __future__ import annotations

import importlib
import json
import re
import stat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from commands import cli
from leakbound_lab.tuning import (
    REWRITES,
    OutOfCalls,
    Tuned,
    attack_file,
    dspy_metric,
    open_pilot,
    save_attack,
    tune_spec,
)
from leakbound_lab.tuning.streams import RELEASING, draw_pairs, require_disjoint, tuning_root

from leakbound._install import install_hint
from leakbound.auditing import make_spec, prepare, run_audit
from leakbound.auditing.design.pairs import generator
from leakbound.auditing.prepare.build import Handed
from leakbound.auditing.spec.audit_spec import load_config
from leakbound.errors import StoreError, TargetError, UsageError
from leakbound.models import Counted, Scripted
from leakbound.systems import SystemMechanism
from leakbound.tasks import Context

pytestmark = pytest.mark.process

POOR = "Think about {canary} and say {member} or {nonmember}."
GOOD = "Search the records for {canary} and say {member} or {nonmember}."
BROKEN = "Search the records and say {member} or {nonmember}."
SPEC = make_spec({"shots": 6, "pairs": 30})


def leaks_for_one_wording(prompt: str) -> str:
    """Tells the truth to those who ask it to search the records, and says no to all others."""
    found = re.search(r"Search the records for (\w+) and", prompt)
    return "yes" if found and prompt.count(found.group(1)) > 1 else "no"


@pytest.fixture
def target() -> Counted:
    return Counted(Scripted(complete=leaks_for_one_wording, name="stubborn"))


def reflecting(*replies: str) -> Counted:
    """A reflection model that goes through its replies, and stays with the last one."""
    left = list(replies)
    return Counted(
        Scripted(
            complete=lambda p: left.pop(0) if len(left) > 1 else left[0], name=f"mirror {replies}"
        )
    )


def tuned(rows: Context, out: Path, target: Counted, reflection: Any, **options: Any) -> Tuned:
    values = {"max_calls": 400, "pairs": 8, "start": POOR} | options
    given = Handed(model=target, mechanism=values.pop("system", None), rows=rows)
    spec = values.pop("spec", SPEC)
    return tune_spec(spec, reflection=reflection, out=out, handed=given, **values)


def test_gepa_finds_the_wording_that_leaks(rows: Context, target: Counted, tmp_path: Path) -> None:
    pytest.importorskip("gepa")
    mirror = reflecting(f"```\n{BROKEN}\n```", f"Here it is:\n```\n{GOOD}\n```")
    found = tuned(rows, tmp_path, target, mirror)
    assert (found.before, found.after, found.best) == (0.5, 1.0, GOOD)
    assert found.refused == 1
    assert found.calls == target.calls + mirror.calls == 2 * 16 + 2, (
        "broken wordings cost the proposal alone"
    )
    assert found.ended == "a query was right on every pilot pair"


def test_what_the_reflection_reads(rows: Context, target: Counted, tmp_path: Path) -> None:
    """The rendered query with its canary, and what was wrong; no example of the context."""
    pytest.importorskip("gepa")
    prompts: list[str] = []
    mirror = Scripted(complete=lambda p: prompts.append(p) or GOOD, name="listener")  # type: ignore[func-returns-value]
    tuned(rows, tmp_path, target, mirror)
    assert "the right answer is 'yes'. The reply was wrong" in prompts[0]
    assert "no (1 of 1)" in prompts[0]
    assert re.search(r"Think about [0-9a-f]{16} and say yes or no", prompts[0])
    assert not any(word in prompts[0] for word in ("kite", "theatre", "salt"))


@pytest.mark.parametrize("tokens", [None, 700])
def test_a_proposal_may_be_as_long_as_stated(
    rows: Context, target: Counted, tmp_path: Path, tokens: int | None
) -> None:
    """The optimised query of the paper alone has 239 tokens, and a model may think first."""
    pytest.importorskip("gepa")
    asked: list[int | None] = []

    class Mirror(Scripted):
        def answer(self, requests: Any, /) -> Any:
            asked.extend(one.max_tokens for one in requests)
            return super().answer(requests)

    mirror = Mirror(complete=lambda p: GOOD, name="mirror")
    options = {} if tokens is None else {"reflection_tokens": tokens}
    tuned(rows, tmp_path, target, mirror, **options)
    assert set(asked) == {tokens or 4096}


def test_the_reflection_reads_what_a_system_replied(rows: Context, tmp_path: Path) -> None:
    pytest.importorskip("gepa")
    prompts: list[str] = []
    mirror = Scripted(complete=lambda p: prompts.append(p) or GOOD, name="listener")  # type: ignore[func-returns-value]
    tune_spec(
        SPEC, max_calls=20, pairs=4, start=POOR, reflection=mirror, out=tmp_path,
        handed=Handed(
            mechanism=SystemMechanism(lambda context, query: "I only answer questions about tea."),
            rows=rows,
        ),
    )  # fmt: skip
    assert "I only answer questions about tea." in prompts[0]


def test_a_repeated_command_asks_nothing(rows: Context, target: Counted, tmp_path: Path) -> None:
    pytest.importorskip("gepa")
    for reflection in (reflecting("no idea", GOOD), "none"):
        name = reflection.name if isinstance(reflection, Counted) else "none"
        first = tuned(rows, tmp_path / name, target, reflection)
        calls = target.calls, getattr(reflection, "calls", 0)
        again = tuned(rows, tmp_path / name, target, reflection)
        assert (target.calls, getattr(reflection, "calls", 0)) == calls
        assert (again.best, again.scored, again.calls) == (first.best, first.scored, first.calls)


@pytest.mark.parametrize("limit", [16, 17, 20, 31, 33, 60, 100])
@pytest.mark.parametrize("reflects", [True, False])
def test_the_budget_is_never_exceeded(
    rows: Context, target: Counted, tmp_path: Path, limit: int, reflects: bool
) -> None:
    pytest.importorskip("gepa")
    mirror = reflecting("Is {canary} here?", "What of {canary}?", BROKEN, "Well, {canary}?")
    found = tuned(rows, tmp_path, target, mirror if reflects else "none", max_calls=limit)
    assert target.calls + mirror.calls == found.calls <= limit
    assert found.before == 0.5
    if not reflects:
        assert len(found.scored) == min(limit // 16, 1 + len(REWRITES)), (
            "an evaluation that does not fit is not begun"
        )


def test_more_calls_go_on_where_fewer_stopped(
    rows: Context, target: Counted, tmp_path: Path
) -> None:
    tuned(rows, tmp_path, target, "none", max_calls=40)
    assert target.calls == 32
    found = tuned(rows, tmp_path, target, "none", max_calls=64)
    assert target.calls == found.calls == 64


def test_a_start_that_does_not_fit_is_refused_without_a_call(
    rows: Context, target: Counted, tmp_path: Path
) -> None:
    for options, sentence in (
        ({"max_calls": 15}, "scoring the starting query alone takes 16 model calls"),
        ({"start": BROKEN}, r"must hold \{canary\}; give a text that holds it with --start"),
        ({"pairs": 0}, "pilot_pairs is 0; it must be a whole number of at least 1"),
        (
            {"spec": make_spec({"canary": "given", "canary.text": "x", "canary.label": "odd"})},
            "tune with --canary hex",
        ),
        (
            {"spec": make_spec({"shots": 6, "canary": "natural", "pairs": 600})},
            "too few canaries of the kind 'natural'",
        ),
    ):
        with pytest.raises(UsageError, match=sentence):
            tuned(rows, tmp_path, target, "none", **options)
    assert target.calls == 0


def test_an_interruption_loses_a_batch_at_most(rows: Context, tmp_path: Path) -> None:
    asked: list[int] = []

    def dies(prompt: str) -> str:
        asked.append(1)
        if len(asked) == 21:
            raise KeyboardInterrupt
        return leaks_for_one_wording(prompt)

    target, spec = (
        Counted(Scripted(complete=dies, name="mortal")),
        make_spec({"shots": 6, "pairs": 30, "batch_pairs": 2}),
    )
    with pytest.raises(KeyboardInterrupt):
        tuned(rows, tmp_path, target, "none", spec=spec)
    (path,) = tmp_path.glob("*/candidates.jsonl")
    with path.open("a") as file:
        file.write('{"kind": "scores", "query.text": "cut o')
    found = tuned(rows, tmp_path, target, "none", spec=spec, max_calls=36)
    assert found.calls == target.calls == 24 + 12
    assert [
        json.loads(line)["kind"] for line in path.read_text().splitlines() if line.endswith("}")
    ].count("candidate") == 2


@pytest.mark.parametrize("canary", ["hex", "natural"])
@pytest.mark.parametrize("seed", [0, 7])
def test_tuning_and_audit_share_no_seed_and_no_canary(
    rows: Context, leaky: Scripted, canary: str, seed: int
) -> None:
    spec = make_spec(
        {
            "shots": 6,
            "pairs": 12,
            "seed": seed,
            "canary": canary,
            "query": "given",
            "query.text": POOR,
        }
    )
    audit, root = prepare(spec, leaky, rows=rows), tuning_root(seed)
    pilot = draw_pairs(audit, 12)
    assert not {p.canary.input for p in pilot} & {p.canary.input for p in audit.pairs}
    assert not {p.draw for p in pilot} & {p.draw for p in audit.pairs}
    firsts = [generator(r, "design", i).random() for r in (root, seed) for i in range(12)] + [
        generator(r, purpose, i, world).random()
        for r in (root, seed) for purpose in RELEASING for i in range(12) for world in (0, 1)
    ]  # fmt: skip
    assert len(set(firsts)) == 2 * 12 * 7
    with pytest.raises(UsageError, match="would share 84 random streams and"):
        require_disjoint(seed, seed, audit.pairs, audit.pairs)
    with pytest.raises(UsageError, match="0 random streams and"):
        require_disjoint(seed, root, audit.pairs, audit.pairs)


def test_the_mechanism_releases_the_answers(rows: Context, tmp_path: Path) -> None:
    """Partitions vote and noise is added:

    T + 1 calls per pair, and an accuracy that noise keeps below 1.
    """
    target = Counted(Scripted(complete=leaks_for_one_wording, name="stubborn"))
    spec = make_spec(
        {
            "mechanism": "report_noisy_max",
            "mechanism.partitions": 5,
            "labels": ["odd", "plain"],
            "shots": 10,
            "epsilon": 0.5,
            "pairs": 30,
        }
    )
    inferred = make_spec({**spec.flat(), "labels": None})
    with pytest.raises(UsageError, match="gives a guarantee, so its labels have to be public"):
        tuned(rows, tmp_path, target, "none", spec=inferred, start=GOOD)
    found = tuned(rows, tmp_path, target, "none", spec=spec, start=GOOD, max_calls=8 * 6)
    assert found.calls == target.calls == 8 * 6
    assert 0 < found.after < 1


def test_a_system_of_ones_own(rows: Context, tmp_path: Path) -> None:
    system = SystemMechanism(
        lambda context, query: "yes" if any(e.input in query for e in context) else "no"
    )
    found = tune_spec(
        SPEC,
        max_calls=20,
        pairs=4,
        start=POOR,
        reflection="none",
        out=tmp_path,
        handed=Handed(mechanism=system, rows=rows),
    )
    assert (found.after, found.calls) == (1.0, 8)
    with pytest.raises(UsageError, match="has no language model that could reflect"):
        tune_spec(
            SPEC,
            max_calls=20,
            pairs=4,
            start=POOR,
            out=tmp_path,
            handed=Handed(mechanism=system, rows=rows),
        )


def test_a_reflection_that_fails_says_so(rows: Context, target: Counted, tmp_path: Path) -> None:
    pytest.importorskip("gepa")
    with pytest.raises(TargetError, match="does not fit the window of 30"):
        tuned(rows, tmp_path, target, Scripted(complete=lambda p: GOOD, name="short", window=30))
    with pytest.raises(TargetError, match="the reflection needs Complete"):
        tuned(rows, tmp_path, target, Scripted(embed=lambda t: [0.0], name="mute"))


def test_without_the_extra_rewrites_still_work(
    rows: Context, target: Counted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(
        UsageError, match=re.escape(f"{install_hint('tune')}, or use --reflection-model none")
    ):
        tuned(rows, tmp_path, target, None)
    assert target.calls == 0
    assert tuned(rows, tmp_path, target, "none").before == 0.5


def test_answers_decided_token_by_token_keep_to_the_budget(rows: Context, tmp_path: Path) -> None:
    """Only the first ask of each answer is known beforehand; the last batch breaks off, and its
    calls count.
    """
    from leakbound.mechanisms import FewShot

    class Twice(FewShot):
        def collect(self, task: Any, jobs: Any, draws: Any, model: Any) -> Any:
            super().collect(task, jobs, draws, model)
            return super().collect(task, jobs, draws, model)

    target = Counted(Scripted(complete=leaks_for_one_wording, name="stubborn"))
    for _ in range(2):
        found = tuned(rows, tmp_path, target, "none", system=Twice(), max_calls=50)
        assert (target.calls, found.calls) == (48, 48)
        assert found.ended == "the next step did not fit the budget"


def test_the_attack_file_is_an_audit(rows: Context, target: Counted, tmp_path: Path) -> None:
    found = tuned(rows, tmp_path, target, "none", start=GOOD)
    save_attack(found, tmp_path / "attack.yaml")
    text = (tmp_path / "attack.yaml").read_text()
    assert yaml.safe_load(text) == {"query": {"kind": "given", "text": GOOD}}
    assert "# Pilot accuracy before: 1.000, after: 1.000 (8 pilot pairs" in text
    assert "# Calls spent: 16 of 400; cost: unknown. Reflection model: none." in text
    assert "# Seed: 0." in text
    assert stat.S_IMODE((tmp_path / "attack.yaml").stat().st_mode) == 0o600
    spec = make_spec(load_config(tmp_path / "attack.yaml") | {"shots": 6, "pairs": 40})
    record, _ = run_audit(prepare(spec, target, rows=rows), tmp_path)
    assert record.verdict == "violation"
    labelled = make_spec({"shots": 6, "query.labelled": True})
    assert (
        yaml.safe_load(attack_file(tuned(rows, tmp_path, target, "none", spec=labelled)))["query"][
            "labelled"
        ]
        is True
    )
    with pytest.raises(StoreError, match="cannot be written"):
        save_attack(found, tmp_path / "nowhere" / "attack.yaml")


def test_the_journal_is_private(rows: Context, target: Counted, tmp_path: Path) -> None:
    tuned(rows, tmp_path, target, "none", max_calls=40)
    (folder,) = tmp_path.iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "candidates.jsonl").stat().st_mode) == 0o600
    lines = [json.loads(line) for line in (folder / "candidates.jsonl").read_text().splitlines()]
    (first, second) = (line for line in lines if line["kind"] == "candidate")
    assert first == {"kind": "candidate", "query_text": POOR, "pilot_accuracy": 0.5, "calls": 16}
    assert second["query_text"] == REWRITES[0]
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be used"):
        tuned(rows, tmp_path / "file", target, "none")


SCORE = """
from dataclasses import dataclass
from leakbound.attacks.scores import PredictedMember

@dataclass(frozen=True)
class Mine(PredictedMember):
    {body}
"""


def test_a_pilot_of_another_score_is_another(
    rows: Context, target: Counted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal of a pilot holds accuracies, and those of edited code were read from it."""
    monkeypatch.syspath_prepend(tmp_path)
    folders = set[Path]()
    for name, body in (("one_score", "pass"), ("other_score", "quotes = False")):
        (tmp_path / f"{name}.py").write_text(SCORE.format(body=body))
        score = importlib.import_module(name).Mine()
        given = Handed(model=target, rows=rows, score=score)
        folders.add(open_pilot(SPEC, POOR, 4, 9, tmp_path, handed=given).journal.path)
    assert len(folders) == 2


def test_a_metric_for_dspy(rows: Context, target: Counted, tmp_path: Path) -> None:
    pilot = open_pilot(SPEC, POOR, 4, 9, tmp_path, handed=Handed(model=target, rows=rows))
    metric, example = dspy_metric(pilot), SimpleNamespace(pair=2)
    assert metric(example, SimpleNamespace(query_text=POOR), None) == 0.5
    assert metric(example, SimpleNamespace(query_text=GOOD), trace=None) == 1.0
    assert metric(example, SimpleNamespace(query_text=BROKEN)) == 0.0
    assert target.calls == 4
    for pair in (0, 1):
        metric(SimpleNamespace(pair=pair), SimpleNamespace(query_text=GOOD))
    with pytest.raises(OutOfCalls):
        metric(SimpleNamespace(pair=3), SimpleNamespace(query_text=GOOD))


def test_rewrites_are_wordings() -> None:
    assert len(set(REWRITES)) == len(REWRITES)
    assert all(
        name in text for text in REWRITES for name in ("{canary}", "{member}", "{nonmember}")
    )


@pytest.mark.slow
@pytest.mark.torch
def test_the_command_improves_a_poor_query(tmp_path: Path) -> None:
    asked = (
        "--pilot-pairs",
        "6",
        "--shots",
        "6",
        "--pairs",
        "20",
        "--max-calls",
        "80",
        "--reflection-model",
        "none",
    )
    done = cli("tune", "--start", POOR, *asked, "--save", "better.yaml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    before, after = map(float, re.findall(r"accuracy (\S+) before, (\S+) after", done.stdout)[0])
    assert before < after
    assert "(cost: unknown)" in done.stdout
    audit = cli(
        "audit",
        "--config",
        "better.yaml",
        "--pairs",
        "20",
        "--shots",
        "6",
        "--simulations",
        "0",
        cwd=tmp_path,
    )
    assert audit.stdout.startswith("✗ VIOLATION   few_shot"), audit.stderr


@pytest.mark.torch
@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("--start", "Is it there?"), "must hold {canary}"),
        (
            ("--max-calls", "3", "--reflection-model", "none"),
            "scoring the starting query alone takes 40",
        ),
        (("--save", "no/where.yaml"), "the folder of --save 'no/where.yaml' does not exist"),
        (("--reflection-model", "gpt"), "must be one of pocket"),
    ],
)
def test_mistakes_get_a_sentence(tmp_path: Path, args: tuple[str, ...], sentence: str) -> None:
    done = cli("tune", "--shots", "4", "--pairs", "4", *args, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "attack.yaml").exists()
