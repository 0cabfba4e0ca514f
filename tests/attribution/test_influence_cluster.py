"""Influence of many contexts over the workers of a Ray cluster."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest
from commands import cli

pytest.importorskip("torch")

pytestmark = [
    pytest.mark.hosts,
    pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed (the extra ray)"),
]


def test_influence_over_a_cluster_has_the_bytes_of_one_process(tmp_path: Path) -> None:
    lines = [
        {
            "context": f"The lamp is green. The code of room {k} is {k}71.",
            "query": "What is the code?",
        }
        for k in range(4)
    ]
    (tmp_path / "cases.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    command = (
        "influence",
        "--context",
        "cases.jsonl",
        "--ngram",
        "4",
        "--max-tokens",
        "5",
        "--out",
    )
    for options in (("alone",), ("spread", "--ray", "local", "--workers", "2")):
        done = cli(*command, *options, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    one, other = ((tmp_path / out / "influence.json").read_bytes() for out in ("alone", "spread"))
    assert one == other
