"""A request that is asked alone gets the same bits whatever is asked beside it or before it."""

from __future__ import annotations

import random

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from leakbound.models import Complete, Embed, Local, NextLogits, ScoreLabels, open_model
from leakbound.models.local import TransformersModel
from leakbound.models.local.engine.passes import OwnStates
from leakbound.models.request import Request

pytestmark = pytest.mark.torch

WORDS = ("alpha", "beta", "gamma", "ticket", "queue", "red", "blue", "window", "printer", "late")


@pytest.fixture(scope="module")
def model() -> TransformersModel:
    found = open_model("pocket", local=Local(dtype="bfloat16"))
    assert isinstance(found, TransformersModel)
    return found


def prompt(rng: random.Random) -> str:
    text = " ".join(rng.choices(WORDS, k=rng.randint(3, 30)))
    return f"Sort the message into a queue.\n\nMessage: {text}\nQueue:"


def logits(model: TransformersModel, requests: list[NextLogits]) -> list[bytes]:
    return [reply.tobytes() for reply in model.answer(requests)]


def beside(alone: bool, model: TransformersModel) -> int:
    """In how many of 10 batches a request's answer differs from that without company."""
    differ = 0
    for seed in range(10):
        rng = random.Random(seed)
        first, *others = (
            NextLogits(prompt(rng), (), alone=alone) for _ in range(rng.randint(2, 6))
        )
        model.forget()
        lonely = logits(model, [first])[0]
        model.forget()
        differ += logits(model, [*others, first])[-1] != lonely
    return differ


@pytest.mark.slow
def test_low_precision_mixes_rows_and_alone_does_not(model: TransformersModel) -> None:
    assert beside(False, model) > 0
    assert beside(True, model) == 0


@pytest.mark.slow
def test_every_kind_is_the_same_beside_others(model: TransformersModel) -> None:
    for seed in range(2):
        rng = random.Random(seed)
        asked: list[Request[object]] = []
        for _ in range(4):
            text = prompt(rng)
            asked += [
                Complete(text, max_tokens=4, alone=True),
                ScoreLabels(text, ("red", "blue", "dark green"), alone=True),
                NextLogits(text, " red", alone=True),
                Embed(text, alone=True),
            ]
        model.forget()
        together = model.answer(asked)
        for request, reply in zip(reversed(asked), reversed(together), strict=True):
            again = model.answer([request])[0]
            assert np.array_equal(np.asarray(again), np.asarray(reply))


def test_a_growing_row_is_the_same_beside_others(model: TransformersModel) -> None:
    """Token by token, equal rows among them: each goes on from a state of its own."""
    rng = random.Random(3)
    rows = [model.encode(prompt(rng)) for _ in range(4)]
    rows.append(rows[0])
    paths = []
    for company in (rows, rows[:1]):
        model.forget()
        grown, path = [tuple(row) for row in company], []
        for token in (5, 9, 4):
            replies = logits(model, [NextLogits(row, (), alone=True) for row in grown])
            path.append(replies[0])
            assert len(company) == 1 or replies[0] == replies[4]
            grown = [(*row, token) for row in grown]
        paths.append(path)
    assert paths[0] == paths[1]


def test_logits_that_are_no_numbers_spoil_no_other(model: TransformersModel) -> None:
    """One token with an embedding that is not a number: the rows that hold it get no answer."""
    rng = random.Random(1)
    bad, good = (*model.encode(prompt(rng)), 7), model.encode("Queue:")
    assert 7 not in good
    table = model.model.get_input_embeddings().weight
    kept = table[7].clone()
    with torch.no_grad():
        table[7] = float("nan")
    try:
        for alone in ([bad], [good]):
            model.forget()
            first = [NextLogits(row, (), alone=True) for row in alone]
            lonely = model.answer(first)[0]
        replies = model.answer([NextLogits(row, (), alone=True) for row in (bad, good)])
        texts = model.answer([Complete(row, max_tokens=2, alone=True) for row in (bad, good)])
        (scores,) = model.answer([ScoreLabels(bad, ("red", "blue"), alone=True)])
    finally:
        with torch.no_grad():
            table[7] = kept
    assert replies[0].shape == (1, 0)
    assert np.array_equal(replies[1], lonely)
    assert texts[0] == ""
    assert np.isnan(scores).all()


def grown(model: TransformersModel, rows: list[tuple[int, ...]]) -> list[list[bytes]]:
    """Logits of each row over three tokens, the same for all rows."""
    model.forget()
    found = []
    for token in (5, 9, 4):
        found.append(logits(model, [NextLogits(row, (), alone=True) for row in rows]))
        rows = [(*row, token) for row in rows]
    return found


@pytest.mark.parametrize("most", [2, 4, 100])
@pytest.mark.parametrize("change", ["equal", "long"])
def test_no_row_decides_whether_another_is_run_anew(
    model: TransformersModel, most: int, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Little room for states; then one row becomes equal to another, or too long to be kept."""
    monkeypatch.setattr(model.passes.own, "most", most)
    monkeypatch.setattr(model.passes.own, "longest", 120)
    rng = random.Random(7)
    rows = [model.encode(prompt(rng)) for _ in range(4)]
    other = rows[0] if change == "equal" else tuple(rows[3] * 9)[:200]
    assert len(rows[0]) < 100
    before, after = grown(model, rows), grown(model, [*rows[:3], other])
    assert [step[:3] for step in before] == [step[:3] for step in after]


def test_what_is_kept_is_decided_by_counts() -> None:
    states = OwnStates(budget=4 * 100, token=1, window=100)
    assert (states.most, states.longest) == (4, 100)
    assert [states.fits(rows) for rows in (0, 4, 5)] == [False, True, False]
    for row in range(3):
        states.hold([(row,), (row, 1)], [None, None])
    assert repr(states) == "OwnStates(<private>, 4 of 4)"
    assert OwnStates(budget=10, token=1, window=100).most == 0
