"""Read the contexts of an attribution from a text, JSONL or CSV file."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from leakbound.errors import DataError, UsageError, reason_of
from leakbound.models import Chat

QUERIES = ("query", "question")
CHUNKS = ("chunks", "contexts", "documents", "passages", "sources")
MESSAGES = ("messages", "context")  # of a chat, if they have roles
TEXTS = ("context", "document", "article")  # if one of these is there, chunks are not the context
CHUNK_NAMES = ("id", "name", "source", "title", "chunk_id", "doc_id")
CHUNK_TEXTS = ("text", "content", "page_content", "chunk", "document", "context")
ANSWERS = ("response", "answer", "generation", "output")  # of a RAG trace
BETWEEN = "\n\n"  # separates the documents of a context
NamedSource = tuple[str, int, int]  # name, first character, end (exclusive)
CONTEXTS = ("context", "document", "article", "source", "input", "prompt")
REFERENCES = ("reference", "gold", "target", "label", "highlights", "summary", "answer")
NAMES = {"context": CONTEXTS, "query": QUERIES, "response": ("response",), "reference": REFERENCES}
LONGEST_FIELD = 1 << 27  # characters of a CSV field: longer than any context, and fits any memory


@dataclass(frozen=True, slots=True, repr=False)
class Case:
    """A context with a query about it.

    Attributes:
        context: The text that the model is shown (PRIVATE).
        query: The query about it.
        response: The response to attribute; None to sample one.
        reference: A reference response; "" if there is none.
        sources: Named documents of the context, in order; empty if the context is one text.
        roles: The role of each source if the context is chat messages, otherwise empty.
    """

    context: str
    query: str
    response: str | None = None
    reference: str = ""
    sources: tuple[NamedSource, ...] = ()
    roles: tuple[str, ...] = ()


def case_of_documents(
    documents: Sequence[tuple[str, str]], query: str = "", response: str | None = None
) -> Case:
    """Make a case whose context is several documents, separated by an empty line.

    Examples:
        >>> case_of_documents([("a", "Hi."), ("b", "Ho.")]).sources
        (('a', 0, 3), ('b', 5, 8))
    """
    blank = [name for name, text in documents if not text.strip()]
    if blank or not documents:
        raise DataError(
            f"the document {blank[0]!r} is blank; it must have a text. Leave it out."
            if blank
            else "there is no document; give at least one."
        )
    sources, at = [], 0
    for name, text in documents:
        sources.append((name, at, at + len(text)))
        at += len(text) + len(BETWEEN)
    context = BETWEEN.join(text for _, text in documents)
    return Case(context, query, response, sources=tuple(sources))


def case_of_messages(
    messages: Sequence[Mapping[str, object]], query: str = "", response: str | None = None
) -> Case:
    """Make a case from chat messages, which the model sees with their roles.

    Args:
        messages: Objects with `role` and `content` (PRIVATE). Without `response`, a final message
            of the assistant is the response. Without `query`, the last user message before it is
            the query.
        query: What the user asks after the messages.
        response: The response to attribute; None to sample one if the messages contain none.

    Returns:
        The case, with a source for each message of the context.

    Raises:
        DataError: If there is no message except the query.
        UsageError: If an item is not a message.

    Examples:
        >>> case = case_of_messages([{"role": "system", "content": "The code is 48213."},
        ...                          {"role": "user", "content": "What is the code?"}])
        >>> case.sources, case.query
        ((('message 1 (system)', 0, 18),), 'What is the code?')
    """
    found = list(Chat.of(messages).messages)
    if response is None and found[-1].role == "assistant":
        response = found.pop().content
    if not query and found and found[-1].role == "user":
        query = found.pop().content
    if not found:
        raise DataError(
            "no message is left beside the query, so there is no context; give at least one more, "
            "such as a system message."
        )
    named = [(f"message {n} ({one.role})", one.content) for n, one in enumerate(found, 1)]
    return replace(
        case_of_documents(named, query, response), roles=tuple(one.role for one in found)
    )


def load_cases(file: Path, query: str = "", response: str | None = None) -> list[Case]:
    """Read cases from a file: one from a text file, or one per row of a .jsonl or .csv file.

    Columns are `context`, `query`, `response` and `reference`, or common other names such as
    `document`, `question` and `summary`. A row of a RAG trace has `chunks` instead of `context`:
    texts, or objects with `id` and `text`. Its `answer` is the response. A row with chat `messages`
    is read as by `case_of_messages`.
    """
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(
            f"the context {str(file)!r} cannot be read ({reason_of(error)}); name a file of UTF-8 "
            "text."
        ) from None
    if file.suffix not in (".jsonl", ".csv"):
        return [Case(text.strip("\n"), query, response)]
    rows = _objects(text) if file.suffix == ".jsonl" else _records(text)
    cases = [_case(file, number, row, query, response) for number, row in rows]
    if not cases:
        raise DataError(f"{str(file)!r} holds no row; it must hold at least one context.")
    return cases


def _objects(text: str) -> Iterable[tuple[int, object]]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                yield number, json.loads(line)
            except ValueError:
                yield number, None


def _records(text: str) -> Iterable[tuple[int, object]]:
    csv.field_size_limit(LONGEST_FIELD)
    reader = csv.DictReader(io.StringIO(text, newline=""))
    for row in reader:
        yield reader.line_num, {key: value for key, value in row.items() if value}


def _case(file: Path, number: int, row: object, query: str, response: str | None) -> Case:
    """A row as chat messages, as the chunks of a RAG trace, or as one text."""
    where = f"line {number} of {str(file)!r}"
    question, answer = _first(row, QUERIES), _first(row, ANSWERS)
    texts_only = all(one is None or isinstance(one, str) for one in (question, answer))
    asked = question if isinstance(question, str) else None
    given = answer if isinstance(answer, str) else None
    if (messages := _messages(row)) is not None:
        if not texts_only:
            raise DataError(f"{where} has messages, and its query or response is not text.")
        try:
            case = case_of_messages(messages, asked or "", given)
        except (DataError, UsageError) as error:
            raise DataError(f"{where}: {error}") from None
        own = case.response if case.response is not None else response
        return replace(case, query=case.query or query, response=own)
    if (chunks := _chunks(row)) is not None:
        documents = [_document(chunk, at) for at, chunk in enumerate(chunks, 1)]
        known = [one for one in documents if one is not None]
        if not known or len(known) < len(documents) or not texts_only:
            raise DataError(
                f"{where} is not a RAG trace; it must have chunks that are "
                "texts, or objects with an id and a text, such as "
                '{"question": "...", "chunks": [{"id": "kb-1", "text": "..."}], "answer": "..."}.'
            )
        return case_of_documents(
            known, query if asked is None else asked, response if given is None else given
        )
    found = {name: _first(row, usual) for name, usual in NAMES.items()}
    texts = {name: value for name, value in found.items() if isinstance(value, str)}
    if "context" not in texts or any(
        found[name] is not None for name in found if name not in texts
    ):
        raise DataError(
            f"{where} is not a context; it must have a text `context`, or "
            "`chunks`, and optionally `query`, `response` and `reference`, such as "
            '{"context": "...", "query": "..."}.'
        )
    return Case(
        texts["context"],
        texts.get("query", query),
        texts.get("response", response),
        texts.get("reference", ""),
    )


def _messages(row: object) -> Sequence[Mapping[str, object]] | None:
    """The chat messages of a row; None if its context is something else."""
    found = _first(row, MESSAGES)
    has_roles = isinstance(found, list) and any(
        "role" in one for one in found if isinstance(one, Mapping)
    )
    return found if isinstance(found, list) and has_roles else None


def _chunks(row: object) -> Sequence[object] | None:
    """The chunks of a RAG trace; None if the context is one text."""
    if isinstance(_first(row, TEXTS), str):
        return None
    found = _first(row, (*CHUNKS, "context"))
    if isinstance(found, Mapping):
        found = _first(found, CHUNKS)
    return found if isinstance(found, list) else None


def _document(chunk: object, number: int) -> tuple[str, str] | None:
    """Name and text of a chunk; None if it has no text."""
    text = chunk if isinstance(chunk, str) else _first(chunk, CHUNK_TEXTS)
    name = None if isinstance(chunk, str) else _first(chunk, CHUNK_NAMES)
    if not isinstance(text, str) or not text.strip():
        return None
    return (f"chunk {number}" if name is None else str(name)), text


def _first(row: object, usual: Sequence[str]) -> object:
    """The first field with one of the usual names; None if there is none."""
    if not isinstance(row, Mapping):
        return None
    return next((row[name] for name in usual if name in row), None)
