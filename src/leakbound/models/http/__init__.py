"""The HTTP client of endpoints, `probe` and systems behind HTTP: `transport` sends, `run_blocking`
and `LoopThread` wait for it, and `hosts` knows whose an address is. It contacts no other host than
the given one.
"""

from leakbound.models.http.transport import AiohttpTransport, HttpReply, Transport, TransportError

__all__ = ["AiohttpTransport", "HttpReply", "Transport", "TransportError"]
