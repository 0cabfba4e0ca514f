"""A guardrail of LiteLLM's proxy: the ledger is asked, and paid, before each call of a model."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from leakbound.errors import BudgetExhausted, LeakboundError, StoreError, UsageError
from leakbound.privacy import ApproxDP, Guarantee, PureDP
from leakbound.serving.ledger import DATASET, Ledger
from leakbound_hosts.summary import host_error

try:
    from fastapi import HTTPException
    from litellm.integrations.custom_guardrail import CustomGuardrail
    from litellm.types.guardrails import GuardrailEventHooks
except ModuleNotFoundError:
    raise host_error("litellm[proxy]", "litellm") from None

CALLS = ("completion", "text_completion", "responses", "anthropic_messages")  # one answer each
STATUS = ((BudgetExhausted, 403), (StoreError, 503))
NO_RETRY = {"x-should-retry": "false"}  # the official clients obey it


class LedgerGuardrail(CustomGuardrail):
    """Refuses calls once the answers from a data set have spent its budget.

    For a service whose answers have a guarantee and that keeps no ledger itself. What is paid stays
    paid if a call fails. Calls for several answers, and other calls than for text, are refused.

    Guarantee:
        All answers together satisfy (budget, delta), if each satisfies its own guarantee and no
        call reaches the service past the proxy.
    """

    def __init__(self, ledger: str, budget: float, answer_epsilon: float, delta: float = 1e-5,
                 answer_delta: float = 0.0, dataset: str = DATASET, default_on: bool = False,
                 **options: Any) -> None:  # fmt: skip
        if not default_on:
            raise UsageError("default_on is false, so clients would choose; it must be true.")
        approximate = ApproxDP(answer_epsilon, answer_delta)
        self.price: Guarantee = approximate if answer_delta else PureDP(answer_epsilon)
        self.ledger, self.dataset = Ledger(ledger, budget, delta), dataset
        self.ledger.check(self.price)
        hooks = [GuardrailEventHooks.pre_call]
        super().__init__(supported_event_hooks=hooks, default_on=True, **options)

    async def async_pre_call_hook(
        self, user_api_key_dict: object, cache: object, data: dict[str, Any], call_type: str
    ) -> dict[str, Any]:
        """Pay for the answer, durably."""
        try:
            _require_one_answer(data, call_type)
            await asyncio.to_thread(self.ledger.spend, (), self.price, self.dataset)
        except LeakboundError as error:
            status = next((code for kind, code in STATUS if isinstance(error, kind)), 400)
            raise HTTPException(status, {"error": str(error)}, NO_RETRY) from error
        return data


def _require_one_answer(data: Mapping[str, object], call_type: str) -> None:
    if call_type not in CALLS and call_type.removeprefix("a") not in CALLS:
        raise UsageError(f"the kind of call {call_type!r} has no price here; use a chat.")
    several = [name for name in ("n", "best_of") if data.get(name) not in (None, 1)]
    several += [
        name for name in ("prompt", "extra_body") if isinstance(data.get(name), list | dict)
    ]
    if several:
        raise UsageError(f"{', '.join(several)} may ask for more than one answer; send one a call.")
