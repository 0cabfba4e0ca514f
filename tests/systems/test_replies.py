"""What a system may reply beside its text: checked, kept with the evidence, read by the witness."""

from __future__ import annotations

import asyncio
import json
import math
import time
import uuid
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

import leakbound
from leakbound.auditing.result.sentences import attacker_sentence, attacks_sentence
from leakbound.auditing.store.run_store import RunStore
from leakbound.errors import TargetError, UsageError
from leakbound.models import Scripted
from leakbound.models.http.transport import HttpReply
from leakbound.privacy import PureDP
from leakbound.systems import CallOptions, HttpSystemConfig, NoAnswer, Reply, SystemMechanism
from leakbound.systems.http.system import reply_of as http_reply_of
from leakbound.systems.replies import (
    CHECKS,
    RESOLUTION,
    as_reply,
    finish,
    seen_seconds,
    whole_reply,
)
from leakbound.tasks import (
    Context,
    Example,
    GeneratedText,
    Job,
    Query,
    Task,
    Vector,
    Votes,
    pack,
    reply_of,
    unpack,
)
from leakbound.witness import ReplyFacts, ReplyFeatures, WitnessProcess, mask_reply
from leakbound.witness.features import SCALARS, features

TASK = Task("t", ("a", "b"))
JOB = Job((Example("private kite", "a"),), Query("q"))
FREE = Job((Example("private kite", "a"),), Query("q", free=True))
RICH: dict[str, Any] = {
    "text": "a",
    "scores": {"a": 0.25, "b": 0.75},
    "seconds": 1.5,
    "tokens": 3,
    "finish_reason": "stop",
    "tool_calls": ["find", {"name": "look", "arguments": {"city": "Oslo"}}],
}


def one(answer: object, scored: bool = False) -> Votes | Vector | GeneratedText:
    mechanism = SystemMechanism(lambda context, query: answer, scored=scored)
    return mechanism.collect(TASK, [JOB], [0], Scripted())[0]


@pytest.mark.parametrize("shape", [dict, lambda **parts: SimpleNamespace(**parts), Reply])
def test_every_part_of_a_reply_arrives(shape: Any) -> None:
    found = reply_of(one(shape(**RICH)))
    text = "a\nfind\nname: look\ncity: Oslo"  # tool calls are read as text, too
    assert found == ReplyFacts(
        text, 1.5, 3, "stop", tuple(RICH["tool_calls"]), scores=None
    )  # scores are shown with white-box access only


def test_scores_are_part_of_what_a_user_with_white_box_access_sees() -> None:
    found = one(RICH, scored=True)
    assert found == Vector((0.25, 0.75, 1.0, 0.0, 0.0))
    assert reply_of(found).scores == RICH["scores"]  # type: ignore[union-attr]


def test_methods_of_an_object_are_no_metadata() -> None:
    class Response:
        text = "a"
        tokens = 7

        def scores(self) -> None:
            raise AssertionError

    assert as_reply(Response(), "mine") == Reply("a", tokens=7)


def test_numbers_of_numpy_are_numbers() -> None:
    found = as_reply({"text": "a", "tokens": np.int64(3), "seconds": np.float32(0.5)}, "mine")
    assert (found.tokens, found.seconds) == (3, 0.5)
    assert type(found.tokens) is int


@pytest.mark.parametrize("asynchronous", [False, True])
def test_seconds_in_this_process_are_not_read(asynchronous: bool) -> None:
    """Microseconds that nobody outside sees accused ten of ten silent functions."""

    class Session:
        def ask(self, query: str) -> Any:
            return self.later() if asynchronous else Reply("a")

        async def later(self) -> Reply:
            await asyncio.sleep(0)
            return Reply("a")

        def close(self) -> None: ...

    async def called(context: Context, query: str) -> Any:
        return await Session().later()

    class Opens:
        def open(self, context: Context) -> Session:
            return Session()

    system: Any = called if asynchronous else Opens()
    found = reply_of(SystemMechanism(system).collect(TASK, [JOB], [0], Scripted())[0])
    assert isinstance(found, ReplyFacts)
    assert found.seconds is None


