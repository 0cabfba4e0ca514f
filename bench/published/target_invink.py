"""invink: clipped differences from the public logits, drawn token by token."""

from __future__ import annotations

import contextlib
import io
import math
from functools import cache
from types import SimpleNamespace
from typing import Any

import invink
import numpy as np
from finding import DELTA, Finding, Floats, loss, observed
from invink.utils import difference_clip, get_clip
from scipy.special import softmax
from scipy.stats import binom
from text_models import chat_folder

from leakbound.mechanisms import InvisibleInk
from leakbound.privacy import Relation
from leakbound.tasks import Vector

PACKAGE, EPSILON, STEPS, BATCH = "invink", 10.0, 100, 8
STATES = "(ε, δ)-DP at the given `epsilon` and `delta` (README, More Details). "
REFERENCE = "leakbound `invisible_ink` of the same ε, δ, number of prompts and tokens"
SHORT, LONG = "a", "the printer on the second floor of the house does not print " * 3


@cache
def generated(rows: tuple[str, ...], **options: Any) -> SimpleNamespace:
    """Its output on the pocket model, with what each token was drawn from."""
    given = {"epsilon": EPSILON, "delta": DELTA, "batch_size": 2, "max_toks": 2, **options}
    quiet = io.StringIO()
    with (contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet),
          observed(np.random, "choice", "p") as drawn):  # fmt: skip
        output = invink.generate(
            list(rows), chat_folder(), "help desk", device_map=-1, dtype="float32",
            allow_download=False, trust_remote_code=False, **given,
        )  # fmt: skip
    return SimpleNamespace(**vars(output), drawn=drawn)


def token(*private: float) -> Floats:
    """Its distribution over two tokens, for private prompts that favour the first by so much."""
    clip = get_clip(EPSILON, STEPS, 1.0, len(private) + 1, DELTA)
    scores = np.array([[score, -score] for score in private])
    return softmax(difference_clip(scores, np.zeros(2), clip).mean(0))


def ours(relation: Relation, *private: float) -> Floats:
    """The same of leakbound, with the clip of a token."""
    parts = len(private)
    made = InvisibleInk.calibrated(EPSILON, DELTA, parts, tokens=STEPS, relation=relation)
    single = InvisibleInk(made.token_clip, parts, relation=relation)
    values = np.array([[0.0, 0.0], *([score, -score] for score in private)])
    return single.output_distribution(Vector(tuple(values.ravel()))).probabilities


def many(law: Floats, texts: int = 1) -> Floats:
    """How often the first of two tokens comes, of all tokens of so many texts."""
    tokens = STEPS * texts
    return np.asarray(binom.pmf(np.arange(tokens + 1), tokens, law[0]))


def _tokens(relation: Relation, other: float) -> tuple[float, float]:
    rest = [0.0] * (BATCH - 2)
    theirs = loss(*[many(token(one, *rest)) for one in (9.0, other)])
    mine = loss(*[many(ours(relation, one, *rest)) for one in (9.0, other)])
    return theirs, mine


def zeroed_out() -> Finding:
    """One prompt's scores are those of the public prompt in the neighbour."""
    theirs, mine = _tokens("add_remove", 0.0)
    return Finding(
        PACKAGE, "Clip and accounting, zero-out",
        STATES + "ρ = T/2 (C/(Bτ))² (docstring of `compute_rho`).",
        f"{STEPS} tokens over two candidates, ε = 10, 8 prompts; one private text favours the "
        "first token, and the neighbour has the public scores in its place.",
        EPSILON, theirs, "exact loss", "as tested, with fresh noise", REFERENCE, EPSILON, mine,
    )  # fmt: skip


def replaced() -> Finding:
    """One prompt's scores turn round."""
    theirs, mine = _tokens("replace_one", -9.0)
    return Finding(
        PACKAGE, "Clip and accounting, replacement",
        STATES + "The README names no neighbouring relation.",
        f"The same, and the neighbour's text favours the second token as much ({STEPS} tokens).",
        EPSILON, theirs, "exact loss",
        "one text's scores are replaced by the public ones (zero-out)", REFERENCE, EPSILON, mine,
    )  # fmt: skip


