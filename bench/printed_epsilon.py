"""The ε that papers print beside the ε that as many trials certify.

    python bench/printed_epsilon.py

From the printed rates and the numbers of trials in the texts alone; seconds. "Certified" is the
lower bound at 95 % for a threshold that was fixed beforehand, at delta = 0 and 1e-5.
"""

from __future__ import annotations

import math

from leakbound_lab.reproduce.recipe_files import PAPERS, paper_tables
from scipy.special import ndtr, ndtri

from leakbound.privacy import calibrate_gaussian, gdp_delta, gdp_epsilon
from leakbound.stats import accuracy_bound, auroc_standard_error
from leakbound.stats.power import largest_certifiable_epsilon

DELTA = 1e-5
LEAKS, _, TIGHT, POETRY = PAPERS
QUERIES = 400  # ContextLeak, A.6: sections 5 and 6


def show(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    for cells in (head, ("---",) * len(head), *rows):
        print(f"| {' | '.join(cells)} |")
    print()


def leaks() -> None:
    """Table 1: printed ε, what 400 queries certify, and the δ that the accuracy would need."""
    rows = []
    for cell in paper_tables(LEAKS)["table1"].cells():
        accuracy, claim = cell.values["accuracy"], float(cell.column[4:].replace("∞", "inf"))
        right = math.floor(accuracy * QUERIES / 100 + 0.5)
        certified = accuracy_bound(right, QUERIES).epsilon or 0.0
        top, needs = "–", "–"
        if math.isfinite(claim):
            top = f"{100 * best_accuracy(claim, DELTA):.1f}"
            needs = f"{float(gdp_delta(claim, 2 * float(ndtri(accuracy / 100)))):.0e}"
        rows.append((cell.row, f"{claim:g}", f"{accuracy:g}", top, needs,
                     f"{cell.values['epsilon']:.2f}", f"{certified:.2f}"))  # fmt: skip
    show(("model and data", "claimed ε", "accuracy, %", "ceiling at δ = 1e-5, %",
          "δ that allows it", "printed ε", "certified"), rows)  # fmt: skip


def ceilings() -> None:
    """The accuracy of a perfect attack on Gaussian noise, by ε and δ; the last row is any noise."""
    claims, rows = (1, 2, 4, 8), []
    for delta in (1e-2, 1e-3, 1e-4, 1e-5, 1e-6):
        rows.append(
            (f"Gaussian, δ = {delta:g}", *(f"{100 * best_accuracy(e, delta):.1f}" for e in claims))
        )
    rows.append(("any mechanism, δ = 0", *(f"{100 / (1 + math.exp(-e)):.1f}" for e in claims)))
    show(("noise", *(f"ε = {e}" for e in claims)), rows)


def best_accuracy(epsilon: float, delta: float) -> float:
    """Phi(mu/2) of Gaussian noise that is calibrated exactly to (epsilon, delta)."""
    return float(ndtr(1 / calibrate_gaussian(epsilon, delta, 1.0) / 2))


def tight() -> None:
    """Model calls, and the largest ε that as many paired trials can certify."""
    rows = []
    for calls in (100, 200, 400):
        pairs = calls // 2
        rows.append((str(calls), str(pairs), f"{largest_certifiable_epsilon(pairs):.2f}",
                     f"{largest_certifiable_epsilon(pairs, DELTA):.2f}"))  # fmt: skip
    show(("calls", "pairs", "largest certifiable ε", "at δ = 1e-5"), rows)
    sigma, rows = calibrate_gaussian(8, DELTA, 2.0, "classical"), []
    for cell in paper_tables(TIGHT)["table3"].cells():
        far = cell.values["distance"]
        rows.append((cell.row, f"{far:g}", f"{gdp_epsilon(far / sigma, DELTA):.2f}"))
    show(("signal texts", "distance", "ε of a perfect attack, claim 8"), rows)


def poetry() -> None:
    """Table 4: areas with the standard error of 1,000 attacks of each kind."""
    rows = []
    for cell in paper_tables(POETRY)["table4"].cells():
        area = cell.values["auroc"] / 100
        error = auroc_standard_error(area, 500, 500)
        rows.append((cell.row, cell.column, f"{100 * area:.1f}", f"{196 * error:.1f}",
                     f"{100 * math.e / (1 + math.e):.1f}"))  # fmt: skip
    show(("data", "setting", "AUROC, %", "± (95 %)", "ceiling of ε = 1, one answer, %"), rows)


if __name__ == "__main__":
    ceilings()
    leaks()
    tight()
    poetry()
