"""Files in the forms of evaluation tools, as their sources write them: lm-eval 0.4.13
(`evaluator.py`), garak 0.16.1 (`attempt.py`), promptfoo (`types/index.ts`, `util/output.ts`),
deepeval 4.1.10 (`test_run/api.py`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path


def lines(path: Path, records: Sequence[object]) -> Path:
    path.write_text("".join(f"{json.dumps(one)}\n" for one in records))
    return path


def table(path: Path, scores: Sequence[object], metric: str = "accuracy") -> Path:
    path.write_text(f"id,{metric}\n" + "".join(f"q{i},{s}\n" for i, s in enumerate(scores)))
    return path


def lm_eval(path: Path, scores: Sequence[int]) -> Path:
    records = [
        {
            "doc_id": i, "doc": {"question": f"question {i}"}, "target": "0",
            "arguments": {"gen_args_0": {"arg_0": "prompt", "arg_1": " yes"}},
            "resps": [[["-1.2", "False"]]], "filtered_resps": [["-1.2", "False"]],
            "filter": name, "metrics": ["acc", "perplexity", "parts"],
            "doc_hash": "a", "prompt_hash": "b", "target_hash": "c",
            "acc": float(score), "perplexity": 17.5, "parts": [0, 1],
        }
        for name in ("none", "strict")
        for i, score in enumerate(scores)
    ]  # fmt: skip
    return lines(path.with_suffix(".jsonl"), records)


def garak(path: Path, scores: Sequence[int]) -> Path:
    attempts = [
        {
            "entry_type": "attempt", "uuid": f"{path.name}-{i}", "seq": i, "status": status,
            "probe_classname": "test.Test", "probe_params": {}, "targets": [],
            "prompt": {"turns": []}, "outputs": [{"text": "hello", "lang": "en"}, None],
            "detector_results": {"base.Hit": [float(score), None]} if status == 2 else {},
            "notes": {}, "goal": "test", "conversations": [], "reverse_translation_outputs": [],
            "intent": None,
        }
        for i, score in enumerate(scores)
        for status in (1, 2)
    ]  # fmt: skip
    evaluated = {"entry_type": "eval", "probe": "test.Test", "detector": "base.Hit", "passed": 1}
    head = {"entry_type": "start_run setup", "_config.DICT_CONFIG_AFTER_LOAD": False}
    return lines(path.with_suffix(".report.jsonl"), [head, *attempts, evaluated])


def promptfoo(path: Path, scores: Sequence[int], failure: int = 1) -> Path:
    results = [
        {
            "id": f"r{i}", "promptIdx": 0, "testIdx": i, "testCase": {"vars": {}, "assert": []},
            "promptId": "p", "provider": {"id": "echo", "label": ""}, "vars": {},
            "prompt": {"raw": "hi", "label": "hi"}, "response": {"output": "hello"},
            "failureReason": 0 if score else failure, "success": bool(score), "score": score,
            "latencyMs": 12, "gradingResult": None, "namedScores": {"tone": 0.5}, "cost": 0,
        }
        for i, score in enumerate(scores)
    ]  # fmt: skip
    summary = {"version": 3, "timestamp": "", "results": results, "prompts": [], "stats": {}}
    whole = {"evalId": "eval-1", "results": summary, "config": {}, "shareableUrl": None}
    path = path.with_suffix(".json")
    path.write_text(json.dumps(whole))
    return path


def deepeval(path: Path, scores: Sequence[int]) -> Path:
    cases = [
        {
            "name": f"test_case_{i}", "input": "hi", "actualOutput": "hello", "flaky": False,
            "success": bool(score), "order": i, "runDuration": 0.1,
            "metricsData": [{
                "name": "Answer Relevancy", "threshold": 0.5, "success": bool(score),
                "score": float(score), "strictMode": False, "flaky": False,
            }],
        }
        for i, score in enumerate(scores)
    ]  # fmt: skip
    path = path.with_suffix(".json")
    whole = {"testCases": cases, "conversationalTestCases": [], "testPassed": 1}
    path.write_text(json.dumps(whole))
    return path


TOOLS: dict[str, tuple[Callable[[Path, Sequence[int]], Path], str]] = {
    "lm-eval": (lm_eval, "acc,none"),
    "garak": (garak, "test.Test/base.Hit"),
    "promptfoo": (promptfoo, "success"),
    "deepeval": (deepeval, "Answer Relevancy"),
}