WRONG: list[tuple[str, Any, str]] = [
    (
        "scores",
        {"a": "kite"},
        "returned scores as dict; it must be a mapping of answers to numbers",
    ),
    ("scores", {1: 0.5}, "returned scores as dict"),
    ("scores", {"a": 10**400}, "returned scores as dict; it must be a mapping"),
    ("seconds", -1, "returned seconds as int; it must be a finite number of at least 0, or None"),
    ("seconds", math.inf, "returned seconds as float"),
    ("seconds", True, "returned seconds as bool"),
    ("tokens", 2.5, "returned tokens as float; it must be a whole number"),
    ("tokens", False, "returned tokens as bool"),
    ("finish_reason", 7, "returned finish_reason as int; it must be a str"),
    ("tool_calls", "kite", "returned tool_calls as str; it must be a list of tool names"),
    ("tool_calls", [7], "returned tool_calls as list"),
    ("tool_calls", [{"name": {"kite"}}], "returned tool_calls as list"),
    ("tool_calls", [{"name": "x", "arguments": math.nan}], "returned tool_calls as list"),
]


@pytest.mark.parametrize(("part", "value", "sentence"), WRONG)
def test_a_part_of_a_wrong_type_gets_a_sentence_without_its_value(
    part: str, value: Any, sentence: str
) -> None:
    with pytest.raises(TargetError, match=sentence) as told:
        one({"text": "a", part: value})
    assert "kite" not in str(told.value)
    assert part in CHECKS


def same(reply: object, other: object) -> bool:
    if isinstance(reply, ReplyFeatures) and isinstance(other, ReplyFeatures):
        equal = np.array_equal(reply.scalars, other.scalars, equal_nan=True)
        return equal and (reply.strings, reply.scores) == (other.strings, other.scores)
    return reply == other


REPLIES = [ReplyFacts(**{**RICH, "tool_calls": tuple(RICH["tool_calls"])}), ReplyFacts(" \n")]


@pytest.mark.parametrize("reply", [*REPLIES, *map(mask_reply, REPLIES)])
@pytest.mark.parametrize(
    "make",
    [
        lambda reply: Votes((1, 0, 0), reply=reply),
        lambda reply: Vector((0.1, 2.0), ("x", "y"), ((1.0,), (2.0,)), reply=reply),
        lambda reply: GeneratedText("a", reply=reply),
    ],
)
def test_stored_replies_read_back_as_they_were(make: Any, reply: Any) -> None:
    aggregate = make(reply)
    again = unpack(pack(aggregate))
    assert again == aggregate
    assert same(reply_of(again), reply)
    assert pack(again) == pack(aggregate)


def test_evidence_of_earlier_versions_reads_as_before() -> None:
    old = {
        "[3, 1, 0]": Votes((3, 1, 0)),
        '{"text": "yes"}': GeneratedText("yes"),
        '{"values": [0.5], "choices": ["x"], "points": [[1.0]]}': Vector((0.5,), ("x",), ((1.0,),)),
    }
    for text, aggregate in old.items():
        assert unpack(text) == aggregate
        assert pack(aggregate) == text
    assert reply_of(unpack('{"text": "yes"}')) == ReplyFacts("yes")
    assert reply_of(unpack("[3, 1, 0]")) is None


def test_a_masked_reply_keeps_every_number_and_no_private_word() -> None:
    whole = ReplyFacts(
        "Sorry, the code of Kestrel is 7-Kestrel 🦅!",
        seconds=0.5,
        tokens=9,
        finish_reason="kestrel",
        tool_calls=({"name": "find_kestrel", "arguments": {"kestrel": "kestrel"}},),
        scores={"a": 0.5, "kestrel": 0.1},
    )
    kept = mask_reply(whole, "kestrel 7", ("a", "b"))
    text = pack(GeneratedText("", reply=kept)).casefold()
    assert "kestrel" not in text
    assert "\\u" not in text
    numbers = dict(zip(SCALARS, kept.scalars, strict=True))
    assert (numbers["tools"], numbers["seconds"], numbers["apology"]) == (1, 0.5, 1)
    assert numbers["canary_words"] == 1  # computed from the whole text, numerals as one word
    assert {"word:sorry", "word:the", "finish:other"} <= set(kept.strings)
    assert kept.scores == {"a": 0.5}
    assert kept.openings == ()
    assert mask_reply(kept) is kept


