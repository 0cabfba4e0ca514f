"""Recipes that need no model, against what the papers print."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from leakbound_lab.reproduce import Quantity, RecipeContext, load_recipes
from leakbound_lab.reproduce.measures.tight import perfect_attack_epsilon
from leakbound_lab.reproduce.recipe_files import paper_tables

RECIPES = load_recipes()


def values(name: str, tmp_path: Path) -> dict[tuple[str, str], float]:
    return {
        (row.setting, row.quantity): row.value
        for row in RECIPES[name].run(RecipeContext(tmp_path, models=("nothing/here",)))
    }


def test_table_1_follows_from_its_accuracies(tmp_path: Path) -> None:
    """To the printed digits for llama; of qwen, the cells whose accuracy cannot round to the
    printed one are known.
    """
    found, wrong = values("contextleak/table1", tmp_path), []
    for cell in paper_tables("contextleak")["table1"].cells():
        epsilon, accuracy = cell.values["epsilon"], cell.values["accuracy"]
        low, high = (math.log(a / (100 - a)) for a in (accuracy - 0.05, accuracy + 0.05))
        assert low <= found[f"{cell.row}, {cell.column}", Quantity.LOG_ODDS] <= high
        if not low - 0.005 <= epsilon <= high + 0.005:
            wrong.append(cell.row)
    assert not [row for row in wrong if row.startswith("llama")]
    assert len(wrong) == 12


@pytest.mark.parametrize(
    ("column", "n", "bound"),
    [(1, 400, 0.12), (4, 400, 0.73), (8, 400, 1.24), (math.inf, 400, 2.19), (1, 100, 0),
     (4, 100, 0.56), (8, 100, 1.01), (math.inf, 100, 1.92)],
)  # fmt: skip
def test_what_the_queries_of_table_1_certify(
    column: float, n: int, bound: float, tmp_path: Path
) -> None:
    setting = "llama subj, ε = ∞" if math.isinf(column) else f"llama subj, ε = {column}"
    assert values("contextleak/table1", tmp_path)[
        setting, f"ε ≥ with {n} queries, 95 %"
    ] == pytest.approx(bound, abs=0.011)


def test_calibration_of_private_voting(tmp_path: Path) -> None:
    found = values("tight/calibration", tmp_path)
    for row in RECIPES["tight/calibration"].printed:
        if row.quantity == Quantity.SIGMA:
            assert found[row.setting, Quantity.SIGMA] == pytest.approx(row.value, rel=1e-12)
    for setting, exact in (
        ("ε = 8, δ = 0.001", 8.18),
        ("ε = 10, δ = 1e-05", 10.39),
        ("ε = 1, δ = 1e-05", 0.751),
    ):
        assert found[setting, Quantity.EXACT_OF_NOISE] == pytest.approx(exact, abs=0.005)


def test_lemma_of_private_voting(tmp_path: Path) -> None:
    """mu is the printed one wherever the vote falls; the ratio of rates falls as k grows."""
    found = values("tight/lemma3.1", tmp_path)
    for row in RECIPES["tight/lemma3.1"].printed:
        assert found[row.setting, Quantity.MU] == pytest.approx(row.value, rel=1e-12)
    ratios = [
        found[f"[{k}, {10 - k}] against [{k - 1}, {11 - k}]", Quantity.RATE_RATIO]
        for k in (1, 5, 10)
    ]
    assert ratios == sorted(ratios, reverse=True)


def test_sensitivity_of_the_mean_embedding(tmp_path: Path) -> None:
    found = values("tight/lemmaA.1", tmp_path)
    assert all(
        found[row.setting, row.quantity] == row.value for row in RECIPES["tight/lemmaA.1"].printed
    )


def test_published_calibration_of_poe(tmp_path: Path) -> None:
    """Its exact loss is twice what is claimed, and ours what is claimed."""
    found = values("poetry/theorem3.1", tmp_path)
    for epsilon in (1.0, 4.0):
        for calibration, factor in (("paper", 2), ("replace_one", 1)):
            setting = f"ε = {epsilon:g}, {calibration}"
            assert found[setting, "exact ε under replace_one"] == pytest.approx(
                factor * epsilon, rel=1e-6
            )
            assert found[setting, "derived guarantee"] == factor * epsilon


def test_a_perfect_attack_in_a_black_box_collapses() -> None:
    """XL, Figure 6: at a large claim the label alone shows nothing with many partitions."""
    assert perfect_attack_epsilon(2, 8) == pytest.approx(7.8, abs=0.2)
    assert perfect_attack_epsilon(16, 8) == 0
    assert perfect_attack_epsilon(16, 1) > 0.6


def test_the_tables_of_context_influence_agree() -> None:
    """Table 2 and Table 3 print the same influence."""
    tables = paper_tables("influence")
    third = {(cell.row, cell.column): cell.values for cell in tables["table3"].cells()}
    for cell in tables["table2"].cells():
        assert cell.values["influence"] == third[cell.row, cell.column]["influence"]
    gemma = [third["Gemma 2 9B IT, PubMedQA", f"λ = {lam}"] for lam in (0.5, 1.5)]
    scores = [[one[name] for name in ("rouge_l", "bertscore", "factkb")] for one in gemma]
    assert scores[0] == scores[1]  # the slip that the recipe speaks of


def test_printed_noise_is_the_formula_of_the_paper() -> None:
    """What the file holds as numbers, the paper gives as formulas."""
    for cell in paper_tables("tight")["calibration"].cells():
        epsilon, delta = (float(part.split(" = ")[1]) for part in cell.row.split(", "))
        sigma = 2 * math.sqrt(math.log(1.25 / delta)) / epsilon
        assert cell.values["sigma"] == pytest.approx(sigma, rel=1e-12)
        assert cell.values["claim"] == epsilon
    sigma = paper_tables("tight")["calibration"].rows["ε = 1, δ = 1e-05"][0][0]
    for row in RECIPES["tight/lemma3.1"].printed:
        assert row.value == pytest.approx(math.sqrt(2) / sigma, rel=1e-12)
    for row in RECIPES["tight/lemmaA.1"].printed:
        assert row.value == 2 / int(row.setting.removeprefix("T = "))
