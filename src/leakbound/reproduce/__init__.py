"""The tables and figures of the four papers as recipes by name:

what the papers print beside what is measured here.
"""

from leakbound.reproduce import contextleak_paper, influence_paper, poetry_paper, tight_paper
from leakbound.reproduce.context import QUICK, RecipeContext, Sizes
from leakbound.reproduce.recipe import Measured, Printed, Recipe
from leakbound.reproduce.table import FORMATS, Reproduced, print_table

__all__ = [
    "FORMATS",
    "QUICK",
    "RECIPES",
    "RecipeContext",
    "Measured",
    "Printed",
    "Recipe",
    "Reproduced",
    "Sizes",
    "print_table",
]

RECIPES: dict[str, Recipe] = {
    one.name: one
    for paper in (contextleak_paper, influence_paper, tight_paper, poetry_paper)
    for one in paper.RECIPES
}