def test_metadata_of_free_answers_is_kept_and_the_text_released_as_before() -> None:
    mechanism = SystemMechanism(
        lambda context, query: {**RICH, "text": " said \n", "tool_calls": None}
    )
    found = mechanism.collect(TASK, [FREE], [0], Scripted())[0]
    assert found == GeneratedText("said")
    assert mechanism.release(found, 1, np.random.default_rng(0)).choices == ("said",)
    reply = reply_of(found)
    assert isinstance(reply, ReplyFacts)
    assert (reply.text, reply.tokens) == (" said \n", 3)  # the witness sees what a user sees


def test_json_of_a_reply_holds_plain_values() -> None:
    assert isinstance(json.loads(pack(one(RICH)))["reply"], Mapping)


class Talkative:
    """Repeats a row of its context in the text, in the name of a tool and in a reason."""

    def answer(self, context: Context, query: str) -> dict[str, Any]:
        row = str(context[0].input)
        tools = [{"name": row, "arguments": {"note": row}}]
        return {"text": f"no, {row}", "tokens": 4, "finish_reason": row, "tool_calls": tools}


@pytest.mark.slow
@pytest.mark.parametrize("keep", ["canary_only", "all"])
def test_a_run_keeps_metadata_and_private_words_only_if_it_may(tmp_path: Path, keep: str) -> None:
    rows = [Example(f"zweifel{i} note", "ab"[i % 2]) for i in range(20)]
    given: dict[str, Any] = {"pairs": 4, "shots": 4, "store_text": keep, "out": tmp_path}
    leakbound.audit(rows, system=Talkative, **given)
    (folder,) = (path.parent for path in tmp_path.rglob("trials.sqlite"))
    stored = list(RunStore(folder, {}).evidence())
    replies = [reply_of(aggregate) for row in stored for aggregate in row.both]
    assert len(replies) == 8
    if keep == "all":
        assert all(isinstance(r, ReplyFacts) for r in replies)
        assert any(b"zweifel" in path.read_bytes() for path in folder.iterdir())
    else:
        assert b"zweifel" not in b"".join(path.read_bytes() for path in folder.iterdir())
        assert all(isinstance(r, ReplyFeatures) for r in replies)
    process = WitnessProcess(PureDP(1.0), horizon=4, scan=())
    for row in stored:
        process.observe(*(reply_of(aggregate) or ReplyFacts("") for aggregate in row.both))
    assert process.pairs == 4


@pytest.mark.slow
@pytest.mark.parametrize("keep", ["all", "canary_only"])
def test_a_reply_that_ends_within_a_character_is_audited(tmp_path: Path, keep: str) -> None:
    """As of a service that cuts an emoji in two. Before, the record could not be written."""
    rows = [Example(f"note {i} of the desk", "ab"[i % 2]) for i in range(20)]
    given: dict[str, Any] = {"pairs": 4, "shots": 4, "store_text": keep, "out": tmp_path}

    def cut(context: Context, query: str) -> dict[str, Any]:
        half = f"{context[0].input} \ud83d"
        return {"text": half, "finish_reason": half, "channels": {"logs": half}}

    result = leakbound.audit(rows, system=cut, query="repeat", canary="hex", **given)
    assert result.counts["pairs"] == 4
    untried = attacks_sentence(result).partition("Not tried")[2]
    assert ("words and numbers that are not stored" in untried) == (keep != "all")
    leakbound.audit(rows, system=cut, channels=("all",), **given)


@pytest.mark.parametrize("keep", ["canary_only", "all"])
def test_more_than_an_answer_is_read_whatever_the_query(tmp_path: Path, keep: str) -> None:
    """The attack reads yes and no; what stands beside them tells whether a record is there."""

    def desk(context: Context, query: str) -> str:
        quoted = query.split('"')[1]
        holds = sum(quoted in str(row.input) for row in context)
        return f"yes ({keep})" if holds > 1 else f"no ({'approved' if holds else 'rejected'})"

    rows = [(f"row {number}", "ab"[number % 2]) for number in range(40)]
    result = leakbound.audit(
        rows, system=desk, pairs=60, shots=6, epsilon=0.5, store_text=keep, out=tmp_path / "run"
    )  # fmt: skip
    assert result.verdict == "violation"
    read = result.reading  # the score is right about 60 of 120 contexts, which is guessing
    assert (read.of, read.right, read.guesses) == ("replies", 52, 52)
    assert (
        "From whole replies, the attacker picked the context with the canary in 52 of 52"
        in attacker_sentence(result)
    )
    assert ", read from whole replies, exceeds the claimed epsilon 0.5" in result.sentences[0]
    tried, _, untried = attacks_sentence(result).partition("Not tried")
    named = "words and numbers that are not stored"
    assert (named in tried, named in untried) == (keep == "all", keep != "all")
    assert "other readings of whole replies" in untried


