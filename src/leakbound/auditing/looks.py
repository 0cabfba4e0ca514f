"""Looks: results that were computed from the evidence of a run before its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from leakbound.auditing.folder import runs_beside
from leakbound.auditing.intact import EditedEvidence, looks_of
from leakbound.auditing.prepared import Prepared
from leakbound.errors import StoreError, UsageError


@dataclass(frozen=True, slots=True)
class Looks:
    """Earlier results from the same evidence.

    A bound for a number of pairs fixed beforehand is none where an earlier result was computed from
    another number of the same pairs: whoever has seen that result may have chosen this number by
    it. Bounds that are anytime-valid do not depend on how the number was chosen.
    """

    pairs: Mapping[str, int] = field(default_factory=dict)
    own_test: bool = False

    def __len__(self) -> int:
        return len(self.pairs)

    def other_sizes(self, pairs: int) -> list[int]:
        """Numbers of pairs of earlier results, other than that of this one."""
        return [] if self.own_test else sorted({*self.pairs.values()} - {pairs})

    def first(self, pairs: int) -> int | None:
        """Pairs of the first result, where stakes must not aim at another number."""
        return max(0, next(iter(self.pairs.values()))) if self.other_sizes(pairs) else None

    def require_fixed_size(self, prepared: Prepared) -> None:
        """Refuse an estimator whose bounds need a number of pairs fixed before any look."""
        sizes = self.other_sizes(len(prepared.pairs))
        if sizes and not prepared.estimator.anytime:
            raise UsageError(
                f"{prepared.estimator.name} needs a number of pairs that is fixed before any "
                f"result is seen; it is {len(prepared.pairs)} here, and a result was computed from "
                f"{abs(sizes[0])} of these pairs before. Use --estimator e_process, which holds at "
                "any number of pairs, or another --seed, which asks about other pairs."
            )

    def warnings(self, prepared: Prepared) -> tuple[str, ...]:
        """What to know of a bound that is one of several from the same pairs."""
        return () if prepared.estimator.anytime else self.several("paired trials")

    def several(self, trials: str) -> tuple[str, ...]:
        """What to know of a bound for a fixed number that is one of several."""
        if not self.pairs or self.own_test:
            return ()
        results = "1 result was" if len(self) == 1 else f"{len(self)} results were"
        return (
            f"{results} computed from the same {trials} before: the confidence holds for this "
            "result alone, not for the largest of several bounds.",
        )


def earlier_looks(folder: Path, prepared: Prepared) -> dict[str, int]:
    """Results that were computed from the same paired trials before, as `looks_beside` counts
    them.
    """
    return looks_beside(folder, prepared.manifest["looks"])


def looks_beside(folder: Path, key: str) -> dict[str, int]:
    """Results that were computed from what a run and those beside it asked.

    Those of runs beside this one count too, whether their answers are reused or asked for again:
    a system may give the same answers again. Once the run has a result, no further ones are added,
    so that the same command gives the same result.
    """
    found = looks_of(folder)
    others = () if folder.name in found else runs_beside(folder, "looks", key)
    for other, _ in others:
        try:
            found = looks_of(other) | found
        except EditedEvidence:
            raise
        except StoreError:  # of a damaged run, nothing is known
            continue
    return {name: pairs for name, pairs in found.items() if name != folder.name}
