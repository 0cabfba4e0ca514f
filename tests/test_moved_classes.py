"""The same class in a file of a user gets the same result: nothing rests on where code lives."""

from __future__ import annotations

import importlib.util
import inspect
import json
import sys
from dataclasses import fields
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leakbound
from leakbound.attacks import CANARIES, QUERIES, SCORES
from leakbound.auditing import make_spec, prepare
from leakbound.auditing.prepare.build import Handed
from leakbound.estimators import ESTIMATORS
from leakbound.mechanisms import MECHANISMS
from leakbound.models import Scripted
from leakbound.tasks import Context, as_context

LABELS = {"labels": ["a", "b"]}
ROWS: Context = as_context(
    [(f"message {i} is about {['rain', 'snow', 'fog'][i % 3]}", "ab"[i % 2]) for i in range(48)]
)


def chance(*what: object) -> float:
    return int(sha256(repr(what).encode()).hexdigest()[:8], 16) / 2**32


def answer(prompt: str) -> str:
    """Says yes where the last words of the prompt stand in it before, and sometimes by chance."""
    head, tail = prompt[:-80], prompt[-60:-30]
    seen = tail in head
    return "yes" if seen is (chance(prompt) < 0.9) else "no"


def model() -> Scripted:
    def scores(prompt: str, labels: tuple[str, ...], *rest: object) -> list[float]:
        return [float(np.log(0.05 + 0.9 * chance(prompt, one))) for one in labels]

    return Scripted(answer, scores, embed=lambda text: [chance(text, i) - 0.5 for i in range(8)])


def elsewhere(kind: type, folder: Path) -> type:
    """The class as a file of its own defines it."""
    source = Path(str(inspect.getsourcefile(kind)))
    copy = folder / f"mine_{source.stem}_{kind.__name__.lower()}.py"
    copy.write_text(source.read_text())
    spec = importlib.util.spec_from_file_location(copy.stem, copy)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[copy.stem] = module
    spec.loader.exec_module(module)
    found: type = getattr(module, kind.__name__)
    assert found is not kind
    assert not found.__module__.startswith("leakbound")
    return found


def moved(thing: Any, folder: Path) -> Any:
    kind = elsewhere(type(thing), folder)
    return kind(**{one.name: getattr(thing, one.name) for one in fields(thing) if one.init})


NAMED = ("name", "spec")  # how the run is described: a component by its class and its file


def told(values: dict[str, object], out: Path) -> dict[str, Any]:
    """What an audit finds out. Keys of `settings` have a dot, or are the labels."""
    base = {"pairs": 6, "shots": 10, "simulations": 60, "controls": 2, "epsilon": 2.0, **values}
    settings = {key: base.pop(key) for key in [*base] if "." in key or key == "labels"}
    result = leakbound.audit(ROWS, model=model(), out=out, settings=settings, **base)  # type: ignore[arg-type]
    found: dict[str, Any] = json.loads(result.results())
    return {key: value for key, value in found.items() if key not in NAMED}


def compared(part: str, name: str, other: dict[str, object], folder: Path) -> None:
    """Audit with an object of the package, and with one of the moved class."""
    given = {"labels": ["a", "b"], **other}
    given = {key: value for key, value in given.items() if value is not None}
    flat = {part: name, "pairs": 6, "shots": 10, "epsilon": 2.0, **given}
    made = prepare(make_spec(flat), model(), rows=ROWS)
    holder = made if part in ("mechanism", "estimator") else made.attack
    inside = getattr(holder, part)
    given = {key: value for key, value in given.items() if not key.startswith(f"{part}.")}
    here = told({**given, part: inside}, folder / "here")
    there = told({**given, part: moved(inside, folder)}, folder / "there")
    assert here == there


# What a part needs beside it to be audited at all; of the rest, why it is left out.
FREE = {"task": "generation", "labels": None}
LONG = {**FREE, "canary": "natural"}
BESIDE: dict[str, dict[str, object]] = {
    "subsample_average": {"insertion": "add"},
    "recall": {**FREE, "canary": "coded"},
    "either_text": {"query.other": "a second text", "mechanism": "report_noisy_max"},
    "given query": {"query.text": "is {canary} there?"},
    "given canary": {"canary.text": "a text of its own"},
    "label_margin": {"mechanism": "report_noisy_max"},
    "probability_margin": {"mechanism": "answer_probabilities"},
    "distance_gap": {**FREE, "mechanism": "embedding_mean"},
    "reference_direction": {**FREE, "mechanism": "embedding_mean"},
    "contains_canary": {**FREE, "query": "repeat"},
    "overlap": {**FREE, "query": "repeat"},
}
LEFT_OUT = {
    "score_margin": "of no mechanism here",
    "synthetic_shots": "needs logits",
    "context_influence_decoding": "needs logits",
    "bounded_cid": "needs logits",
    "invisible_ink": "needs logits",
    "dp_fusion": "needs logits",
    "mba": "needs long documents",
    "interrogation": "needs long documents",
    "prefix": "needs long documents",
    "document": "of those",
    "differential": "asks twice in one session",
    "extraction": "asks twice in one session",
    "patchwork": "an image",
    "marked": "an image",
}