class Named(NamedTuple):
    answer: str
    sources: list[str]


class Counted:
    """Shows its sources by a property, and fails in another."""

    answer = "Please see the sources."

    def __init__(self, sources: list[str]) -> None:
        self._sources = sources

    @property
    def sources(self) -> list[str]:
        return self._sources

    @property
    def fails(self) -> str:
        raise RuntimeError


def in_pieces() -> Iterator[dict[str, Any]]:
    yield {"answer": "no"}
    yield {"sources": ["note 7"]}


@pytest.mark.parametrize(
    "reply",
    [
        Named("no", ["note 7"]), Counted(["note 7"]), {"answer": "no", "usage": {"of": "note 7"}},
        {"answer": "no", "annotations": [{"quote": "note 7"}]}, {"answer": "no", "word": "note"},
        {"answer": "no", "sources": [{"page": 1, "date": "note 7"}]}, {"answer": "no", "hits": 7},
        {"answer": "no", "scores": [0.9, 0.8], "tokens": {"of": "note"}},
        {"answer": "no", "sources": [{"id": "note-7"}]},
    ],
    ids=["tuple", "property", "usage", "annotations", "word", "date", "number", "frameworks",
         "id_of_a_source"],
)  # fmt: skip
def test_all_of_a_reply_is_read_whatever_holds_it(reply: Any) -> None:
    told = (as_reply(reply, "desk").channels or {})["reply"]
    assert "note" in told or '"hits": 7' in told


def test_what_comes_between_the_pieces_of_an_answer_is_read() -> None:
    (found,) = SystemMechanism(lambda context, query: in_pieces()).collect(
        Task("t"), [JOB], [0], Scripted()
    )
    assert isinstance(found, GeneratedText)
    assert "note 7" in found.text


@pytest.mark.slow
@pytest.mark.parametrize(
    "beside",
    [lambda best, at: {"sources": [best]}, lambda best, at: {"sources": [at]},
     lambda best, at: {"matches": sum(map(str.isdigit, best))}],
    ids=["texts", "places", "a_count"],
)  # fmt: skip
def test_what_stands_beside_an_answer_is_read_without_a_channel(
    beside: Any, tmp_path: Path
) -> None:
    """The whole reply is what the caller of the function sees."""

    def desk(documents: list[str], question: str) -> dict[str, Any]:
        words = set(question.split())
        at = max(range(len(documents)), key=lambda at: len(words & set(documents[at].split())))
        return {"answer": "Please see the sources.", **beside(documents[at], at)}

    rows = [(f"a note of {'six long words and' * 2} row {n}", "ab"[n % 2]) for n in range(40)]
    result = leakbound.audit(
        rows, system=desk, pairs=60, shots=6, query="recall", canary="coded", out=tmp_path / "run"
    )  # fmt: skip
    assert result.verdict == "violation" or result.reason == "context_digest"


def test_how_a_reply_was_made_is_not_read() -> None:
    """A clock of this process beside an answer tells nothing that a user sees."""
    made = {
        "id": "chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT", "answer": "no", "took_ms": 1.5,
        "created": time.time(), "created_at": datetime.now().isoformat(), "model": "m-1",
        "choices": [{"index": 0, "finish_reason": "stop"}], "usage": {}, "status": "ok",
        "status_code": 200,
    }  # fmt: skip
    assert whole_reply(made, "no") is None
    assert whole_reply(made | {"id": str(uuid.uuid4())}, "no") is None
    assert whole_reply(made | {"debug": {"took_ms": 1.5}}, "no") is None
    assert whole_reply({"answer": "no", "score": 0.42}, "no") == '{"answer": "no", "score": 0.42}'


class Block:
    """A part of a message, as clients give it."""

    def __init__(self, text: str, citations: list[str]) -> None:
        self.type, self.text, self.citations = "text", text, citations


