"""What every recipe runs with: models, rows, scale, and the folder for outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from leakbound.auditing import AuditResult, AuditSpec, make_spec, prepare, run_audit
from leakbound.auditing.prepare.build import build_mechanism, open_models
from leakbound.auditing.prepare.prepared import Prepared
from leakbound.auditing.prepare.rows import load_data
from leakbound.auditing.spec.audit_spec import flat_keys, merge_keys
from leakbound.auditing.store.run_store import EvidenceRow, RunStore
from leakbound.models import Model, WithJudge
from leakbound.tasks import Context, Mechanism, Task

AuditKeys = Mapping[str, object]  # keys of an AuditSpec, as in a configuration file


@dataclass(frozen=True, slots=True)
class Scale:
    """The size of a recipe run."""

    pairs: int = 24
    repeats: int = 3
    queries: int = 20
    contexts: int = 8
    tokens: int = 32
    simulations: int = 400_000


QUICK = Scale(pairs=6, repeats=2, queries=4, contexts=5, tokens=6, simulations=20_000)


@dataclass
class RecipeContext:
    """Models, rows, scale and seed of a recipe.

    Outputs are collected once: audits under `out` share them if they ask the same, and an
    interrupted recipe resumes. `by_probability` and `membership` are of audits that ask the query
    `membership`: whether answers are read by the probability of labels, and its wording.
    """

    out: Path
    models: tuple[str, ...] = ("pocket",)
    source: dict[str, str] = field(default_factory=dict)
    embedder: str | None = None
    judge_model: str | None = None
    scale: Scale = field(default_factory=Scale)
    seed: int = 0
    by_probability: bool = False
    membership: str | None = None
    opener: Callable[[AuditSpec], Model] = open_models
    report: Callable[[str], None] = lambda line: None
    _opened: dict[str, Model] = field(default_factory=dict)

    def model(self, address: str | None = None) -> Model:
        """The model at an address, opened once."""
        address = address or self.models[0]
        if address not in self._opened:
            self._opened[address] = self.opener(self.spec({"model": address}))
        return self._opened[address]

    def with_model(self, address: str) -> RecipeContext:
        return replace(self, models=(address,))

    def wrapped(self, wrap: Callable[[Model], Model]) -> RecipeContext:
        return replace(self, _opened={self.models[0]: wrap(self.model())})

    def limited(self, queries: int, repeats: int) -> RecipeContext:
        """The same context with a smaller utility measurement."""
        least = min(queries, self.scale.queries), min(repeats, self.scale.repeats)
        return replace(self, scale=replace(self.scale, queries=least[0], repeats=least[1]))

    def rows(self, *keys: AuditKeys) -> tuple[Context, Task]:
        return load_data(self.spec(*keys).design)

    def mechanism(self, *keys: AuditKeys) -> Mechanism:
        return build_mechanism(self.spec(*keys))

    def audit(self, *keys: AuditKeys) -> AuditResult:
        """Run an audit, or load its result if it was run before."""
        spec = self.spec(*keys)
        system, attack = spec.system, spec.attack
        self.report(
            f"{system.mechanism.kind}, {attack.query.kind}, {attack.canary.kind}, "
            f"ε = {spec.decision.epsilon:g}, {spec.design.pairs} pairs"
        )
        return run_audit(self.prepared(spec), self.out / "runs", by_pair=True)[0]

    def prepared(self, spec: AuditSpec) -> Prepared:
        model, judge = self.model(spec.system.model), spec.system.judge_model
        asked = WithJudge(model, self.model(judge)) if judge else model
        return prepare(spec, asked, own_test=True)

    def evidence(self, *keys: AuditKeys) -> tuple[Prepared, list[EvidenceRow]]:
        """The evidence of an audit, which is run if necessary."""
        self.audit(*keys)
        prepared = self.prepared(self.spec(*keys))
        store = RunStore(prepared.folder(self.out / "runs"), prepared.manifest)
        return prepared, store.without_gap(0, len(prepared.pairs))

    def spec(self, *keys: AuditKeys) -> AuditSpec:
        """The spec of an audit of this context.

        Like the papers, recipes choose the best threshold over all outputs, so they spend no pairs
        on choosing one, and use typical contexts without copies of the canary.
        """
        flat = flat_keys({
            "model": self.models[0], "embedder": self.embedder, "threshold": "best",
            "pairs": self.scale.pairs, "simulations": self.scale.simulations,
            "background_copies": 0, "seed": self.seed, **self.source,
        })  # fmt: skip
        for layer in keys:
            flat = merge_keys(flat, flat_keys(layer))
        spec = make_spec(flat)
        if spec.attack.query.kind != "membership":
            return spec
        over = {"query": {"template": self.membership}} if self.membership else {}
        read = probability_keys(spec) if self.by_probability else {}
        return make_spec(merge_keys(spec.flat(), {**over, **read}))


def probability_keys(spec: AuditSpec) -> AuditKeys:
    """Private votes, and systems without privacy, in their form that reads probabilities."""
    kind, options = spec.system.mechanism.kind, spec.system.mechanism.options
    if kind == "report_noisy_max":
        return {"mechanism": {"prior": "uniform"}}
    if kind not in ("few_shot", "prompt_defense"):
        return {}
    level = {"level": options.get("level", 1)} if kind == "prompt_defense" else {}
    return {"mechanism": {"kind": "answer_probabilities", **level}}
