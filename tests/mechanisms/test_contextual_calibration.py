"""Votes that copy a shown label, and the calibration that takes this tendency off."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from leakbound.errors import UsageError
from leakbound.mechanisms import ProductOfExperts, ReportNoisyMax, build_mechanism
from leakbound.mechanisms.parts.contextual_calibration import CONTENT_FREE
from leakbound.models import Complete, ScoreLabels, Scripted
from leakbound.stats.noise.best_votes import best_chance
from leakbound.tasks import Example, Job, Query, Task, Vector, Votes

TASK = Task("colours", ("red", "blue", "green"))
QUERY = Query("the apple is ripe")
# Most examples are about something else and blue; those about apples are red.
CONTEXT = tuple(
    Example(*row)
    for row in [("an apple fell", "red")] * 3 + [("a fish swam", "blue")] * 5
    + [("a leaf grew", "green")] * 2
)  # fmt: skip
COPIES = 3.0  # nats by which a shown label is likelier, whatever is asked
FITS = 1.0  # nats for a shown label if its example is about what is asked
SIGMAS = (4.0, 2.0, 1.0, 0.25)


def scores(prompt: str, labels: Sequence[str]) -> list[float]:
    """A model that leans towards any label it sees, and a little more if its example fits."""
    *shown, asked = prompt.split("\n\n")[1:]
    topics = {word for word in ("apple", "fish", "leaf") if word in asked}
    found = dict.fromkeys(labels, 0.0)
    for block in shown:
        label = block.rpartition("Label: ")[2]
        other = topics and not any(word in block for word in topics)
        found[label] += COPIES + (-FITS if other else FITS if topics else 0.0)
    return [found[label] for label in labels]


MODEL = Scripted(
    label_scores=scores,
    complete=lambda prompt: TASK.labels[int(np.argmax(scores(prompt, TASK.labels)))],
)
VOTING = ReportNoisyMax(1.0, partitions=10)
CALIBRATED = replace(VOTING, prior="content_free")


UNIFORM = replace(VOTING, prior="uniform")


def votes(mechanism: ReportNoisyMax, model: Scripted = MODEL) -> Votes:
    (found,) = mechanism.collect(TASK, [Job(CONTEXT, QUERY)], [0], model)
    assert isinstance(found, Votes)
    return found


def right(counts: Votes, sigma: float) -> float:
    """P(red is released), exactly."""
    own, *others = np.array(counts.counts, float)
    return float(best_chance(np.array([own]), np.array([others]), sigma, np.zeros(1))[0, 0])


def test_experts_of_one_example_vote_for_its_label_so_less_noise_is_worse() -> None:
    counts = votes(VOTING)
    assert counts.counts == (3, 5, 2, 0)
    chances = [right(counts, sigma) for sigma in SIGMAS]
    assert chances[-1] < 0.01 < min(chances[:2])


def test_scored_votes_are_those_of_a_model_that_writes_its_likeliest_answer() -> None:
    """Of one whose replies cannot be read, they are the same."""
    rambling = Scripted(label_scores=scores, complete=lambda prompt: "It depends on the fruit.")
    assert votes(VOTING) == votes(UNIFORM) == votes(UNIFORM, rambling)
    assert votes(VOTING, rambling).counts == (0, 0, 0, 10)


def test_calibrated_votes_rise_as_noise_falls() -> None:
    """Seven experts know nothing, and say so by what they rule out; the three decide."""
    counts = votes(CALIBRATED)
    assert counts.counts[0] > max(counts.counts[1:])
    chances = [right(counts, sigma) for sigma in SIGMAS]
    assert chances == sorted(chances)
    assert chances[-1] > 0.99


def test_calibrated_votes_ask_for_scores_alone_and_twice() -> None:
    asked = CALIBRATED.requests(TASK, Job(CONTEXT, QUERY), 0)
    scored = [one for one in asked if isinstance(one, ScoreLabels)]
    assert [one.alone for one in scored] == [True] * 20
    assert [CONTENT_FREE in str(one.prompt) for one in scored] == [False] * 10 + [True] * 10
    assert CALIBRATED.needs == UNIFORM.needs == frozenset({ScoreLabels})
    scored = UNIFORM.requests(TASK, Job(CONTEXT, QUERY), 0)
    assert scored == asked[:10]
    assert VOTING.needs == ReportNoisyMax.needs == frozenset({Complete})


def test_replacing_an_example_moves_one_vote() -> None:
    before = np.array(votes(CALIBRATED).counts)
    for at in range(len(CONTEXT)):
        for label in TASK.labels:
            other = (*CONTEXT[:at], Example("an apple in a fish", label), *CONTEXT[at + 1 :])
            (after,) = CALIBRATED.collect(TASK, [Job(other, QUERY)], [0], MODEL)
            assert isinstance(after, Votes)
            assert abs(before - np.array(after.counts)).sum() in (0, 2)


def test_failed_calls_vote_for_none_and_hidden_labels_are_impossible() -> None:
    """A row that breaks a call of its partition moves one vote, as any row does."""

    def broken(prompt: str, labels: Sequence[str]) -> list[float]:
        if "leaf" in prompt and CONTENT_FREE in prompt:
            raise RuntimeError("refused")
        hidden = "fish" in prompt and CONTENT_FREE not in prompt
        return [float("nan") if hidden and at == 0 else x for at, x in
                enumerate(scores(prompt, labels))]  # fmt: skip

    counts = votes(CALIBRATED, Scripted(label_scores=broken))
    assert counts.counts[-1] == 2  # of the partitions whose content-free query failed
    assert counts.counts[0] == 3  # the others hid red, which they would have voted for
    assert sum(counts.counts) == 10


def test_the_default_keeps_the_names_of_records() -> None:
    assert "prior" not in VOTING.to_config()
    assert "prior" not in ProductOfExperts(1.0).to_config()
    for made in (CALIBRATED, ProductOfExperts(1.0, prior="content_free")):
        config = made.to_config()
        assert build_mechanism(str(config.pop("kind")), config, 1.0, 1e-5) == made


@pytest.mark.parametrize("make", [ReportNoisyMax, ProductOfExperts])
def test_another_prior_is_refused(make: type[ReportNoisyMax | ProductOfExperts]) -> None:
    with pytest.raises(UsageError, match=r"it must be none.* or content_free"):
        make(1.0, prior="bayes")  # type: ignore[arg-type]


def test_calibrated_experts_choose_what_fits_best() -> None:
    """Few experts know, and all lean towards the label that they show."""
    plain = ProductOfExperts(8.0)
    chances = []
    for mechanism in (plain, replace(plain, prior="content_free")):
        (total,) = mechanism.collect(TASK, [Job(CONTEXT, QUERY)], [0], MODEL)
        assert isinstance(total, Vector)
        law = mechanism.output_distribution(total)
        assert law is not None
        chances.append(law.probabilities[0])
    assert chances[0] < 0.2 < 0.9 < chances[1]
