"""Audits as tasks of inspect_ai: each sample is a paired trial, never an epoch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial

import anyio
from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import get_model
from inspect_ai.scorer import SampleScore, Score, Target, metric, scorer
from inspect_ai.solver import Generate, Solver, TaskState, fork, solver
from inspect_ai.util import registry_info

from leakbound.errors import UsageError
from leakbound.models import Complete
from leakbound_hosts.inspect.model import InspectModel, completion, messages_of
from leakbound_hosts.inspect.pairs import (
    KEY,
    PairAnswers,
    RunningAudit,
    ask_pair,
    pair_samples,
    prepare_audit,
    trial_values,
)
from leakbound_hosts.inspect.stopping import StopWhenRejected, answers_in

THREADS = 1000  # a pair waits in a thread; inspect_ai limits samples and connections itself


@task
def audit(
    data: str | None = None,
    mechanism: str = "few_shot",
    query: str = "membership",
    canary: str = "hex",
    epsilon: float = 1.0,
    delta: float = 1e-5,
    pairs: int = 100,
    shots: int = 20,
    controls: int = 8,
    seed: int = 0,
    stop_when_rejected: bool = True,
    settings: dict[str, object] | None = None,
) -> Task:
    """Audit what a model repeats of the examples in its prompt."""
    named: dict[str, object] = {
        "mechanism": mechanism, "query": query, "canary": canary, "epsilon": epsilon,
        "delta": delta, "pairs": pairs, "shots": shots, "controls": controls, "seed": seed,
        "stop_when_rejected": stop_when_rejected,
    }  # fmt: skip
    given = _give(named | ({} if data is None else {"data": data}), settings or {})
    samples = [
        Sample(input=one.query, id=one.name, metadata=one.metadata)
        for one in pair_samples(given, "none/none")
    ]
    return Task(
        dataset=MemoryDataset(samples, name="paired trials"),
        solver=paired_trial(),
        scorer=paired_trial_scores(),
        early_stopping=StopWhenRejected() if stop_when_rejected else None,
    )


def _give(named: dict[str, object], others: dict[str, object]) -> str:
    """All keys as JSON."""
    for key in others:
        if key in named:
            raise UsageError(
                f"settings has {key}, which is a parameter of its own; give it as -T {key}=..."
            )
    return json.dumps(named | others, sort_keys=True)


@solver
def paired_trial(solver: Solver | None = None) -> object:
    """Asks the same query of both contexts of a pair."""
    threads = anyio.CapacityLimiter(THREADS)
    named = "" if solver is None else f" through {registry_name_of(solver)}"

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        _require_first_epoch(state)
        about, asked = state.metadata[KEY], f"{state.model}{named}"
        complete = (
            partial(completion, get_model()) if solver is None else partial(_solve, solver, state)
        )
        model = InspectModel(asked, complete, anyio.from_thread.run)
        ask = partial(ask_pair, prepare_audit(_settings(about), asked), about["pair"], model)
        answers = await anyio.to_thread.run_sync(ask, limiter=threads)
        state.store.set(KEY, answers.to_json() | {"model": asked})
        return state

    return solve


def registry_name_of(solver: Solver) -> str:
    """Name of a solver, or of the function or class that it is."""
    try:
        return str(registry_info(solver).name)
    except ValueError:  # a chain, or a plain function
        return type(solver).__name__


async def _solve(solver: Solver, state: TaskState, request: Complete) -> str:
    """What a solver makes of a prompt; of the pair it sees nothing else."""
    messages = messages_of(request.prompt)
    own = TaskState(
        model=state.model, sample_id=state.sample_id, epoch=state.epoch,
        input=messages, messages=messages,
    )  # fmt: skip
    return str((await fork(own, solver)).output.completion)


def _require_first_epoch(state: TaskState) -> None:
    if state.epoch > 1:
        raise UsageError(
            f"the sample {state.sample_id} is asked in epoch {state.epoch}; a paired trial is a "
            "sample, and epochs of one pair are not independent. Leave --epochs out, and use more "
            "pairs (-T pairs=...)."
        )


@metric
def leakage() -> object:
    """Lower bound on epsilon, e-value and verdict of the paired trials."""
    running: dict[str, RunningAudit] = {}

    def compute(scores: list[SampleScore]) -> dict[str, float]:
        return _values(_audit_of(scores, running))

    return compute


@scorer(metrics=[leakage()])
def paired_trial_scores() -> object:
    """Scores of one output of each context of a pair, with the answers that they rest on."""

    async def score(state: TaskState, target: Target) -> Score:
        found = state.store.get(KEY)
        if found is None:
            return Score.unscored(reason="scoring_failed", explanation="the pair was not answered")
        prepared = prepare_audit(_settings(state.metadata[KEY]), found["model"])
        values = trial_values(prepared, PairAnswers.of_json(found))
        return Score(value=values, metadata={KEY: found})

    return score


def _settings(about: Mapping[str, object]) -> str:
    return json.dumps(about["audit"], sort_keys=True)


def _audit_of(scores: list[SampleScore], running: dict[str, RunningAudit]) -> RunningAudit | None:
    """The audit of these scores; one that runs goes on where its answers stand in them."""
    found = [one for one in map(answers_in, scores) if one is not None]
    if not found:
        return None
    settings, model = found[0].settings, found[0].model
    name = f"{model} {settings}"
    audited = running.get(name)
    if audited is None or not all(audited.agrees(one.answers) for one in found):
        audited = running[name] = RunningAudit(settings, model)
    for one in sorted(found, key=lambda one: one.answers.row.pair):
        audited.add(one.answers)
    return audited


def _values(audited: RunningAudit | None) -> dict[str, float]:
    result = None if audited is None else audited.result()
    if audited is None or result is None:
        return {"epsilon": 0.0, "e_value": 1.0, "violation": 0, "inconclusive": 1, "pairs": 0}
    e_value = audited.e_value
    first = next(one for one in result.estimates if one.method == result.decided_by[0])
    return {
        "epsilon": first.epsilon or 0.0,
        **({} if e_value is None else {"e_value": e_value}),
        "violation": int(result.verdict == "violation"),
        "inconclusive": int(result.verdict == "inconclusive"),
        "pairs": audited.pairs,
    }
