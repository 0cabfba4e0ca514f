"""Which rows of token ids may share a forward pass, and which may use earlier keys and values.

Some models look back over a number of slots instead of positions, or change with the length of a
row. Padding would shift what such a model sees, and keys of a shorter row would be wrong for a
longer one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from leakbound.models.local.hugging_face import CausalModel

ANY = 1 << 30  # more tokens than any row has
# configuration entries with a number of tokens after which a layer behaves differently
SPANS = re.compile(r"(window|window_size|chunk_size|block_size|floor_scale)$")
# the only type whose frequencies change above a number of tokens that its window allows; "dynamic"
# changes beyond the window
LONG = "longrope"


@dataclass(frozen=True, slots=True)
class Sharing:
    """How rows share forward passes without changing any answer.

    Examples:
        >>> Sharing().outcome, Sharing(ragged=0).outcome
        ('exact', 'equal lengths only')
        >>> print(Sharing(ragged=256).sentence)
        rows of more than 256 tokens share a pass with rows of equal length only
    """

    ragged: int = ANY
    cached: int = ANY
    batched: bool = True

    @property
    def outcome(self) -> str:
        """ "exact" if rows of different lengths share a pass, else "equal lengths only"."""
        return "exact" if self.ragged else "equal lengths only"

    @property
    def sentence(self) -> str:
        """What is done differently from most models; empty if nothing is."""
        said = []
        if self.ragged < ANY:
            said.append(
                f"{_longer(self.ragged)} share a pass with rows of equal length only"
                if self.batched
                else "every row is run by itself"
            )
        if self.cached < ANY:
            said.append(f"{_longer(self.cached)} are run whole, without keys and values")
        return "; ".join(said)

    @classmethod
    def of(cls, model: CausalModel) -> Sharing:
        """How rows may share passes according to the model's configuration, before any check."""
        rope = rope_boundary(model)
        return cls(min([*windows(model), rope]), rope)


def windows(model: CausalModel) -> list[int]:
    """Numbers of tokens that layers of a model look back over."""
    entries = vars(model.config.get_text_config(decoder=True)).items()
    found = (_whole(value) for name, value in entries if SPANS.search(name))
    return sorted({size for sizes in found for size in sizes})


def rope_boundary(model: CausalModel) -> int:
    """The most tokens of a row whose positions equal those of shorter rows."""
    config = model.config.get_text_config(decoder=True)
    own = _whole(vars(config).get("original_max_position_embeddings"))
    bounds = [ANY]
    for rope in _ropes(vars(config)):
        if LONG in (rope.get("rope_type"), rope.get("type")):
            bounds += list(_whole(rope.get("original_max_position_embeddings"))) or list(own)
    return min(bounds)


def _ropes(config: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    """The parameters of rotary positions, for all layers or for each type of layer."""
    for name in ("rope_parameters", "rope_scaling"):
        found = config.get(name)
        if isinstance(found, Mapping):
            yield found
            yield from (part for part in found.values() if isinstance(part, Mapping))


def _whole(value: object) -> Iterable[int]:
    """The whole numbers above 0 in an entry of a configuration."""
    many = value if isinstance(value, list | tuple) else [value]
    return [v for v in many if isinstance(v, int) and not isinstance(v, bool) and v > 0]


def _longer(tokens: int) -> str:
    return f"rows of more than {tokens} tokens" if tokens else "rows"
