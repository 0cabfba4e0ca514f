"""Find out how a service behind HTTP is asked, with few requests about made-up rows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urljoin, urlsplit

from leakbound.errors import TargetError, UsageError
from leakbound.models.http.blocking import run_blocking
from leakbound.models.http.hosts import is_exposed
from leakbound.models.http.transport import AiohttpTransport, HttpReply, Transport, TransportError
from leakbound.systems.callable import CONTEXTS, PAST, QUERIES
from leakbound.systems.http.config import ROWS, is_plain, slots_of
from leakbound.systems.http.system import JSON_TYPE, fill_slots, other_than_json, row_values
from leakbound.systems.replies import ANSWERS, whole_reply
from leakbound.tasks import Context, Example
from leakbound.tasks.rows.fields import INPUT_FIELDS, LABEL_FIELDS, first_usual

if TYPE_CHECKING:
    from pydantic import JsonValue

ITEM_TEXTS = (
    "text", "content", "page_content", "body", "passage", "snippet", "document", "note",
    *INPUT_FIELDS,
)  # fmt: skip
NUMBERS = {"string": "r{number}", "integer": "{number}", "number": "{number}"}
TEXTS: JsonValue = ["{text}"]
OBJECTS: JsonValue = [{"text": "{text}"}]
FORMS: tuple[JsonValue, ...] = (TEXTS, "{context}", OBJECTS, "{rows}")
CHAT: JsonValue = {
    "messages": [
        {"role": "system", "content": "Answer from these notes.\n\n{context}"},
        {"role": "user", "content": "{query}"},
    ]
}
# A list first: what takes a text refuses it or shows its texts, while what takes a list and gets a
# text reads its letters.
BODIES: tuple[JsonValue, ...] = (
    *({"context": form, name: "{query}"} for name in ("query", "question") for form in FORMS[:2]),
    {"rows": "{rows}", "query": "{query}"},
    {"rows": "{rows}", "question": "{query}"},
    *(
        {"documents": form, name: "{query}"}
        for name in ("query", "question") for form in (TEXTS, OBJECTS, "{context}")
    ),
    *({"context": form, name: "{query}"} for name in ("prompt", "message") for form in FORMS[:2]),
    CHAT,
)  # fmt: skip
ERRORS = ("error", "errors", "detail", "traceback")
NO_ANSWERS = frozenset({*ERRORS, "details", "status", "id", "model", "object", "role"})
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,39}")
DEPTH = 5  # choices -> item -> message -> content -> parts


def _complaints(reply: JsonValue) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Places in the body, and what is wrong with each, as FastAPI and pydantic write it."""
    found = reply.get("detail") if isinstance(reply, dict) else None
    for one in found if isinstance(found, list) else ():
        place = one.get("loc") if isinstance(one, dict) else None
        if not isinstance(one, dict) or not isinstance(place, list) or place[:1] != ["body"]:
            continue
        steps = tuple(step for step in place[1:] if isinstance(step, int | str))
        names = [step for step in steps if isinstance(step, str)]
        if names and len(steps) == len(place) - 1 and all(map(NAME.fullmatch, names)):
            yield steps, str(one.get("type"))


def bodies_for(reply: JsonValue, sent: JsonValue) -> list[JsonValue]:
    """Requests that a service may accept in place of one that it refused."""
    if not isinstance(sent, dict) or len(sent) != 2:
        return []
    found = dict(_complaints(reply))
    needed = {place for place, kind in found.items() if "missing" in kind}
    items = {(str(place[0]), str(place[2])) for place in needed if len(place) == 3}
    if len(items) == 1 and len({place[0] for place in needed}) == 1:  # of objects in a list
        [(name, item)] = items
        return [{**sent, name: [{item: "{text}"}]}] if name in sent else []
    complaints = {str(place[0]): kind for place, kind in found.items()}
    if not complaints:
        return []
    missing = [name for name, kind in complaints.items() if "missing" in kind]
    context, query = _roles(missing)
    if len(missing) > sum(name is not None for name in (context, query)):
        return []
    own_context, own_query = sent
    return [{context or own_context: form, query or own_query: "{query}"} for form in FORMS]


