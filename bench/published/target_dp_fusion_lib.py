"""dp-fusion-lib: mixtures of a private and a redacted distribution."""

from __future__ import annotations

import numpy as np
import torch
from dp_fusion_lib import DPFusion, compute_epsilon_single_group
from dp_fusion_lib.utils import find_lambda
from finding import DELTA, Finding, Floats, joint, loss, observed
from scipy.stats import binom
from text_models import Letters, Table, pocket

from leakbound.mechanisms import DPFusion as Reference
from leakbound.privacy import RDP
from leakbound.tasks import Vector

PACKAGE = "dp-fusion-lib"
BETA, ORDER = 0.01, 2.0  # what its README recommends
VOCABULARY, RARE = 151_936, 100_000  # tokens of Qwen2.5, which its README uses; rare ones here
REFERENCE = "leakbound `dp_fusion` with the same α and β on the same distributions"


def stated(steps: int, order: float, beta: float) -> float:
    """The ε that the package calls theoretical."""
    return float(compute_epsilon_single_group([0.0] * steps, order, DELTA, beta)["theoretical"])


def fused(private: Floats, public: Floats, order: float, beta: float) -> Floats:
    """The distribution that it draws from."""
    lam, _ = find_lambda(torch.tensor(private), torch.tensor(public), order, order * beta)
    return lam * private + (1 - lam) * public


def ours(private: Floats, public: Floats, order: float, beta: float) -> Floats:
    """The distribution that leakbound draws from."""
    with np.errstate(divide="ignore"):
        scores = np.maximum(np.log(np.concatenate([private, public])), -1e30)
    return Reference(beta, order).output_distribution(Vector(tuple(scores))).probabilities


def presence(steps: int, order: float, beta: float) -> float:
    """ε of so many tokens if the private part is present or absent."""
    return RDP(order, steps * order * beta, "add_remove").epsilon(DELTA)


def clamped() -> Finding:
    """Tokens that the public context gives 4e-9 each, and the private context nothing."""
    public, private = np.full(VOCABULARY, 1e-30), np.full(VOCABULARY, 1e-30)
    public[1 : RARE + 1] = 4e-9
    public[0], private[0] = 1 - public[1:].sum(), 1.0
    return Finding(
        PACKAGE, "Divergence of small probabilities",
        "The search for λ keeps each step's Rényi divergence within αβ (README, Technical "
        "Approach; docstring of `find_lambda`). "
        "*In the code*: its divergence is computed after probabilities "
        "below 1e-10 are raised to 1e-10.",
        f"One token, α = 2, β = 0.01. Of {VOCABULARY:,} tokens, {RARE:,} have probability 4e-9 "
        "in the public context and 1e-30 in the private one; one token has the rest.",
        stated(1, ORDER, BETA), loss(fused(private, public, ORDER, BETA), public), "exact loss",
        "all probabilities of both contexts are at least 1e-10", REFERENCE,
        presence(1, ORDER, BETA), loss(ours(private, public, ORDER, BETA), public),
    )  # fmt: skip


def first_token() -> Finding:
    """Two tokens, of which one is counted."""
    order, beta = 4.0, 2.0
    rare = float(np.exp(-order * beta))
    private, public = np.array([1 - 1e-6, 1e-6]), np.array([rare, 1 - rare])
    model = DPFusion(Table([public, private]), Letters())
    start = torch.tensor([0, 1])
    with observed(torch, "multinomial", 0) as drawn:
        said = model.generate_from_tokens(start, start, order, beta, max_new_tokens=2)
    counted = said["divergences"]["PRIVATE"]
    found = loss(joint([one.law for one in drawn]), joint([public] * 2))
    mine = joint([ours(private, public, order, beta)] * 2)
    return Finding(
        PACKAGE, "The first token",
        "ε follows from the recorded divergences of each step; T is the number of generated "
        "tokens (docstring of `compute_epsilon_single_group`). "
        "*In the code*: the list starts with the second "
        f"token: {len(drawn)} tokens are drawn and {len(counted)} divergence is recorded.",
        "Two tokens, α = 4, β = 2, private part present or absent: the token that the private "
        "context chooses has probability e^-8 in the public one.",
        stated(len(counted), order, beta), found, "exact loss",
        "T is taken as the number of tokens, and α ≤ 4", REFERENCE,
        presence(2, order, beta), loss(mine, joint([public] * 2)),
    )  # fmt: skip


