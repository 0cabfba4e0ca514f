"""What every recipe runs with:

the models, the rows, how much of each, and the folder where answers are kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from leakbound.auditing import AuditResult, AuditSpec, make_spec, prepare, run_audit
from leakbound.auditing.prepare import open_models
from leakbound.auditing.rows import load_data
from leakbound.models import Model
from leakbound.tasks import Context, Task

__all__ = ["QUICK", "RecipeContext", "Sizes"]


@dataclass(frozen=True, slots=True)
class Sizes:
    """pairs: of worlds, of an audit; repeats and queries:

    of a utility; contexts: of an influence study; tokens: of its responses.
    """

    pairs: int = 24
    repeats: int = 3
    queries: int = 20
    contexts: int = 4
    tokens: int = 32
    simulations: int = 400_000


QUICK = Sizes(pairs=5, repeats=2, queries=4, contexts=2, tokens=6, simulations=20_000)


@dataclass
class RecipeContext:
    """models: addresses, the first one for all but comparisons of models; source: fields of an
    AuditSpec that say where rows are,
    none for the bundled ones.

    Answers of audits are collected once: audits that ask the same under `out` share them, and an
    interrupted one goes on.
    """

    out: Path
    models: tuple[str, ...] = ("pocket",)
    source: dict[str, Any] = field(default_factory=dict)
    embedder: str | None = None
    sizes: Sizes = field(default_factory=Sizes)
    opener: Callable[[AuditSpec], Model] = open_models
    tell: Callable[[str], None] = lambda line: None
    _opened: dict[str, Model] = field(default_factory=dict)

    def model(self, address: str | None = None) -> Model:
        """The model at an address, opened once."""
        address = address or self.models[0]
        if address not in self._opened:
            self._opened[address] = self.opener(self.spec(model=address))
        return self._opened[address]

    def on(self, address: str) -> RecipeContext:
        """The same with one of the models alone."""
        return replace(self, models=(address,))

    def behind(self, wrap: Callable[[Model], Model]) -> RecipeContext:
        """The same with the first model behind a wrapper."""
        return replace(self, _opened={self.models[0]: wrap(self.model())})

    def rows(self, **fields: Any) -> tuple[Context, Task]:
        """The private rows and their task."""
        return load_data(self.spec(**fields))

    def audit(self, **fields: Any) -> AuditResult:
        """The record of an audit with these fields of an AuditSpec."""
        spec = self.spec(**fields)
        self.tell(
            f"{spec.mechanism}, {spec.attack}, {spec.canary}, ε = {spec.epsilon:g}, {spec.pairs} "
            "pairs"
        )
        return run_audit(prepare(spec, self.model(spec.model)), self.out / "runs")[0]

    def spec(self, **fields: Any) -> AuditSpec:
        """The spec of such an audit.

        A recipe takes the best threshold of all releases itself, so no pairs are spent on one.
        """
        sizes = {"pairs": self.sizes.pairs, "simulations": self.sizes.simulations}
        usual = {"model": self.models[0], "embedder": self.embedder, "threshold": "best"}
        return make_spec({**usual, **sizes, **self.source, **fields})
