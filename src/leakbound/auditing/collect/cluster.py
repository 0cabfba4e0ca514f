"""An audit over a Ray cluster:

batches as tasks, one model per worker; the process that asked writes the store alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from leakbound.auditing.collect.collect import Batch, Batches, BatchRunner, CollectionPlan
from leakbound.auditing.design.pairs import Controls, Pair
from leakbound.auditing.prepare.build import build_mechanism
from leakbound.auditing.prepare.prepared import Prepared
from leakbound.auditing.spec.audit_spec import AuditSpec
from leakbound.errors import TargetError, UsageError
from leakbound.models import Model, Unopened
from leakbound.scaling import Cluster, rooted, spread
from leakbound.systems import CallOptions, HttpStore, HttpSystem, SharedStore, SystemMechanism
from leakbound.tasks import Mechanism, Task

Opener = Callable[[AuditSpec], Model]
Tool = tuple[CollectionPlan, Model]
Asked = tuple[Task, Sequence[Pair], int, bool, Sequence[Pair], Controls | None]


def on_cluster(
    prepared: Prepared,
    cluster: Cluster,
    opener: Opener,
    calls: CallOptions = CallOptions(),  # noqa: B008  # frozen
) -> BatchRunner:
    """Make what asks batches on a cluster."""
    if not prepared.mechanism.needs and prepared.spec.system.address is None:
        raise UsageError("workers open a system at its address; give it as python:file.py:object.")
    # refuse what several workers would ask at the same time about what one of them put there
    system = prepared.mechanism.system if isinstance(prepared.mechanism, SystemMechanism) else None
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
    # workers have folders of their own: local files are named from the root
    places = ("model", "embedder", "judge_model", "address")
    named = {name: getattr(prepared.spec.system, name) for name in places}
    update = {name: rooted(to, name == "embedder") for name, to in named.items() if to}
    spec = prepared.spec.model_copy(
        update={"system": prepared.spec.system.model_copy(update=update)}
    )

    def ask(questions: CollectionPlan, model: Model, batches: Sequence[int]) -> Batches:
        wanted = (_source(prepared.mechanism), model.fingerprint)
        asked = (
            questions.task, questions.pairs, questions.size, questions.keep_text,
            questions.controls, questions.late,
        )  # fmt: skip
        model_of = opener if prepared.mechanism.needs else None
        opened = partial(_tool, spec, asked, model_of, wanted, calls)
        for _, batch in spread(cluster, opened, _work, batches):
            yield batch

    return ask


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
            "that asks; every "
            "machine of the cluster needs the same "
            "files at the same place, and models and systems must have an address."
        )
    task, pairs, size, keep_text, controls, late = asked
    if isinstance(mechanism, SystemMechanism):
        mechanism = mechanism.called(calls)
    return CollectionPlan(task, mechanism, pairs, size, keep_text, controls, late), model


def _work(tool: Tool, first: int) -> Batch:
    questions, model = tool
    return questions.ask(first, model)


def _source(mechanism: Mechanism) -> str:
    return mechanism.name + mechanism.source
