"""Options of canaries, queries and scores: every parameter of the papers is a field."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from leakbound.attacks import (
    CANARIES,
    QUERIES,
    SCORES,
    Brainwash,
    Canary,
    FalseFact,
    Given,
    Hex,
    IfThenExplicit,
    IfThenImplicit,
    Injection,
    Membership,
    ReferenceDirection,
    Repeat,
    SignalPair,
    Unigram,
    ZeroShotSignals,
)
from leakbound.attacks.canaries import FALSE_FACTS
from leakbound.attacks.templates import IF_THEN, PICK_ONE
from leakbound.errors import DataError, UsageError
from leakbound.tasks import Access, Example, Outputs, Task

TASK = Task("mail", ("work", "home"))
CANARY = Example("deadbeef", "work")
ROWS = (Example("a b c", "work"), Example("a b d", "home"))


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def text(query: Any, canary: Example = CANARY, task: Task = TASK) -> str:
    return str(query.render(canary, task, "work", "home").query.text)


@pytest.mark.parametrize("kind", [*CANARIES.values(), *QUERIES.values(), *SCORES.values()])
def test_options_are_the_fields_of_a_frozen_dataclass(kind: type[Any]) -> None:
    assert dataclasses.is_dataclass(kind)
    assert kind.__dataclass_params__.frozen  # type: ignore[attr-defined]
    assert kind.__doc__


@pytest.mark.parametrize("kind", QUERIES.values())
def test_no_member_of_a_query_is_optional(kind: type[Any]) -> None:
    assert isinstance(kind.free, bool)
    assert isinstance(kind.score, str)
    assert isinstance(kind.tasks, str)


@pytest.mark.parametrize("kind", SCORES.values())
def test_no_member_of_a_score_is_optional(kind: type[Any]) -> None:
    assert isinstance(kind.free, bool)
    assert isinstance(kind.learns, bool)
    assert kind.learns == (kind is ReferenceDirection)
    assert kind.access in get_args(Access)


def test_every_parameter_of_the_papers_is_an_option() -> None:
    assert len(str(Hex(digits=5).make(CANARY, "home", rng()).input)) == 5
    fitted = Unigram(length=2).fit(ROWS, str.split)
    assert len(str(fitted.make(CANARY, "home", rng()).input).split()) == 2
    assert text(Brainwash(repeats=3)).count("deadbeef") == 4
    assert '"dead"' in text(Repeat(share=0.5))
    assert '"deadbe"' in text(Repeat(share=0.75))
    pair = SignalPair(member="one", nonmember="two")
    assert text(pair) == IF_THEN.format(canary="deadbeef", member="one", nonmember="two")
    assert text(ZeroShotSignals("one", "two")) == text(pair) + PICK_ONE
    assert pair.render(CANARY, TASK, "work", "home").query.labels == ("one", "two")


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        (Membership("{canary}? yes or no."), "deadbeef? yes or no."),
        (IfThenExplicit("{canary}: {member}, or {nonmember}"), "deadbeef: work, or home"),
        (IfThenImplicit("Odd: {member}, or {nonmember}"), "Odd: work, or home"),
        (SignalPair("x", "y", "{canary}: {member}, or {nonmember}"), "deadbeef: x, or y"),
        (Repeat(template="Go on: {prefix}"), "Go on: dead"),
        (Injection("Show me everything."), "Show me everything."),
    ],
)
def test_every_wording_can_be_replaced(query: Any, wanted: str) -> None:
    assert text(query) == wanted


def test_braces_in_a_canary_are_no_places_to_fill_in() -> None:
    odd = Example("{member} {0} {", "work")
    assert text(IfThenExplicit("{canary}/{member}/{nonmember}"), odd) == "{member} {0} {/work/home"
    assert text(QUERIES["given"]("{canary} {member} {x}"), odd) == "{member} {0} { yes {x}"  # type: ignore[call-arg]


def test_false_facts_come_from_a_tuple_or_a_file(tmp_path: Path) -> None:
    file = tmp_path / "facts.txt"
    file.write_text("Snow is hot.\n\n  Fish read.  \n")
    own = FalseFact(file=str(file))
    assert own.chosen == own.file_contents == ("Snow is hot.", "Fish read.")
    assert FalseFact(("Tin is soup.",)).make(CANARY, "home", rng()).input == "Tin is soup."
    assert FalseFact().chosen == FALSE_FACTS
    assert FalseFact().file_contents == ()
    file.write_text("\n")
    with pytest.raises(DataError, match="holds no sentence"):
        FalseFact(file=str(file))
    with pytest.raises(DataError, match="cannot be read"):
        FalseFact(file=str(tmp_path / "none.txt"))


def test_fitted_parts_hide_what_they_learnt_and_are_no_options() -> None:
    fitted = Unigram(1).fit(ROWS, str.split)
    assert "words" not in repr(fitted)
    assert fitted.make(CANARY, "home", rng()).input in "abcd"
    assert [f.name for f in dataclasses.fields(Unigram) if f.init] == ["length"]
    assert not any(f.init for f in dataclasses.fields(ReferenceDirection))
    same: Canary = Hex()
    assert same.fit(ROWS, str.split) is same
    with pytest.raises(UsageError, match="call its fit"):
        Unigram().make(CANARY, "home", rng())
    with pytest.raises(UsageError, match="call its fit"):
        ReferenceDirection().score(Outputs(np.zeros(1, np.int64)), None, ())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Membership("Is it there?"), "must hold {canary}"),
        (lambda: Membership(" "), "is empty"),
        (lambda: IfThenExplicit("{canary}: {member}"), "must hold {nonmember}"),
        (lambda: IfThenImplicit("{canary} {member} {nonmember}"), "may not hold {canary}"),
        (lambda: Injection("Print {canary}"), "may not hold {canary}"),
        (lambda: Repeat(template="{canary}"), "may not hold {canary}"),
        (lambda: Repeat(share=1.0), "above 0 and below 1"),
        (lambda: SignalPair("same", "same"), "two different texts"),
        (lambda: Brainwash(repeats=-1), "repeats of the query brainwash is -1"),
        (lambda: Hex(digits=0), "digits of the canary hex is 0"),
        (lambda: Unigram(length=0), "length of the canary unigram is 0"),
        (lambda: FalseFact(("x",), "facts.txt"), "leave one of them out"),
        (lambda: Given("x", image="x.png"), "has a text and an image"),
        (lambda: QUERIES["given"](), "needs a text that holds {canary}"),
        (lambda: QUERIES["either_text"](), "needs a second text"),
    ],
)
def test_options_that_cannot_work_get_a_sentence(make: Any, sentence: str) -> None:
    with pytest.raises(UsageError) as error:
        make()
    assert sentence in str(error.value)
