"""Whether the model hub can be asked, so that nobody waits for retries that cannot help."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit
from urllib.request import getproxies

__all__ = ["hub_host", "is_reachable"]


def hub_host() -> str:
    """The host of the hub, as `HF_ENDPOINT` names it.

    Returns:
        Such as "huggingface.co".
    """
    from huggingface_hub import constants

    return urlsplit(constants.ENDPOINT).hostname or constants.ENDPOINT


def is_reachable() -> bool:
    """Whether the hub's name is known here; a proxy knows names that this machine does not.

    Returns:
        False only where every request would fail.
    """
    if getproxies():
        return True
    try:
        socket.getaddrinfo(hub_host(), 443)
    except OSError:
        return False
    return True
