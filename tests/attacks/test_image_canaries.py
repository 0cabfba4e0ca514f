"""Canaries and queries over images:

what they hold, and what does not fit gets a sentence before any model call.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("PIL")

from leakbound.attacks import CANARIES, QUERIES, Given, Marked, Membership, Patchwork
from leakbound.auditing import make_spec, prepare
from leakbound.errors import UsageError
from leakbound.models import Scripted
from leakbound.models.content import Image, Parts, images_in
from leakbound.tasks import Example
from leakbound.tasks.images import as_image, pixels
from leakbound.tasks.synthetic_images import (
    HELD_OUT,
    NAMES,
    PSEUDO_NAMES,
    SIDE,
    TRAINED,
    draw,
    mark,
    patchwork,
    pseudo_names,
)

ROWS = pseudo_names(60, np.random.default_rng(0))
MODEL = Scripted(complete=lambda prompt: "yes", name="images")


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_the_data_set_is_balanced_and_its_classes_are_held_out() -> None:
    assert sorted(row.label for row in ROWS) == sorted(NAMES * 12)
    assert len({row.input for row in ROWS}) == 60
    assert not set(HELD_OUT) & set(TRAINED)
    assert len(HELD_OUT) + len(TRAINED) == 320
    assert pseudo_names(60, rng()) == ROWS
    assert draw(HELD_OUT[0], rng()).shape == (SIDE, SIDE, 3)


def test_a_patchwork_is_fresh_and_a_mark_changes_a_corner_only() -> None:
    first, second = (Patchwork().make(ROWS[0], "dax", rng(seed)) for seed in (1, 2))
    assert first.label == "dax"
    assert first != second
    one = Marked().make(ROWS[0], "dax", rng(1))
    assert one.label == ROWS[0].label
    before, after = (pixels(images_in(row.input)[0]) for row in (ROWS[0], one))
    changed = np.argwhere((before != after).any(-1))
    assert 0 < len(changed) <= 36
    assert np.ptp(changed, 0).max() < 6
    assert all(0 in edge or SIDE - 1 in edge for edge in changed.T)


@pytest.mark.parametrize("shape", [(1, 1, 3), (3, 40, 3), (224, 200, 3)])
def test_any_image_can_be_marked(shape: tuple[int, ...]) -> None:
    grey = np.full(shape, 7, np.uint8)
    assert mark(grey, rng()).shape == shape
    assert (grey == 7).all()
    assert patchwork(rng()).dtype == np.uint8


def test_membership_shows_the_image_and_the_ordinary_query_is_the_image() -> None:
    canary = Patchwork().make(ROWS[0], "dax", rng())
    membership = Membership().render(canary, PSEUDO_NAMES, "dax", "perpo")
    assert isinstance(membership.query.text, Parts)
    assert "this image" in str(membership.query.text.parts[0])
    assert membership.query.text.parts[1] == canary.input
    asked = QUERIES["input_output"]().render(canary, PSEUDO_NAMES, "dax", "perpo")
    assert (asked.query.text, asked.member) == (canary.input, "dax")
    own = QUERIES["given"]("Is {canary} there? {member} or {nonmember}").render(
        canary, PSEUDO_NAMES, "dax", "perpo"
    )
    assert own.query.text.parts == ("Is ", canary.input, " there? yes or no")  # type: ignore[union-attr]
    wrong = QUERIES["brainwash"]().render(canary, PSEUDO_NAMES, "dax", "perpo")
    assert len(images_in(wrong.query.text)) == 7


@pytest.mark.parametrize("name", ["if_then_explicit", "signal_pair", "repeat", "injection"])
def test_queries_that_quote_the_canary_need_a_text(name: str) -> None:
    with pytest.raises(UsageError, match=f"{name} takes texts only"):
        QUERIES[name]().render(ROWS[0], PSEUDO_NAMES, "dax", "perpo")


def spec(**values: Any) -> Any:
    return make_spec({"pairs": 4, "shots": 6, "task": "pseudo_names", **values})


@pytest.mark.slow
@pytest.mark.parametrize("canary", ["patchwork", "marked", "natural", "mislabeled"])
@pytest.mark.parametrize("insertion", ["replace", "append", "add"])
def test_contexts_differ_by_one_image(canary: str, insertion: str) -> None:
    made = prepare(spec(canary=canary, insertion=insertion), MODEL)
    for pair in made.pairs:
        images = [
            [i for row in job.context for i in images_in(row.input)]
            for job in (pair.member, pair.nonmember)
        ]
        (own,) = images_in(pair.canary.input)
        assert own in images[0]
        assert len(set(images[0]) - set(images[1])) == 1 or canary == "mislabeled"


def test_a_given_image_is_a_canary_and_part_of_what_the_run_is(tmp_path: Path) -> None:
    file = tmp_path / "own.png"
    made = []
    for seed in (1, 2):
        file.write_bytes(as_image(patchwork(rng(seed))).png)
        given = {"kind": "given", "image": str(file), "label": "dax"}
        made.append(prepare(spec(canary=given), MODEL))
    assert made[0].pairs[0].canary == Example(as_image(patchwork(rng(1))), "dax")
    assert made[0].identity != made[1].identity


MISTAKES = [
    ({"canary": "hex"}, "the canary hex is a text, and the rows hold images; "
                            "use --canary patchwork, marked or natural"),
    ({"canary": "unigram"}, "unigram takes texts only"),
    ({"canary": "given", "canary.text": "x"}, "is a text, and the rows hold images"),
    ({"canary": "patchwork", "task": "help_desk"}, "is an image, and the rows hold texts"),
    ({"canary": "marked", "task": "help_desk"}, "the rows hold texts"),
    ({"canary.image": "x.png"}, "hex has no option 'image'"),
    ({"canary": "given", "canary.image": "none.png"}, "is not a file"),
]  # fmt: skip


@pytest.mark.parametrize(("values", "why"), MISTAKES)
def test_what_does_not_fit_gets_a_sentence(values: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        prepare(spec(**values), MODEL)


def test_every_canary_says_of_which_form_it_is() -> None:
    kinds = {
        name: isinstance(kind().make(ROWS[0], "dax", rng()).input, Image)
        for name, kind in CANARIES.items()
        if name not in ("given", "unigram", "coded")  # which take texts, or are given
    }
    assert {name for name, image in kinds.items() if image} == {
        "natural",
        "mislabeled",
        "patchwork",
        "marked",
    }
    assert Given(ROWS[0].input).make(ROWS[1], "dax", rng()).input == ROWS[0].input
