"""`probe`: what the model at an address really supports."""

from __future__ import annotations

from leakbound.api.kinds import as_model
from leakbound.models import Endpoint, Model
from leakbound.models.openai.endpoint import key_from_environment
from leakbound.models.probe.endpoint_probe import ProbeRecord
from leakbound.models.probe.probe import probe_endpoint, probe_model


def probe(model: Model | str, *, base_url: str | None = None) -> ProbeRecord:
    """Ask a model about public texts, and record what it really supports.

    Args:
        model: A model, or its address; "openai/<model>" is a model behind a server.
        base_url: Address of that server, such as "http://127.0.0.1:8000/v1"; None: the default one.

    Returns:
        What was found: kinds of requests, where log-probabilities stand, seeds, limits.

    Raises:
        TargetError: If it is not there or answers nothing.
        UsageError: If a base URL is given for a model that is not behind a server.
    """
    if isinstance(model, str) and model.startswith("openai/"):
        endpoint = Endpoint((base_url,)) if base_url else Endpoint()
        key = key_from_environment(endpoint)
        return probe_endpoint(model.removeprefix("openai/"), endpoint, key)
    opened = as_model(model)
    return probe_model(opened, opened.name)
