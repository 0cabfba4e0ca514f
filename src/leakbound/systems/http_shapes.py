"""How services behind HTTP usually take a context and a query, and where replies hold the answer.

Everything here reads replies to requests about made-up rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from leakbound.systems.http_config import ROWS, slots_of

if TYPE_CHECKING:
    from pydantic import JsonValue

CONTEXTS = (
    "context", "contexts", "rows", "documents", "docs", "examples", "records", "notes", "data",
    "passages", "knowledge",
)  # fmt: skip
QUERIES = ("query", "question", "prompt", "message", "input", "text", "q", "user_input")
TEXTS: JsonValue = ["{text}"]
FORMS: tuple[JsonValue, ...] = ("{context}", TEXTS, "{rows}")
CHAT: JsonValue = {
    "messages": [
        {"role": "system", "content": "Answer from these notes.\n\n{context}"},
        {"role": "user", "content": "{query}"},
    ]
}
BODIES: tuple[JsonValue, ...] = (
    {"context": "{context}", "query": "{query}"},
    {"context": "{context}", "question": "{query}"},
    {"rows": "{rows}", "query": "{query}"},
    {"rows": "{rows}", "question": "{query}"},
    {"documents": TEXTS, "query": "{query}"},
    {"documents": TEXTS, "question": "{query}"},
    {"context": "{context}", "prompt": "{query}"},
    {"context": "{context}", "message": "{query}"},
    CHAT,
)
# Names of what holds an answer, the likeliest first.
ANSWERS = (
    "answer", "response", "reply", "output", "output_text", "result", "completion", "text",
    "content", "generated_text", "message", "label", "prediction",
)  # fmt: skip
ERRORS = ("error", "errors", "detail", "traceback")
NO_ANSWERS = frozenset({*ERRORS, "details", "status", "id", "model", "object", "role"})
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,39}")
DEPTH = 5  # choices -> item -> message -> content -> parts


def missing_fields(reply: JsonValue) -> list[str]:
    """The fields that a service says it lacks, as FastAPI and pydantic write it.

    Examples:
        >>> missing_fields({"detail": [{"type": "missing", "loc": ["body", "notes"]}]})
        ['notes']
    """
    return [name for name, kind in _complaints(reply) if "missing" in kind]


def _complaints(reply: JsonValue) -> Iterator[tuple[str, str]]:
    """Fields of the body, and what is wrong with each."""
    found = reply.get("detail") if isinstance(reply, dict) else None
    for one in found if isinstance(found, list) else ():
        place = one.get("loc") if isinstance(one, dict) else None
        if not isinstance(one, dict) or not isinstance(place, list) or len(place) < 2:
            continue
        if place[0] == "body" and isinstance(place[1], str) and NAME.fullmatch(place[1]):
            yield place[1], str(one.get("type"))


def bodies_for(reply: JsonValue, sent: JsonValue) -> list[JsonValue]:
    """Requests that a service may accept in place of one that it refused."""
    complaints = dict(_complaints(reply))
    if not complaints or not isinstance(sent, dict) or len(sent) != 2:
        return []
    missing = [name for name, kind in complaints.items() if "missing" in kind]
    context, query = _roles(missing)
    if len(missing) > sum(name is not None for name in (context, query)):
        return []
    own_context, own_query = sent
    return [{context or own_context: form, query or own_query: "{query}"} for form in FORMS]


def bodies_of_schema(openapi: JsonValue, path: str) -> list[JsonValue]:
    """Requests that a service takes by its own description."""
    schema = _resolved(openapi, _within(openapi, "paths", path, "post", "requestBody", "content",
                                        "application/json", "schema"))  # fmt: skip
    fields = _within(schema, "properties")
    if not isinstance(fields, dict) or not all(map(NAME.fullmatch, fields)):
        return []
    forms = {name: _form(openapi, field) for name, field in fields.items()}
    lists = [name for name, form in forms.items() if isinstance(form, list)]
    texts = [name for name, form in forms.items() if isinstance(form, str)]
    query = next((name for name in QUERIES if name in texts), None)
    context = next((name for name in CONTEXTS if name in (lists or texts)), None)
    context = context or (lists[0] if len(lists) == 1 else None)
    return [{context: forms[context], query: "{query}"}] if context and query else []


def _form(openapi: JsonValue, field: JsonValue) -> JsonValue:
    """How a field takes rows; None where it takes none."""
    field = _resolved(openapi, field)
    kind = _within(field, "type")
    if kind != "array":
        return "{context}" if kind == "string" else None
    item = _resolved(openapi, _within(field, "items"))
    if _within(item, "type") == "string":
        return TEXTS
    needed = _within(item, "required")
    return [{needed[0]: "{text}"}] if isinstance(needed, list) and len(needed) == 1 else None


def _resolved(openapi: JsonValue, schema: JsonValue) -> JsonValue:
    """What a reference refers to, and of a choice with null the other."""
    for one in _within(schema, "anyOf") or ():
        if _within(one, "type") != "null":
            schema = one
            break
    name = _within(schema, "$ref")
    return _within(openapi, *name.split("/")[1:]) if isinstance(name, str) else schema


def _within(value: JsonValue, *steps: str) -> Any:
    for step in steps:
        value = value.get(step) if isinstance(value, dict) else None
    return value


def _roles(missing: Sequence[str]) -> tuple[str | None, str | None]:
    """Which missing field takes the context and which the query; of two, one may be any name."""
    query = next((name for name in QUERIES if name in missing), None)
    context = next((name for name in CONTEXTS if name in missing), None)
    others = [name for name in missing if name not in (query, context)]
    if len(missing) == 2 and len(others) == 1:
        return (context, others[0]) if query is None else (others[0], query)
    return context, query


def without_context(body: JsonValue) -> JsonValue | None:
    """The same request without its context."""
    if not isinstance(body, dict):
        return None
    left = {key: value for key, value in body.items() if not slots_of(value) & ROWS}
    return left if len(left) < len(body) else None


def is_error(reply: JsonValue) -> bool:
    """Whether a reply says that something went wrong, whatever its status.

    Examples:
        >>> is_error({"error": "no question"}), is_error({"error": None, "answer": "yes"})
        (True, False)
    """
    return isinstance(reply, dict) and any(reply.get(name) for name in ERRORS)


def text_paths(reply: JsonValue) -> dict[str, str]:
    """The texts of a reply.

    Examples:
        >>> text_paths({"choices": [{"message": {"content": "yes"}}]})
        {'choices.0.message.content': 'yes'}
    """
    return dict(_texts(reply, ()))


def _texts(reply: JsonValue, path: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    if isinstance(reply, str) and reply.strip() and path:
        yield ".".join(path), reply
    if len(path) == DEPTH:
        return
    if isinstance(reply, list):
        for number, item in enumerate(reply):
            yield from _texts(item, (*path, str(number)))
    elif isinstance(reply, Mapping):
        for key, value in reply.items():
            if NAME.fullmatch(key):
                yield from _texts(value, (*path, key))


def answer_path(paths: Sequence[str]) -> str | None:
    """The path of the answer among those of all texts of a reply.

    Examples:
        >>> answer_path(["id", "answer", "sources.0.text"])
        'answer'
        >>> answer_path(["left", "right"]) is None
        True
    """
    left = [path for path in paths if not NO_ANSWERS & set(path.lower().split("."))]
    named = [path for path in left if _name(path) in ANSWERS]
    if named:
        return min(named, key=lambda path: (ANSWERS.index(_name(path)), path.count(".")))
    return left[0] if len(left) == 1 else None


def _name(path: str) -> str:
    """The last step of a path that is no number."""
    steps = [step for step in path.lower().split(".") if not step.isdigit()]
    return steps[-1] if steps else ""
