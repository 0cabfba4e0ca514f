"""Options for how a run is collected, and how a system is called.

None of them changes its results.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click
from click.core import ParameterSource

from leakbound._catalogue import entries_of, load_entry
from leakbound.auditing.spec.audit_spec import AuditSpec, load_endpoint
from leakbound.cli.screen.help_pages import COUNT, FILE, PATH, Function, option, together
from leakbound.errors import UsageError

if TYPE_CHECKING:
    from leakbound.auditing.collect.collect import BatchRunner
    from leakbound.auditing.prepare.prepared import Prepared
    from leakbound.models import Endpoint, Model
    from leakbound.systems import CallOptions

    Opener = Callable[[AuditSpec], Model]

R = TypeVar("R")
SHARED = ("connections", "timeout", "retries")  # options of endpoints that hold for systems, too
CLUSTERS = "leakbound.clusters"  # entry points of what spreads work; `ray` is the one of --ray


class Cluster(Protocol):
    """Machines that call models in place of this process."""

    def connected(self) -> AbstractContextManager[None]:
        """One session for several runs."""

    def runner(self, prepared: Prepared, opener: Opener, calls: CallOptions) -> BatchRunner:
        """What collects the batches of an audit."""

    def spread(
        self,
        opened: Callable[[str], Model],
        address: str,
        work: Callable[[Model, int], R],
        items: Sequence[int],
    ) -> Iterable[tuple[int, R]]:
        """Work on each item, with the model at an address opened in every worker."""


run = partial(option, section="Run")
cluster_options = together(
    run("--ray", "call the model on a Ray cluster: local, auto, or host:port", metavar="ADDRESS"),
    run(
        "--workers", "models opened on the cluster [default: one per GPU, else one per CPU]", COUNT
    ),
)


@dataclass(frozen=True, slots=True)
class CollectOptions:
    """How a run is collected. Raises UsageError for options that exclude each other."""

    out: Path
    shard: tuple[int, int] | None
    cache: Path | None
    replay: bool
    cluster: Cluster | None
    calls: CallOptions

    def __post_init__(self) -> None:
        if self.cluster is not None and (self.cache is not None or self.replay):
            raise UsageError(
                "the workers of a cluster ask their own models; leave --ray out, or --cache and "
                "--replay."
            )
        if self.replay and self.shard is not None:
            raise UsageError("--replay makes no model calls to divide; leave --shard out.")

    def require(self, fresh: bool, endpoint: Endpoint) -> None:
        """Refuse options that would have no effect."""
        if fresh and (self.replay or self.cache is not None):
            raise UsageError(
                "--fresh calls the model again, and --cache and --replay reuse stored answers; "
                "leave one of them out."
            )
        if self.cluster is not None and (
            endpoint.max_cost is not None or endpoint.max_minutes is not None
        ):
            raise UsageError(
                "--max-cost and --max-minutes are kept by one process, and every worker of a "
                "cluster is one; leave --ray out, and use more --connections."
            )

    def require_one_process(self) -> None:
        """Refuse to spread a run over processes, for a design with one store."""
        spread = {"--shard": self.shard, "--ray": self.cluster, "--cache": self.cache}
        given = next((flag for flag, value in spread.items() if value is not None), None)
        if given is not None:
            raise UsageError(
                f"a one_run design queries one store from one process; leave {given} out."
            )

    def opener(self, opener: Opener) -> Opener:
        """What opens the model of a spec: the stored one for a replay, behind a cache."""
        from leakbound.auditing.shards import replay_model  # here and below: not for help
        from leakbound.models import Answers, Cached

        first = partial(replay_model, out=self.out) if self.replay else opener
        if self.cache is None:
            return first
        cache = self.cache  # opened before the model: a cache that cannot be used ends it early
        return lambda spec: Cached(answers=Answers(cache), model=first(spec))

    def runner(self, prepared: Prepared, opener: Opener) -> BatchRunner:
        """What collects the missing batches."""
        from leakbound.auditing.collect.collect import SystemRunner, replay_only, run_ahead

        if self.cache is not None and not prepared.mechanism.needs:
            raise UsageError(
                "--cache stores answers of a model, and a --system calls its own; leave --cache "
                "out."
            )
        if self.cluster is not None:
            return self.cluster.runner(prepared, opener, self.calls)
        if self.replay and self.cache is None:
            return replay_only
        if application := prepared.mechanism.application:
            kept = self.calls.kept_at(prepared.folder(self.out))
            return SystemRunner(application, self.calls if self.shard else kept)
        return run_ahead


def parse_shard(
    ctx: click.Context, param: click.Parameter, text: str | None
) -> tuple[int, int] | None:
    """The numbers of --shard i/N. Raises UsageError for anything else."""
    if text is None:
        return None
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise UsageError(f"--shard got {text!r}; it must be i/N with 1 <= i <= N, such as 1/4.")
    return int(match[1]), int(match[2])


def cluster_of(ray: str | None, workers: int | None) -> Cluster | None:
    """The cluster that the options name, if any."""
    if ray is None and workers is not None:
        raise UsageError("--workers needs a cluster; add --ray local, or --ray ADDRESS.")
    if ray is None:
        return None
    for entry in entries_of(CLUSTERS).select(name="ray"):
        made: Cluster = load_entry("the cluster", entry)(ray, workers)
        return made
    raise UsageError(
        "--ray is in the package leakbound-hosts, which is not installed; install packages/hosts "
        "of a checkout beside leakbound."
    )


rate_option = together(
    run(
        "--disposable-store",
        "the store is a copy whose records may be lost; an audit adds records to no other",
        bool,
    ),
    run(
        "--rate",
        "maximum calls of a --system per second; --connections, --timeout, --retries and "
        "--max-minutes, if given, apply to it too",
        float,
        metavar="CALLS",
    ),
)


def call_options(
    endpoint: Endpoint, config: str | None, rate: float | None, disposable: bool
) -> CallOptions:
    """How a system is called, as far as the user says so."""
    from leakbound.systems import CallOptions

    source = click.get_current_context().get_parameter_source
    given = set(load_endpoint(Path(config)) if config else ())
    given |= {name for name in SHARED if source(name) not in (None, ParameterSource.DEFAULT)}
    return CallOptions(
        connections=endpoint.connections if "connections" in given else None,
        timeout=endpoint.timeout if "timeout" in given else None,
        retries=endpoint.retries,
        rate=rate,
        disposable=disposable,
        max_minutes=endpoint.max_minutes,
        began=endpoint.meter.began,
    )


shared_work_options = together(
    run(
        "--shard",
        "do only every Nth part, of the batches or of a sweep's points; `merge` joins the shards",
        callback=parse_shard,
        metavar="i/N",
    ),
    run(
        "--cache",
        "store finished model calls in this file, and reuse them; its answers cannot be read "
        "without their prompts",
        FILE,
        metavar="FILE",
    ),
)
OPTIONS = together(
    run("--out", "folder to write into: the runs", PATH, Path("runs")),
    shared_work_options,
    run(
        "--replay",
        "do not open a model: take all answers from the run in --out, or from --cache",
        bool,
    ),
    rate_option,
    cluster_options,
)


def collect_options(function: Function) -> Function:
    """These options as `collecting`, beside those of an endpoint."""

    @functools.wraps(function)
    def with_collecting(
        ray: str | None,
        workers: int | None,
        rate: float | None,
        disposable_store: bool,
        **flags: Any,
    ) -> object:
        names = {name: flags.pop(name) for name in ("out", "shard", "cache", "replay")}
        calls = call_options(flags["endpoint"], flags["config"], rate, disposable_store)
        return function(
            collecting=CollectOptions(**names, cluster=cluster_of(ray, workers), calls=calls),
            **flags,
        )

    return OPTIONS(with_collecting)
