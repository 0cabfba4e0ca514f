"""Paired trials as samples: what inspect_ai is not needed for."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import random
import re
from pathlib import Path

import pytest
from leakbound_hosts.inspect.model import InspectModel, open_inspect
from leakbound_hosts.inspect.pairs import (
    PairAnswers,
    RunningAudit,
    ask_pair,
    pair_samples,
    prepare_audit,
)

import leakbound
from leakbound.errors import StoreError, TargetError, UsageError
from leakbound.models import Complete, Embed, Scripted

SHAPE = {"pairs": 16, "shots": 4, "controls": 2, "simulations": 0, "stop_when_rejected": True}
SETTINGS = json.dumps(SHAPE, sort_keys=True)
CODE = re.compile(r"\b[0-9a-f]{8,}\b")


def leaking(prompt: str) -> str:
    found = CODE.findall(prompt)
    return "yes" if found.count(found[-1]) > 1 else "no"


def answered() -> list[PairAnswers]:
    """All samples, each asked by itself, and brought through plain values."""
    prepared, model = prepare_audit(SETTINGS, "a/b"), Scripted(complete=leaking)
    numbers = [one.metadata["leakbound"]["pair"] for one in pair_samples(SETTINGS, "a/b")]
    found = [ask_pair(prepared, number, model).to_json() for number in numbers]
    return [PairAnswers.of_json(json.loads(json.dumps(one))) for one in found]


def test_one_sample_for_each_pair_and_control_pair() -> None:
    names = [one.name for one in pair_samples(SETTINGS, "a/b")]
    assert names[:4] == ["single-control-2", "single-control-1", "control-2", "control-1"]
    assert names[4:6] == ["pair-1", "pair-2"]
    assert names[-2:] == ["late-control-2", "late-control-1"]
    assert len(names) == 2 + 2 + 16 + 2


def test_samples_say_what_an_audit_says_in_whatever_order_they_come(tmp_path: Path) -> None:
    model = Scripted(complete=leaking)
    alone = leakbound.audit(model=model, batch_pairs=1, out=tmp_path, **SHAPE)
    samples = answered()
    random.Random(0).shuffle(samples)
    running = RunningAudit(SETTINGS, "a/b")
    for one in samples:
        running.add(one)
    result = running.result()
    assert result is not None
    assert running.ended
    assert result.estimates == alone.estimates
    assert (result.verdict, running.pairs) == ("violation", alone.counts["pairs"])
    assert running.held == 16 - running.pairs


def test_what_lies_behind_a_missing_pair_does_not_count() -> None:
    running = RunningAudit(SETTINGS, "a/b")
    for one in answered():
        if one.row.pair != 5:
            running.add(one)
    assert (running.pairs, running.held, running.ended) == (5, 10, False)
    assert RunningAudit(SETTINGS, "a/b").result() is None


def test_the_first_answers_of_a_pair_count() -> None:
    """Whoever runs a sample again has seen its score."""
    running, (first, second, *_) = RunningAudit(SETTINGS, "a/b"), answered()[4:]
    other = PairAnswers.of_json(second.to_json() | {"pair": 0, "canary_in": "[0, 1, 0]"})
    running.add(first)
    assert not running.agrees(other)
    running.add(other)
    assert running.agrees(first)


def test_two_evaluations_do_not_share_a_run_folder(tmp_path: Path) -> None:
    samples = answered()
    running = RunningAudit(SETTINGS, "a/b", tmp_path)
    for one in samples:
        running.add(one)
    assert running.write().verdict == "violation"
    other = RunningAudit(SETTINGS, "a/b", tmp_path)
    for one in samples:
        other.add(PairAnswers.of_json(one.to_json() | {"canary_in": one.to_json()["canary_out"]}))
    with pytest.raises(StoreError, match="holds the answers of another evaluation"):
        other.write()


def test_a_store_has_no_samples() -> None:
    with pytest.raises(UsageError, match="the design is session"):
        prepare_audit(json.dumps({"design": "session"}), "a/b")


async def written(request: Complete) -> str:
    return str(request.prompt)


def test_a_model_is_asked_for_texts_alone() -> None:
    model = InspectModel("a/b", written, lambda work, of: [asyncio.run(written(one)) for one in of])
    assert (model.name, model.answer([Complete("x")])) == ("inspect/a/b", ["x"])
    with pytest.raises(TargetError, match="inspect/a/b cannot answer Embed"):
        model.check([Embed("x")])
    with pytest.raises(TargetError, match="takes no images and no token ids"):
        model.check([Complete((1, 2))])


@pytest.mark.skipif(importlib.util.find_spec("inspect_ai") is not None, reason="it is installed")
def test_without_inspect_ai_the_address_says_what_to_install() -> None:
    with pytest.raises(TargetError, match=r"needs inspect_ai; install it with: .*\[inspect\]"):
        open_inspect("mockllm/model")
