"""A server of the Model Context Protocol as a target over its real transport, and as a channel."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from stores import DISPOSABLE

import leakbound
from leakbound.errors import TargetError, UsageError
from leakbound.systems import load_system

pytestmark = [pytest.mark.hosts, pytest.mark.filterwarnings("ignore")]
ROWS = [(f"note {i} on the lamp of desk {i % 7}", "ab"[i % 2]) for i in range(80)]
SERVER = """
import itertools, json, sys
try:
    from mcp.server.mcpserver import MCPServer as Server
except ImportError:
    from mcp.server.fastmcp import FastMCP as Server
server, notes, numbers, quotes = Server("notes"), {}, itertools.count(), sys.argv[1] == "quotes"

@server.tool()
def add(text: str) -> str:
    notes[str(number := next(numbers))] = text
    return str(number)

@server.tool()
def delete(id: str) -> str:
    notes.pop(id)
    return "deleted"

@server.tool()
def search(words: str) -> str:
    found = next((note for note in notes.values() if note[:12] == words[:12]), "nothing")
    return found if quotes else "Please see the handbook."

@server.tool()
def count() -> str:
    return str(len(notes))

@server.tool()
def answer(given: str, words: str) -> str:
    place = given.find(words[:12])
    return given[place:place + 90] if quotes and place >= 0 else "Please see the handbook."

at = {"transport": "streamable-http", "port": int(sys.argv[2])} if len(sys.argv) > 2 else {}
server.run(**at)
"""


def described(folder: Path, how: str) -> Path:
    pytest.importorskip("mcp")
    (folder / "server.py").write_text(SERVER)
    file = folder / "notes.yaml"
    file.write_text(yaml.safe_dump({
        "server": [sys.executable, str(folder / "server.py"), how],
        "ask": {"tool": "search", "arguments": {"words": "{query}"}},
        "plant": {"tool": "add", "arguments": {"text": "{input}"}},
        "remove": {"tool": "delete", "arguments": {"id": "{id}"}},
    }))  # fmt: skip
    return file


@pytest.mark.parametrize(("how", "violates"), [("quotes", True), ("refuses", False)])
def test_a_server_is_audited_over_its_own_protocol(
    how: str, violates: bool, tmp_path: Path
) -> None:
    file = described(tmp_path, how)
    result = leakbound.audit(
        ROWS, system=f"mcp:{file}", design="one_run", canaries=40, epsilon=2, out=tmp_path,
        calls=DISPOSABLE, settings={"claim_for": "run", "documents": 0},
    )  # fmt: skip
    assert (result.verdict == "violation") is violates
    if violates:
        assert result.bound.epsilon > 2


@pytest.mark.parametrize(("how", "violates"), [("quotes", True), ("refuses", False)])
def test_a_server_behind_a_url_is_audited_by_what_it_is_given(
    how: str, violates: bool, tmp_path: Path
) -> None:
    file = described(tmp_path, how)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = subprocess.Popen([sys.executable, str(tmp_path / "server.py"), how, str(port)])
    try:
        while server.poll() is None:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.1)
        given = {"given": "{context}", "words": "{query}"}
        file.write_text(yaml.safe_dump({
            "server": f"http://127.0.0.1:{port}/mcp", "ask": {"tool": "answer", "arguments": given},
        }))  # fmt: skip
        result = leakbound.audit(
            ROWS, system=f"mcp:{file}", query="recall", canary="coded", pairs=24, shots=3,
            out=tmp_path,
        )  # fmt: skip
        assert (result.verdict == "violation") is violates
        file.write_text(file.read_text().replace("{context}", "{rows}"))  # which is no text
        with pytest.raises(TargetError, match=r"'answer' of .* ended in an error; it must take"):
            leakbound.audit(ROWS, system=f"mcp:{file}", pairs=24, shots=3, out=tmp_path / "again")
    finally:
        server.terminate()
        server.wait()


def test_a_client_session_is_a_channel(tmp_path: Path) -> None:
    """The agent's answer quotes nothing; the tool's result, which it reads, does."""
    file = described(tmp_path, "quotes")
    from leakbound_hosts.adapters.mcp import note_tools
    from mcp import ClientSession, StdioServerParameters, stdio_client

    command, *given = yaml.safe_load(file.read_text())["server"]

    async def agent() -> dict[str, str]:
        async with (
            stdio_client(StdioServerParameters(command=command, args=given)) as (read, write, *_),
            ClientSession(read, write) as session,
        ):
            await session.initialize()
            await session.call_tool("add", {"text": "the gate code is 4711"})
            with note_tools(session) as channels:
                await session.call_tool("search", {"words": "the gate code?"})
            await session.call_tool("count")  # outside of the block
        return channels

    channels: Any = asyncio.run(agent())
    assert json.loads(channels["tool_inputs"]) == {
        "name": "search", "args": {"words": "the gate code?"},
    }  # fmt: skip
    assert json.loads(channels["tool_outputs"])[0]["text"] == "the gate code is 4711"


def test_a_file_that_names_no_tool_is_refused(tmp_path: Path) -> None:
    (tmp_path / "no.yaml").write_text("server: [python]\nask: search\n")
    for name in ("no.yaml", "none.yaml"):
        with pytest.raises(UsageError, match="describes no server of MCP; it must name `server`"):
            load_system(f"mcp:{tmp_path / name}")