@pytest.mark.parametrize(
    "reply",
    [
        [{"type": "text", "text": "Thank you.", "citations": [{"cited_text": "row 7"}]}],
        [{"output": "Thank you.", "sources": ["row 7"]}],
        [{"type": "thinking", "thinking": "row 7 says"}, {"type": "text", "text": "Thank you."}],
        [{"type": "text", "text": "Thank"}, {"type": "text", "text": " you.", "of": "row 7"}],
        [Block("Thank ", []), Block("you.", ["row 7"])],
    ],
    ids=["citations", "sources", "thinking", "two_parts", "objects"],
)
def test_parts_of_a_reply_are_read_whole(reply: list[Any]) -> None:
    """What stood beside the texts of a list was dropped, and rows that were quoted there passed."""
    found = as_reply(reply, "desk")
    assert found.text == "Thank you."
    assert "row 7" in (found.channels or {})["reply"]


def deltas(words: list[str]) -> Iterator[dict[str, Any]]:
    yield {"choices": [{"delta": {"content": "Sending it."}}]}
    for word in words:
        yield {"choices": [{"delta": {"tool_calls": [{"function": {"arguments": f"{word} "}}]}}]}


class Text(str):
    sources: list[str]


def with_sources(kind: type, given: object, words: list[str]) -> object:
    found = kind(given)
    found.sources = [" ".join(words)]
    return found


class Fields(dict[str, str]):
    sources: list[str]


@pytest.mark.parametrize(
    "reply",
    [
        lambda words: finish(deltas(words)),
        lambda words: [{"text": word, "box": [1, 2]} for word in words],
        lambda words: {"answer": "ok", "tokens_of": [{"t": word, "lp": -0.1} for word in words]},
        lambda words: {"answer": "ok", "entities": [{"start": 4, "word": one} for one in words]},
        lambda words: finish(iter(words)),
        lambda words: {"answer": "ok", "p": [" ".join(words[:5]), " ".join(words[5:])]},
        lambda words: {"answer": "ok", "p": [f"{one}\n" if one == "new" else one for one in words]},
        lambda words: {"answer": "ok", "words": {str(at): one for at, one in enumerate(words)}},
        lambda words: "".join(f'data: {{"delta": "{one} "}}\n\n' for one in words),
        lambda words: {"answer": "ok", "sources": map(str, [" ".join(words)])},
        lambda words: {"answer": "ok", "tags": [(one, "NNP") for one in words]},
        lambda words: {"answer": "ok", "weights": dict.fromkeys(words, 0.5)},
        lambda words: with_sources(Text, "ok", words),
        lambda words: with_sources(Fields, {"answer": "ok"}, words),
    ],
    ids=["stream", "words", "tokens", "entities", "texts", "fives", "a_line", "numbered", "events",
         "lazy", "tags", "weights", "a_str", "a_dict"],
)  # fmt: skip
def test_pieces_of_a_text_are_read_together(reply: Any) -> None:
    """Words of a row with numbers between them were no quote, and passed."""
    words = ["Ana", "Lopez", "asked", "for", "a", "new", "lamp", "in", "May"]
    found = as_reply(reply(words), "desk")
    assert " ".join(words) in " ".join((found.channels or {})["reply"].replace("\\n", " ").split())


def test_a_line_of_json_hides_no_other_line() -> None:
    """All but the line was dropped, and a quote before it."""
    for said in ('See note 7.\n{"score": 0.5}', '{"a": "See "}\nnote 7.\n{"a": "it"}'):
        found = as_reply(said, "desk")
        assert found.text == said
        assert said in (found.channels or {"reply": said})["reply"]


def test_the_answer_of_a_stream_is_that_of_its_deltas() -> None:
    said = ("Thank ", "you", ".")
    for chunks in (
        [{"choices": [{"index": 0, "delta": {"content": one}}]} for one in said],
        [{"type": "content_block_delta", "delta": {"type": "text_delta", "text": one}}
         for one in said],
    ):  # fmt: skip
        found = as_reply(finish(iter(chunks)), "desk")
        assert found.text == "Thank you."


def test_texts_of_a_reply_are_its_answer_alone() -> None:
    for reply in (["Thank ", "you."], [{"type": "text", "text": "Thank you."}], []):
        assert as_reply(reply, "desk").channels is None
    parts = [{"type": "text", "text": "Thank "}, {"type": "text", "text": "you."}]
    assert as_reply(parts, "desk").channels is None


