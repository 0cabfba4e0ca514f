"""The random streams of tuning:

its own pairs of contexts, which share no seed and no canary with the audit they serve.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from leakbound.auditing.design.pairs import Pair, Purpose, design, generator
from leakbound.auditing.prepare.prepared import Prepared
from leakbound.errors import UsageError
from leakbound.models.content import Content

RELEASING: tuple[Purpose, ...] = ("release", "simulate", "pilot")
LOOKED_AT = 64  # times as many pairs are drawn at most, for canaries that the audit does not use


def tuning_root(seed: int) -> int:
    """The root of all randomness of tuning, from the tuning stream of the audit's root seed."""
    return int(generator(seed, "tuning", 0).integers(1 << 62))


def search_seed(seed: int) -> int:
    return int(generator(seed, "tuning", 1).integers(1 << 31))


def draw_pairs(prepared: Prepared, count: int, planted: Iterable[Content] = ()) -> tuple[Pair, ...]:
    """`count` pairs for tuning, as the audit draws its own but from the tuning stream and with
    canaries that neither its pairs nor `planted` hold.
    """
    spec, pairs = prepared.spec, prepared.pairs
    if spec.attack.canary.kind == "given":
        raise UsageError(
            "the canary 'given' is the same text in the tuning and in the audit, and the two must "
            "share none; tune with --canary hex, then audit with the canary 'given' and the tuned "
            "query."
        )
    root, used = tuning_root(spec.design.seed), {*planted, *(one.canary.input for one in pairs)}
    size = count
    while size <= LOOKED_AT * count:
        drawn = design(
            pairs.rows, pairs.task, pairs.attack, size, pairs.shots, root, copies=pairs.copies,
            beside=pairs.beside,
        )  # fmt: skip
        fresh = [pair for pair in drawn if pair.canary.input not in used][:count]
        if len(fresh) == count:
            require_disjoint(spec.design.seed, root, fresh, pairs)
            return tuple(fresh)
        size *= 2
    raise UsageError(
        f"there are too few canaries of the kind {spec.attack.canary.kind!r} for {count} pilot "
        f"pairs that share none with the {len(used)} of the audit; use fewer pairs (--pairs, "
        "--pilot-pairs), more data, or --canary hex."
    )


def require_disjoint(seed: int, root: int, tuning: Sequence[Pair], audit: Sequence[Pair]) -> None:
    """Refuse a tuning that shares a generator or a canary with the audit of the same root seed."""
    shared = set(_states(root, tuning)) & {*_states(seed, audit), _state(seed, "data")}
    canaries = {pair.canary.input for pair in tuning} & {pair.canary.input for pair in audit}
    if shared or canaries:
        raise UsageError(
            f"the tuning and the audit of seed {seed} would share {len(shared)} random streams "
            f"and {len(canaries)} canaries; they must share none, or the audit would test "
            "what it was tuned on. Use another --seed."
        )


def _states(root: int, pairs: Sequence[Pair]) -> Iterator[int]:
    """The state of every generator that collecting and releasing these pairs starts from."""
    for pair in pairs:
        yield _state(root, "design", pair.index)
        for context in (0, 1):
            yield from (_state(root, purpose, pair.index, context) for purpose in RELEASING)


def _state(root: int, purpose: Purpose, *index: int) -> int:
    return int(generator(root, purpose, *index).bit_generator.state["state"]["state"])
