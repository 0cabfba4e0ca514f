"""A server that stops answering at a known request, to kill a client in the middle."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

__all__ = ["Holding"]


class Holding:
    """ASGI middleware: lets `after` POST requests through, and holds all later ones until `free` is
    set. `held` is set once one is held.
    """

    def __init__(self, app: Any, after: int) -> None:
        self.app, self.left = app, after
        self.held, self.free = threading.Event(), threading.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["method"] == "POST":
            self.left -= 1
            while self.left < 0 and not self.free.is_set():
                self.held.set()
                await asyncio.sleep(0.01)
        await self.app(scope, receive, send)
