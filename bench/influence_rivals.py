"""One program on one case, for bench/influence_speed.py: reads the case as JSON, prints JSON.

Every program runs in a process of its own, on one thread, in float32, on a model of the same
weights. Seconds are CPU seconds of the process. This file imports leakbound only where it measures
leakbound, so that other programs can have an environment of their own.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

Case = dict[str, Any]
Found = dict[str, Any]
BATCH = 8  # of the authors' program: main_results.py sets it
CHAT = (
    "{{ messages[0]['content'] }}"  # context-cite asks for a chat template: this one adds nothing
)


def build(case: Case) -> Any:
    """The model of a case: a shape with random weights, or a folder."""
    if "folder" in case:
        return AutoModelForCausalLM.from_pretrained(case["folder"], dtype=torch.float32).eval()
    torch.manual_seed(0)
    config = AutoConfig.for_model("opt", **case.get("shape", {}))
    return AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()


def without(case: Case, span: tuple[int, int] | None) -> list[int]:
    """Token ids of the prompt without a span of its context; None for the whole prompt."""
    first, end = span or (0, 0)
    context = case["context"][:first] + case["context"][end:]
    return list(case["head"] + context + case["tail"])


def seconds_of(call: Callable[[], Any]) -> tuple[float, Any]:
    """CPU seconds of this process, and what the call returns."""
    begin = time.process_time()
    found = call()
    return time.process_time() - begin, found


# --- windows of token ids


def authors(case: Case) -> Found:
    """The authors' own `post_calc_influence`, for all response tokens or for some of them."""
    sys.path.insert(0, f"{case['authors']}/src")
    from context_influence import post_calc_influence  # type: ignore[import-not-found]

    model = build(case)
    whole, none = without(case, None), without(case, (0, len(case["context"])))
    rows = torch.tensor([without(case, case["spans"][at]) for at in case["some"]])

    def call(t: int, answer: list[int], rows: torch.Tensor | None) -> tuple[float, Any]:
        begun = torch.tensor([case["answer"][:t]], dtype=torch.long)
        prompts = [torch.cat([torch.tensor([ids]), begun], 1) for ids in (whole, none)]
        longer = None if rows is None else torch.cat([rows, begun.repeat(len(rows), 1)], 1)
        batch = None if rows is None else BATCH
        arguments = (*prompts, torch.tensor([answer]), 1.0, 1.0, [2, 1], 0, batch, longer)
        with torch.no_grad():
            return seconds_of(
                lambda: post_calc_influence(model, range(model.config.vocab_size), *arguments)
            )

    call(0, case["answer"][:1], rows[:1, :40])  # warm up
    found: Found = {"sampled": []}
    for t in case["positions"]:
        alone, _ = call(t, case["answer"][t : t + 1], None)
        with_windows, values = call(t, case["answer"][t : t + 1], rows[:BATCH])
        found["sampled"].append([t, alone, with_windows, np.asarray(values)[0].tolist()])
    if case["complete"]:
        found["seconds"], values = call(0, case["answer"], rows)
        found["influence"] = np.asarray(values).T.tolist()
    return found


def loop(case: Case) -> Found:
    """A teacher-forced loop: one pass for each ablation, logits at the answer only, no cache."""
    model, answer = build(case), torch.tensor(case["answer"])
    tail = case["answer"][:-1]
    rows = [without(case, case["spans"][at]) + tail for at in case["some"]]

    def read(rows: list[list[int]]) -> torch.Tensor:
        with torch.inference_mode():
            ids = torch.tensor(rows)
            logits = model(input_ids=ids, use_cache=False, logits_to_keep=len(answer)).logits
            wanted = answer[None, :, None].expand(len(rows), -1, 1)
            return torch.log_softmax(logits, -1).gather(-1, wanted)[..., 0]

    def run(batch: int) -> torch.Tensor:
        return torch.cat([read(rows[at : at + batch]) for at in range(0, len(rows), batch)])

    read([rows[0][:80] + tail])  # warm up
    full_seconds, full = seconds_of(lambda: read([without(case, None) + tail]))
    found: Found = {"rows": len(rows), "full_seconds": full_seconds, "batches": {}}
    for batch in case["batches"]:
        found["batches"][str(batch)], values = seconds_of(lambda batch=batch: run(batch))
        found["influence"] = (full - values).abs().tolist()
    return found


