"""Systems made of a Python callable `(context, query) -> answer`, synchronous or not."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import NoneType, UnionType
from typing import Any, ClassVar, TypeAlias, Union, cast, get_args, get_origin, get_type_hints

from leakbound._catalogue import entries_of
from leakbound.errors import LeakboundError, TargetError, UsageError, kind_of
from leakbound.models.content import join, text_only
from leakbound.models.http.blocking import ToEnd, run_blocking
from leakbound.systems.calls import place_of
from leakbound.systems.protocol import (
    AsyncSession,
    AsyncSystem,
    FunctionSession,
    Reply,
    Session,
    System,
)
from leakbound.systems.replies import as_reply, finish, finish_async
from leakbound.tasks import Context, Example, Task
from leakbound.tasks.example import TextRow

# (context, query) -> a text, a mapping or object that `as_reply` takes, or an awaitable of one
Answerer: TypeAlias = Callable[[Context, str], object]
# Names of the method that answers, the first that takes both context and query wins; a
# synchronous one before its asynchronous twin, which need not bear several calls at once.
METHODS = (
    "answer", "invoke", "ainvoke", "query", "aquery", "predict", "apredict", "run", "arun",
)  # fmt: skip
ONE_INPUT = ("invoke", "ainvoke")  # of a LangChain runnable: a mapping that fills its prompt
# Names of what takes rows, and of what takes the question, of services, too; the likeliest first.
CONTEXTS = (
    "context", "contexts", "rows", "documents", "docs", "examples", "records", "notes", "data",
    "passages", "knowledge", "chunks", "snippets", "sources", "knowledge_base", "kb", "corpus",
    "transcript", "history", "background", "memory", "facts", "evidence", "document", "passage",
)  # fmt: skip
# Of a conversation: no documents, where something else may be.
PAST = ("history", "chat_history", "conversation", "memory", "transcript")
ASKED = (  # and never a context, as a text or an input may be
    "query", "question", "prompt", "message", "q", "user_input", "user_message", "user_query",
    "utterance", "instruction", "user",
)  # fmt: skip
QUERIES = (*ASKED[:4], "input", "text", *ASKED[4:])
NO_TEXTS = (dict, Mapping, tuple, list, bytes, int, float)
SEQUENCES = (list, Sequence, Collection, Iterable)


def make_object(thing: object, name: str, options: Mapping[str, object]) -> object:
    if inspect.isclass(thing):
        return _call(thing, name, options, "its class")
    if inspect.isroutine(thing) or isinstance(thing, functools.partial):
        function = cast("Callable[..., object]", thing)
        if options and _binds(function, (), "", **options):
            return functools.partial(function, **options)
        if not _binds(function, (), "") and _binds(function, **options):
            return _call(function, name, options, "its factory")
    if options:
        takes = _signature_of(thing)
        raise TargetError(
            f"the system {name!r} takes no option {next(iter(options))!r}; options are arguments "
            f"of a class, a factory or a function{f', and it takes {takes}' if takes else ''}."
        )
    return thing


def _call(
    make: Callable[..., object], name: str, options: Mapping[str, object], what: str
) -> object:
    try:
        return make(**options)
    except LeakboundError:
        raise
    except (Exception, SystemExit) as error:
        given = f"with {', '.join(options)}" if options else "without arguments"
        names = ", ".join(signature.parameters) if (signature := _signature_of(make)) else ""
        takes = f" ({names})" if names else ""
        fits = _binds(make, **options)
        hint = "" if fits else f" Give what it takes{takes} with --system-option."
        raise TargetError(
            f"the system {name!r} could not be made: {what} raised "
            f"{kind_of(error)}{place_of(error)} {given}.{hint}"
        ) from None


def answerer(thing: object, name: str, options: Mapping[str, object] | None = None) -> Answerer:
    """Find what to call with `(context, query)`.

    Args:
        thing: A callable, an object with one of `METHODS`, or a class or factory of one of these.
        options: Arguments of the class or factory.

    Raises:
        TargetError: If there is nothing to call with a context and a query.
    """
    made = make_object(thing, name, options or {})
    found = list(_methods(made))
    for method, call in found:
        if (wrapped := _call_with_both(method, call)) is not None:
            return wrapped
    if not found:
        kind = "None" if made is None else f"an object of the class {type(made).__name__}"
        kind += " (made by a call without a context)" if made is not thing else ""
        raise TargetError(
            f"the system {name!r} is {kind}, which cannot be called; it must be callable, or have "
            f"a method answer(context, query) or open(context), or one of {', '.join(METHODS[1:])}."
        )
    method, call = found[0]
    where = "" if method in ("", "answer") else f" in its method {method}"
    raise TargetError(
        f"the system {name!r} takes {inspect.signature(call)}{where}; it must take (context, "
        "query), or what it answers from must reach it in another way: a class with "
        "open(context), which returns what answers."
    )


def _methods(made: object) -> Iterator[tuple[str, Callable[..., object]]]:
    """What may be called; a callable comes first."""
    if callable(made):
        yield "", made
    for name in METHODS:
        found: object = getattr(made, name, None)
        if callable(found):
            yield name, found


def _call_with_both(method: str, call: Callable[..., object]) -> Answerer | None:
    """The method as `(context, query)`; None if it does not take both."""
    if (signature := _signature_of(call)) is None:
        return _in_form(call, ROWS)
    parameters = signature.parameters.values()
    if method in ONE_INPUT and sum(map(_is_needed, parameters)) == 1:
        return _with(call, lambda context, query: ((inputs(context, query),), {}), ONE_TEXT)
    if method in ("", "answer"):
        return _in_their_order(call) if _binds(call, (), "") else None
    named = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    first = next((name for name in CONTEXTS if name in named), None)
    second = next((name for name in QUERIES if name in named), None)
    if first is not None and second is not None:
        return _by_name(call, first, second)
    both = sum(map(_is_needed, parameters)) == 2 and _binds(call, (), "")
    return _in_their_order(call) if both else None


def _in_their_order(call: Callable[..., object]) -> Answerer:
    """The function as `(context, query)`; by name where annotations or names say so."""
    parameters = list(inspect.signature(call).parameters.values())
    if (told := _by_names(call, parameters)) is not None:
        return _by_name(call, *told)
    names = [one.name for one in parameters[:2] if one.kind is one.POSITIONAL_OR_KEYWORD]
    if len(names) < 2:
        return _in_form(call, ROWS)
    forms = [form_of(call, name) for name in names]
    first, second = names
    many = [one in (TEXTS, TUPLE, LIST) for one in forms]
    asked = first in ASKED and second not in ASKED
    named = asked or (first not in CONTEXTS and second in CONTEXTS)
    if many == [False, True] or (many[0] == many[1] and named):
        return _by_name(call, second, first)
    words = f"{forms[0].words} as {first!r}, the question as {second!r}"
    if many[0] == many[1] and first not in CONTEXTS and second not in QUERIES:
        words += " (no name or annotation says so: check that rows come first)"
    return _in_form(call, replace(forms[0], words=words))


def _by_names(
    call: Callable[..., object], parameters: Sequence[inspect.Parameter]
) -> tuple[str, str] | None:
    """The parameters of context and query by name, where the first two are not both; or None."""
    named = [one for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
    names, needed = [one.name for one in named], [one.name for one in named if _is_needed(one)]
    found = [name for name in names if name in CONTEXTS or _is_list(call, name)]
    contexts = [name for name in found if name not in PAST] or found
    first = any(name in needed[:2] for name in contexts) or not contexts
    if len(named) < 3 or (needed == names[:2] and first):
        return None
    if len(contexts) > 1:
        contexts = [name for name in contexts if name in needed] or contexts
    asked = [name for name in names if name in QUERIES and name not in contexts]
    if len(asked) > 1:
        asked = [name for name in asked if name in ASKED] or asked
    asked = asked or [name for name in needed if name not in contexts]
    if len(contexts) == len(asked) == 1 and {*needed} <= {*contexts, *asked}:
        return contexts[0], asked[0]
    raise TargetError(
        f"a function takes ({', '.join(names)}), and it does not say which of them takes the rows "
        "and which the question; give one of two parameters, such as def answer(documents, "
        "question), which calls it."
    )


def _is_list(call: Callable[..., object], name: str) -> bool:
    try:
        return form_of(call, name) in (TEXTS, TUPLE, LIST, EXAMPLES)
    except TargetError:
        return False


def _by_name(call: Callable[..., object], context: str, query: str) -> Answerer:
    form = form_of(call, context)
    told = replace(form, words=f"{form.words} as {context!r}, the question as {query!r}")
    return _with(call, lambda rows, asked: ((), {context: form.of(rows), query: asked}), told)


def _in_form(call: Callable[..., object], form: _Form) -> Answerer:
    return _with(call, lambda context, query: ((form.of(context), query), {}), form)


@dataclass(frozen=True, slots=True)
class _Form:
    """How a function gets its context."""

    of: Callable[[Context], object] = field(repr=False)
    words: str  # for `n` rows


def as_rows(context: Context) -> tuple[Example | TextRow, ...]:
    """Texts with labels; rows with images stay examples."""
    return tuple(TextRow.of(row) if isinstance(row.input, str) else row for row in context)


def as_texts(context: Context) -> list[str]:
    return [text_only(row.input, "a system that takes a list of texts") for row in context]


def as_one_text(context: Context) -> str:
    return text_only(join(map(Task("system").block, context)), "a system that takes a text")


TEXTS = _Form(as_texts, "{n} rows as {n} texts")
TUPLE = _Form(lambda context: tuple(as_texts(context)), "{n} rows as {n} texts")
ONE_TEXT = _Form(as_one_text, "{n} rows as one text")
EXAMPLES = _Form(lambda context: context, "{n} rows as {n} objects with .text and .label")
ROWS = _Form(as_rows, "{n} rows as {n} texts that have a .label")
LIST = _Form(lambda context: [*as_rows(context)], "{n} rows as {n} texts that have a .label")


def form_of(call: Callable[..., object], parameter: str) -> _Form:
    function = _within(call)
    if not inspect.isroutine(function):
        function = type(function).__call__
    declared = _annotation_of(function, parameter)
    if (form := _form_of(declared)) is None:
        raise TargetError(
            f"a function takes {parameter!r} as {getattr(declared, '__name__', declared)}, and "
            "rows are texts; declare it as list[str], or as str for all of them in one text."
        )
    return form


def _within(call: Callable[..., object]) -> Callable[..., object]:
    """What partials and decorators call, whatever kind of object these are."""
    if isinstance(call, functools.partial):
        return _within(call.func)
    inner = inspect.unwrap(call)
    return call if inner is call else _within(inner)


def _annotation_of(function: Callable[..., object], parameter: str) -> object:
    """What a parameter is declared as; None where only a type checker sees its name."""

    def alone() -> None: ...

    written = getattr(function, "__annotations__", {})
    alone.__annotations__ = {name: written[name] for name in (parameter,) if name in written}
    names = {**vars(typing), **getattr(inspect.unwrap(function), "__globals__", {})}
    try:
        return get_type_hints(alone, names, include_extras=False).get(parameter)
    except Exception:  # whatever an annotation does
        return None


def _mentions_examples(declared: object) -> bool:
    return declared is Example or any(map(_mentions_examples, get_args(declared)))


def _form_of(declared: object) -> _Form | None:
    """None of a type that holds no text."""
    if get_origin(declared) in (Union, UnionType):
        forms = [_form_of(one) for one in get_args(declared) if one is not NoneType]
        known = [one for one in (TEXTS, TUPLE, LIST, ONE_TEXT, EXAMPLES, ROWS) if one in forms]
        return next(iter(known), None)
    if declared is str:
        return ONE_TEXT
    if _mentions_examples(declared):
        return EXAMPLES
    kind, (item, *_) = get_origin(declared) or declared, (*get_args(declared), None)
    if kind is tuple or kind in SEQUENCES:
        if item is str:
            return TUPLE if kind is tuple else TEXTS
        return None if _holds_no_text(item) else ROWS if kind is tuple else LIST
    return None if _holds_no_text(kind) else ROWS


def _holds_no_text(kind: object) -> bool:
    """Of mappings, numbers and bytes, and of tuples without names and lists in a list."""
    kinds = getattr(get_origin(kind) or kind, "__mro__", ())
    return not hasattr(kind, "_fields") and any(one in kinds for one in NO_TEXTS)


def _is_needed(parameter: inspect.Parameter) -> bool:
    positional = parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    return positional and parameter.default is parameter.empty


Arguments: TypeAlias = Callable[[Context, str], tuple[tuple[object, ...], dict[str, object]]]


def _with(call: Callable[..., object], arguments: Arguments, form: _Form) -> Answerer:
    """The method behind a function that arranges its arguments; asynchronous if it is."""

    def at_once(context: Context, query: str) -> object:
        given, named = arguments(context, query)
        return call(*given, **named)

    async def later(context: Context, query: str) -> object:
        answer = at_once(context, query)
        return await answer if inspect.isawaitable(answer) else answer

    arranged = later if is_async(call) else at_once
    arranged.__dict__.update(stateful=says_stateful(call), takes=form.words)
    return arranged


def inputs(context: Context, query: str) -> dict[str, object]:
    """What a runnable that takes one mapping gets; it reads the names that its prompt has."""
    text = as_one_text(context)
    rows = [{"input": row.input, "label": row.label} for row in context]
    return {"context": text, "rows": rows, "query": query, "question": query, "input": query}


def _binds(call: Callable[..., object], *given: object, **named: object) -> bool:
    if (signature := _signature_of(call)) is None:
        return not named
    try:
        signature.bind(*given, **named)
    except TypeError:
        return False
    return True


def _signature_of(thing: Any) -> inspect.Signature | None:
    """None of what cannot be called, and of some built-in callables."""
    try:
        return inspect.signature(thing)
    except (TypeError, ValueError):
        return None


def says_stateful(thing: object) -> bool:
    """Whether an object says that it keeps state between calls, or one that it is made of."""
    if isinstance(thing, functools.partial):
        return says_stateful(thing.func)
    owner = getattr(thing, "__self__", None)
    wrapped = inspect.getattr_static(thing, "__wrapped__", None)
    if getattr(thing, "stateful", False) or getattr(owner, "stateful", False):
        return True
    return wrapped is not None and says_stateful(wrapped)


def is_async(function: Callable[..., object]) -> bool:
    """Whether what a callable returns is awaited, or read in an event loop."""
    both = (function, type(function).__call__)
    kinds = (inspect.iscoroutinefunction, inspect.isasyncgenfunction)
    return any(kind(one) for kind in kinds for one in both)


# async calls at once: each may hold a connection, and a process may open about a thousand files
TOGETHER = 64


@dataclass(frozen=True, slots=True)
class CallableSystem:
    """Calls a plain function once for each query.

    Attributes:
        function: Called as `(context, query)`.

    Raises:
        TargetError: If the function cannot be called so.
    """

    function: Answerer = field(repr=False)
    name: str = "system"

    @property
    def stateful(self) -> bool:
        """Whether the function or its object says so: then calls are made one by one."""
        return says_stateful(self.function)

    def __post_init__(self) -> None:
        _require_two_arguments(self.function, self.name)

    def open(self, context: Context) -> Session:
        """A session whose every call gets the context (PRIVATE)."""

        def ask(query: str) -> Reply:
            return as_reply(finish(self.function(context, query)), self.name)

        return FunctionSession(ask)


@dataclass(frozen=True, slots=True)
class AsyncCallableSystem(AsyncSystem):
    """Calls an asynchronous function once for each query.

    Attributes:
        function: Called as `(context, query)`, and awaited.
        concurrency: Calls that may run at once.

    Raises:
        TargetError: If the function cannot be called so.
    """

    function: Answerer = field(repr=False)
    name: str = "system"
    concurrency: int = TOGETHER

    def __post_init__(self) -> None:
        _require_two_arguments(self.function, self.name)

    async def open_async(self, context: Context) -> AsyncSession:
        async def ask(query: str) -> Reply:
            return as_reply(await finish_async(self.function(context, query)), self.name)

        async def close() -> None:
            """Nothing to do."""

        return FunctionSession(ask, close)


OWN = ("plant", "remove", "ask")  # of an application that keeps records by itself


@dataclass(frozen=True, slots=True)
class _OwnRecords:
    stateful: ClassVar[bool] = True
    application: Any = field(repr=False)
    name: str

    def plant(self, record: Example) -> object:
        return self.application.plant(record)

    def remove(self, record_id: str) -> object:
        return self.application.remove(record_id)

    def open(self, context: Context) -> Session:
        if context:
            raise UsageError(
                f"the system {self.name!r} answers from what it keeps, and no other context can be "
                "put in place; add --design deletion, or --design one_run --documents 0."
            )
        return FunctionSession(session_of(self.application, self.name).ask)


def adapt(thing: object, name: str) -> System | None:
    adapters = (entry.load() for entry in entries_of("leakbound.adapters"))
    return next((found for one in adapters if (found := one(thing, name)) is not None), None)


def as_system(thing: object, name: str, options: Mapping[str, object] | None = None) -> System:
    """The system that an object of a user stands for.

    Args:
        thing: A `System`; an object that an adapter knows (`leakbound_hosts.adapters`), such as
            a vector store or a chain over one; a callable `(context, query) -> answer`; an object
            with such a method `answer`, `invoke`, `query`, `predict` or `run`, or with an `invoke`
            that takes one mapping; or a class or factory of one of these. Callables may be
            asynchronous: their calls run together, 64 at most, or one by one where the object has
            `stateful = True`.
        options: Arguments of the class or factory, by name.

    Raises:
        TargetError: If the object is none of these.
    """
    made = make_object(thing, name, options or {})
    if callable(getattr(made, "open_tenant", None)):
        return cast(System, made)  # of tenants; without `open`, other designs refuse it
    if all(callable(getattr(made, part, None)) for part in OWN) and not hasattr(made, "open"):
        return _OwnRecords(made, name)
    if (known := adapt(made, name)) is not None:
        return known
    if isinstance(made, AsyncSystem):
        return made
    if not callable(made) and not hasattr(made, "answer") and isinstance(made, System):
        return made
    function = answerer(made, name)
    if not is_async(function):
        return CallableSystem(function, name)
    stateful = says_stateful(made) or says_stateful(function)
    return AsyncCallableSystem(function, name, 1 if stateful else TOGETHER)


def _require_two_arguments(function: Answerer, name: str) -> None:
    if not _binds(function, (), ""):
        raise TargetError(
            f"the system {name!r} takes {inspect.signature(function)}; it must take (context, "
            "query)."
        )


# LangChain, LlamaIndex, scikit-learn, Haystack, agents: each takes a query, under another name
QUERY_METHODS = ("invoke", "query", "predict", "run", "__call__")


def session_of(opened: object, name: str, run: ToEnd = run_blocking) -> Session:
    """The session that an opened object stands for; what it awaits is run so."""
    ask: object = getattr(opened, "ask", None)
    later = is_async(ask) or inspect.isgeneratorfunction(ask) if callable(ask) else True
    if not later and callable(getattr(opened, "close", None)):
        return cast(Session, opened)
    named = (getattr(opened, method, None) for method in ("ask", *QUERY_METHODS))
    call: Any = next(filter(callable, named), None)
    if call is None:
        raise TargetError(
            f"the system {name!r} opened {type(opened).__name__}; it must open an object with a "
            f"method ask(query), or one of {', '.join(QUERY_METHODS)}."
        )
    close: object = getattr(opened, "close", None)
    return FunctionSession(
        lambda query: as_reply(finish(call(query), run), name),
        lambda: finish(close(), run) if callable(close) else None,
    )
