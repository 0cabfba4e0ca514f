"""Requests to the addresses of an endpoint:

retried, paced, counted, in order. Synchronous outside, asynchronous inside.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from leakbound.models.openai.account import Price
from leakbound.models.openai.endpoint import Endpoint
from leakbound.models.openai.wire import HttpRequest

if TYPE_CHECKING:
    from leakbound.models.openai.pool import ConnectionPool

__all__ = ["Client"]


class Client:
    """Sends batches of requests.

    Connections are opened by the first one and kept until `close` or the end of the process.
    """

    def __init__(
        self, model: str, endpoint: Endpoint, key: str | None = None, price: Price | None = None
    ) -> None:
        self._made = (model, endpoint, key, price)
        self._lock = threading.Lock()
        self._line: ConnectionPool | None = None

    def send(self, requests: Sequence[HttpRequest]) -> list[Any]:
        """What `read` makes of each reply, in order; may be called from several threads.

        Raises Refused if the endpoint will not do what is asked, TargetError if it cannot be
        reached or fails too often,
        LimitReached if a limit on money or time is reached.
        """
        return self._opened().run(requests) if requests else []

    def _opened(self) -> ConnectionPool:
        from leakbound.models.openai.pool import ConnectionPool  # brings the HTTP library

        with self._lock:
            if self._line is None:
                self._line = ConnectionPool(*self._made)
            return self._line

    def close(self) -> None:
        """End the connections; the next `send` opens new ones."""
        with self._lock:
            line, self._line = self._line, None
        if line is not None:
            line.close()