def bodies_of_schema(openapi: JsonValue, path: str) -> list[JsonValue]:
    """Requests by a service's own description, one for each field that may take the rows."""
    schema = _resolve(openapi, _within(openapi, "paths", path, "post", "requestBody", "content",
                                        "application/json", "schema"))  # fmt: skip
    fields = _within(schema, "properties")
    if not isinstance(fields, dict) or not all(map(NAME.fullmatch, fields)):
        return []
    forms = {name: _form(openapi, field) for name, field in fields.items()}
    lists = [name for name, form in forms.items() if isinstance(form, list) and name != "messages"]
    texts = [name for name, form in forms.items() if isinstance(form, str)]
    query = next((name for name in QUERIES if name in texts), None)
    asked: dict[str, JsonValue]
    if query is not None:
        asked = {query: "{query}"}
    elif "messages" in fields:
        asked = {"messages": [{"role": "user", "content": "{query}"}]}
    else:
        return []
    named = [name for kind in (lists, texts) for name in CONTEXTS if name in kind and name != query]
    left = [name for name in lists if name not in named]
    needed = _within(schema, "required") or ()
    empty: dict[str, JsonValue] = {name: [] for name in lists} | dict.fromkeys(texts, "")
    filled = {name: one for name, one in empty.items() if name in needed and name not in asked}
    rows = sorted((*named, *left), key=lambda name: name in PAST)
    return [{**filled, **asked, name: forms[name]} for name in rows]


def _form(openapi: JsonValue, field: JsonValue) -> JsonValue:
    """How a field takes rows; None where it takes none."""
    choices: list[JsonValue] = [_form(openapi, one) for one in _within(field, "anyOf") or ()]
    if choices:  # null has no form, and a list comes before a text
        known = [one for one in choices if one is not None]
        return min(known, key=lambda one: not isinstance(one, list), default=None)
    field = _resolve(openapi, field)
    kind = _within(field, "type")
    if kind != "array":
        return "{context}" if kind == "string" else None
    item = _resolve(openapi, _within(field, "items"))
    if _within(item, "type") == "string":
        return TEXTS
    needed, fields = _within(item, "required"), _within(item, "properties") or {}
    if not isinstance(needed, list) or not needed:
        return None
    text = next((name for name in ITEM_TEXTS if name in needed), needed[0])
    if len(needed) > 1 and text not in ITEM_TEXTS:
        return None
    kinds = {name: _within(_resolve(openapi, one), "type") for name, one in fields.items()}
    strings = [name for name, kind in kinds.items() if kind == "string" and name != text]
    label = first_usual(LABEL_FIELDS, strings)
    filled = {text: "{text}", **({label: "{label}"} if label else {})}
    others = [name for name in needed if name not in filled]
    if any(kinds.get(name) not in NUMBERS for name in others):
        return None
    return [{**filled, **{name: NUMBERS[kinds[name]] for name in others}}]


def _resolve(openapi: JsonValue, schema: JsonValue) -> JsonValue:
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


def as_one_text(body: JsonValue) -> JsonValue:
    """The body with its rows as one text, where they are a list of texts; None elsewhere."""
    if not isinstance(body, dict) or TEXTS not in body.values():
        return None
    return {key: "{context}" if value == TEXTS else value for key, value in body.items()}


def without_context(body: JsonValue) -> JsonValue | None:
    """A request without the field, or the message, that holds the rows."""
    if not isinstance(body, dict):
        return None
    left: dict[str, JsonValue] = {
        key: value for key, value in body.items() if not slots_of(value) & ROWS
    }
    if isinstance(messages := body.get("messages"), list) and "messages" not in left:
        left["messages"] = [one for one in messages if not slots_of(one) & ROWS]
    return left if left != body else None


def _places(body: JsonValue) -> set[str]:
    fields = body.items() if isinstance(body, dict) else ()
    return {name for name, value in fields if slots_of(value) & ROWS}


def text_paths(reply: JsonValue) -> dict[str, str]:
    """The texts of a reply; one that has numbers alone is a text as a whole."""
    found = dict(_texts(reply, ()))
    return found or ({"": json.dumps(reply)} if reply and _has_numbers_alone(reply) else {})


def _has_numbers_alone(reply: JsonValue) -> bool:
    if isinstance(reply, dict | list):
        return all(map(_has_numbers_alone, reply.values() if isinstance(reply, dict) else reply))
    return isinstance(reply, int | float)


