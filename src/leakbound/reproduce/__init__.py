"""Tables and figures of four papers: what the papers print beside what is measured here."""

from leakbound.reproduce.context import QUICK, RecipeContext, Scale
from leakbound.reproduce.recipe import Recipe
from leakbound.reproduce.recipe_files import load_recipes
from leakbound.reproduce.reproduction import FORMATS, Reproduction, print_table
from leakbound.reproduce.values import MeasuredValue, PrintedValue, Quantity

__all__ = [
    "FORMATS", "QUICK", "MeasuredValue", "PrintedValue", "Quantity", "Recipe", "RecipeContext",
    "Reproduction", "Scale", "load_recipes", "print_table",
]  # fmt: skip
