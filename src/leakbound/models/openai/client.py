"""Requests to the addresses of an endpoint: retried, paced, counted and answered in order.

The interface is synchronous, the implementation asynchronous.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from leakbound.models.openai.account import Price
from leakbound.models.openai.endpoint import Endpoint
from leakbound.models.openai.wire import HttpRequest

if TYPE_CHECKING:
    from leakbound.models.openai.pool import ConnectionPool

R = TypeVar("R")


class Client:
    """Sends batches of requests.

    Connections are opened by the first batch and kept until `close` or the end of the process.
    """

    def __init__(
        self, model: str, endpoint: Endpoint, key: str | None = None, price: Price | None = None
    ) -> None:
        self._arguments = (model, endpoint, key, price)
        self._lock = threading.Lock()
        self._pool: ConnectionPool | None = None

    def send(self, requests: Sequence[HttpRequest[R]]) -> list[R]:
        """Send requests and wait for all of them. Several threads may call this."""
        return self._open().run(requests) if requests else []

    def _open(self) -> ConnectionPool:
        from leakbound.models.openai.pool import ConnectionPool  # imports asyncio

        with self._lock:
            if self._pool is None:
                self._pool = ConnectionPool(*self._arguments)
            return self._pool

    def close(self) -> None:
        """Close the connections; the next `send` opens new ones."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()
