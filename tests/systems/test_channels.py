"""Channels of a reply: what a system may name, and what is kept of it."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from leakbound.auditing import make_spec
from leakbound.errors import TargetError, UsageError
from leakbound.models import Scripted
from leakbound.systems import Reply, SystemMechanism, load_http_system, traced
from leakbound.systems.channels import channels_of
from leakbound.systems.replies import as_reply
from leakbound.tasks import GeneratedText, Job, Query, Task, channel_of, pack, unpack
from leakbound.witness import ReplyFacts

SECRET = "the gate code is 4711"
ANSWER = {
    "text": "Done.", "tool_calls": [{"name": "search", "arguments": {"q": SECRET}}],
    "channels": {"logs": SECRET, "messages": ["plan", SECRET], "memory": None},
}  # fmt: skip


def kept(channels: tuple[str, ...]) -> GeneratedText:
    """The aggregate of one answer."""
    system = SystemMechanism(lambda context, query: ANSWER, "mine", channels=channels)
    job = Job((), Query("so?", free=True))
    (found,) = system.collect(Task("notes"), [job], [0], Scripted())
    assert isinstance(found, GeneratedText)
    return found


def test_a_reply_names_its_channels() -> None:
    reply = as_reply(ANSWER, "mine")
    assert reply.channels == {"logs": SECRET, "messages": f'["plan", "{SECRET}"]', "memory": ""}
    assert "4711" not in repr(reply)
    assert as_reply(Reply("yes", channels={"logs": "a"}), "mine").channels == {"logs": "a"}


@pytest.mark.parametrize(
    "wrong",
    [[SECRET], {SECRET: "x"}, {"answer": SECRET}, {"seconds": SECRET}, {"logs": {1, 2}},
     {f"a{i}": SECRET for i in range(33)}],
    ids=["a list", "a name of words", "the answer", "the seconds", "a set", "too many"],
)  # fmt: skip
def test_channels_that_cannot_be_used_are_refused_without_their_text(wrong: object) -> None:
    with pytest.raises(TargetError, match=r"channels as .* it must be a mapping") as found:
        as_reply({"text": "yes", "channels": wrong}, "mine")
    assert "4711" not in str(found.value)


def test_only_what_is_tested_is_kept_and_each_apart() -> None:
    plain = kept(())
    assert not plain.channels
    assert "4711" in pack(plain)  # the tool call, as part of the reply
    some = kept(("answer", "logs"))
    assert [*some.channels] == ["logs"]
    assert isinstance(some.reply, ReplyFacts)
    assert (some.reply.seconds, some.reply.tool_calls) == (None, ())
    every = kept(("all",))
    assert [*every.channels] == ["seconds", "tool_calls", "logs", "messages", "memory"]
    assert SECRET in every.channels["tool_calls"].text
    seconds = every.channels["seconds"]
    assert seconds.text == ""
    assert isinstance(seconds.reply, ReplyFacts)
    assert "4711" not in repr(every)


def test_channels_are_stored_and_read_again() -> None:
    every = kept(("all",))
    again = unpack(pack(every))
    assert again.channels == every.channels
    assert reply_texts(again) == reply_texts(every)
    assert channel_of(again, "answer") is again
    assert channel_of(again, "elsewhere") == GeneratedText("")


def reply_texts(found: Any) -> dict[str, str]:
    return {name: one.reply.text for name, one in found.channels.items()}


def test_a_call_without_an_answer_has_silent_channels() -> None:
    assert [*channels_of(Reply(""), ("all",))] == ["seconds"]


def test_logs_and_files_of_a_block_are_channels(tmp_path: Path) -> None:
    (tmp_path / "old.txt").write_text("was there")
    log = logging.getLogger("leakbound-test-agent")
    log.setLevel(logging.DEBUG)
    with traced("leakbound-test-agent", tmp_path) as trace:
        log.debug("read %s", SECRET)
        (tmp_path / "new").mkdir()
        (tmp_path / "new" / "draft.txt").write_text("a draft")
    log.debug("later")
    assert trace.channels == {"logs": f"read {SECRET}", "files": "a draft"}
    assert "4711" not in repr(trace)
    assert not log.handlers


def test_what_a_block_left_is_known_where_it_fails() -> None:
    seen = []

    def fail() -> None:
        with traced("leakbound-test-agent") as trace:
            seen.append(trace)
            logging.getLogger("leakbound-test-agent").warning("before")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert seen[0].channels == {"logs": "before"}


HTTP = """
url: http://127.0.0.1:1/ask
body: {{q: "{{query}}", rows: "{{rows}}"}}
answer: text
channels: {channels}
"""


def test_a_service_names_the_paths_of_its_channels(tmp_path: Path) -> None:
    file = tmp_path / "system.yaml"
    file.write_text(HTTP.format(channels="{logs: trace.logs, messages: trace.messages}"))
    assert load_http_system(file)
    file.write_text(HTTP.format(channels="{answer: trace.logs}"))
    with pytest.raises(UsageError, match=r"channels of .*; they must be a mapping of at most 32"):
        load_http_system(file)


@pytest.mark.parametrize(
    ("given", "read"),
    [("answer, logs", ("answer", "logs")), (["answer", "logs"], ("answer", "logs")),
     ("all", ("all",)), ([], None)],
    ids=["a text", "a list", "all", "none"],
)  # fmt: skip
def test_channels_are_a_key_of_a_configuration(given: object, read: tuple[str, ...] | None) -> None:
    spec = make_spec({"channels": given})
    assert spec.attack.channels == read
    assert spec.nested()["attack"].get("channels") == (None if read is None else list(read))


@pytest.mark.parametrize(
    ("given", "why"),
    [({"channels": "a b"}, "a name begins with a letter"), ({"channels": "a,a"}, "a twice"),
     ({"channels": "all,a"}, "all beside other"), ({"channels": 3}, "it must be names"),
     ({"channels": "a", "layout": "one_run"}, "a one_run design has none")],
    ids=["blank", "twice", "all and more", "a number", "one run"],
)  # fmt: skip
def test_names_that_no_audit_can_test_are_refused(given: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        make_spec(given)
