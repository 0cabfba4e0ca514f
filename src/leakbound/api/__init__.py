"""The functions of the public face; `leakbound` itself loads each when it is first used."""

from leakbound.api.answers import answer
from leakbound.api.audits import audit, plan
from leakbound.api.decisions import compare, gate, sweep, tune
from leakbound.api.influences import influence
from leakbound.api.probes import probe

__all__ = ["answer", "audit", "compare", "gate", "influence", "plan", "probe", "sweep", "tune"]
