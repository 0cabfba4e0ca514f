"""UserSystem: any Python callable (context, query) -> str is a system, auditable from outside."""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from contextleak.errors import ContextleakError, TargetError, UsageError
from contextleak.icl import Access, CategoricalLaw, Clean, Context, Job, Releases, Task
from contextleak.mechanisms.answering import Answering
from contextleak.mechanisms.single import as_given, heard
from contextleak.models import Ask, Model
from contextleak.privacy import Guarantee, NonPrivate

__all__ = ["UserSystem", "load_callable"]

Answerer = Callable[[Context, str], str] | Callable[[Context, str], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class UserSystem(Answering):
    """Calls `function(context, query_text)` once per trial (sync or async); the operator states the guarantee, if any."""

    access: ClassVar[frozenset[Access]] = frozenset({"black_box"})
    needs: ClassVar[frozenset[type[Ask[Any]]]] = frozenset()
    function: Answerer = field(repr=False)
    name: str = "user_system"
    guarantee: Guarantee = field(default_factory=NonPrivate)

    def asks(self, task: Task, job: Job, draw: int) -> list[Ask[Any]]:
        """None: the callable asks its own model."""
        return []

    def collect(self, task: Task, jobs: Sequence[Job], draws: Sequence[int], model: Model) -> list[Clean]:
        """One call a job; async callables run together."""
        texts = self._answers(jobs)
        return [heard(task, job.query, text) for job, text in zip(jobs, texts, strict=True)]

    def _answers(self, jobs: Sequence[Job]) -> list[str]:
        """What the callable raises is told by its type only: its message may hold private text."""
        try:
            if inspect.iscoroutinefunction(self.function):
                return asyncio.run(self._all(jobs))
            return [self._text(self.function(job.context, job.query.text)) for job in jobs]
        except ContextleakError:
            raise
        except Exception as error:
            raised = type(error).__name__
            raise TargetError(f"the system {self.name!r} raised {raised}; call it by itself to see why.") from None

    async def _all(self, jobs: Sequence[Job]) -> list[str]:
        replies = await asyncio.gather(*(self.function(job.context, job.query.text) for job in jobs))  # type: ignore[arg-type]
        return [self._text(reply) for reply in replies]

    def _text(self, reply: Any) -> str:
        if not isinstance(reply, str):
            raise TargetError(
                f"the system {self.name!r} returned {type(reply).__name__}; it must return the answer as str."
            )
        return reply

    def release(self, clean: Clean, draws: int, rng: np.random.Generator) -> Releases:
        """The answer that was given; a callable has one release per call."""
        return as_given(clean, draws)

    def law(self, clean: Clean) -> CategoricalLaw | None:
        """Unknown."""
        return None


def load_callable(address: str) -> UserSystem:
    """The callable at `python:file.py:object`."""
    scheme, _, rest = address.partition(":")
    path, _, attribute = rest.rpartition(":")
    file = Path(path)
    if scheme != "python" or not path or not attribute:
        raise UsageError(f"the system address {address!r} is not of the form python:file.py:object.")
    if not file.is_file():
        raise TargetError(f"the file {path!r} of the system {address!r} does not exist.")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise TargetError(f"{path!r} is no Python file; give a file that ends in .py.")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise TargetError(
            f"{path!r} cannot be imported ({type(error).__name__}); run it by itself to see why."
        ) from None
    function = getattr(module, attribute, None)
    if not callable(function):
        raise TargetError(f"{path!r} has no callable {attribute!r}; it must define {attribute}(context, query) -> str.")
    answerer: Any = function() if inspect.isclass(function) else function
    return UserSystem(answerer, name=f"python:{file.name}:{attribute}")
