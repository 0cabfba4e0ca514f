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

import atexit
import json
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

__all__ = ["MODULE", "batch", "cli", "forked", "launch", "without_torch"]

# Reads a line of JSON for each program and writes a line with its exit code. A child runs it, and
# ends without taking down the interpreter, which costs a second.
SERVER = """
import atexit, contextlib, gc, importlib, json, os, pkgutil, sys, threading, traceback
import leakbound, leakbound_lab
import matplotlib.backends.backend_svg, matplotlib.figure

for package in (leakbound, leakbound_lab):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        with contextlib.suppress(ImportError):  # without torch
            importlib.import_module(module.name.removesuffix(".__main__"))
with contextlib.suppress(Exception):
    leakbound.open_model("pocket").answer([leakbound.models.Complete("The code is", 2)])

gc.freeze()
while line := sys.stdin.readline():
    job = json.loads(line)
    child = os.fork()
    if child == 0:
        break
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.write(1, f"{status}\\n".encode())
else:
    sys.exit()

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
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(json.dumps(job) + "\n")
        server.stdin.flush()
        code_of_exit = int(server.stdout.readline())
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


@cache
def without_torch() -> str:
    """A `PYTHONPATH` of an interpreter that finds neither torch nor transformers."""
    hidden = Path(tempfile.mkdtemp(prefix="without-torch"))
    (hidden / "sitecustomize.py").write_text(HIDING)
    atexit.register(shutil.rmtree, hidden)
    return str(hidden)


def _environment(**more: str) -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", **more}


@cache
def _server(owner: int, path: str) -> subprocess.Popen[str]:
    """One for each process that runs tests; it ends when its standard input closes."""
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env=_environment(**({"PYTHONPATH": path} if path else {})),
    )  # fmt: skip
    atexit.register(server.communicate)
    return server
