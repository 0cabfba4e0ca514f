"""Tables and figures of four papers: what the papers print beside what is measured here."""

from leakbound_lab.reproduce.claims import PaperClaim, run_names
from leakbound_lab.reproduce.context import QUICK, RecipeContext, Scale
from leakbound_lab.reproduce.every import FailedRecipe, every_json, every_page, exit_code, run_every
from leakbound_lab.reproduce.kept import load_measured, save_measured, values_file, what_decides
from leakbound_lab.reproduce.outcomes import ClaimOutcome, judge
from leakbound_lab.reproduce.recipe import Recipe
from leakbound_lab.reproduce.recipe_files import load_recipes
from leakbound_lab.reproduce.reproduction import FORMATS, Reproduction, print_table
from leakbound_lab.reproduce.values import MeasuredValue, PrintedValue, Quantity, Sample, together

__all__ = [
    "FORMATS", "QUICK", "ClaimOutcome", "FailedRecipe", "MeasuredValue", "PaperClaim",
    "PrintedValue", "Quantity", "Recipe", "RecipeContext", "Reproduction", "Sample", "Scale",
    "every_json", "every_page", "exit_code", "judge", "load_measured", "load_recipes",
    "print_table", "run_every", "run_names", "save_measured", "together", "values_file",
    "what_decides",
]  # fmt: skip
