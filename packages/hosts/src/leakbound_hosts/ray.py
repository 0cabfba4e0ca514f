"""`--ray`, as `leakbound.clusters`: batches of an audit, or contexts of an attribution, on the
machines of a Ray cluster.

One opened model in every worker, items as tasks, results to the process that asked, which alone
writes the store. Ray is imported when it is used.
"""

from __future__ import annotations

import functools
import importlib.util
import math
import os
import re
import socket
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Generic, Protocol, TypeVar

from leakbound._check import count
from leakbound._install import install_hint
from leakbound.auditing.collect.collect import Batch, Batches, BatchRunner, CollectionPlan
from leakbound.auditing.design.pairs import Controls, OtherPairs, Pair
from leakbound.auditing.prepare.build import build_mechanism
from leakbound.auditing.prepare.prepared import Prepared
from leakbound.auditing.spec.audit_spec import AuditSpec
from leakbound.errors import LeakboundError, TargetError, UsageError
from leakbound.models import Model, Unopened
from leakbound.systems import CallOptions, HttpStore, HttpSystem, SharedStore
from leakbound.tasks import Mechanism, Task

T = TypeVar("T")
Item = TypeVar("Item")
R = TypeVar("R")
AHEAD = 2  # tasks that a worker has before it: one that it works on, and the next
RESTARTS, RETRIES = 100, 3  # of a worker that dies; of the task that it died with
ADDRESS = re.compile(r"(hf/|python:|http:|)(.+?)(:\w+|)")
HOST_PORT = re.compile(r"[^\s:/]+:\d{1,5}")
FINEST = 10_000  # parts of a GPU or CPU that Ray counts
PATIENCE = 5.0  # seconds for the address to answer; Ray itself would wait for minutes
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}


Opener = Callable[[AuditSpec], Model]
Tool = tuple[CollectionPlan, Model]
Asked = tuple[
    Task, Sequence[Pair], int, bool, Sequence[Pair], Controls | None, tuple[OtherPairs, ...]
]


@dataclass(frozen=True, slots=True)
class RayCluster:
    """A Ray cluster, and how many of its processes to use."""

    address: str = "local"
    workers: int | None = None

    def __post_init__(self) -> None:
        if self.workers is not None:
            count("workers", self.workers)
        if self.address not in ("local", "auto") and not HOST_PORT.fullmatch(self.address):
            raise UsageError(
                f"the cluster's address is {self.address!r}; it must be local, auto, or host:port."
            )

    def connected(self) -> AbstractContextManager[None]:
        return connected(self)

    def runner(self, prepared: Prepared, opener: Opener, calls: CallOptions) -> BatchRunner:
        return on_cluster(prepared, self, opener, calls)

    def spread(
        self, opened: Callable[[str], Model], address: str, work: Callable[[Model, Item], R],
        items: Sequence[Item],
    ) -> Generator[tuple[Item, R], None, None]:  # fmt: skip
        return spread(self, partial(opened, from_root(address)), work, items)


def spread(
    cluster: RayCluster,
    opened: Callable[[], T],
    work: Callable[[T, Item], R],
    items: Sequence[Item],
) -> Generator[tuple[Item, R], None, None]:
    """Work on every item once, on the workers of a cluster.

    A worker that dies is replaced and its tasks are done anew: nothing is lost, and no item comes
    twice.
    """
    ray = _ray()
    with (
        connected(cluster),
        _sentences(ray, cluster),
        _crew(ray, cluster, opened, work, len(items)) as crew,
    ):
        waiting = iter(range(len(items)))
        places = range(AHEAD * len(crew))
        tasks = {
            crew[k % len(crew)].do.remote(items[at]): (at, k % len(crew))
            for k, at in zip(places, waiting, strict=False)
        }
        while tasks:
            (task,), _ = ray.wait(list(tasks))
            at, worker = tasks.pop(task)
            yield items[at], ray.get(task)
            if (then := next(waiting, None)) is not None:
                tasks[crew[worker].do.remote(items[then])] = (then, worker)


def from_root(address: str, plain: bool = False) -> str:
    """An address that workers in other folders can open."""
    match = ADDRESS.fullmatch(address)
    if match and (match[1] or plain) and Path(match[2]).exists():
        return match[1] + str(Path(match[2]).resolve()) + match[3]
    return address


def _ray() -> ModuleType:
    if importlib.util.find_spec("ray") is None:
        raise TargetError(f"a cluster needs Ray; install it with: {install_hint('ray')}.")
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)  # Ray reads them when it is imported: no telemetry
    import ray

    module: ModuleType = ray
    return module


@contextmanager
def connected(cluster: RayCluster) -> Iterator[None]:
    """A session on a cluster, ended whatever happens; within, each `spread` uses it.

    Nothing of what workers print comes here.
    """
    ray = _ray()
    if ray.is_initialized():
        yield
        return
    try:
        if HOST_PORT.fullmatch(cluster.address):
            host, _, port = cluster.address.partition(":")
            socket.create_connection((host, int(port)), PATIENCE).close()
        local = {"include_dashboard": False} if cluster.address == "local" else {}
        ray.init(cluster.address, log_to_driver=False, configure_logging=False, **local)
    except (ConnectionError, RuntimeError, ValueError, OSError, OverflowError) as error:
        raise TargetError(
            f"the Ray cluster {cluster.address!r} cannot be reached ({type(error).__name__}); "
            "start one with `ray start --head`, or use --ray local."
        ) from None
    try:
        yield
    finally:
        ray.shutdown()