def ours(case: Case) -> Found:
    """`leakbound.attribution.measure`: both prompts, and then the windows behind them."""
    from leakbound.attribution import PromptParts, TokenDistribution, measure

    model = local_model(case)
    parts = PromptParts(*(tuple(case[name]) for name in ("head", "context", "tail")))
    spans = [(first, end) for first, end in case["spans"]]

    def call(spans: list[tuple[int, int]]) -> Any:
        own = [TokenDistribution()]
        return measure(model, parts, tuple(case["answer"]), spans, own, with_tolerance=False)

    call(spans[-1:])  # warm up
    model.forget()
    if case["complete"]:
        seconds, found = seconds_of(lambda: call(spans))
        return {"seconds": seconds, "influence": np.abs(found.signed[0]).tolist()}
    some = [spans[at] for at in case["some"]]
    prompts, _ = seconds_of(lambda: call([]))
    windows, found = seconds_of(lambda: call(some))
    seconds = prompts + windows * len(spans) / len(some)
    return {"seconds": seconds, "influence": np.abs(found.signed[0]).tolist()}


def local_model(case: Case) -> Any:
    """The model of a case behind leakbound's engine."""
    from leakbound.models.local import TransformersModel

    return TransformersModel(build(case), tokenizer_of(case), "model", "0")


def tokenizer_of(case: Case) -> PreTrainedTokenizerFast:
    """The tokenizer, which adds nothing to a prompt."""
    tokenizer = PreTrainedTokenizerFast.from_pretrained(case["tokenizer"])
    tokenizer.chat_template = None
    return tokenizer


# --- sentences of texts


def over_texts(case: Case, score: Callable[[Case], Any]) -> Found:
    """Seconds and scores of every text of a case, after a short one that warms up."""
    score(case["warm"])
    results = [seconds_of(lambda text=text: score(text)) for text in case["texts"]]
    return {
        "seconds": [seconds for seconds, _ in results],
        "scores": [np.asarray(scores).tolist() for _, scores in results],
    }


def our_units(case: Case) -> Found:
    """`leakbound.influence` by sentence, with the numerical tolerance that it always measures."""
    import leakbound

    model = local_model(case)

    def score(text: Case) -> Any:
        model.forget()
        record = leakbound.influence(
            text["context"], text["query"], model=model, response=text["answer"], by="sentence",
            method=case.get("method"), sets=case.get("sets", 1024),
        )  # fmt: skip
        grid = record.attributions[0].readings[0].grids[0]
        return grid.totals

    return over_texts(case, score)


def context_cite(case: Case) -> Found:
    """context-cite with its defaults, such as batches of one."""
    from context_cite import ContextCiter  # type: ignore[import-not-found]
    from context_cite.context_partitioner import (  # type: ignore[import-not-found]
        SimpleContextPartitioner,
    )

    model, tokenizer = build(case), tokenizer_of(case)
    tokenizer.padding_side, tokenizer.chat_template = "left", CHAT

    def score(text: Case) -> Any:
        partitioner = SimpleContextPartitioner(text["context"])
        partitioner._cache = {"parts": text["parts"], "separators": text["separators"]}
        citer = ContextCiter(
            model, tokenizer, text["context"], text["query"], partitioner=partitioner,
            prompt_template=case["template"], num_ablations=case["ablations"],
        )  # fmt: skip
        _, prompt = citer._get_prompt_ids(return_prompt=True)
        citer._cache["output"] = f"{prompt} {text['answer']}"  # the given answer, none generated
        return citer.get_attributions(verbose=False)

    return over_texts(case, score) | {"version": version("context-cite")}


def captum(case: Case) -> Found:
    """captum's feature ablation of the sentences, the answer read in one pass."""
    from captum.attr import (  # type: ignore[import-not-found]
        FeatureAblation,
        LLMAttribution,
        TextTemplateInput,
    )

    model, tokenizer = build(case), tokenizer_of(case)
    method = LLMAttribution(FeatureAblation(model), tokenizer)

    def score(text: Case) -> Any:
        parts = [s + p for s, p in zip(text["separators"], text["parts"], strict=True)]
        context = "".join("{}" for _ in parts)
        template = case["template"].replace("{context}", context).replace("{query}", text["query"])
        answer = torch.tensor(tokenizer.encode(f" {text['answer']}", add_special_tokens=False))
        groups = min(case["features"] or len(parts), len(parts))
        mask = [at * groups // len(parts) for at in range(len(parts))]
        with torch.inference_mode():
            found = method.attribute(
                TextTemplateInput(template, parts, mask=mask), answer, forward_in_tokens=False
            )
        return found.seq_attr

    return over_texts(case, score) | {"version": version("captum")}


RUNS = {
    "authors": authors, "loop": loop, "ours": ours, "our_units": our_units,
    "context_cite": context_cite, "captum": captum,
}  # fmt: skip


def main() -> None:
    """Print what the program of the case on standard input has measured."""
    sys.path.pop(0)  # this folder, whose catalogue.py would hide a package of context-cite
    case = json.load(sys.stdin)
    torch.set_num_threads(1)
    found = RUNS[case["program"]](case)
    with open(case["out"], "w") as file:
        json.dump(found, file)


if __name__ == "__main__":
    main()
