"""The HTTP client of endpoints, `probe` and systems behind HTTP: `default_transport` sends,
`run_blocking` and `LoopThread` wait for it, `window` paces and retries, `post_json` reads replies
and says what failed, and `hosts` knows whose an address is. It contacts no other host than the
given one.
"""

from leakbound.models.http.transport import HttpReply, Transport, TransportError, default_transport

__all__ = ["HttpReply", "Transport", "TransportError", "default_transport"]
