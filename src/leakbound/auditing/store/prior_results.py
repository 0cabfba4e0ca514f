"""Results that were computed from the same paired trials before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from leakbound.auditing.store.folder import Settings, runs_beside, stored_on
from leakbound.auditing.store.integrity import EditedEvidence, results_of
from leakbound.errors import StoreError, UsageError
from leakbound.estimators import Estimator


@dataclass(frozen=True, slots=True)
class PriorResults:
    """Earlier results from the same evidence.

    A bound for a number of pairs fixed beforehand is none where an earlier result was computed from
    another number of the same pairs: whoever has seen that result may have chosen this number by
    it. Bounds that are anytime-valid do not depend on how the number was chosen.
    """

    pairs: Mapping[str, int] = field(default_factory=dict)
    own_test: bool = False
    day: str | None = None  # on which the first of the stored outputs began

    def __len__(self) -> int:
        return len(self.pairs)

    def other_sizes(self, pairs: int) -> list[int]:
        """Numbers of pairs of earlier results, other than that of this one."""
        return [] if self.own_test else sorted({*self.pairs.values()} - {pairs})

    def first(self, pairs: int) -> int | None:
        """Pairs of the first result, where stakes must not aim at another number."""
        return max(0, next(iter(self.pairs.values()))) if self.other_sizes(pairs) else None

    def require_fixed_size(self, estimator: Estimator, pairs: int) -> None:
        """Refuse an estimator whose bounds need a number of pairs fixed before any look."""
        sizes = self.other_sizes(pairs)
        if sizes and not estimator.anytime:
            raise UsageError(
                f"{estimator.name} needs a number of pairs that is fixed before any result is "
                f"seen; it is {pairs} here, and a result was computed from {abs(sizes[0])} of "
                "these pairs before. Use --estimator e_process, which holds at any number of "
                "pairs, or another --seed, which asks about other pairs."
            )

    def several(self, trials: str) -> tuple[str, ...]:
        """What to know of a bound for a fixed number that is one of several."""
        if not self.pairs or self.own_test:
            return ()
        results = "1 result was" if len(self) == 1 else f"{len(self)} results were"
        return (
            f"{results} computed from the same {trials} before: the confidence holds for this "
            "result alone, not for the largest of several bounds.",
        )


def prior_results(folder: Path, identity: Settings, own_test: bool = False) -> PriorResults:
    """Results that were computed from what a run and those beside it asked.

    Those of runs beside this one count too, whether their answers are reused or asked for again:
    a system may give the same answers again. Once the run has a result, no further ones are added,
    so that the same command gives the same result.
    """
    found = results_of(folder)
    others = () if folder.name in found else runs_beside(folder, "looks", identity["looks"])
    for other, _ in others:
        try:
            found = results_of(other) | found
        except EditedEvidence:
            raise
        except StoreError:  # of a damaged run, nothing is known
            continue
    others_only = {name: pairs for name, pairs in found.items() if name != folder.name}
    return PriorResults(others_only, own_test, stored_on(folder, identity["evidence"]))
