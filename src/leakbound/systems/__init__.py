"""Systems: applications that answer by themselves, audited from outside."""

from leakbound.systems.callable import AsyncCallableSystem, CallableSystem, answerer, as_system
from leakbound.systems.calls import Caller, CallMeter, CallOptions, NoAnswer, SystemFailed
from leakbound.systems.channels import Trace, traced
from leakbound.systems.http.config import HttpSystemConfig
from leakbound.systems.http.store import HttpStore, load_http_system
from leakbound.systems.http.system import HttpSystem
from leakbound.systems.load import load_system
from leakbound.systems.mechanism import SystemMechanism
from leakbound.systems.protocol import AsyncSession, AsyncSystem, Reply, Session, Store, System
from leakbound.systems.stores import OneSession, SharedStore, fill_store, require_store

__all__ = [
    "AsyncCallableSystem", "AsyncSession", "AsyncSystem", "CallMeter", "CallOptions",
    "CallableSystem", "Caller", "HttpStore", "HttpSystem", "HttpSystemConfig", "NoAnswer",
    "OneSession", "Reply", "Session", "SharedStore", "Store", "System", "SystemFailed",
    "SystemMechanism", "Trace", "answerer", "as_system", "fill_store", "load_http_system",
    "load_system", "require_store", "traced",
]  # fmt: skip
