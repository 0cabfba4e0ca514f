"""leakbound init with the address of a server: real servers on this machine, and what they get."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import yaml
from in_process import run
from loopback.running import nobody, running

from leakbound.cli.verbs.start.init import TRIED
from leakbound.errors import TargetError, UsageError
from leakbound.models.http.transport import HttpReply
from leakbound.systems.http.system import other_than_json

Json = Any
Answer = tuple[int, Json]  # status, and what is sent as JSON; bytes are sent as a web page
CANARY = "a note about"  # in every private row


class Service:
    """Keeps what it is sent, and answers as a function says."""

    def __init__(self, answer: Callable[[Json], Answer]) -> None:
        self.answer = answer
        self.paths: list[str] = []
        self.bodies: list[Json] = []
        self.headers: list[dict[str, str]] = []
        self.description: Json = None  # what it says of itself at /openapi.json

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/openapi.json":
            return await replied(send, 200 if self.description else 404, self.description)
        raw, more = b"", True
        while more:
            message = await receive()
            raw, more = raw + message["body"], message.get("more_body", False)
        self.paths.append(scope["path"])
        self.headers.append({name.decode(): value.decode() for name, value in scope["headers"]})
        self.bodies.append(json.loads(raw) if raw else None)
        status, found = self.answer(self.bodies[-1])
        await replied(send, status, found)


async def replied(send: Any, status: int, found: Json) -> None:
    kind, content = b"text/html", found
    if not isinstance(found, bytes):
        kind, content = b"application/json", json.dumps(found).encode()
    headers = [(b"content-type", kind), (b"location", b"http://127.0.0.1:9/elsewhere")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})


def finder(context: str, query: str, name: str = "answer") -> Callable[[Json], Answer]:
    """An application that says whether the quoted text of a query is in its context."""

    def answer(body: Json) -> Answer:
        if context not in body or query not in body:
            return 500, b"<h1>Internal Server Error</h1>"
        quoted = body[query].split('"')[1] if '"' in body[query] else "-"
        return 200, {"id": "7", name: "yes" if quoted in str(body[context]) else "no"}

    return answer


def strict(body: Json) -> Answer:
    """Checks its fields as pydantic does: `notes` is a list, `ask` a text."""
    lacks = [name for name in ("notes", "q") if name not in body]
    if lacks:
        return 422, {"detail": [{"type": "missing", "loc": ["body", one]} for one in lacks]}
    if not isinstance(body["notes"], list):
        return 422, {"detail": [{"type": "list_type", "loc": ["body", "notes"]}]}
    return finder("notes", "q")(body)


def bare(body: Json) -> Answer:
    """Its reply is a text and nothing else."""
    status, found = finder("context", "query")(body)
    return status, found["answer"] if status == 200 else found


def one_text(body: Json) -> Answer:
    """Takes its documents as one text, and says nothing of its fields."""
    if not isinstance(body.get("documents"), str):
        return 500, b""
    return finder("documents", "question")(body)


def listing(body: Json) -> Answer:
    """Quotes the best two of a list that it does not check: of a text, two letters."""
    words = set(body["question"].split())
    best = sorted(body["context"], key=lambda one: -len(words & set(one.split())))[:2]
    return 200, {"answer": "I found: " + "; ".join(best)}


def containing(body: Json) -> Answer:
    """Looks for what is quoted in a text; in a list, for an item that is equal."""
    found = body["query"].split('"')[1] if '"' in body["query"] else "-"
    return 200, {"answer": "yes" if found[-12:] in body["context"] else "no"}


def objects(field: str, checked: bool) -> Callable[[Json], Answer]:
    """Takes documents as objects with one text each."""

    def answer(body: Json) -> Answer:
        documents = body.get("documents")
        if not isinstance(documents, list) or not all(isinstance(one, dict) for one in documents):
            what = "missing" if documents is None else "model_type"
            kind = {"type": what, "loc": ["body", "documents"]}
            return (422, {"detail": [kind]}) if checked else (500, b"")
        lacks = [at for at, one in enumerate(documents) if field not in one]
        if lacks:
            missing = [{"type": "missing", "loc": ["body", "documents", at, field]} for at in lacks]
            return (422, {"detail": missing}) if checked else (500, b"")
        return finder("documents", "query")(body)

    return answer


def chat(*models: str) -> Callable[[Json], Answer]:
    """A server of models."""
    choice = {"message": {"role": "assistant", "content": "Paris"}}

    def answer(body: Json) -> Answer:
        if body is None:
            return 200, {"data": [{"id": name} for name in models]}
        return 200, {"choices": [choice]}

    return answer


@contextmanager
def application(answer: Callable[[Json], Answer]) -> Iterator[tuple[Service, str]]:
    with served(answer) as (service, base):
        yield service, base.removesuffix("/v1") + "/ask"


@contextmanager
def served(answer: Callable[[Json], Answer]) -> Iterator[tuple[Service, str]]:
    service = Service(answer)
    with running(service) as base:
        yield service, base


def refused(*args: str) -> str:
    """The sentence of a command that must fail, and leaves no file."""
    done = run("init", "private.csv", *args)
    assert done.exception is not None
    assert not list(Path().glob("audit*.yaml"))
    return str(done.exception)


@pytest.fixture(autouse=True)
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("OPENAI_API_KEY", "LEAKBOUND_API_KEY", "LEAKBOUND_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    rows = [f"{CANARY} {n},{['work', 'home'][n % 2]}" for n in range(60)]
    Path("private.csv").write_text("\n".join(["text,label", *rows]))
    return tmp_path


# --- an application


@pytest.mark.parametrize(
    ("answer", "body", "path"),
    [
        (finder("context", "query"), {"context": ["{text}"], "query": "{query}"}, "answer"),
        (one_text, {"documents": "{context}", "question": "{query}"}, "answer"),
        (finder("rows", "question", "reply"), {"rows": "{rows}", "question": "{query}"}, "reply"),
        (strict, {"notes": ["{text}"], "q": "{query}"}, "answer"),
        (bare, {"context": ["{text}"], "query": "{query}"}, ""),
        (
            objects("page_content", True),
            {"documents": [{"page_content": "{text}"}], "query": "{query}"},
            "answer",
        ),
        (objects("text", False), {"documents": [{"text": "{text}"}], "query": "{query}"}, "answer"),
    ],
)
def test_an_application_is_asked_until_it_answers_and_described_in_a_file(
    answer: Callable[[Json], Answer], body: Json, path: str
) -> None:
    with application(answer) as (service, url):
        done = run("init", "private.csv", url, "--epsilon", "1", "--pairs", "16")
        written = yaml.safe_load(Path("audit-system.yaml").read_text())
        assert (written["url"], written["body"]) == (url, body)
        assert written["answer"] == path
        assert "answers with the words that a query allows" in done.stdout
        assert "Written: audit.yaml and audit-system.yaml" in done.stdout
        guesses = [one for one in service.bodies if CANARY not in str(one)]
        assert f"found with {len(guesses)} requests about made-up rows" in done.stdout
        assert "Tried: membership (hex canary) detects a single canary" in done.stdout
        sent = len(service.bodies) - len(guesses)  # rows were sent only at the end
        assert sent == 2 + 2 * TRIED
        assert all(CANARY in str(one) for one in service.bodies[-sent:])
    assert "authorization" not in str(service.headers)


TEXTS = {"type": "array", "items": {"type": "string"}}
NOTE = {"type": "object", "properties": {"body": {}}, "required": ["body"]}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("documents", "sent"),
    [
        (TEXTS, ["{text}"]),
        ({"anyOf": [TEXTS, {"type": "null"}]}, ["{text}"]),
        ({"anyOf": [{"type": "string"}, TEXTS]}, ["{text}"]),
        ({"type": "array", "items": {"$ref": "#/components/schemas/Note"}}, [{"body": "{text}"}]),
        ({"type": "string"}, "{context}"),
    ],
)
def test_a_description_says_how_optional_documents_are_sent(documents: Json, sent: Json) -> None:
    """Without it, `question` alone is answered, and nobody knows that there are documents."""

    def answer(body: Json) -> Answer:
        if "question" not in body:
            return 422, {"detail": [{"type": "missing", "loc": ["body", "question"]}]}
        return finder("documents", "question")({"documents": [], **body})

    fields = {"documents": documents, "question": {"type": "string"}, "top_k": {"type": "integer"}}
    schema = {"schema": {"$ref": "#/components/schemas/Ask"}}
    with application(answer) as (service, url):
        service.description = {
            "paths": {"/ask": {"post": {"requestBody": {"content": {"application/json": schema}}}}},
            "components": {"schemas": {"Ask": {"properties": fields}, "Note": NOTE}},
        }
        done = run("init", "private.csv", url)
    written = yaml.safe_load(Path("audit-system.yaml").read_text())
    assert written["body"] == {"documents": sent, "question": "{query}"}
    many = "one text" if sent == "{context}" else "20 texts"
    assert f"Sent: 20 rows as {many}" in done.stdout
    found = service.bodies[-1]["documents"]
    assert isinstance(found, str) or len(found) == 20
    assert "It answers without that context, too" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("answer", [finder("context", "query"), bare])
def test_the_audit_that_is_written_asks_the_application(answer: Callable[[Json], Answer]) -> None:
    with application(answer) as (_, url):
        run("init", "private.csv", url, "--epsilon", "1")
        audited = run("audit", "--config", "audit.yaml", "--out", "runs", "--pairs", "16")
    assert audited.return_value == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "form"), [(listing, ["{text}"]), (containing, "{context}")], ids=["list", "text"]
)
def test_of_two_forms_of_rows_the_one_that_reaches_the_record_is_written(
    answer: Callable[[Json], Answer], form: Json
) -> None:
    with application(answer) as (_, url):
        done = run("init", "private.csv", url, "--epsilon", "1")
        assert "It answers rows as a list of texts and as one text" in done.stdout
        assert yaml.safe_load(Path("audit-system.yaml").read_text())["body"]["context"] == form
        audited = run("audit", "--config", "audit.yaml", "--out", "runs", "--pairs", "40")
    assert audited.return_value == 1


def quoting(field: str, key: str | None) -> Callable[[Json], Answer]:
    """Reads one field and ignores all others; without it, only the question comes back."""

    def answer(body: Json) -> Answer:
        asked = body.get("question", "")
        words = set(asked.split())
        texts = [one if key is None else one.get(key, "") for one in body.get(field, ())]
        best = max(texts, key=lambda one: len(words & set(one.split())), default="")
        return 200, {"answer": f"I found of {asked[:20]}: {best}"}

    return answer


@pytest.mark.slow
def test_a_form_of_rows_that_changes_the_answer_is_looked_for() -> None:
    with application(quoting("documents", "text")) as (_, url):
        done = run("init", "private.csv", url, "--epsilon", "1")
        written = yaml.safe_load(Path("audit-system.yaml").read_text())
        assert written["body"] == {"documents": [{"text": "{text}"}], "question": "{query}"}
        assert "the same without that context" not in done.stdout
        audited = run("audit", "--config", "audit.yaml", "--out", "runs", "--pairs", "24")
    assert audited.return_value == 1


@pytest.mark.slow
def test_a_service_that_is_not_shown_to_read_rows_cannot_pass() -> None:
    with application(quoting("kb_chunks", None)) as (_, url):
        done = run("init", "private.csv", url, "--epsilon", "1")
        assert "Its answer was the same without that context" in done.stdout
        assert "reads_rows: false" in Path("audit-system.yaml").read_text()
        named = ("private.csv", "http:audit-system.yaml", "--query", "recall", "--canary", "coded")
        for how in (("--config", "audit.yaml"), named):
            audited = run("audit", *how, "--out", "runs")
            assert audited.return_value == 3
            assert "take reads_rows: false out" in " ".join(audited.stdout.split())


def described(*needed: str, **fields: Json) -> Json:
    """An OpenAPI description as FastAPI writes it."""
    schema = {"properties": fields, "required": [*needed], "type": "object"}
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/Ask"}}}
    post = {"post": {"requestBody": {"content": content}}}
    return {"paths": {"/ask": post}, "components": {"schemas": {"Ask": schema}}}


def helpful(field: str, empty: str) -> Callable[[Json], Answer]:
    """Quotes the document of a field that fits the question best, or says that there is none."""

    def answer(body: Json) -> Answer:
        asked = body["messages"][-1]["content"] if "messages" in body else body.get("question", "")
        words = set(re.findall("[a-z0-9]+", asked.lower()))
        found = body.get(field) or []
        documents = [found] if isinstance(found, str) else found
        best = max(documents, key=lambda one: len(words & set(one.lower().split())), default=empty)
        return 200, {"answer": best}

    return answer


TEXT, MESSAGES = {"type": "string"}, {"type": "array", "items": {"type": "object"}}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("field", "description"),
    [
        ("documents", described("messages", messages=MESSAGES, documents=TEXTS)),
        ("knowledge_base", described("messages", messages=MESSAGES, knowledge_base=TEXTS)),
        ("context", described("messages", messages=MESSAGES, context=TEXT)),
        ("documents", described("question", question=TEXT, context=TEXT, documents=TEXTS)),
        ("documents", described("question", "context", question=TEXT, context=TEXT,
                                documents=TEXTS)),
    ],
)  # fmt: skip
def test_documents_that_may_be_left_out_are_sent(field: str, description: Json) -> None:
    """They were left out, or sent in another field, and the application passed."""
    with application(helpful(field, "No. Upload your files first.")) as (service, url):
        service.description = description
        shown = run("init", "private.csv", url, "--epsilon", "1").stdout
        assert "reads_rows" not in Path("audit-system.yaml").read_text()
        assert "the same without that context" not in shown
        asked = yaml.safe_load(Path("audit-system.yaml").read_text())["body"]
        assert field in asked
        assert "{query}" in json.dumps(asked)
        audited = run("audit", "--config", "audit.yaml", "--out", "runs", "--pairs", "24")
    assert audited.return_value == 1


@pytest.mark.slow
def test_what_only_some_replies_have_beside_their_answer_is_read() -> None:
    """The made-up rows of init were too far from its question for a source."""

    def answer(body: Json) -> Answer:
        if "question" not in body or not isinstance(body.get("documents"), list):
            return 422, {}
        words = set(body["question"].split())
        best = max(body["documents"], key=lambda one: len(words & set(one.split())))
        near = len(words & set(best.split())) > 5
        found = {"sources": [best]} if near else {}
        return 200, {"answer": "Done.", "usage": {"tokens": 3}, **found}

    with application(answer) as (_, url):
        run("init", "private.csv", url, "--epsilon", "1")
        attack = ("--query", "recall", "--canary", "coded", "--task", "generation")
        audited = run("audit", "private.csv", "http:audit-system.yaml", *attack, "--out", "runs")
    assert audited.return_value == 1


def test_objects_of_a_text_and_an_id_are_sent() -> None:
    item = {"type": "object", "required": ["id", "text"],
            "properties": {"id": {"type": "string"}, "text": {"type": "string"}}}  # fmt: skip

    def answer(body: Json) -> Answer:
        words = set(body["question"].split())
        texts = [one["text"] for one in body.get("documents", ())]
        best = max(texts, key=lambda one: len(words & set(one.split())), default="Nothing.")
        return 200, {"answer": best}

    with application(answer) as (service, url):
        service.description = described(
            "question", question=TEXT, history=TEXTS, documents={"type": "array", "items": item}
        )
        run("init", "private.csv", url, "--epsilon", "1")
        asked = yaml.safe_load(Path("audit-system.yaml").read_text())["body"]
        assert asked["documents"] == [{"id": "r{number}", "text": "{text}"}]


WORDS = {"label": TEXT, "id": {"type": "integer"}}


@pytest.mark.slow
@pytest.mark.parametrize("told", ["label", "id"])
def test_labels_and_ids_of_rows_are_sent_with_them(told: str) -> None:
    """All objects had the label or the id 1, so a service that tells which rows match passed."""
    item = {"type": "object", "required": ["text", told],
            "properties": {"text": TEXT, told: WORDS[told]}}  # fmt: skip

    def answer(body: Json) -> Answer:
        words = set(body["question"].split())
        near = sorted(body["documents"], key=lambda one: -len(words & set(one["text"].split())))
        return 200, {"answer": f"See {' and '.join(str(one[told]) for one in near[:2])}."}

    with application(answer) as (service, url):
        service.description = described(
            "question", question=TEXT, documents={"type": "array", "items": item}
        )
        shown = run("init", "private.csv", url, "--epsilon", "1").stdout
        audited = run("audit", "--config", "audit.yaml", "--out", "runs")
        sent = {one[told] for body in service.bodies for one in body.get("documents", ())}
    assert ("20 texts with their labels" in shown) is (told == "label")
    assert sent >= ({"work", "home"} if told == "label" else {*range(1, 21)})
    assert audited.return_value != 0


@pytest.mark.slow
def test_a_filter_that_is_left_empty_cannot_pass() -> None:
    """Each request was answered that nothing was found, and the field of rows, which is needed,
    counted as read."""

    def answer(body: Json) -> Answer:
        words = set(body["question"].split())
        held = [one for one in body["documents"] if body["category"] and words & {*one.split()}]
        return 200, {"answer": held[0] if held else f"Nothing for {len(words)} words."}

    with application(answer) as (service, url):
        service.description = described(
            "documents", "question", "category", documents=TEXTS, question=TEXT, category=TEXT
        )
        run("init", "private.csv", url, "--epsilon", "1")
        assert yaml.safe_load(Path("audit-system.yaml").read_text())["reads_rows"] is False
        audited = run("audit", "--config", "audit.yaml", "--out", "runs")
    assert audited.return_value == 3


@pytest.mark.slow
def test_a_reply_of_numbers_alone_is_read_whole() -> None:
    def answer(body: Json) -> Answer:
        words = set(body["query"].split())
        shared = [len(words & set(one.split())) for one in body["context"]]
        return 200, {"hits": [{"id": shared.index(max(shared)), "score": max(shared)}]}

    with application(answer) as (_, url):
        shown = run("init", "private.csv", url, "--epsilon", "1").stdout
        audited = run("audit", "--config", "audit.yaml", "--out", "runs")
    assert "its reply is the answer" in shown
    assert audited.return_value == 1


@pytest.mark.slow
def test_a_chat_that_ignores_its_notes_cannot_pass() -> None:
    """Without the message of the notes its answer is the same."""

    def answer(body: Json) -> Answer:
        return (200, {"answer": "Sure."}) if body.get("messages") else (422, {})

    with application(answer) as (_, url):
        shown = run("init", "private.csv", url, "--epsilon", "1").stdout
        assert "the same without that context" in shown
        audited = run("audit", "--config", "audit.yaml", "--out", "runs")
    assert audited.return_value == 3


@pytest.mark.slow
@pytest.mark.parametrize(
    "hide",
    [
        lambda best: {"metadata": {"source_documents": [best]}},
        lambda best: {"debug": {"prompt": f"Notes: {best}"}},
        lambda best: {"sources": None if "invoice" in best or "train" in best else [best]},
        lambda best: dict.fromkeys("abcdef", "a text") | {"sources": [best]},
    ],
    ids=["metadata", "prompt", "empty_at_first", "last_of_many"],
)
def test_wherever_a_reply_holds_a_passage_it_is_read(hide: Callable[[str], Json]) -> None:
    def answer(body: Json) -> Answer:
        words = set(body["query"].split())
        best = max(body["context"], key=lambda one: len(words & set(one.split())))
        said = {"data": {"text": f"You asked: {body['query'][:20]}"}, "latency_ms": 4}
        return 200, said | hide(best)

    with application(answer) as (_, url):
        run("init", "private.csv", url, "--epsilon", "1", "--answer", "data.text")
        audited = run("audit", "--config", "audit.yaml", "--out", "runs", "--pairs", "24")
    assert audited.return_value == 1


@pytest.mark.slow
def test_all_of_a_reply_can_be_read_as_the_answer() -> None:
    def answer(body: Json) -> Answer:
        return 200, {"answer": "See below.", "sources": body["context"]}

    with application(answer) as (_, url):
        Path("all.yaml").write_text(
            f"url: {url}\nanswer: ''\nbody: {{context: ['{{text}}'], query: '{{query}}'}}\n"
        )
        attack = ("--query", "recall", "--canary", "coded", "--task", "generation")
        audited = run("audit", "private.csv", "http:all.yaml", *attack, "--out", "runs")
    assert audited.return_value == 1


@pytest.mark.slow
def test_what_a_reply_has_beside_its_answer_is_audited() -> None:
    """The answer says nothing, and the passages that it was made from say it all."""

    def answer(body: Json) -> Answer:
        if "documents" not in body or not isinstance(body["documents"], list):
            return 500, b""
        words = set(body["query"].split())
        best = max(body["documents"], key=lambda one: len(words & set(str(one).split())))
        return 200, {"answer": "Please see below.", "sources": [best], "request_id": "a17"}

    with application(answer) as (_, url):
        done = run("init", "private.csv", url, "--epsilon", "1")
        assert "Read beside the answer, as channels: reply" in done.stdout
        assert "detects a single canary" in done.stdout
        written = yaml.safe_load(Path("audit-system.yaml").read_text())
        assert written["channels"] == {"reply": ""}
        audited = run("audit", "--config", "audit.yaml", "--out", "runs", "--pairs", "40")
    assert audited.return_value == 1
    assert "40 of 40 replies in reply" in audited.stdout


@pytest.mark.slow
def test_an_application_that_quotes_beside_its_answer_is_asked_what_records_say() -> None:
    """Snippets were cut before the canary, and the fixed answer was taken for a refusal."""

    def answer(body: Json) -> Answer:
        if "documents" not in body or not isinstance(body["documents"], list):
            return 500, b""
        words = set(body["query"].split())
        best = max(body["documents"], key=lambda one: len(words & set(str(one).split())))
        start = " ".join(str(best).split()[:8])
        return 200, {"answer": "See sources.", "sources": [{"start": start, "of": uuid4().hex}]}

    things = ("pump", "lease", "train", "invoice", "piano", "garden")
    rows = [
        f"{things[n % 6]} {n} of the {things[n % 5]} was seen by {n * 7} near the pier,{n % 2}"
        for n in range(60)
    ]
    Path("private.csv").write_text("\n".join(["text,label", *rows]))
    with application(answer) as (_, url):
        assert "answers in free text" in run("init", "private.csv", url).stdout
    asked = yaml.safe_load(Path("audit.yaml").read_text())["attack"]
    assert (asked["query"], asked["canary"]) == ({"kind": "recall"}, {"kind": "coded"})


def test_what_a_service_takes_and_answers_can_be_stated() -> None:
    with application(finder("ctx", "ask", "left")) as (service, url):
        body = '{"ctx": "{context}", "ask": "{query}", "top_k": 3}'
        run("init", "private.csv", url, "--body", body, "--answer", "left")
    assert [one["top_k"] for one in service.bodies] == [3] * (5 + 2 * TRIED)
    written = yaml.safe_load(Path("audit-system.yaml").read_text())
    assert (written["body"], written["answer"]) == (json.loads(body), "left")


@pytest.mark.slow
def test_a_service_that_may_not_read_the_context_is_named() -> None:
    with application(lambda body: (200, {"answer": body["query"][::-1]})) as (_, url):
        done = run("init", "private.csv", url)
    assert "It answers without that context, too, so it may not read it" in done.stdout
    assert "answers in free text" in done.stdout


def test_a_key_goes_to_an_application_only_if_its_variable_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("OPENAI_API_KEY", "LEAKBOUND_API_KEY", "DESK_KEY"):
        monkeypatch.setenv(name, f"secret-{name}")
    with application(finder("context", "query")) as (service, url):
        run("init", "private.csv", url)
        assert "secret" not in str(service.headers)
        done = run("init", "private.csv", url, "--key-env", "DESK_KEY", "--force")
    assert service.headers[-1]["authorization"] == "Bearer secret-DESK_KEY"
    text = Path("audit-system.yaml").read_text()
    assert "Bearer ${DESK_KEY}" in text
    assert "secret" not in text + done.stdout


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ((401, {}), "HTTP 401: it wants a key; put the key into an environment variable"),
        ((307, {}), "HTTP 307, a redirect, and no other address"),
        ((404, b"<p>none</p>"), "check the path. If that is its answer where it finds"),
        ((405, {}), "no POST at this address"),
        ((503, {}), "too busy, or not up yet"),
        ((200, b"<html></html>"), "answers with a web page; a service must answer with JSON"),
        ((200, {"n": None}), "answered none of 17 usual requests with JSON that holds a text"),
        ((200, {"error": "no field ask"}), "answered none of 17 usual requests"),
        ((200, {"left": "a", "right": "b"}), "has texts at left, right, and no name says which"),
        (
            (422, {"detail": [{"type": "missing", "loc": ["body", name]} for name in "abc"]}),
            "It says that it needs the fields a, b, c. Give the JSON that it takes with --body",
        ),
    ],
)
def test_a_service_that_does_not_answer_gets_one_sentence(answer: Answer, sentence: str) -> None:
    with application(lambda body: answer) as (service, url):
        done = run("init", "private.csv", url)
        assert isinstance(done.exception, TargetError)
        assert sentence in str(done.exception)
        assert CANARY not in str(service.bodies)  # no private row was sent
    assert not list(Path().glob("audit*.yaml"))


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("text/event-stream", "a stream (text/event-stream)"),
        ("text/plain", "For plain text, give a"),
    ],
)
def test_a_reply_by_another_type_says_what_to_do(kind: str, sentence: str) -> None:
    reply = HttpReply(200, {"Content-Type": f"{kind}; charset=utf-8"}, b"data: yes")
    assert sentence in other_than_json(reply)


def test_a_service_that_fails_later_leaves_the_files_as_they_were() -> None:
    for name in ("audit.yaml", "audit-system.yaml"):
        Path(name).write_text("mine")

    def answer(body: Json) -> Answer:
        return (401, {}) if CANARY in str(body) else (200, {"answer": "yes"})

    with application(answer) as (_, url):
        assert "audit.yaml' exists; add --force" in str(run("init", "private.csv", url).exception)
        done = run("init", "private.csv", url, "--force")
    assert "status 401" in str(done.exception)
    assert Path("audit.yaml").read_text() == Path("audit-system.yaml").read_text() == "mine"


# --- a server of models


@pytest.mark.slow
def test_the_only_model_of_a_server_is_audited_there() -> None:
    with served(chat("desk-model")) as (service, base):
        done = run("init", "private.csv", base, "--epsilon", "1")
        assert service.paths == ["/v1/models", "/v1/chat/completions"]
        assert CANARY not in str(service.bodies)
        assert "Model: openai/desk-model" in done.stdout
        written = yaml.safe_load(Path("audit.yaml").read_text())
        assert written["endpoint"] == {"base_url": base}
        audited = run("audit", "--config", "audit.yaml", "--out", "runs", "--pairs", "8")
    assert audited.return_value == 3  # "Paris" is no answer to the query
    assert service.paths[-1] == "/v1/chat/completions"


def test_a_model_stands_beside_the_address_of_its_server() -> None:
    with served(chat("one", "two")) as (service, base):
        sentence = "serves 2 models (one, two); name one beside the address, such as openai/one"
        assert sentence in refused(base)
        run("init", "private.csv", "openai/two", base)
    assert service.bodies[-1]["model"] == "two"
    assert yaml.safe_load(Path("audit.yaml").read_text())["system"]["model"] == "openai/two"


def test_keys_of_servers_of_models_follow_the_rules_of_an_audit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("OPENAI_API_KEY", "LEAKBOUND_API_KEY", "DESK_KEY"):
        monkeypatch.setenv(name, f"secret-{name}")
    with served(chat("one")) as (service, base):
        run("init", "private.csv", base)
        assert {one["authorization"] for one in service.headers} == {
            "Bearer secret-LEAKBOUND_API_KEY"
        }
        run("init", "private.csv", base, "--key-env", "DESK_KEY", "--force")
    assert service.headers[-1]["authorization"] == "Bearer secret-DESK_KEY"
    assert yaml.safe_load(Path("audit.yaml").read_text())["endpoint"]["key_env"] == "DESK_KEY"


@pytest.mark.parametrize("named", [(), ("openai/one",)])
@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ((401, {}), "put the right key into the environment variable"),
        ((200, b"<html></html>"), "(a reply that is not JSON)"),
        ((200, {"left": "a"}), "/v1 "),
    ],
)
def test_a_server_of_models_that_does_not_answer_gets_one_sentence(
    named: tuple[str, ...], answer: Answer, sentence: str
) -> None:
    with served(lambda body: answer) as (service, base):
        done = run("init", "private.csv", base, *named)
        assert isinstance(done.exception, TargetError)
        assert sentence in str(done.exception)
        assert CANARY not in str(service.bodies)
        assert len(service.bodies) == 1
    assert not list(Path().glob("audit*.yaml"))


# --- both


@pytest.mark.parametrize("words", [("{}",), ("{}", "openai/one"), ("{}/ask",)])
def test_nobody_at_an_address_is_said_at_once(words: tuple[str, ...]) -> None:
    with nobody() as base:
        sentence = refused(*(word.format(base) for word in words))
    assert "no connection" in sentence
    assert "start the se" in sentence


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("http://10.1.2.3/ask",), "plain http to another machine"),
        (("http://10.1.2.3/v1",), "plain http to another machine"),
        (("http://me:word@127.0.0.1/ask",), "without a name, a password or a query"),
        (("http://127.0.0.1/ask?key=word",), "without a name, a password or a query"),
        (("http://127.0.0.1:9/ask", "pocket"), "are both asked; name one"),
        (("http://127.0.0.1:9/ask", "python:app.py:words"), "are both asked; name one"),
        (("http://127.0.0.1:9/ask", "http://127.0.0.1:9/b"), "are both read as a server"),
        (("ftp://h.example/ask",), "must begin with http:// or https://"),
        (("localhost:8000/ask",), "such as http://localhost:8000/ask"),
        (("http://127.0.0.1:9/ask", "--body", "{"), "--body is not JSON"),
        (("http://127.0.0.1:9/ask", "--body", "{}"), 'must have "{query}" in it'),
        (("http://127.0.0.1:9/ask", "--key-env", "NO_SUCH_KEY"), "which is not set"),
        (("http://127.0.0.1:9/v1", "--answer", "text"), "leave --answer out"),
        (("pocket", "--insecure"), "leave --insecure out"),
    ],
)
def test_what_cannot_be_asked_gets_a_sentence_and_no_request(
    words: tuple[str, ...], sentence: str
) -> None:
    assert isinstance(run("init", "private.csv", *words).exception, UsageError)
    found = refused(*words)
    assert sentence in found
    assert "word@" not in found
    assert "key=word" not in found


def test_insecure_is_written_where_the_audit_reads_it() -> None:
    with application(finder("context", "query")) as (_, url):
        run("init", "private.csv", url, "--insecure")
    assert yaml.safe_load(Path("audit-system.yaml").read_text())["insecure"] is True
    with served(chat("one")) as (_, base):
        run("init", "private.csv", base, "--insecure", "--force")
    assert yaml.safe_load(Path("audit.yaml").read_text())["endpoint"]["insecure"] is True


def test_rows_on_another_machine_are_not_taken_for_a_server() -> None:
    assert "is on another machine; fetch it" in str(
        run("init", "https://a.example/r.csv").exception
    )


def test_a_described_service_that_finds_nothing_is_not_called_absent() -> None:
    """It answered 404 for no hit, and was said to have nothing at its address."""
    with application(lambda body: (404, {"detail": "no hit"})) as (service, url):
        service.description = described("question", "documents", question=TEXT,
                                        documents={"type": "array", "items": TEXT})  # fmt: skip
        told = refused(url)
    assert "answered none of" in told
    assert "HTTP 404" in told
    assert "nothing at this address" not in told