def beside(name: str) -> dict[str, object]:
    if name in LEFT_OUT:
        pytest.skip(LEFT_OUT[name])
    return BESIDE.get(name, {})


@pytest.mark.slow
@pytest.mark.parametrize("name", MECHANISMS)
def test_a_mechanism(name: str, tmp_path: Path) -> None:
    compared("mechanism", name, beside(name), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", QUERIES)
def test_a_query(name: str, tmp_path: Path) -> None:
    compared("query", name, beside("given query" if name == "given" else name), tmp_path)


@pytest.mark.parametrize("name", CANARIES)
def test_a_canary(name: str, tmp_path: Path) -> None:
    compared("canary", name, beside("given canary" if name == "given" else name), tmp_path)


@pytest.mark.parametrize("query", ["membership", "repeat", "if_then_explicit"])
@pytest.mark.parametrize("canary", ["hex", "coded", "unigram"])
def test_the_others_of_an_attack(query: str, canary: str, tmp_path: Path) -> None:
    """By its class, a moved attack was one more kind: one passed, another was accused."""
    task = {"task": "generation"} if query == "repeat" else {"labels": ["a", "b"]}
    shape = {"query": query, "canary": canary, "shots": 10, **task}
    made = prepare(make_spec(shape), model(), rows=ROWS)
    spec = made.spec
    for one in ({"query": made.attack.query}, {"canary": CANARIES[canary]()}):
        (part, thing), *_ = one.items()
        elsewhere_ = prepare(
            spec, model(), rows=ROWS, handed=Handed(**{part: moved(thing, tmp_path)})
        )
        assert [o.name for o in elsewhere_.others] == [o.name for o in made.others]
        assert elsewhere_.of_own_kind is made.of_own_kind


@pytest.mark.slow
def test_another_wording_of_one_name_is_another_attack(tmp_path: Path) -> None:
    """That of leakbound saw the leak, and the sentence said that nothing was seen."""

    def told(prompt: str) -> str:
        head, _, asked = prompt.rpartition('Does the text "')
        return "yes" if asked and asked.split('"')[0] in head else "no"

    shape: dict[str, Any] = {"canary": "hex", "pairs": 60, "shots": 6, "settings": LABELS}
    query = QUERIES["membership"](template='Is the text "{canary}" in the examples?')
    found = leakbound.audit(ROWS, query=query, model=Scripted(told), out=tmp_path, **shape)
    assert found.reason == "attack_blind"
    assert "audit with --query membership --canary hex" in found.sentences[0]


def never(context: Context, query: str) -> str:
    return "no"


@pytest.mark.slow
@pytest.mark.parametrize("canary", ["hex", "unigram"])
@pytest.mark.parametrize("shape", [{}, {"task": "generation", "store_text": "none"}])
def test_an_attack_that_sees_nothing(canary: str, shape: dict[str, Any], tmp_path: Path) -> None:
    query = QUERIES["membership"]()
    found = []
    for at, one in enumerate((query, moved(query, tmp_path))):
        asks: dict[str, Any] = (
            {"model": Scripted(lambda prompt: "no")} if shape else {"system": never}
        )
        result = leakbound.audit(
            ROWS,
            query=one,
            canary=canary,
            pairs=200,
            shots=6,
            out=tmp_path / str(at),
            **asks,
            **shape,
        )
        found.append(json.loads(result.results()))
    here, there = ({key: one[key] for key in one if key not in NAMED} for one in found)
    assert here == there


@pytest.mark.slow
@pytest.mark.parametrize("name", SCORES)
def test_a_score(name: str, tmp_path: Path) -> None:
    compared("score", name, beside(name), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["few_shot", "report_noisy_max"])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_an_estimator(name: str, mechanism: str, tmp_path: Path) -> None:
    compared("estimator", name, {"mechanism": mechanism}, tmp_path)


def notices(context: Context, query: str) -> dict[str, object]:
    """A system that gives away what it holds, in its answer and by how long that is."""
    seen = any(row.input in query for row in context)
    return {"text": "yes" if seen else "no", "tokens": 12 if seen else 11}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "more"),
    [
        *((name, {"claim": "random-guessing"}) for name in ESTIMATORS),
        ("e_process", {"channels": ("all",), "epsilon": 2.0}),
    ],
)
def test_an_estimator_of_two_sides_or_of_channels(
    name: str, more: dict[str, Any], tmp_path: Path
) -> None:
    found = [
        json.loads(
            leakbound.audit(
                ROWS, system=notices, estimator=one, pairs=12, shots=10, controls=2,
                out=tmp_path / str(at), **more,
            ).results()
        )
        for at, one in enumerate([ESTIMATORS[name](), moved(ESTIMATORS[name](), tmp_path)])
    ]  # fmt: skip
    here, there = ({key: one[key] for key in one if key not in NAMED} for one in found)
    assert here == there
