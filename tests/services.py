"""A private service over a scripted model, and ways to ask it: without a socket, or over one."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from limits import PATIENCE

from leakbound.mechanisms import ReportNoisyMax
from leakbound.models import Scripted
from leakbound.serving import PrivateICL, application
from leakbound.serving.ledger import Ledger
from leakbound.tasks import Example, Mechanism, Task

__all__ = [
    "ASK",
    "BASE",
    "CHAT",
    "ROWS",
    "TASK",
    "TOKEN",
    "certificate",
    "private",
    "running",
    "send",
]

BASE = "http://127.0.0.1:8000"
CHAT = "/v1/chat/completions"
TOKEN = "a-token-of-some-length"
ROWS = tuple(Example(f"zanzibar-4417 row {i}", ("plain", "odd")[i % 2]) for i in range(20))
TASK = Task("classification", labels=("odd", "plain"))
ASK = {"model": "any", "messages": [{"role": "user", "content": "what is this"}]}


def private(
    folder: Path,
    budget: float = 1.0,
    mechanism: Mechanism | None = None,
    complete: Callable[[str], str] = lambda prompt: "odd",
    **options: Any,
) -> PrivateICL:
    """A service whose answers cost epsilon 1 at delta 1e-5 each; its noise is that of a seed."""
    options.setdefault("randbits", random.Random(5).getrandbits)
    chosen = mechanism or ReportNoisyMax.calibrated(1.0, 1e-5)
    ledger = Ledger(folder / "ledger", budget, 1e-5)
    model = Scripted(complete=complete)
    return PrivateICL(chosen, ROWS, TASK, model, ledger, "support-desk", **options)


def send(served: Any, *requests: dict[str, Any], **options: Any) -> list[httpx.Response]:
    """Requests to the application without a socket, all at once."""
    app = application(served, **options) if isinstance(served, PrivateICL) else served

    async def all_of_them() -> list[httpx.Response]:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url=BASE) as client:
            wanted = ({"method": "POST", "url": CHAT, **request} for request in requests)
            return list(await asyncio.gather(*(client.request(**request) for request in wanted)))

    return asyncio.run(all_of_them())


@contextmanager
def running(app: Any, timeout: float = PATIENCE, **options: Any) -> Iterator[str]:
    """The application behind a real server on a free port of this machine; gives its address."""
    import uvicorn

    from leakbound.serving.http.server import TimedProtocol, run_server

    protocol = type("Protocol", (TimedProtocol,), {"timeout": timeout, "grace": min(timeout, 2.0)})
    config = uvicorn.Config(app, port=0, http=protocol, ws="none", log_level="error",
                            lifespan="off", **options)  # fmt: skip
    server = uvicorn.Server(config)
    thread = threading.Thread(target=run_server, args=(server, timeout))
    thread.start()
    try:
        while not server.started and thread.is_alive():
            time.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"{'https' if 'ssl_certfile' in options else 'http'}://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()


def certificate(folder: Path, name: str = "cert") -> tuple[Path, Path]:
    """A self-signed certificate for this machine, and its key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    who = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder().subject_name(who).issuer_name(who).public_key(key.public_key())
        .serial_number(1).not_valid_before(now - datetime.timedelta(1))
        .not_valid_after(now + datetime.timedelta(1))
        .add_extension(x509.SubjectAlternativeName(
            [x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    paths = folder / f"{name}.pem", folder / f"{name}.key"
    paths[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    paths[1].write_bytes(key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption()))  # fmt: skip
    return paths
