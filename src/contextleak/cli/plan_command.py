"""contextleak plan: cost and power before anything is spent."""

from __future__ import annotations

from typing import Any

import click

from contextleak.auditing import prepare
from contextleak.auditing.plan import Plan, plan
from contextleak.cli.options import SETTINGS, spec_from, spec_options
from contextleak.stats import cut

__all__ = ["command"]


@click.command(context_settings=SETTINGS)
@spec_options
def command(config: str | None, assignments: tuple[str, ...], **flags: Any) -> int:
    """What an audit will cost and can show: takes the options of `audit`, asks the model nothing."""
    prepared = prepare(spec_from(config, assignments, flags))
    click.echo(_told(plan(prepared), prepared.spec.epsilon, prepared.spec.delta))
    for warning in prepared.warnings:
        click.echo(f"Warning: {warning}")
    return 0


def _told(p: Plan, epsilon: float, delta: float) -> str:
    lines = [
        f"{p.pairs} pairs, {p.model_calls} model calls (cost: unknown, no price is known for a local model)",
        f"ceiling: a flawless attack certifies at most ε = {cut(p.epsilon_ceiling)} at δ = {delta:g}, or μ = {cut(p.mu_ceiling, 3)}",
    ]
    if p.guarantee_mu is not None:
        lines.append(f"the mechanism's own noise promises μ = {p.guarantee_mu:.3f}: "
                     f"{'within' if p.mu_ceiling > p.guarantee_mu else 'beyond'} what so many pairs can test")  # fmt: skip
    if p.pairs_needed is not None:
        lines.append(
            f"to refute the claim ε = {epsilon:g}, a flawless attack needs at least {p.pairs_needed} tested pairs"
        )
    lines.append("power against a system that leaks like randomised response:")
    lines += [f"  true ε = {true:<6g} the claim is refuted with probability {chance:.3f}" for true, chance in p.power]
    return "\n".join(lines)
