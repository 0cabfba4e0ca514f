"""Addresses of endpoints: how to join paths to them, and whose they are."""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import ip_address
from urllib.parse import parse_qsl, urlsplit

OPENAI = "https://api.openai.com/v1"
AZURE = (".openai.azure.com", ".cognitiveservices.azure.com", ".services.ai.azure.com")
VERSION = "api-version"  # the only query of an address that is not a secret


@lru_cache(maxsize=64)  # it is called for each request
def join_path(url: str, path: str) -> str:
    """The address of a path at an endpoint, whether or not the address of that ends in one."""
    parts = urlsplit(url)
    base = parts.path.rstrip("/")
    for ending in ("/chat/completions", "/completions"):
        base = base.removesuffix(ending)
    return parts._replace(path=base + path).geturl()


def is_openai(url: str) -> bool:
    """Whether an address is OpenAI's own, so OPENAI_API_KEY may be sent to it."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    own = host == "api.openai.com" or host.endswith(".api.openai.com")
    return parts.scheme == "https" and own


def is_azure(url: str) -> bool:
    """Whether an address expects the key as Azure does, in the header `api-key`."""
    parts = urlsplit(url)
    versions = [name for name, _ in parse_qsl(parts.query)]
    return (parts.hostname or "").endswith(AZURE) or VERSION in versions


def is_host(name: str) -> bool:
    try:
        return bool(name.encode("idna")) and not re.search(r"\s", name)
    except UnicodeError:
        return False


def is_exposed(url: str) -> bool:
    """Whether anyone on the network path can read the requests to an address."""
    return urlsplit(url).scheme == "http" and not is_loopback(url)


def is_loopback(url: str) -> bool:
    """Whether an address is on this machine, so nobody else can read the requests."""
    host = urlsplit(url).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
