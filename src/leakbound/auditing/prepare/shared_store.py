"""The session design: one store for all paired trials."""

from __future__ import annotations

from dataclasses import replace

from leakbound.auditing.design.pairs import FILLER, PLANTED
from leakbound.auditing.design.seeds import generator
from leakbound.auditing.spec.audit_spec import AuditSpec
from leakbound.errors import DataError, UsageError
from leakbound.systems import SharedStore, SystemMechanism, require_store
from leakbound.tasks import Context, Mechanism


def split_rows(spec: AuditSpec, rows: Context) -> tuple[Context, Context]:
    """The documents of the store, and the rows that canaries are made of."""
    shape = spec.design
    held_out = min(shape.pairs + shape.controls, (len(rows) + 1) // 2)
    documents = len(rows) - held_out if shape.documents is None else shape.documents
    if documents >= len(rows):
        raise DataError(
            f"documents is {documents}, and the data has {len(rows)} rows, at least one of which "
            "must be left for the canaries; use fewer --documents, or more data."
        )
    order = generator(shape.seed, "design").permutation(len(rows))
    kept, others = order[:documents], order[documents:]
    return tuple(rows[i] for i in kept), tuple(rows[i] for i in others)


def beside_store(insertion: str) -> Context:
    """The context of a pair without its canary, beside the store."""
    if insertion == "append":
        raise UsageError(
            "insertion is append, and a session design plants whole records; use add, or replace "
            "(a fixed record takes the place of an absent canary)."
        )
    return (FILLER,) if insertion == "replace" else ()


def with_documents(mechanism: Mechanism, documents: Context) -> SystemMechanism:
    """A store that is filled once, for all paired trials."""
    adapter = require_system(mechanism, "session")
    store = require_store(adapter.system, adapter.name)
    shared = SharedStore(store, documents, PLANTED, adapter.calls, adapter.name)
    return replace(adapter, system=shared)


def require_system(mechanism: Mechanism, layout: str) -> SystemMechanism:
    """Refuse what is not a system of a user."""
    if isinstance(mechanism, SystemMechanism):
        return mechanism
    raise UsageError(
        f"a {layout} design plants canaries in a store, and {mechanism.name} is a mechanism that "
        "is shown its examples anew for each answer; give a store with --system, or leave --design "
        "out."
    )
