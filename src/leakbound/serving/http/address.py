"""Which host names and addresses mean this machine."""

from __future__ import annotations

import ipaddress
import re

HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?")  # nothing else may follow


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


def names_this_machine(header: str) -> bool:
    """Whether a Host header names this machine in its simplest form.

    Libraries replace a header that they cannot parse by the server's own address, so it is parsed
    here.

    Examples:
        >>> names_this_machine("localhost:8000"), names_this_machine("[::1]:80")
        (True, True)
        >>> names_this_machine("evil.example:"), names_this_machine("evil.example#127.0.0.1")
        (False, False)
    """
    found = HOST.fullmatch(header)
    return found is not None and is_local(found[1])