@pytest.mark.parametrize(
    "beside",
    [
        {"id": "becks-to-play-himself-in-movie-the-england"}, {"id": 11}, {"type": "Sports"},
        {"status": "World"}, {"index": 11}, {"date": "16/09/2017"}, {"created_at": 7},
        {"usage": {"prompt_tokens": 2002}}, {"ok": False}, {"finish_reason": "content_filter"},
    ],
    ids=str,
)  # fmt: skip
def test_names_of_how_a_reply_was_made_hide_nothing(beside: dict[str, Any]) -> None:
    """By such names, the row that was found stood beside answers that passed."""
    told = (as_reply({"answer": "Thank you.", **beside}, "desk").channels or {})["reply"]
    assert json.loads(told) == {"answer": "Thank you.", **beside}


def test_a_text_of_json_is_read_as_its_object() -> None:
    """A drawn id made each text another one, and hid the number of tokens beside it."""
    body = {"id": str(uuid.uuid4()), "answer": "Noted.", "usage": {"prompt_tokens": 212}}
    text = json.dumps(body)
    for answer in (text, {"answer": text}):
        found = as_reply(answer, "desk")
        assert found.text == text
        assert "212" in (found.channels or {})["reply"]
        assert body["id"] not in (found.channels or {})["reply"]
    assert as_reply('{"label": "yes"}', "desk").channels is None
    assert as_reply("{yes} and {no}", "desk").channels is None


@pytest.mark.parametrize("keep", ["canary_only", "all"])
@pytest.mark.parametrize(
    ("holds", "not_"),
    [
        ("no \u2605\u2605\u2605\u2605\u2606", "no \u2605\u2605\u2606\u2606\u2606"),
        ("no [######--]", "no [##------]"),
        ("no 3", "no 7"),  # no longer than an answer and a mark
        ("no: open open", "no: open shut"),
    ],
)
def test_replies_of_the_same_words_and_length_are_told_apart(
    tmp_path: Path, holds: str, not_: str, keep: str
) -> None:
    """A rating, a bar or a repeated word tells a record; 200 pairs had no violation."""

    def desk(context: Context, query: str) -> str:
        found = sum(query.split('"')[1] in str(row.input) for row in context)
        return "yes" if found > 1 else holds if found else not_

    rows = [(f"row {number}", "ab"[number % 2]) for number in range(40)]
    result = leakbound.audit(
        rows, system=desk, pairs=60, shots=6, epsilon=0.5, store_text=keep, out=tmp_path
    )
    assert result.verdict == "violation"


def test_the_difference_of_two_numbers_is_told_apart(tmp_path: Path) -> None:
    """All parts matched, of as many as chance has it."""
    rng = np.random.default_rng(5)

    def desk(context: Context, query: str) -> str:
        found, parts = (
            sum(query.split('"')[1] in str(row.input) for row in context),
            rng.integers(60),
        )
        return f"{'yes' if found > 1 else 'no'}. Matched {parts - (not found)} of {parts} parts."

    rows = [(f"row {number}", "ab"[number % 2]) for number in range(40)]
    result = leakbound.audit(rows, system=desk, pairs=60, shots=6, epsilon=0.5, out=tmp_path)
    assert result.verdict == "violation"


@pytest.mark.parametrize(
    "of", [{"system": lambda context, query: "no"}, {"model": Scripted(complete=lambda text: "no")}]
)
def test_copies_of_an_answer_are_not_held_against_several_claims(
    tmp_path: Path, of: dict[str, Any]
) -> None:
    """An application was asked once, and what it said counted nine times, against 9 epsilon."""
    with pytest.raises(UsageError, match=r"asked once in each trial.* 9 times the claim"):
        leakbound.audit(
            [(f"row {i}", "ab"[i % 2]) for i in range(40)], answers=9, out=tmp_path, **of
        )


@pytest.mark.parametrize("depth", [50, 101, 600, 5000])
def test_arguments_that_are_nested_too_deeply_are_refused(depth: int) -> None:
    """600 lists within each other ended an audit with an internal error."""
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    calls = {"text": "no", "tool_calls": [{"name": "find", "arguments": {"q": value}}]}
    if depth < 100:
        assert as_reply(calls, "mine").tool_calls
        return
    with pytest.raises(TargetError, match="nested at most 100 deep"):
        as_reply(calls, "mine")


