"""Models behind OpenAI-compatible endpoints.

Importing this package loads no HTTP library; the first request does.
"""

from leakbound.errors import UsageError
from leakbound.models.http.hosts import OPENAI
from leakbound.models.openai.account import PriceList
from leakbound.models.openai.endpoint import Capabilities, Dialect, Endpoint, key_from_environment
from leakbound.models.openai.model import OpenAIModel

__all__ = ["Capabilities", "Dialect", "Endpoint", "OpenAIModel", "PriceList", "open_endpoint"]


def open_endpoint(model: str, endpoint: Endpoint) -> OpenAIModel:
    """Open the model with this name at an endpoint, with the key from the environment."""
    key = key_from_environment(endpoint)
    if key is None and not endpoint.base_urls:
        raise UsageError(
            f"openai/{model} has no --base-url, so it is at {OPENAI}, which needs a key; put it "
            "into the environment variable OPENAI_API_KEY, or give the --base-url of your own "
            "server."
        )
    return OpenAIModel(model, endpoint, key)
