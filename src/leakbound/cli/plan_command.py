"""leakbound plan: cost and power before anything is spent."""

from __future__ import annotations

import math
from functools import partial

import click

from leakbound.auditing import prepare
from leakbound.auditing.plan import Plan, plan
from leakbound.auditing.prepare import open_models
from leakbound.cli.endpoint_options import endpoint_options
from leakbound.cli.options import SETTINGS, spec_from, spec_options
from leakbound.models import Endpoint
from leakbound.stats import cut

__all__ = ["command"]


@click.command(context_settings=SETTINGS)
@spec_options
@endpoint_options
def command(
    config: str | None, assignments: tuple[str, ...], endpoint: Endpoint, **flags: object
) -> int:
    """What an audit will cost and can show:

    takes the options of `audit`, asks the model nothing.
    """
    prepared = prepare(
        spec_from(config, assignments, flags), opener=partial(open_models, endpoint=endpoint)
    )
    decision = prepared.spec.decision
    click.echo(_described(plan(prepared), decision.epsilon, decision.delta))
    for warning in prepared.warnings:
        click.echo(f"Warning: {warning}")
    return 0


def _cost(most: float | None) -> str:
    """What the calls cost at most, rounded up."""
    if most is None:
        return "unknown, no price is known for this model"
    return f"at most ${math.ceil(most * 1e4) / 1e4:.4f}, retries not counted"


def _described(p: Plan, epsilon: float, delta: float) -> str:
    lines = [
        f"{p.pairs} pairs, {p.model_calls} model calls (cost: {_cost(p.cost)})",
        f"under test: {p.tested}, by {p.estimator}",
        (
            "largest certifiable: a perfect attack certifies at most ε = "
            f"{cut(p.largest_epsilon)} at δ = "
            f"{delta:g}, or μ = {cut(p.largest_mu, 3)}"
        ),
    ]
    if p.background_copies:
        lines.append(
            f"contexts: worst-case, the canary's text also stands in {p.background_copies} other "
            "partitions of both"
        )
    if p.guarantee_mu is not None:
        lines.append(
            f"the mechanism's own noise guarantees μ = {p.guarantee_mu:.3f}: "
            f"{'within' if (p.largest_mu or 0.0) > p.guarantee_mu else 'beyond'} what so many "
            "pairs can test"
        )
    if p.pairs_needed is not None:
        lines.append(
            f"to reject what is tested, a perfect attack needs {p.pairs_needed} tested pairs at "
            "least"
        )
    return "\n".join([*lines, *_powers(p, epsilon)])


def _powers(p: Plan, epsilon: float) -> list[str]:
    """Power in units of what is tested: mu where the guarantee is Gaussian, else epsilon."""
    if not p.power:
        return []
    if p.guarantee_mu is not None and p.estimator == "e_process":
        head, unit, name = (
            "power, if one vote moves in every pair and noise is too small:",
            p.guarantee_mu,
            "μ",
        )
    else:
        head, unit, name = (
            "power against a system that leaks like randomised response:",
            epsilon,
            "ε",
        )
    return [head] + [
        f"  true {name} = {factor * unit:<8.4g} it is rejected with probability {chance:.2f}"
        for factor, chance in p.power
    ]
