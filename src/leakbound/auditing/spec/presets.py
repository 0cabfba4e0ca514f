"""The attacks of three papers as bundles of options; a record shows the options, not the bundle."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leakbound.errors import UsageError, unknown_name

# flat keys of a spec; a paired trial stands for two of a paper's trials
PRESETS: Mapping[str, Mapping[str, Any]] = {
    "contextleak": {  # Section 3 and Appendix A.6: the strongest attack of Figure 4, 400 queries
        "query": {"kind": "input_output", "exact": True}, "canary": {"kind": "hex"},
        "shots": 20, "pairs": 200, "background_copies": 0,
    },
    "tight": {  # Sections 3.2 and 4.1: Inquery over a real row, T = 4 with two examples each
        "query": {"kind": "membership"}, "canary": {"kind": "natural"}, "shots": 8,
        "pairs": 200, "background_copies": 0, "simulations": 400_000,
    },
    "poetry": {  # Appendix E.2: likelihood of a row's own label, 20 examples, epsilon 1
        "query": {"kind": "gap"}, "canary": {"kind": "natural"}, "shots": 20, "pairs": 1000,
        "epsilon": 1.0, "background_copies": 0,
    },
}  # fmt: skip


def with_preset(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a preset beneath those that are given.

    Examples:
        >>> with_preset("tight", {"shots": 8})["canary"]
        {'kind': 'natural'}
        >>> with_preset("tight", {"shots": 9})
        Traceback (most recent call last):
        ...
        leakbound.errors.UsageError: the preset tight means shots 8, and shots 9 is \
given beside it; leave one of them out.
    """
    if name not in PRESETS:
        raise unknown_name("the preset", name, PRESETS)
    for key, value in PRESETS[name].items():
        for option, wanted, found in _both(key, value, given.get(key)):
            if found != wanted:
                raise UsageError(
                    f"the preset {name} means {option} {wanted}, and {option} {found} is given "
                    "beside it; leave one of them out."
                )
    return {key: value for key, value in PRESETS[name].items() if not _is_whole(key, given)}


def _both(key: str, value: Any, given: Any) -> list[tuple[str, Any, Any]]:
    """What a preset and the caller both say: (option, of the preset, of the caller)."""
    if given is None:
        return []
    if not isinstance(value, Mapping):
        return [(key, value, given)]
    shared = [name for name in value if name in given]
    return [(key if n == "kind" else f"{key} {n}", value[n], given[n]) for n in shared]


def _is_whole(key: str, given: Mapping[str, Any]) -> bool:
    return given.get(key) is not None and not isinstance(given[key], Mapping)
