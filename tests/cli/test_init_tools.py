"""init, audit and gate of an agent whose text says nothing: its tool calls do, or do not."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import yaml
from commands import cli

pytestmark = [pytest.mark.process, pytest.mark.slow]

AGENT = '''
"""An agent as frameworks return it: texts that say nothing, and calls with ids of their own."""
import json, random, re, uuid

draws = random.Random(4)

def words(text):
    return set(re.findall(r"[a-z]{4,}", text.lower()))

def nearest(rows, query):
    return max(rows, key=lambda row: (len(words(row.text) & words(query)), row.text))

def paid(rows):
    return sum(int(one) for row in rows for one in re.findall(r"\\d+", row.text))

def call(name, **arguments):
    told = {"name": name, "arguments": json.dumps(arguments)}
    return {"id": f"call_{uuid.UUID(int=draws.getrandbits(128)).hex}", "function": told}

def reply(*calls):
    return {"content": draws.choice(["One moment.", "I check that.", "Sure."]), "tool_calls": calls}

def question_only(rows, query):
    extra = [call("clock")] if draws.random() < 0.5 else []
    return reply(call("search", query=query, limit=draws.choice([3, 5])), *extra)

def silent(rows, query):
    """No text at all, as of a model that decides to call a tool."""
    told = {"name": "lookup", "args": {"words": sorted(words(query))[:3]}, "id": "toolu_01aZ9"}
    return {"content": None, "tool_calls": [told]}

def offset(rows, query):
    return reply(call("search", query=query, offset=paid(rows) % 50))

def balance(rows, query):
    spent = draws.randrange(100, 5000)
    return reply(call("pay", amount=spent), call("set_balance", value=paid(rows) - spent))

def number(rows, query):
    return reply(*(call("step", n=draws.randrange(99)) for _ in range(1 + paid(rows) % 3)))

def order(rows, query):
    two = [call("search", query=query), call("weather", city=draws.choice(["Rome", "Oslo"]))]
    return reply(*two[:: 1 if paid(rows) % 2 else -1])

def only_if_there(rows, query):
    known = len(words(nearest(rows, query).text) & words(query)) > 4
    return reply(call("search", query=query), *[call("open_case")] * known)
'''
TOPICS = [
    *("invoice", "printer", "router", "refund", "parcel", "delivery", "order", "account"),
    *("login", "meeting", "travel", "report", "budget", "contract", "server", "backup"),
]


def decided(folder: Path, function: str) -> tuple[int, int, str]:
    """Exit codes of audit and gate after init, and what the audit said."""
    (folder / "agent.py").write_text(AGENT)
    rng = random.Random(3)
    texts = (f"{' '.join(rng.sample(TOPICS, 6))} paid {rng.randrange(20, 900)}" for _ in range(120))
    rows = (f"{text},{'ab'[at % 2]}" for at, text in enumerate(texts))
    (folder / "private.csv").write_text("\n".join(["text,label", *rows]))

    def ended(*words: str) -> tuple[int, str]:
        done = cli(*words, cwd=folder)
        return done.returncode, done.stdout + done.stderr

    code, said = ended("init", "private.csv", f"python:agent.py:{function}")
    assert code == 0, said
    audit, said = ended("audit", "--config", "audit.yaml", "--out", "runs", "-v")
    return audit, ended("gate", "runs", "--max-epsilon", "1")[0], said


@pytest.mark.parametrize("function", ["question_only", "silent"])
def test_tool_calls_that_follow_the_question_alone_pass(tmp_path: Path, function: str) -> None:
    """It was blind for ever, or no answer at all where the agent says nothing beside its calls."""
    audit, gate, said = decided(tmp_path, function)
    assert (audit, gate) == (0, 0), said
    assert "channels" not in yaml.safe_load((tmp_path / "audit.yaml").read_text())["attack"]


@pytest.mark.parametrize("function", ["offset", "balance", "number", "order"])
def test_tool_calls_that_follow_the_records_are_named(tmp_path: Path, function: str) -> None:
    """They were blind, and the advice was ever more controls."""
    audit, gate, said = decided(tmp_path, function)
    assert audit == gate != 0, said
    assert audit == 1 or "depend on which records are in the context" in " ".join(said.split())


def test_a_call_that_is_made_for_a_known_record_chooses_the_question(tmp_path: Path) -> None:
    """No canary stands in any reply. Init chose no question, so the audit named another one."""
    audit, gate, said = decided(tmp_path, "only_if_there")
    assert (audit, gate) == (1, 1), said
