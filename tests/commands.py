"""Run `leakbound` as a user does, many times, without paying for the same imports each time.

`cli` runs each command in a process of its own: with its own folder, environment, output and exit
code. The process is forked from one that has the imports of `python -m leakbound` behind it, about
4 of the 5 seconds that a small audit takes. `forked` runs other programs in such a process. With a
`PYTHONPATH`, such as that of `without_torch`, it is forked from an interpreter of that path.
`launch` starts a real `python -m leakbound`, for tests that send signals or need several at once.
`batch` runs several commands in one process, a new interpreter for tests of what an interpreter
does from its start.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import socket
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import TextIO

__all__ = ["MODULE", "batch", "cli", "folder", "forked", "launch", "without_torch"]

# One for all processes that run tests. For each of them it forks a child that reads a line of JSON
# for each program and writes a line with its exit code. A child of that runs the program, and ends
# without taking down the interpreter, which costs a second.
SERVER = """
import atexit, contextlib, gc, importlib, json, os, pkgutil, signal, socket, sys, threading
import traceback
import leakbound, leakbound_lab
import matplotlib.backends.backend_svg, matplotlib.figure

for package in (leakbound, leakbound_lab):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        with contextlib.suppress(ImportError):  # without torch
            importlib.import_module(module.name.removesuffix(".__main__"))
with contextlib.suppress(Exception):
    leakbound.open_model("pocket").answer([leakbound.models.Complete("The code is", 2)])

leakbound.models.http.transport.FIRST /= 100  # the first wait before a request is made again
gc.freeze()
place, owner = sys.argv[1], int(sys.argv[2])
listener = socket.socket(socket.AF_UNIX)
listener.bind(place)
listener.listen()
listener.settimeout(1)
if os.fork():
    os._exit(0)
os.dup2(os.open(os.devnull, os.O_RDWR), 2)
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
child = None
while child != 0:
    with contextlib.suppress(TimeoutError):
        connection, _ = listener.accept()
        connection.setblocking(True)
        child = os.fork()
        if child:
            connection.close()
    if child != 0:
        try:
            os.kill(owner, 0)
        except ProcessLookupError:
            os._exit(0)
listener.close()
signal.signal(signal.SIGCHLD, signal.SIG_DFL)
lines = connection.makefile("r")
while line := lines.readline():
    job = json.loads(line)
    child = os.fork()
    if child == 0:
        break
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    connection.sendall(f"{status}\\n".encode())
else:
    os._exit(0)
lines.close()
connection.close()

for number, path in enumerate((os.devnull, job["out"], job["err"])):
    os.dup2(os.open(path, os.O_RDWR), number)
os.chdir(job["cwd"])
os.environ.clear()
os.environ.update(job["environment"])
os.umask(job["umask"] if job["umask"] >= 0 else os.umask(0))
sys.argv = job["args"]
code = 0
try:
    exec(job["code"], {"__name__": "__main__"})
except SystemExit as end:
    code = end.code or 0
except BaseException:
    traceback.print_exc()
    code = 1
threading._shutdown()
atexit._run_exitfuncs()
sys.stdout.flush()
sys.stderr.flush()
os._exit(code)
"""


# What `python -m MODULE` runs.
MODULE = "import runpy; runpy.run_module({!r}, run_name='__main__', alter_sys=True)"


def cli(*args: str, cwd: Path | str = ".", **environment: str) -> subprocess.CompletedProcess[str]:
    """What `leakbound ARGS` does in the folder `cwd`, with these variables added to the
    environment."""
    return forked(MODULE.format("leakbound"), "leakbound", *args, cwd=cwd, **environment)


def forked(
    code: str, *args: str, cwd: Path | str = ".", umask: int = -1, **environment: str
) -> subprocess.CompletedProcess[str]:
    """What the program `code` does with these `sys.argv`."""
    with tempfile.NamedTemporaryFile("r+") as out, tempfile.NamedTemporaryFile("r+") as err:
        job = {"code": code, "args": args, "cwd": str(Path(cwd).resolve()), "umask": umask,
               "out": out.name, "err": err.name,
               "environment": _environment(**environment)}  # fmt: skip
        server = _server(os.getpid(), environment.get("PYTHONPATH", ""))
        server.write(json.dumps(job) + "\n")
        server.flush()
        code_of_exit = int(server.readline())
        return subprocess.CompletedProcess([*args], code_of_exit, out.read(), err.read())


def launch(*args: str, cwd: Path | str = ".", **environment: str) -> subprocess.Popen[str]:
    """A `python -m leakbound ARGS` that runs in the folder `cwd`."""
    return subprocess.Popen(
        [sys.executable, "-m", "leakbound", *args],
        cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=_environment(**environment),
    )  # fmt: skip


BATCH = """
import glob, json, sys
from leakbound.cli import main
for args in json.loads(sys.argv[1]):
    try:
        main([path for arg in args for path in sorted(glob.glob(arg)) or [arg]])
    except SystemExit as end:
        print("CODE", end.code, file=sys.stderr, flush=True)
"""


def batch(
    *commands: list[str], cwd: Path, first: str = "", umask: int = -1, **environment: str
) -> tuple[list[int], str, str]:
    """Exit codes, output and errors of commands that run in one process, a new interpreter if code
    comes `first` or a variable is given; names with `*` become those of files, as in a shell.
    """
    text = json.dumps(commands)
    if first or environment:
        done = subprocess.run(
            [sys.executable, "-c", first + BATCH, text], umask=umask,
            cwd=cwd, capture_output=True, text=True, env=_environment(**environment),
        )  # fmt: skip
    else:
        done = forked(BATCH, "leakbound", text, cwd=cwd, umask=umask)
    codes = [line[5:] for line in done.stderr.splitlines() if line.startswith("CODE ")]
    return [int(code) for code in codes], done.stdout, done.stderr


HIDING = """
import sys
from importlib.machinery import PathFinder

class Without(PathFinder):
    @classmethod
    def find_spec(cls, name, *rest):
        hidden = name.split(".")[0] in ("torch", "transformers")
        return None if hidden else super().find_spec(name, *rest)

sys.meta_path[sys.meta_path.index(PathFinder)] = Without
"""


def without_torch() -> str:
    """A `PYTHONPATH` of an interpreter that finds neither torch nor transformers."""
    hidden = folder() / "without-torch"
    hidden.mkdir(parents=True, exist_ok=True)
    (hidden / "sitecustomize.py").write_text(HIDING)
    return str(hidden)


def folder() -> Path:
    """Of all processes that run these tests; it is removed with the last one."""
    return Path(tempfile.gettempdir(), f"leakbound-tests-{_owner()}")


def _owner() -> int:
    return os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()


def _environment(**more: str) -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", **more}


@cache
def _server(me: int, path: str) -> TextIO:
    """A connection to the server of all processes of this run; it ends after them."""
    folder().mkdir(exist_ok=True)
    place = folder() / hashlib.sha256(path.encode()).hexdigest()[:16]
    with place.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            subprocess.run(
                [sys.executable, "-c", SERVER, place, str(_owner())], stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, start_new_session=True, check=True,
                env=_environment(**({"PYTHONPATH": path} if path else {})),
            )  # fmt: skip
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(str(place))
    return connection.makefile("rw")
