"""Which addresses mean this machine."""

from __future__ import annotations

import ipaddress

__all__ = ["is_local"]


def is_local(host: str) -> bool:
    """Whether a host name or address means this machine only.

    Args:
        host: A name or an IP address, with or without brackets.

    Returns:
        True for loopback addresses and localhost.

    Examples:
        >>> is_local("127.0.0.1"), is_local("[::1]"), is_local("example.org")
        (True, True, False)
    """
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"
