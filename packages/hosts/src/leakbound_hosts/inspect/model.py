"""A model of inspect_ai as a model of leakbound: `inspect/<provider>/<model>`."""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, TypeVar, cast

from leakbound._install import install_hint
from leakbound.errors import TargetError, UsageError
from leakbound.models import Complete, Request
from leakbound.models.content import Chat, Parts
from leakbound.models.http.blocking import LoopThread
from leakbound.models.request import Prompt, prompt_seed

R = TypeVar("R")
Texts = Callable[[Sequence[Complete]], Coroutine[Any, Any, list[str]]]
RunTexts = Callable[[Texts, Sequence[Complete]], list[str]]
CompleteOne = Callable[[Complete], Coroutine[Any, Any, str]]


def open_inspect(name: str) -> InspectModel:
    """Open a model of inspect_ai outside an evaluation: what follows `inspect/` in an address."""
    if importlib.util.find_spec("inspect_ai") is None:
        raise TargetError(
            f"inspect/{name} needs inspect_ai; install it with: {install_hint('inspect')}."
        )
    from inspect_ai.model import get_model

    try:
        model = get_model(name)
    except Exception as error:
        raise TargetError(
            f"inspect_ai cannot open the model {name!r} ({' '.join(str(error).split())}); give a "
            "provider and a model that it knows, such as inspect/openai/gpt-4o-mini."
        ) from error
    return InspectModel(str(model), partial(completion, model), _Outside().run)


class _Outside:
    """One event loop for all calls: the clients of a model are bound to the loop they began in."""

    def __init__(self) -> None:
        self._loop: LoopThread | None = None

    def run(self, work: Texts, of: Sequence[Complete]) -> list[str]:
        self._loop = self._loop or LoopThread("leakbound-inspect")
        return self._loop.run(work(of))


class InspectModel:
    """Completions of a model that inspect_ai opened.

    The provider is asked as in any evaluation: its retries, its limit of connections and its log
    hold. Of an answer, what stands before the first stop of the request counts, blank lines at its
    beginning left out; stops are not sent, because some providers refuse a line break as a stop.
    """

    supports: frozenset[type[Request[object]]] = frozenset({Complete})
    limits: tuple[str, ...] = ()
    may_change = True

    def __init__(self, asked: str, complete: CompleteOne, run: RunTexts) -> None:
        self._asked, self._complete, self._run = asked, complete, run

    @property
    def name(self) -> str:
        return f"inspect/{self._asked}"

    @property
    def fingerprint(self) -> str:
        """Hash of the name; the provider may change the model behind it."""
        return fingerprint_of(self._asked)

    def why(self, kind: type[Request[object]]) -> str:
        """Why a kind of request is not answered."""
        return (
            f"models of inspect_ai are asked for text, and {kind.__name__} needs more; use a "
            "mechanism or query that asks for text, or an address such as openai/... or hf/..."
        )

    def check(self, requests: Sequence[Request[object]], /) -> None:
        """Refuse other requests than completions of texts and messages."""
        for request in requests:
            if not isinstance(request, Complete):
                raise TargetError(f"{self.name} cannot answer {type(request).__name__}: "
                                  f"{self.why(type(request))}")  # fmt: skip
            if isinstance(request.prompt, Parts | tuple):
                raise TargetError(
                    f"{self.name} takes no images and no token ids here; use text or messages."
                )

    def answer(self, requests: Sequence[Request[R]], /) -> list[R]:
        """Answer requests, all at once; inspect_ai limits how many are under way."""
        self.check(requests)
        return cast("list[R]", self._run(self._texts, cast("Sequence[Complete]", requests)))

    async def _texts(self, requests: Sequence[Complete]) -> list[str]:
        import anyio

        found = [""] * len(requests)

        async def one(at: int) -> None:
            found[at] = await self._text(requests[at])

        try:
            async with anyio.create_task_group() as group:
                for at in range(len(requests)):
                    group.start_soon(one, at)
        except BaseExceptionGroup as several:  # inspect_ai knows its own errors by their type
            raise several.exceptions[0] from several
        return found

    async def _text(self, request: Complete) -> str:
        begun = (await self._complete(request)).lstrip()
        ends = [at for part in request.stop if (at := begun.find(part)) >= 0]
        return begun[: min(ends, default=None)]


async def completion(model: object, request: Complete) -> str:
    """What a model of inspect_ai writes."""
    from inspect_ai.model import GenerateConfig, Model

    if not isinstance(model, Model):
        raise UsageError(
            f"the model is {type(model).__name__}; it must be one of inspect_ai, such as "
            "get_model() gives."
        )
    sampled = request.temperature > 0
    config = GenerateConfig(
        max_tokens=request.max_tokens,
        temperature=request.temperature,
        seed=(prompt_seed(request.prompt) + request.draw) % (1 << 31) if sampled else None,
    )
    output = await model.generate(messages_of(request.prompt), config=config)
    return str(output.completion)


def fingerprint_of(name: str) -> str:
    """Names the answers of a model."""
    return hashlib.sha256(f"inspect/{name}".encode()).hexdigest()[:16]


def messages_of(prompt: Prompt) -> list[object]:
    """A prompt as messages of inspect_ai; a text is that of a user."""
    from inspect_ai.model import ChatMessageAssistant, ChatMessageSystem, ChatMessageUser

    kinds = {
        "system": ChatMessageSystem, "developer": ChatMessageSystem,
        "user": ChatMessageUser, "assistant": ChatMessageAssistant,
    }  # fmt: skip
    if isinstance(prompt, Chat):
        return [kinds[one.role](content=one.content) for one in prompt.messages]
    return [ChatMessageUser(content=str(prompt))]
