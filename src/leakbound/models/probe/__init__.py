"""What a model at an address really supports, found by asking it about public texts."""

from leakbound.models.probe.endpoint_probe import ProbeFinding, ProbeRecord, load_probe
from leakbound.models.probe.probe import capabilities_of, probe_endpoint, probe_model

__all__ = [
    "ProbeFinding", "ProbeRecord", "capabilities_of", "load_probe", "probe_endpoint", "probe_model",
]  # fmt: skip