@contextmanager
def _sentences(ray: ModuleType, cluster: RayCluster) -> Iterator[None]:
    """What workers raised: our own errors as they are, others by their type, since their text may
    be private.
    """
    try:
        yield
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, LeakboundError):
            raise error.cause from None
        raise TargetError(
            f"a worker raised {type(error.cause).__name__}; run without --ray to see why."
        ) from None
    except ray.exceptions.RayError as error:
        # dead workers, machines without memory, nodes that are gone
        raise TargetError(
            f"workers of the cluster {cluster.address!r} die ({type(error).__name__}), again "
            f"after {RETRIES} retries; they may lack "
            "memory: use fewer (--workers), or smaller batches. What is stored is kept."
        ) from None


class _Method(Protocol):
    """A method of an actor: `remote` starts a call of it and gives what to wait for."""

    def remote(self, item: object) -> object: ...


class _Actor(Protocol):
    """A `_Worker` in a process of the cluster."""

    do: _Method


@contextmanager
def _crew(
    ray: ModuleType,
    cluster: RayCluster,
    opened: Callable[[], T],
    work: Callable[[T, Item], R],
    items: int,
) -> Iterator[list[_Actor]]:
    """One worker a GPU, or a CPU, but not more than there are items; they end here, so that the
    next ones find room in the same session.
    """
    have = ray.cluster_resources()
    gpus, cpus = int(have.get("GPU", 0)), int(have.get("CPU", 0))
    size = max(1, min(cluster.workers or gpus or cpus, items))
    share = {"num_gpus": _share(gpus, size)} if gpus else {"num_cpus": _share(cpus, size)}
    remote = ray.remote(max_restarts=RESTARTS, max_task_retries=RETRIES, **share)(_Worker)
    crew = [remote.remote(opened, work) for _ in range(size)]
    try:
        yield crew
    finally:
        for worker in crew:
            ray.kill(worker)


def _share(units: int, size: int) -> float:
    """Of one GPU or CPU, for each worker:

    whole workers fill a unit, wherever it is, so that none waits for a place for ever.
    """
    each = math.ceil(size / units) if units else 0  # workers to a unit
    return math.floor(FINEST / each) / FINEST if each else 0.0


class _Worker(Generic[T, Item, R]):
    """Lives in a process of the cluster."""

    def __init__(self, opened: Callable[[], T], work: Callable[[T, Item], R]) -> None:
        self.opened, self.work = functools.cache(opened), work

    def do(self, item: Item) -> R:
        """The tool is opened here, not when the worker starts:

        what opening raises is then told, not taken for a dead worker.
        """
        return self.work(self.opened(), item)


def on_cluster(
    prepared: Prepared,
    cluster: RayCluster,
    opener: Opener,
    calls: CallOptions = CallOptions(),  # noqa: B008  # frozen
) -> BatchRunner:
    """Make what asks batches on a cluster.

    Workers open the model and the system at their addresses, and refuse any but the prepared ones.
    """
    if not prepared.mechanism.needs and prepared.spec.system.address is None:
        raise UsageError("workers open a system at its address; give it as python:file.py:object.")
    _require_divisible(prepared.mechanism)
    spec = _absolute(prepared.spec)

    def ask(questions: CollectionPlan, model: Model, batches: Sequence[int]) -> Batches:
        wanted = (_source(prepared.mechanism), model.fingerprint)
        asked = (
            questions.task, questions.pairs, questions.size, questions.keep_text,
            questions.controls, questions.late, questions.others,
        )  # fmt: skip
        model_of = opener if prepared.mechanism.needs else None
        opened = partial(_tool, spec, asked, model_of, wanted, calls)
        for _, batch in spread(cluster, opened, _ask, batches):
            yield batch

    return ask


def _require_divisible(mechanism: Mechanism) -> None:
    """Refuse what several workers would ask at the same time about what one of them put there."""
    application = mechanism.application
    system = None if application is None else application.system
    if isinstance(system, SharedStore):
        raise UsageError(
            "a session design puts the canary of each trial into one store and takes it out, and a "
            "store lives in one process: no part of it can be asked on a cluster. Leave --ray out, "
            "or use --design paired, in which each worker builds the store for each of its "
            "contexts."
        )
    kept = isinstance(system, HttpSystem) and system.concurrency == 1
    if kept or isinstance(system, HttpStore):
        raise UsageError(
            "the service keeps the context that it is given (setup, plant), so workers of a "
            "cluster would ask about each other's contexts; leave --ray out."
        )


def _tool(
    spec: AuditSpec,
    asked: Asked,
    opener: Opener | None,
    wanted: tuple[str, str],
    calls: CallOptions,
) -> Tool:
    """In a worker: the questions with a mechanism, and a model of its own; systems need not travel,
    they are loaded there.
    """
    mechanism = build_mechanism(spec)
    model = opener(spec) if opener else Unopened(mechanism.name, wanted[1])
    if (_source(mechanism), model.fingerprint) != wanted:
        raise TargetError(
            f"a worker has another {spec.system.address or spec.system.model} than the process "
            "that asks; every machine of the cluster needs the same files at the same place, and "
            "models and systems must have an address."
        )
    task, pairs, size, keep_text, controls, late, others = asked
    if application := mechanism.application:
        mechanism = application.called(calls)
    return CollectionPlan(task, mechanism, pairs, size, keep_text, controls, late, others), model


def _ask(tool: Tool, first: int) -> Batch:
    questions, model = tool
    return questions.ask(first, model)


def _source(mechanism: Mechanism) -> str:
    return mechanism.name + mechanism.source


def _absolute(spec: AuditSpec) -> AuditSpec:
    """Workers have folders of their own: local files are named from the root."""
    places = ("model", "embedder", "judge_model", "address")
    named = {name: getattr(spec.system, name) for name in places}
    update = {name: from_root(to, name == "embedder") for name, to in named.items() if to}
    return spec.model_copy(update={"system": spec.system.model_copy(update=update)})
