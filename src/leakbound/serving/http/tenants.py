"""Tenants: who may ask, how much, and how often.

Each tenant has a token, and may have caps on answers and epsilon and a limit on requests per
minute. The caps apply below the budget of the data: a tenant with answers left gets none once the
budget of the data is spent, and no tenant can use more than its share.
"""

from __future__ import annotations

import hashlib
import ipaddress
import json
import math
import os
import re
import secrets
import stat
import time
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from pathlib import Path

from leakbound.errors import UsageError

SHORTEST = 16  # characters of a token: a random one of 16 hex digits has 64 bits
NAME = re.compile(r"[\w.-]{1,64}", re.ASCII)
MINUTE = 60.0
HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?")  # nothing else may follow


@dataclass(frozen=True, slots=True)
class Tenant:
    """A client of the service.

    Attributes:
        name: Its name, for accounts and the log.
        token: The bearer token that it sends. Secret.
        answers: The most answers that it ever gets; None for no cap.
        epsilon: The most that its answers may spend, at the delta of the budget; None for no cap.
        rate: The most requests per minute; None for no limit.

    Raises:
        UsageError: If a value cannot be used.
    """

    name: str
    token: str = field(repr=False)
    answers: int | None = None
    epsilon: float | None = None
    rate: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not NAME.fullmatch(self.name):
            raise UsageError(
                f"a tenant has the name {self.name!r}; it must have 1 to 64 letters, digits, "
                "dots, dashes or underscores."
            )
        for name, found, must, whole in (
            ("answers", self.answers, "whole number of at least 0", True),
            ("epsilon", self.epsilon, "number of at least 0", False),
            ("rate", self.rate, "number above 0", False),
        ):
            good = type(found) is int or (type(found) is float and not whole)
            lowest = math.ulp(0.0) if name == "rate" else 0.0
            if found is not None and not (good and lowest <= found < math.inf):
                raise UsageError(
                    f"{name} of the tenant {self.name} is {found!r}; it must be a {must}, or left "
                    "out."
                )


class Tenants:
    """The tenants of a service, found by their tokens.

    Raises:
        UsageError: If two tenants have the same name or the same token.
    """

    def __init__(self, tenants: Iterable[Tenant]) -> None:
        self.all = tuple(tenants)
        self._digests = [(_digest(one.token), one) for one in self.all]
        for what, values in (
            ("name", [one.name for one in self.all]),
            ("token", [one.token for one in self.all]),
        ):
            if len(set(values)) < len(values):
                raise UsageError(f"two tenants have the same {what}; give each its own.")

    def find(self, token: str) -> Tenant | None:
        """The tenant of a token, or None; how close a guess is changes no time."""
        given, found = _digest(token), None
        for digest, tenant in self._digests:
            if secrets.compare_digest(digest, given):
                found = tenant
        return found


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


class RequestRate:
    """A bucket that holds one minute's requests of a tenant, refilled evenly."""

    def __init__(self, rate: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self.rate, self._clock = rate, clock
        self._size = max(1.0, rate or 1.0)
        self._left, self._since = self._size, clock()

    def take(self) -> float:
        if self.rate is None:
            return 0.0
        now = self._clock()
        refilled = (now - self._since) * self.rate / MINUTE
        self._left, self._since = min(self._size, self._left + refilled), now
        if self._left < 1:
            return (1 - self._left) * MINUTE / self.rate
        self._left -= 1
        return 0.0


def load_tenants(path: str | Path) -> Tenants:
    """Read tenants from a TOML or JSON file, which only its owner may read.

    Args:
        path: The file. It holds a table `tenants` with one table per tenant name, with `token` and
            any of `answers`, `epsilon` and `rate`.

    Raises:
        UsageError: If others may read the file, or its form is wrong. No error repeats a token.
    """
    path = Path(path)
    found = _parse(path, _owner_only(path))
    tables = found.get("tenants") if isinstance(found, dict) and len(found) == 1 else None
    if not isinstance(tables, dict) or not tables:
        raise UsageError(
            f"{path} has no tenants; it must hold one table for each, such as [tenants.support] "
            'with token = "..." and optionally answers, epsilon and rate.'
        )
    return Tenants(_tenant(path, name, table) for name, table in tables.items())


def _tenant(path: Path, name: str, table: object) -> Tenant:
    known = [one.name for one in fields(Tenant)][1:]
    unknown = sorted(set(table) - set(known)) if isinstance(table, dict) else ["a value"]
    if not isinstance(table, dict) or unknown or "token" not in table:
        raise UsageError(
            f"the tenant {name} in {path} must be a table with token and any of "
            f"{', '.join(known[1:])}; correct its keys ({', '.join(unknown) or 'no token'})."
        )
    token = table["token"]
    visible = isinstance(token, str) and token.isascii() and token.isprintable()
    if not visible or len(token) < SHORTEST or " " in token:  # safe in a header
        raise UsageError(
            f"the token of the tenant {name} in {path} must be a text of at least {SHORTEST} "
            "visible ASCII characters; make one with: openssl rand -hex 32."
        )
    return Tenant(name, **table)


def _owner_only(path: Path) -> bytes:
    """The content of a file that only its owner may read."""
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            if os.name == "posix" and mode & 0o077:
                raise UsageError(
                    f"{path} has the mode {mode:04o}, and it holds tokens; only its owner may "
                    f"read it. Run: chmod 600 {path}"
                )
            return file.read()
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read ({error.strerror}); name a readable file."
        ) from None


def _parse(path: Path, content: bytes) -> object:
    try:
        text = content.decode()
        return json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except ValueError:
        kind = "JSON" if path.suffix == ".json" else "TOML"
        raise UsageError(
            f"{path} is not {kind}; it must hold tables such as [tenants.support] (the suffix "
            ".json means JSON, any other TOML)."
        ) from None


# --- without a token: this machine only


def is_local(host: str) -> bool:
    """Whether a host name or address means this machine only: loopback, or localhost.

    Examples:
        >>> is_local("127.0.0.1"), is_local("[::1]"), is_local("example.org")
        (True, True, False)
    """
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def names_this_machine(header: str) -> bool:
    """Whether a Host header names this machine; libraries replace one that they cannot parse.

    Examples:
        >>> names_this_machine("localhost:8000"), names_this_machine("[::1]:80")
        (True, True)
        >>> names_this_machine("evil.example:"), names_this_machine("evil.example#127.0.0.1")
        (False, False)
    """
    found = HOST.fullmatch(header)
    return found is not None and is_local(found[1])
