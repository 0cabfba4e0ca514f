"""leakbound view: a local page over many runs."""

from __future__ import annotations

import secrets
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

import click

from leakbound._files import make_folder
from leakbound.cli.screen.help_pages import PATH, cli_command, option
from leakbound.cli.screen.output import emit, say, write_output
from leakbound.errors import LeakboundError, UsageError, reason_of
from leakbound_hosts.view import View

LOOPBACK = "127.0.0.1"


@cli_command("runs", "runs --out site")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@option("--port", "port on this machine; 0: a free one", click.IntRange(0, 65535), 0)
@option("--out", "folder to write into: the same pages, instead of serving them", PATH)
def command(runs: tuple[Path, ...], port: int, out: Path | None) -> int:
    """Show finished RUNS (folders, or folders of runs) on one page: a list with a filter, bounds
    from run to run, the report of each, and each beside the run before it.

    The page is served on this machine alone, under an address that nobody can guess, and changes
    nothing. It reads the runs again at each visit. Ctrl-C ends it.
    """
    if gone := [str(one) for one in runs if not one.exists()]:
        raise UsageError(f"{gone[0]!r} does not exist; give a finished run, or a folder of runs.")
    if out is not None:
        view = View(runs, ".html")
        make_folder(out, "--out")
        failed = view.write(out, write_output)
        say(f"Page: {out / 'index.html'}" + (f"; {failed} pages cannot be made" * bool(failed)))
        emit({"page": out / "index.html", "failed": failed})
        return 0
    view = View(runs)
    view.index()  # what cannot be read at all is said here
    try:
        server = ViewServer(view, port)
    except OSError as error:
        raise UsageError(
            f"port {port} cannot be used ({reason_of(error)}); choose another with --port."
        ) from None
    say(f"Page: {server.url} (Ctrl-C ends it)")
    emit({"page": server.url})
    with server, suppress(KeyboardInterrupt):
        server.serve_forever()
    return 0


class ViewServer(ThreadingHTTPServer):
    """Serves the pages of a view on this machine, below a random token."""

    daemon_threads = True

    def __init__(self, view: View, port: int = 0) -> None:
        super().__init__((LOOPBACK, port), _Page)
        self.view, self.token = view, secrets.token_urlsafe(24)

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.server_port}/{self.token}/"


class _Page(BaseHTTPRequestHandler):
    server: ViewServer
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "leakbound", ""
    timeout = 30  # seconds for a request

    def do_GET(self) -> None:
        """Only a request that names this machine as its host gets a page: other sites, whose name
        may lead here, get none."""
        if self.headers.get("Host") not in (
            f"{LOOPBACK}:{self.server.server_port}", f"localhost:{self.server.server_port}",
        ):  # fmt: skip
            return self._send(403, "This page is for this machine alone.")
        _, token, *names = self.path.partition("?")[0].split("/")
        if (
            not secrets.compare_digest(token.encode(), self.server.token.encode())
            or len(names) != 1
        ):
            return self._send(404, "Nothing is here.")
        try:
            found = self.server.view.page(unquote(names[0]))
        except LeakboundError as error:
            return self._send(500, str(error))
        return self._send(404, "No such run.") if found is None else self._send(200, found, "html")

    do_HEAD = do_GET

    def _send(self, status: int, text: str, kind: str = "plain") -> None:
        body = text.encode()
        self.send_response(status)
        for name, value in {
            "Content-Type": f"text/{kind}; charset=utf-8", "Content-Length": str(len(body)),
            "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer", "Cross-Origin-Resource-Policy": "same-origin",
            "X-Frame-Options": "DENY",
        }.items():  # fmt: skip
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Addresses hold the token, and no request is logged."""
