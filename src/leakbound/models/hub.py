"""Whether the model hub is reachable, so that nobody waits for retries that cannot help."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit
from urllib.request import getproxies


def hub_host() -> str:
    """The host of the hub, from `HF_ENDPOINT`."""
    from huggingface_hub import constants

    return urlsplit(constants.ENDPOINT).hostname or constants.ENDPOINT


def is_reachable() -> bool:
    """Whether the hub's name can be resolved. A proxy may resolve names that this machine
    cannot.
    """
    if getproxies():
        return True
    try:
        socket.getaddrinfo(hub_host(), 443)
    except OSError:
        return False
    return True
