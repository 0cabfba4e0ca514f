"""The design of one run: which canaries a store is asked about, and which of them it holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from leakbound.attacks import Attack, RenderedQuery
from leakbound.auditing.design.pairs import FILLER, label_order
from leakbound.auditing.design.seeds import generator
from leakbound.errors import DataError, UsageError
from leakbound.tasks import Context, Example, Job, Task

FEWEST = 3  # of each kind: all three told apart have a p-value of 0.05


@dataclass(frozen=True, slots=True, repr=False)
class PlantedCanary:
    """A canary that a store holds or does not hold, and the question about it (PRIVATE)."""

    index: int
    record: Example
    asked: RenderedQuery
    planted: bool

    def __repr__(self) -> str:
        return f"PlantedCanary({self.index}, <private>)"


@dataclass(frozen=True, slots=True, repr=False)
class OneRunDesign:
    """Everything that one run plants and asks (PRIVATE)."""

    documents: Context
    controls: tuple[PlantedCanary, ...]
    canaries: tuple[PlantedCanary, ...]
    fillers: bool
    late: int = 0

    @property
    def every(self) -> tuple[PlantedCanary, ...]:
        """Controls and canaries in the order of their numbers."""
        return (*self.controls, *self.canaries)

    @property
    def records(self) -> tuple[Example, ...]:
        """What is planted, in its order: late controls, canaries, early controls.

        Early ones are the newest when they are asked about, so a store that shows new records late
        does not show them; late ones are the oldest, so one that keeps the newest has lost them.
        """
        return tuple(self._records())

    def _records(self) -> Iterator[Example]:
        early = len(self.controls) - self.late
        for one in (*self.controls[early:], *self.canaries, *self.controls[:early]):
            if one.planted:
                yield one.record
            elif self.fillers:
                yield FILLER

    def jobs(self, first: int, size: int) -> list[Job]:
        """The queries of a batch."""
        return [Job((), one.asked.query) for one in self.batch(first, size)]

    def batch(self, first: int, size: int) -> tuple[PlantedCanary, ...]:
        """The canaries of a batch."""
        if first < 0:
            at = first + len(self.controls)
            early = len(self.controls) - self.late
            return self.controls[at : min(at + size, early) if at < early else at + size]
        return self.canaries[first : first + size]

    def calls(self, index: int) -> int:
        """Questions about a canary."""
        (one,) = self.batch(index, 1)
        return one.asked.query.calls

    def batches(self, size: int) -> list[int]:
        """Where batches begin: early controls, canaries, late controls."""
        early = range(-len(self.controls), -self.late, size)
        return [*early, *range(0, len(self.canaries), size), *range(-self.late, 0, size)]


def design_one_run(
    rows: Context, task: Task, attack: Attack, canaries: int, controls: int,
    documents: int | None, seed: int,
) -> OneRunDesign:  # fmt: skip
    """Draw held-out rows, canaries and coins."""
    held_out = canaries + 2 * controls
    _require_rows(len(rows), held_out, documents)
    order = generator(seed, "design").permutation(len(rows))
    spares = [rows[i] for i in order[:held_out]]
    rare, common = label_order(rows)
    made = []
    for at, spare in enumerate(spares):
        record = attack.canary.make(spare, rare, generator(seed, "design", at))
        made.append((record, attack.query.render(record, task, rare, common)))
    _require_distinct(made, attack)
    kept = order[held_out:] if documents is None else order[held_out : held_out + documents]
    planted = _coins(canaries, controls, seed)
    every = tuple(
        PlantedCanary(at - 2 * controls, record, asked, coin)
        for at, ((record, asked), coin) in enumerate(zip(made, planted, strict=True))
    )
    return OneRunDesign(
        tuple(rows[i] for i in kept), every[: 2 * controls], every[2 * controls :],
        attack.insertion == "replace", 2 * _late(controls),
    )  # fmt: skip


def _late(controls: int) -> int:
    """Controls of each kind that are asked about last: half, where so many can show anything."""
    return controls // 2 if controls // 2 >= FEWEST else 0


def _coins(canaries: int, controls: int, seed: int) -> list[bool]:
    """Early and late controls, each in a drawn order, half of them planted; then a fair coin for
    each canary.
    """
    rng, late = generator(seed, "control"), _late(controls)
    halves = (rng.permutation([True, False] * of) for of in (controls - late, late))
    fair = generator(seed, "coin").integers(2, size=canaries)
    return [*(bool(coin) for half in halves for coin in half), *map(bool, fair)]


def _require_rows(rows: int, held_out: int, documents: int | None) -> None:
    needed = held_out + (documents or 0)
    if rows < needed:
        raise DataError(
            f"{held_out} canaries, with those of the controls, and {documents or 0} documents need "
            f"{needed} rows, and the data has {rows}; use fewer --canaries, or more data."
        )


def _require_distinct(made: list[tuple[Example, RenderedQuery]], attack: Attack) -> None:
    """A record that another canary plants too would stand in the store whatever its coin says."""
    if len({record.input for record, _ in made}) < len(made):
        raise UsageError(
            f"the canary {attack.canary.name} makes one and the same record twice; in a one_run "
            "design every canary must differ. Use --canary coded, or hex."
        )