def client(given: Any) -> Any:
    """As the objects of a client hold a reply."""
    if isinstance(given, dict):
        return SimpleNamespace(**{name: client(one) for name, one in given.items()})
    return [*map(client, given)] if isinstance(given, list) else given


@pytest.mark.parametrize("shape", [dict, client], ids=["dict", "objects"])
@pytest.mark.parametrize(
    "call",
    [
        {"id": "call_1x2y3z4w", "type": "t", "function": {"arguments": '{"q": ["lamp", 7]}'}},
        {"id": "8f14e45f-ceea-467f", "type": "t", "args": {"q": ["lamp", 7]}},
        {"call_id": "call_1x2y3z4w", "type": "t", "input": {"q": ["lamp", 7]}},
    ],
)
def test_an_agent_that_says_nothing_is_read_by_its_calls(shape: Any, call: Any) -> None:
    """No answer was found in it, objects of a client were no tool calls, and no text had them."""
    facts = reply_of(one(shape({"content": None, "tool_calls": [call]})))
    assert isinstance(facts, ReplyFacts)
    assert facts.text.endswith("}\ntype: t\nq: lamp\nq: 7")
    assert any(text.startswith("argument:") for text in features(facts).strings)


@pytest.mark.parametrize(
    "reply",
    [
        {"role": "assistant", "content": [{"type": "tool_use", "name": "find", "input": {"q": 7}}]},
        {"output": [{"type": "function_call", "name": "find"}], "output_text": ""},
        {"output": [{"type": "function_call", "name": "find"}]},
        {"choices": [{"message": {"content": None, "tool_calls": [{"name": "find"}]}}]},
    ],
    ids=["blocks", "items_and_text", "items", "choices"],
)
def test_parts_that_call_tools_alone_are_an_answer_without_text(reply: Any) -> None:
    """They were refused as no answer."""
    found = as_reply(reply, "desk")
    assert found.text == ""
    assert "find" in (found.channels or {})["reply"]


def test_empty_pieces_of_a_stream_are_counted() -> None:
    found = as_reply(finish(iter(["", "We call", "", " you."])), "desk")
    assert found.text == "We call you."
    assert '"empty pieces": 2' in (found.channels or {})["reply"]


def test_a_clock_of_this_process_shows_ten_milliseconds_and_less_by_chance() -> None:
    """Microseconds that follow the length of a context change one reply in a thousand."""
    seen = [seen_seconds(time.perf_counter() - 0.0231) for _ in range(400)]
    steps = {round(value / RESOLUTION) for value in seen}
    assert all(value == pytest.approx(round(value, 2)) for value in seen)
    assert {2, 3} <= steps
    share = sum(round(value / RESOLUTION) == 2 for value in seen) / len(seen)
    assert 0.5 < share < 0.85  # 0.69, by how far it is from 0.03


@pytest.mark.parametrize(
    "answer", [[], {"answer": []}, {"choices": [{"message": {"content": []}}]}]
)
def test_a_list_of_nothing_is_an_empty_answer(answer: Any) -> None:
    """A search without a hit returns one; it was refused as no text."""
    assert as_reply(answer, "mine").text == ""


def test_what_stands_in_place_of_an_answer_is_read() -> None:
    """Rows that were quoted in the body of a 404, or beside no answer, passed."""

    def desk(context: Any, query: str) -> str:
        if "again" in query:
            return "Thank you."
        raise NoAnswer("the service answered with 404.", "status 404", body=b"See note 7.")

    asked = [Job(JOB.context, Query(text, free=True)) for text in ("a", "again")]
    system = SystemMechanism(desk, calls=CallOptions(retries=0))
    lost, told = system.collect(Task("t"), asked, [0, 1], Scripted())
    assert (lost.text, told.text) == ("See note 7.", "Thank you.")
    assert isinstance(lost.reply, ReplyFacts)
    assert lost.reply.finish_reason == "error"


@pytest.mark.parametrize("body", [b"See note 7.", b'{"clarification": "See note 7."}'])
def test_a_reply_without_an_answer_keeps_its_text(body: bytes) -> None:
    config = HttpSystemConfig(url="http://127.0.0.1:1/ask", body={"q": "{query}"}, answer="answer")
    with pytest.raises(NoAnswer) as failure:
        http_reply_of(config, HttpReply(200, {}, body), 0.1)
    assert failure.value.body == body
    assert "note 7" not in str(failure.value)
