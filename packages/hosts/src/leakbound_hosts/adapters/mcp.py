"""A server of the Model Context Protocol as a system, and what goes through a client as channels.

A YAML file (`--system mcp:notes.yaml`) names the server, and the tools that ask, plant and remove.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import yaml

from leakbound.errors import TargetError, UsageError
from leakbound.models.content import text_only
from leakbound.systems.http.system import fill_slots, row_values, value_at
from leakbound.tasks import Example
from leakbound_hosts.adapters.agents import INPUTS, OUTPUTS, channels_of, text_of
from leakbound_hosts.summary import host_error

PARTS = ("ask", "plant", "remove")
MUST = (
    "it must name `server` (a command as a list, or a URL) and `ask` ({tool: NAME, arguments: "
    '{...: "{query}"}}), and may name `plant` (with "{input}") and `remove` (with "{id}")'
)


def load_mcp(place: str) -> object:
    """The system that a YAML file describes."""
    file = Path(place)
    config: Any = yaml.safe_load(file.read_text(encoding="utf-8")) if file.is_file() else None
    tools = [one for one in PARTS if one in (config or {})]
    if "ask" not in tools or "server" not in config or any("tool" not in config[x] for x in tools):
        raise UsageError(f"{place!r} describes no server of MCP; {MUST}.")
    call = _connect(config["server"])

    def use(part: str, **values: Any) -> Mapping[str, object]:
        tool = config[part]
        found = call(tool["tool"], fill_slots(tool.get("arguments", {}), values))
        if found.get("isError"):
            raise TargetError(
                f"the tool {tool['tool']!r} of {place!r} ended in an error; it must take the "
                "arguments that the file gives."
            )
        return found

    def plant(record: Example) -> object:
        found = use("plant", input=text_only(record.input, place), label=record.label)
        return value_at(found, config["plant"].get("id", "content.0.text"))

    if "plant" not in tools:
        return lambda context, query: use("ask", query=query, **row_values(context))
    remove, ask = (lambda record: use("remove", id=record)), lambda asked: use("ask", query=asked)
    return SimpleNamespace(plant=plant, remove=remove, ask=ask)


def _connect(server: str | list[str]) -> Callable[[str, object], Mapping[str, object]]:
    """A call of a tool over a connection that stays open, as JSON."""
    try:
        from anyio.from_thread import start_blocking_portal
        from mcp import ClientSession, StdioServerParameters, stdio_client
        from mcp.client import streamable_http
    except ModuleNotFoundError:
        raise host_error("mcp", "mcp") from None
    if isinstance(server, str):  # the second release of mcp has another name for it
        found = vars(streamable_http)
        opened = found.get("streamable_http_client", found.get("streamablehttp_client"))(server)
    else:
        opened = stdio_client(StdioServerParameters(command=server[0], args=server[1:]))
    ending = ExitStack()
    portal = ending.enter_context(start_blocking_portal())
    within = portal.wrap_async_context_manager
    read, write, *_ = ending.enter_context(within(opened))
    session = ending.enter_context(within(ClientSession(read, write)))
    portal.call(session.initialize)
    atexit.register(ending.close)
    return lambda tool, given: _plain(portal.call(session.call_tool, tool, given))


def _plain(result: Any) -> Mapping[str, object]:
    return cast("Mapping[str, object]", result.model_dump(mode="json", by_alias=True))


@contextmanager
def note_tools(session: Any) -> Iterator[dict[str, str]]:
    """Follow what a `ClientSession` of an agent sends to tools and gets from them, as the channels
    `tool_inputs` and `tool_outputs`; they are there when the block has ended."""
    steps, call, channels = list[tuple[str, str]](), session.call_tool, dict[str, str]()

    async def call_tool(name: str, arguments: object = None, *given: Any, **named: Any) -> object:
        steps.append((INPUTS, text_of({"name": name, "args": arguments})))
        result = await call(name, arguments, *given, **named)
        steps.append((OUTPUTS, text_of(_plain(result)["content"])))
        return result

    session.call_tool = call_tool
    try:
        yield channels
    finally:
        del session.call_tool
        channels |= channels_of(steps, None)