def default_seed() -> Finding:
    """The same call gives the same text, so a text names its input."""
    rows, others = ("the printer jams",), ("refund " * 6,)
    runs = {data: [generated(data, max_toks=3), generated.__wrapped__(data, max_toks=3)]
            for data in (rows, others)}  # fmt: skip
    texts = {data: {run.texts[0] for run in both} for data, both in runs.items()}
    same = all(len(said) == 1 for said in texts.values()) and texts[rows] != texts[others]
    fresh = [run.drawn[0].law for run in (runs[rows][0], runs[others][0])]
    return Finding(
        PACKAGE, "The default seed",
        STATES + "Tokens are drawn (README, introduction). "
        "*In the code*: `random_seed` is 42 unless given, and "
        "is set in each call; the README does not list this argument.",
        "One private text, two prompts, 3 tokens: each of two texts gives the same output in "
        "each call, and the two outputs differ.",
        EPSILON, math.inf if same else 0.0, "exact loss",
        "`random_seed` is drawn afresh and kept secret for each call",
        "the distributions of the first token, as if drawn with fresh noise", EPSILON, loss(*fresh),
    )  # fmt: skip


def number_of_texts() -> Finding:
    """The number of texts follows from the number of rows."""
    counts = [len(generated(rows, max_toks=1).texts) for rows in ((SHORT,) * 2, (SHORT,))]
    apart = [np.eye(3)[count] for count in counts]
    return Finding(
        PACKAGE, "The number of generated texts",
        STATES + "*In the code*: `num` is by default the number of texts divided by "
        "`batch_size` − 1.",
        f"2 rows give {counts[0]} texts, and 1 row gives {counts[1]} (`batch_size` = 2).",
        EPSILON, loss(*apart), "exact loss",
        "the number of rows is public, or `num` is set without a look at them",
        "the same call with `num=1`", EPSILON,
        loss(*[np.eye(3)[len(generated(rows, max_toks=1, num=1).texts)]
               for rows in ((SHORT,) * 2, (SHORT,))]),
    )  # fmt: skip


def longest_text() -> Finding:
    """The number of tokens follows from the lengths of rows."""
    few, many_tokens = (generated((row,), max_toks="auto") for row in (SHORT, LONG))
    limit, more = few.lens[0], many_tokens.lens[0]
    path = float(np.prod([one.chance for one in many_tokens.drawn[: limit + 1]]))
    likely = path if more > limit else 0.0  # so many tokens, and just these: has to exceed delta
    return Finding(
        PACKAGE, "The number of tokens",
        STATES + "*In the code*: `max_toks` is by default the mean number of tokens of the "
        "private texts plus "
        "two standard deviations.",
        f"One row of one letter: at most {limit} tokens can come. One row of 36 words: "
        f"{more} came, the first {limit + 1} of them with probability {path:.1e}.",
        EPSILON, math.inf if likely > DELTA else 0.0, "exact loss",
        "`max_toks` is set without a look at the rows, as the README recommends",
        "the same call with `max_toks=2`: the number of tokens is the same", EPSILON,
        0.0 if len({generated((row,)).lens[0] for row in (SHORT, LONG)}) == 1 else math.inf,
    )  # fmt: skip


def empty_row() -> Finding:
    """One empty row moves every later row into another group."""
    groups, one, other = 20, token(9.0), token(0.0)
    moved = [generated(rows, num=2, max_toks=1, epsilon=1000.0).drawn
             for rows in ((SHORT, LONG, SHORT), (" ", LONG, SHORT))]  # fmt: skip
    changed = sum(not np.allclose(a.law, b.law) for a, b in zip(*moved, strict=True))
    return Finding(
        PACKAGE, "Groups and empty rows",
        "Texts come from disjoint parts of the data, so their costs compose in parallel (README, "
        "Quick Start). *In the code*: empty rows are left out before rows are grouped by position.",
        f"3 rows, 2 groups of one: an empty row in the first place changes {changed} of 2 "
        f"distributions. The loss is that of {groups} groups of one row and {STEPS} tokens each, "
        "where every other row favours the first token and the rest have the public scores.",
        EPSILON, loss(many(one, groups), many(other, groups)) if changed == 2 else 0.0,
        "exact loss", "no row is empty, or `drop_empty=False`",
        "the same groups, of which one changes", EPSILON, loss(many(one), many(other)),
    )  # fmt: skip


FINDINGS = (zeroed_out, replaced, default_seed, number_of_texts, longest_text, empty_row)
