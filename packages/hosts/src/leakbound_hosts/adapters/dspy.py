"""DSPy: programs whose demonstrations are the context."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, cast

from leakbound.models.content import text_only
from leakbound.systems.protocol import Reply
from leakbound.systems.replies import as_reply
from leakbound.tasks import Context, Example
from leakbound_hosts.adapters.search import bases

MODULE = "dspy.primitives.module.Module"


class _Signature(Protocol):
    input_fields: Mapping[str, object]
    output_fields: Mapping[str, object]


class _Predictor(Protocol):
    signature: _Signature
    demos: list[object]


class _Program(Protocol):
    def predictors(self) -> list[_Predictor]: ...

    def deepcopy(self) -> _Program: ...

    def __call__(self, **inputs: str) -> object: ...


@dataclass(frozen=True, slots=True)
class _DspySystem:
    """A program that is compiled anew for each context."""

    compiled: Callable[[list[object]], _Program]
    name: str

    def open(self, context: Context) -> _DspySession:
        return _DspySession(self.compiled([_example(one, self.name) for one in context]), self.name)


@dataclass(frozen=True, slots=True, repr=False)
class _DspySession:
    """A compiled program."""

    program: _Program
    name: str

    def ask(self, query: str) -> Reply:
        first, last = _fields(self.program)
        answer = self.program(**{first: query})
        return as_reply(str(getattr(answer, last)), self.name)

    def close(self) -> None:
        """Nothing to do."""


def dspy_system(thing: object, name: str) -> _DspySystem | None:
    """The system that a DSPy object stands for."""
    if MODULE in bases(thing):
        program = cast(_Program, thing)
        return _DspySystem(lambda examples: _with_demos(program, examples), name)
    if not inspect.isfunction(thing) or list(inspect.signature(thing).parameters) != ["trainset"]:
        return None
    return _DspySystem(cast("Callable[[list[object]], _Program]", thing), name)


def _with_demos(program: _Program, examples: list[object]) -> _Program:
    """A copy, whose examples have the names of the program's own fields."""
    from dspy import Example as Demo

    made = program.deepcopy()
    for predictor in made.predictors():
        first, last = _ends(predictor)
        predictor.demos = [
            Demo(**{first: one["input"], last: one["label"]})
            for one in cast("Iterable[Mapping[str, str]]", examples)
        ]
    return made


def _example(example: Example, name: str) -> object:
    """Fields `input` and `label`, and those that examples of question answering usually have."""
    from dspy import Example as Demo

    text = text_only(example.input, name)
    fields = {"input": text, "label": example.label, "question": text, "answer": example.label}
    return Demo(**fields).with_inputs("input", "question")


def _fields(program: _Program) -> tuple[str, str]:
    predictors = program.predictors()
    return _ends(predictors[0])[0], _ends(predictors[-1])[1]


def _ends(predictor: _Predictor) -> tuple[str, str]:
    """Names of the first input and of the last output: reasoning stands before the answer."""
    signature = predictor.signature
    return next(iter(signature.input_fields)), list(signature.output_fields)[-1]