def _texts(reply: JsonValue, path: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    if isinstance(reply, str) and reply.strip():
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
    """The path of the answer among those of all texts of a reply."""
    left = [path for path in paths if not NO_ANSWERS & set(path.lower().split("."))]
    named = [path for path in left if _name(path) in ANSWERS]
    if named:
        return min(named, key=lambda path: (ANSWERS.index(_name(path)), path.count(".")))
    return left[0] if len(left) == 1 else None


def _name(path: str) -> str:
    """The last step of a path that is no number."""
    steps = [step for step in path.lower().split(".") if not step.isdigit()]
    return steps[-1] if steps else ""


MADE_UP = (
    Example("The printer on the second floor has no paper.", "office"),
    Example("The train to the coast leaves at nine.", "travel"),
    Example("The invoice of May was paid twice.", "billing"),
)
OTHERS = (Example("The printer in the hall is out of ink.", "office"), *MADE_UP[1:2])
QUESTION = "Which of these notes is about a printer?"
OTHER_QUESTION = "When does the train leave?"
MOST = 18  # requests for the form of a body
PATIENCE = 60.0  # seconds for one request
BUSY = frozenset({408, 425, 429, 502, 503, 504})
HINT = (
    "If it is a server of models, give its base URL, which ends in /v1, or name openai/MODEL "
    "beside it."
)
DESCRIBE = "describe the service in a file (http:FILE.yaml, docs/systems.md)"
BY_HAND = f"or {DESCRIBE}"


@dataclass(frozen=True, slots=True)
class FoundService:
    url: str
    body: JsonValue
    answer: str
    requests: int
    optional: bool = False
    beside: bool = False
    other: JsonValue = None  # that it answers, too: its rows are one text
    unread: bool = False  # whether its answer was the same without rows


def find_service(
    url: str, key: str | None, body: JsonValue, answer: str | None, insecure: bool
) -> FoundService:
    """Send requests about made-up rows until a service answers one of them."""
    _require_address(url, insecure)
    if body is not None and ("query" not in slots_of(body) or not slots_of(body) & ROWS):
        raise UsageError(
            'the body must have "{query}" in it, and "{context}", "{rows}" or ["{text}"], such as '
            '{"notes": "{context}", "question": "{query}"}.'
        )
    transport = AiohttpTransport(1, cookies=True)
    return run_blocking(_Search(url, transport, key, answer).found(body))


def _require_address(url: str, insecure: bool) -> None:
    """Later requests hold rows and the key, and the address is written to a file."""
    parts = urlsplit(url) if is_plain(url) else None
    if parts is None or parts.query or parts.fragment:
        raise UsageError(
            "the address of the service must be like http://127.0.0.1:8000/answer, without a "
            "name, a password or a query, which may hold a key (it is not shown); put a key into "
            f"an environment variable and name that with --key-env, {BY_HAND}."
        )
    if not insecure and is_exposed(url):
        raise UsageError(
            f"{url} uses plain http to another machine, so anyone on the network path can read "
            "rows and key; use https, a tunnel to this machine, or --insecure if you trust the "
            "network."
        )


class _Use(NamedTuple):
    """What an answer depends on."""

    optional: bool  # whether it is given without rows, too
    rows: bool
    asked: bool
    beside: bool  # whether a reply may hold texts beside the answer


@dataclass(slots=True)
class _Search:
    url: str
    transport: Transport
    key: str | None
    answer: str | None
    requests: int = 0
    statuses: list[int] = field(default_factory=list)
    described: list[JsonValue] = field(default_factory=list)  # bodies by its own description
    lacks: list[str] = field(default_factory=list)  # fields that it says it needs
    paths: list[str] = field(default_factory=list)  # of the texts of its last reply
    beside: bool = False  # whether the reply that was read may hold texts beside its answer
    path: str = ""  # where its answer is
    said: str = ""  # its answer

    async def found(self, body: JsonValue) -> FoundService:
        try:
            self.described = await self._described() if body is None else []
            bodies = (*self.described, *BODIES) if body is None else (body,)
            one, path = await self._accepted(bodies)
            use = await self._used(one)
            if body is None and not (use.rows and use.asked):
                one, path, use = await self._most_used(bodies, (one, path, use))
            other = as_one_text(one) if body is None else None
            if other is not None and not await self._answers(other):
                other = None
        finally:
            await self.transport.close()
        return FoundService(
            self.url, one, path, self.requests, use.optional, use.beside, other, not use.rows
        )

    async def _described(self) -> list[JsonValue]:
        """What the service takes by its OpenAPI description, if it has one."""
        try:
            place = urljoin(self.url, "/openapi.json")
            reply = await self.transport.send("GET", place, self._headers, None, PATIENCE)
        except TransportError:
            return []
        return bodies_of_schema(_json(reply), urlsplit(self.url).path)

    @property
    def _headers(self) -> dict[str, str]:
        return {} if self.key is None else {"Authorization": f"Bearer {self.key}"}

    async def _accepted(self, bodies: Sequence[JsonValue]) -> tuple[JsonValue, str]:
        """The first body that is answered, and where the answer is."""
        left, tried = list(bodies), list[object]()
        while left and len(tried) < MOST:
            body = left.pop(0)
            tried.append(body)
            reply = await self._sent(body)
            if (path := self._read(reply)) is not None:
                return body, path
            if len(bodies) > 1:
                found = _json(reply)
                lacks = [place for place, kind in _complaints(found) if "missing" in kind]
                self.lacks = [".".join(map(str, place)) for place in lacks] or self.lacks
                more = [*bodies_for(found, body), *left]
                left = [one for one in more if one not in tried]
        raise TargetError(self._refusal(len(bodies) == 1))

    async def _used(self, body: JsonValue) -> _Use:
        """What of the body that was answered last the answer depends on."""
        # a field that a service needs is read, unless its description has another one for rows, or
        # one that was left empty, such as a filter: then the answer tells, to other rows
        bare, said, beside = without_context(body), self.said, self.beside
        optional = bare is not None and await self._answers(bare)
        rows = not optional or self.said != said
        empty = isinstance(body, dict) and "" in body.values()
        if not optional and (empty or any(_places(one) != _places(body) for one in self.described)):
            rows = await self._answers(body, rows=OTHERS) and self.said != said
        asked = await self._answers(body, OTHER_QUESTION) and self.said != said
        return _Use(optional, rows, asked, beside or self.beside)

    async def _most_used(
        self, bodies: Sequence[JsonValue], first: tuple[JsonValue, str, _Use]
    ) -> tuple[JsonValue, str, _Use]:
        """The first body of which rows and question change the answer, or at least the rows."""
        best = first
        for body in bodies:
            if body != first[0] and await self._answers(body):
                found = body, self.path, await self._used(body)
                best = max(best, found, key=lambda one: (one[2].rows, one[2].asked))
                if found[2].rows and found[2].asked:
                    break
        return best

    async def _answers(
        self, body: JsonValue, question: str = QUESTION, rows: Context = MADE_UP
    ) -> bool:
        try:
            return self._read(await self._sent(body, question, rows)) is not None
        except TargetError:
            return False

    def _read(self, reply: HttpReply) -> str | None:
        """Where the answer is; None for a request that was refused."""
        if not 200 <= reply.status < 300:
            return None
        found = _json(reply)
        if found is None:
            raise TargetError(f"{self.url} answers with {other_than_json(reply)} {HINT}")
        if isinstance(found, dict) and any(found.get(name) for name in ERRORS):
            return None
        self.paths = list(text_paths(found))
        given = self.answer if self.answer in self.paths else None
        path = given if self.answer is not None else answer_path(self.paths)
        self.path = path or ""
        self.said = "" if path is None else text_paths(found)[path]
        self.beside = bool(path) and whole_reply(found, text_paths(found)[str(path)]) is not None
        return path

    async def _sent(
        self, body: JsonValue, question: str = QUESTION, rows: Context = MADE_UP
    ) -> HttpReply:
        self.requests += 1
        content = json.dumps(fill_slots(body, {**row_values(rows), "query": question})).encode()
        try:
            reply = await self.transport.send(
                "POST", self.url, JSON_TYPE | self._headers, content, PATIENCE
            )
        except TransportError as error:
            raise TargetError(
                f"{self.url} could not be asked ({error.kind}); start the service, or give the "
                "right address."
            ) from None
        self.statuses.append(reply.status)
        self._require_open(reply.status)
        return reply

    def _require_open(self, status: int) -> None:
        told = f"{self.url} answers with HTTP {status}"
        if status in (401, 403):
            must = "the key is not the right one" if self.key else "it wants a key"
            raise TargetError(
                f"{told}: {must}; put the key into an environment variable and name that with "
                f"--key-env (it is sent as a bearer token), {BY_HAND}."
            )
        if 300 <= status < 400:
            raise TargetError(
                f"{told}, a redirect, and no other address than the given one is contacted; give "
                "the one that it leads to."
            )
        if status in (404, 405, 410) and not self.described:
            what = "no POST at this address" if status == 405 else "nothing at this address"
            empty = f" If that is its answer where it finds nothing, {DESCRIBE}."
            after = empty if status == 404 else ""
            raise TargetError(f"{told}: it has {what}; check the path.{after} {HINT}")
        if status in BUSY:
            raise TargetError(f"{told}: it is too busy, or not up yet; try again later.")

    def _refusal(self, given: bool) -> str:
        if self.paths:
            listed = ", ".join(one or "'' (all of it)" for one in self.paths[:8])
            what = (
                "and no name says which is the answer"
                if self.answer is None
                else f"and none at {self.answer!r}"
            )
            return (
                f"the reply of {self.url} has texts at {listed}, {what}; name the path of the "
                f"answer with --answer, such as --answer {self.paths[0]}."
            )
        statuses = ", ".join(f"HTTP {one}" for one in dict.fromkeys(self.statuses))
        if given:
            return (
                f"{self.url} does not answer the given body with JSON that holds a text "
                f"({statuses}); check --body, {BY_HAND}."
            )
        lacks = f" It says that it needs the fields {', '.join(self.lacks)}." if self.lacks else ""
        return (
            f"{self.url} answered none of {len(self.statuses)} usual requests with JSON that holds "
            f"a text ({statuses}).{lacks} Give the JSON that it takes with --body, such as "
            f"""--body '{{"notes": "{{context}}", "question": "{{query}}"}}', {BY_HAND}."""
        )


def _json(reply: HttpReply) -> JsonValue:
    try:
        found: JsonValue = json.loads(reply.body)
    except (ValueError, RecursionError):
        return None
    return found
