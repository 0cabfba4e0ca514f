"""What a model at an address really supports, found by asking it about public texts."""

from leakbound.models.probe.probe import capabilities_of, probe_endpoint, probe_model
from leakbound.models.probe.record import ProbeFinding, ProbeRecord, load_probe

__all__ = [
    "ProbeFinding",
    "ProbeRecord",
    "capabilities_of",
    "load_probe",
    "probe_endpoint",
    "probe_model",
]
