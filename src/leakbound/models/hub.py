"""Whether the model hub is reachable, so that nobody waits for retries that cannot help."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit
from urllib.request import getproxies

__all__ = ["hub_host", "is_reachable"]


def hub_host() -> str:
    """The host of the hub, from `HF_ENDPOINT`.

    Returns:
        A host such as "huggingface.co".
    """
    from huggingface_hub import constants

    return urlsplit(constants.ENDPOINT).hostname or constants.ENDPOINT


def is_reachable() -> bool:
    """Whether the hub's name can be resolved. A proxy may resolve names that this machine cannot.

    Returns:
        False only if every request would fail.
    """
    if getproxies():
        return True
    try:
        socket.getaddrinfo(hub_host(), 443)
    except OSError:
        return False
    return True