def baseline() -> Finding:
    """Two private parts of different length, and β = 0, so that only the public part can act."""
    model, tokenizer = pocket()
    fusion, order = DPFusion(model, tokenizer), 1001.0
    laws = []
    for private in ("Ann owes 3", "Ann owes 3 to each of the nine people who came to dinner"):
        with observed(torch, "multinomial", 0) as drawn:
            fusion.generate(private, "_", alpha=order, beta=0.0, max_new_tokens=1)
        laws.append(drawn[0].law)
    tiny, public = 1e-9, laws[0]
    mine = [ours(law, public, order, tiny) for law in laws]
    return Finding(
        PACKAGE, "The public distribution",
        "The public context is the redacted one, and the mixture stays close to its distribution "
        "(README, Technical Approach). "
        "*In the code*: both contexts are padded on the right to one length "
        "without an attention mask, and the public distribution is read after the padding.",
        "One token of the pocket model, public part `_`, two private parts of 3 and 12 words, "
        "β = 0 (λ = 0), α = 1001.",
        stated(1, order, 0.0), loss(*laws), "exact loss",
        "private and public contexts have the same number of tokens, as after `run_tagger`",
        "leakbound `dp_fusion` at β = 1e-9 with one public distribution, from a separate pass",
        Reference(tiny, order).guarantee.epsilon(DELTA), loss(*mine),
    )  # fmt: skip


def order_above_four() -> Finding:
    """Fifty tokens at α = 10, where αβ exceeds the 4β that is counted."""
    order, beta, steps = 10.0, 0.1, 50
    private, public = np.array([1.0, 0.0]), np.array([np.exp(-1.0), -np.expm1(-1.0)])
    whole = {
        make: [binom.pmf(np.arange(steps + 1), steps, law[0])
               for law in (make(private, public, order, beta), public)]
        for make in (fused, ours)
    }  # fmt: skip
    return Finding(
        PACKAGE, "What a token costs at α above 4",
        "Each token costs 4β of Rényi privacy, and is allowed a divergence of αβ (docstrings of "
        "`compute_epsilon_single_group` and `DPFusion.generate`). "
        "Above α = 4, αβ is more.",
        "50 tokens, α = 10, β = 0.1, private part present or absent; at each token, the private "
        "context chooses a token that has probability 1/e in the public one.",
        stated(steps, order, beta), loss(*whole[fused]), "exact loss",
        "α ≤ 4 and the private part is present or absent", REFERENCE,
        presence(steps, order, beta), loss(*whole[ours]),
    )  # fmt: skip


def replaced() -> Finding:
    """Two private parts that push a rare token to opposite ends, at the recommended numbers."""
    public = np.array([3e-6, 1 - 3e-6])
    contexts = [np.array([1.0, 0.0]), np.array([0.0, 1.0])]
    theirs, mine = (
        loss(*[make(private, public, ORDER, BETA) for private in contexts])
        for make in (fused, ours)
    )
    return Finding(
        PACKAGE, "A private part that is replaced",
        "The output is statistically similar regardless of the specific private information "
        "(README, Technical Approach), at 4β per token.",
        "One token, α = 2, β = 0.01, of probability 3e-6 in the public context: one private part "
        "always chooses it, the other never does.",
        stated(1, ORDER, BETA), theirs, "exact loss",
        "the private part is present or absent, not replaced",
        "leakbound `dp_fusion`, whose guarantee under `replace_one` is of order α²/(2α − 1)",
        Reference(BETA, ORDER).guarantee.epsilon(DELTA), mine,
    )  # fmt: skip


def recommended() -> Finding:
    """The recommended numbers, where nothing is rare and the private part is present or absent."""
    private, public = np.array([0.9, 0.1]), np.array([0.5, 0.5])
    theirs, mine = (
        loss(*[binom.pmf(np.arange(101), 100, law[0])
               for law in (make(private, public, ORDER, BETA), public)])
        for make in (fused, ours)
    )  # fmt: skip
    return Finding(
        PACKAGE, "The recommended setting, present or absent",
        "α = 2 and β = 0.01 (README, Privacy Parameters); 4β per token.",
        "100 tokens, private part present or absent; distributions (0.9, 0.1) and (0.5, 0.5).",
        stated(100, ORDER, BETA), theirs, "exact loss", "as tested", REFERENCE,
        presence(100, ORDER, BETA), mine,
    )  # fmt: skip


FINDINGS = (clamped, first_token, baseline, order_above_four, replaced, recommended)
