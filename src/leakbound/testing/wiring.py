"""Defects of accounting, seeding, partitioning and batching: found by arithmetic or two runs."""

from __future__ import annotations

from typing import Any

import numpy as np

from leakbound.privacy import ApproxDP, calibrate_gaussian, compose, gaussian_epsilon
from leakbound.tasks import Context, Example
from leakbound.tasks.partition import split_by_position
from leakbound.testing.auditor import AuditorFinding, Rng


def classical_sigma(broken: bool, rng: Rng) -> AuditorFinding:
    """The classical Gaussian formula at (10, 1e-5) and (8, 1e-3): exact epsilon 10.39 and 8.18."""
    method = "classical" if broken else "analytic"
    claims = ((10.0, 1e-5), (8.0, 1e-3))
    exact = [gaussian_epsilon(calibrate_gaussian(e, d, 1.0, method), 1.0, d) for e, d in claims]  # type: ignore[arg-type]
    wrong = any(found > e * (1 + 1e-6) for found, (e, _) in zip(exact, claims, strict=True))
    return AuditorFinding(wrong, 0, f"exact ε {exact[0]:.2f} and {exact[1]:.2f}, claimed 10 and 8")


def delta_once(broken: bool, rng: Rng) -> AuditorFinding:
    """delta counted once for 100 queries: they hold at 100 delta and guarantee nothing below."""
    composed = compose([ApproxDP(0.1, 1e-7)] * 100)
    claimed = 1e-7 if broken else 100 * 1e-7
    held = composed.epsilon(claimed) <= 10.0 * (1 + 1e-9)
    return AuditorFinding(
        not held,
        0,
        f"composition of 100 queries at δ={claimed:g}: ε = {composed.epsilon(claimed):g}",
    )


def seeded_noise(broken: bool, rng: Rng) -> AuditorFinding:
    """The noise generator is seeded anew on every call: the same query gives the same output."""

    def call() -> float:
        noise = np.random.default_rng(7) if broken else rng
        return float(noise.normal(0.0, 1.0))

    same = len({call() for _ in range(5)}) == 1
    return AuditorFinding(
        same, 0, "five outputs of one query are identical" if same else "outputs differ"
    )


def positional_split(broken: bool, rng: Rng) -> AuditorFinding:
    """A Poisson sample split by position: removing a record moves every later one."""
    rows: Context = tuple(Example(f"row {i}", "a") for i in range(40))
    if broken:
        before, after = split_by_position(rows, 8), split_by_position(rows[1:], 8)
    else:
        home = rng.integers(0, 8, len(rows))
        before, after = (
            [
                tuple(r for r, h in zip(rows, home, strict=True) if h == k and r in kept)
                for k in range(8)
            ]
            for kept in (set(rows), set(rows[1:]))
        )
    changed = sum(a != b for a, b in zip(before, after, strict=True))
    return AuditorFinding(
        changed > 1, 0, f"{changed} of 8 partitions change when one record is removed"
    )


def clip_to_zero(broken: bool, rng: Rng) -> AuditorFinding:
    """Log-probabilities below -C set to 0 instead: the impossible candidate gets the best score."""
    clip, experts = 2.0, 8
    logs = np.log(np.array([0.7, 0.3, 1e-9]))
    outside = np.where(logs < -clip, 0.0, logs) if broken else np.clip(logs, -clip, 0.0)
    wins = int(np.argmax(experts * outside)) == 2
    return AuditorFinding(
        wins, 0, f"utility: the candidate with p = 1e-9 {'wins' if wins else 'does not win'}"
    )


def padding(broken: bool, rng: Rng) -> AuditorFinding:
    """Left padding without a mask: a long example changes the other prompts' logits."""
    from leakbound.models import NextLogits, open_model

    model = open_model("pocket")
    short, long = "Input: a small lamp\nLabel:", "Input: " + "a very long record " * 40 + "\nLabel:"
    alone = model.answer([NextLogits(short)])[0][-1]
    batch = (
        _unmasked(model, [short, long])
        if broken
        else model.answer([NextLogits(short), NextLogits(long)])[0][-1]
    )
    moved = float(np.abs(batch - alone).max())
    return AuditorFinding(
        moved > 1e-2, 0, f"logits of the short prompt move by {moved:.2g} beside a long one"
    )


def _unmasked(model: Any, prompts: list[str]) -> Any:
    """Logits of the first prompt in a left-padded batch whose padding is attended to."""
    import torch

    rows = [list(model.encode(p)) for p in prompts]
    width = max(map(len, rows))
    ids = torch.tensor([[0] * (width - len(row)) + row for row in rows])
    with torch.inference_mode():
        return np.asarray(model.model(input_ids=ids).logits[0, -1].float().numpy())
