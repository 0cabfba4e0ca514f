"""The tables and figures of the four papers as recipes by name: what the papers print beside what is measured here."""

from contextleak.reproduce import contextleak_paper, influence_paper, poetry_paper, tight_paper
from contextleak.reproduce.lab import QUICK, Lab, Sizes
from contextleak.reproduce.recipe import Measured, Printed, Recipe
from contextleak.reproduce.table import FORMATS, Reproduced, print_table

__all__ = ["FORMATS", "QUICK", "RECIPES", "Lab", "Measured", "Printed", "Recipe", "Reproduced", "Sizes", "print_table"]

RECIPES: dict[str, Recipe] = {
    one.name: one for paper in (contextleak_paper, influence_paper, tight_paper, poetry_paper) for one in paper.RECIPES
}
