"""Context influence (CI): its tables and figures, by the studies of the room `influence`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from leakbound.attribution import attribute
from leakbound.reproduce.context import RecipeContext
from leakbound.reproduce.factors import (
    INFLUENCE,
    REPEATED,
    ROUGE_L,
    cases_of,
    factor,
    rows_of,
    settings_of,
)
from leakbound.reproduce.recipe import NO_NUMBERS, Measured, Printed, recipe

__all__ = ["RECIPES", "TABLE_2", "TABLE_3"]

LAMBDAS = (0.5, 1.0, 1.5)
TABLE_2 = {  # (influence, repeat prompts, rouge prompts) at each lambda
    "LLaMA 3 8B, CNN-DM": ((15.97, 8, 109), (64.61, 285, 632), (98.99, 429, 882)),
    "OPT 1.3B, CNN-DM": ((17.50, 1, 87), (85.23, 373, 644), (140.0, 559, 836)),
    "GPT-Neo 1.3B, CNN-DM": ((15.16, 5, 87), (77.87, 338, 571), (130.47, 637, 822)),
    "LLaMA 3 8B, PubMedQA": ((16.69, 0, 128), (37.01, 58, 439), (70.91, 123, 669)),
    "OPT 1.3B, PubMedQA": ((13.20, 0, 54), (45.66, 47, 251), (97.95, 151, 494)),
    "GPT-Neo 1.3B, PubMedQA": ((11.20, 0, 53), (38.79, 54, 268), (77.91, 206, 622)),
}
BERTS, FACTKB = "BERTScore, %", "FactKB, %"
TABLE_3 = {  # (influence, ROUGE-L, BERTScore, FactKB) at each lambda
    "OPT 1.3B, PubMedQA": ((13.20, 15.41, 72.13, 31.40), (45.66, 16.51, 72.81, 37.38), (97.95, 16.96, 72.88, 48.81)),
    "OPT 1.3B, CNN-DM": ((17.50, 9.73, 68.06, 75.28), (85.23, 16.84, 72.09, 88.24), (140.0, 18.82, 72.88, 89.22)),
    "GPT-Neo 1.3B, PubMedQA": ((11.20, 16.26, 72.32, 35.66), (38.79, 18.47, 73.65, 52.36), (77.91, 18.91, 74.08, 68.54)),
    "GPT-Neo 1.3B, CNN-DM": ((15.16, 9.73, 68.06, 75.28), (77.87, 15.97, 71.54, 93.66), (130.47, 18.17, 72.66, 92.90)),
    "LLaMA 3 8B, PubMedQA": ((16.69, 17.73, 73.33, 44.71), (37.01, 19.20, 74.66, 49.63), (70.91, 18.79, 74.41, 56.76)),
    "LLaMA 3 8B, CNN-DM": ((15.97, 10.34, 68.06, 69.18), (64.61, 17.42, 72.17, 85.60), (98.99, 19.22, 72.89, 87.86)),
    "LLaMA 3 8B IT, PubMedQA": ((17.26, 20.17, 74.51, 51.64), (66.39, 21.47, 75.47, 56.64), (115.78, 20.88, 75.21, 63.08)),
    "LLaMA 3 8B IT, CNN-DM": ((35.0, 15.18, 71.89, 87.22), (92.25, 22.53, 73.35, 98.26), (134.23, 23.53, 75.44, 97.95)),
    "Gemma 2 9B IT, PubMedQA": ((26.68, 18.52, 74.03, 35.60), (70.10, 20.05, 74.97, 41.60), (111.07, 18.52, 74.03, 35.60)),
    "Gemma 2 9B IT, CNN-DM": ((41.76, 14.49, 71.73, 87.56), (93.17, 21.18, 75.09, 96.3), (149.33, 21.60, 75.22, 96.31)),
}  # fmt: skip
OURS = (
    "Ours: the model and contexts named below, and our own template; T = 0.8 as in the paper, "
    "responses of at most --tokens tokens (50 in the "
    "paper). Influence is a sum over the tokens of a response, so it grows with their number. "
)
CODE = (
    "The authors' program reads some probabilities one index too high while the end token is "
    "banned, and drops the first response token for "
    "tokenizers without BOS; ours does neither. "
)


def _settings_only(record: Any) -> Iterator[Measured]:
    yield from rows_of(row for row in record.rows if row.utility is not None)


def _places(record: Any, prefix: str = "") -> Iterator[Measured]:
    yield from rows_of((row for row in record.rows if row.utility is None), prefix)


def _heat(lab: RecipeContext) -> Iterator[Measured]:
    """Where influence gathers in the first context: no text, since it may be private."""
    record = attribute(cases_of(lab)[:1], lab.model(), replace(settings_of(lab), ngrams=(1,)))
    for number, one in enumerate(record.attributions):
        spans, *_, whole = one.readings[0].grids
        totals = spans.totals
        hot = int(totals.argmax())
        share = 100 * totals[hot] / max(float(totals.sum()), 1e-12)
        yield Measured(
            f"context {number + 1}",
            "most influential token",
            hot + 1,
            f"token {hot + 1} of {len(totals)}: {totals[hot]:.2f}, {share:.0f} % of all",
        )
        yield Measured(
            f"context {number + 1}",
            "median token",
            float(np.median(totals)),
            f"{np.median(totals):.3f}; the whole context {whole.totals[0]:.2f}",
        )


def _by_model(lab: RecipeContext) -> Iterator[Measured]:
    """The i-th span of 128 tokens, of every model."""
    for address in lab.models:
        yield from _places(
            factor(lab, "span-position", (128,), (address,)),
            f"{address}, " if len(lab.models) > 1 else "",
        )


def _figure_2(lab: RecipeContext) -> Iterator[Measured]:
    for row in factor(lab, "models", models=lab.models).rows:
        yield from rows_of([row], "(a) ")
    for row in factor(lab, "context-size", (32, 64, 128, 256)).rows:
        yield from rows_of([row], "(b) ")
    yield from _places(factor(lab, "response-position"), "(c) ")


def _lambdas(table: dict[str, Any], names: Sequence[str], where: str) -> Iterator[Printed]:
    for model, rows in table.items():
        for lam, values in zip(LAMBDAS, rows, strict=True):
            for name, value in zip(names, values, strict=True):
                yield Printed(f"λ = {lam:g}", name, value, f"{model}, {where}")


def _says(setting: str, words: str, where: str, what: str = INFLUENCE) -> Printed:
    return Printed(setting, what, words, f"{NO_NUMBERS}; {where}")


COUNTED = (INFLUENCE, REPEATED["repeat_program"], REPEATED["rouge_program"])
RECIPES = (
    recipe("influence/table1", "heat of single tokens", "One token of the context carries most of the influence on the next one.", [_says("context 1", "the token that is repeated", "Table 1", "most influential token")],
            OURS + "Influence on the whole response, not on its next token. Places only: contexts may be private; `leakbound influence` shows their text.", _heat),
    recipe("influence/table2", "influence and repeated text by λ", "Both grow with λ.", tuple(_lambdas(TABLE_2, COUNTED, "of 1,000")),
            OURS + CODE + "“By the program”: more than 25 shared words, or ROUGE-L precision or recall above 0.5, as the authors' program counts; “by the text”: as the text defines it.",
            lambda lab: _settings_only(factor(lab, "lambda", LAMBDAS))),
    recipe("influence/table3", "influence, similarity and faithfulness by λ", "More influence, better scores, to a point.", tuple(_lambdas(TABLE_3, (INFLUENCE, ROUGE_L, BERTS, FACTKB), "Table 3")),
            OURS + CODE + "BERTScore and FactKB need judges: `leakbound influence-study lambda --bertscore-model --factkb-model`. The table's row of Gemma at λ = 1.5 on PubMedQA repeats the scores of "
                "its row at λ = 0.5 (the published generations give ROUGE-L 19.21). Section 4.3 "
                "speaks of LLaMA 3 on CNN-DM and a fall of 2.2 times at λ = 0.5; 2.2 is 37.01/16.69, "
                "which is PubMedQA, and on CNN-DM the table gives 64.61/15.97 = 4.0.",
            lambda lab: _settings_only(factor(lab, "lambda", LAMBDAS))),
    recipe("influence/table4", "responses at three λ", "At λ = 1.5 responses repeat the context, at λ = 0.5 hardly.", [_says("λ = 1.5", "repeated word for word", "Table 4", REPEATED["repeat_text"]), _says("λ = 0.5", "not repeated", "Table 4", REPEATED["repeat_text"])],
            OURS + "Counts only: responses repeat contexts, which may be private.", lambda lab: _settings_only(factor(lab, "lambda", LAMBDAS))),
    recipe("influence/fig2", "model size, context size, response position", "Larger models less; contexts up to 256 tokens more; first tokens most.",
            [_says("(b) at most 32 tokens", "much lower", "Figure 2(b)"), _says("(b) at most 256 tokens", "stays from here on", "Figure 2(b)"), _says("(c) response token 1", "highest in the first 10", "Figure 2(c)")],
            OURS + "The bundled notes have about 350 tokens, so sizes end at 256. (a) takes several --model.", _figure_2),
    recipe("influence/fig3", "spans of n tokens by position", "Larger spans and earlier spans have more influence.", [_says("n = 128, span 1", "highest", "Figure 3"), _says("n = 4, span 1", "above later ones", "Figure 3")],
            OURS + "Disjoint blocks as the text defines them; the authors' program slides a window.", lambda lab: _places(factor(lab, "span-position", (32, 128)))),
    recipe("influence/fig4", "spans of 128 tokens by model", "Earlier spans have more influence in every model.", [_says("n = 128, span 1", "highest", "Figure 4")], OURS + "Disjoint blocks. Give --model several times to compare models.", _by_model),
    recipe("influence/fig7", "temperature", "Influence rises steeply as T falls; ROUGE-L a little.", [_says("T = 0.25", "highest", "Appendix D"), _says("T = 1", "lowest", "Appendix D")],
            OURS + "λ = 1. Axis labels are all that the text has of the figure.", lambda lab: _settings_only(factor(lab, "temperature", (0.25, 0.5, 0.75, 1.0)))),
    recipe("influence/fig8", "λ", "Influence grows with λ; similarity falls a little above 1.25.", [_says("λ = 2", "highest", "Appendix D"), _says("λ = 0", "0, by definition", "Definition 3.4")],
            OURS + "Axis labels are all that the text has of the figure.", lambda lab: _settings_only(factor(lab, "lambda", (0.0, 0.5, 1.0, 1.5, 2.0)))),
)  # fmt: skip
