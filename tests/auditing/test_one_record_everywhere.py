"""One audit, one seed, one record: in this process, behind servers of two dialects, at any speed,
under faults, killed, in
shards, on a cluster."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from commands import cli, launch
from limits import expires

from leakbound.auditing import load_result

pytest.importorskip("uvicorn")
pytest.importorskip("torch")

from loopback.faults import Faults
from loopback.holding import Holding
from loopback.running import running
from loopback.speaking import speaking

pytestmark = [pytest.mark.process, pytest.mark.torch]

AUDIT = ("--mechanism", "report_noisy_max:partitions=3", "--shots", "6", "--pairs", "5",
         "--controls", "2", "--batch-pairs", "1", "--simulations", "1000")  # fmt: skip
KEY = {"LEAKBOUND_API_KEY": "sk-1"}


def run(*words: str) -> None:
    done = cli(*words, **KEY)
    assert done.returncode in (0, 1, 3), done.stderr


def audit(out: Path, *words: str) -> None:
    run("audit", *AUDIT, "--out", str(out), *words)


def served(url: str, *words: str) -> tuple[str, ...]:
    return ("--model", "openai/pocket", "--base-url", url, *words)


def through_text_only_http(out: Path) -> None:
    with running(speaking(dialect="bare")) as url:
        audit(out, *served(url, "--connections", "1"))


def through_a_server_with_log_probabilities(out: Path) -> None:
    with running(speaking(dialect="vllm")) as url:
        audit(
            out,
            *served(
                url,
                "--connections",
                "32",
                "--capabilities",
                "completions,prompt_logprobs,token_ids,seed",
            ),
        )


def through_two_servers_with_faults(out: Path) -> None:
    faulty = Faults(speaking(dialect="vllm"), rate=0.2, seed=3)
    with running(faulty) as one, running(speaking(dialect="llamacpp")) as two:
        audit(out, *served(f"{one},{two}", "--connections", "32", "--capabilities", "completions"))
    assert any(faulty.log)


def killed_over_http(out: Path) -> None:
    app = Holding(speaking(dialect="vllm"), after=14)  # of 24 requests
    with running(app) as url:
        words = ("audit", *AUDIT, "--out", str(out), *served(url, "--capabilities", "completions"))
        with launch(*words, **KEY) as process:
            while not app.held.wait(expires(0.1)):
                assert process.poll() is None
            process.kill()
        assert process.returncode == -signal.SIGKILL
        app.free.set()
        run(*words)


def in_shards(out: Path) -> None:
    for number in ("1", "2"):
        audit(out / number, "--shard", f"{number}/2")
    run(
        "merge",
        *(str(next((out / number).iterdir())) for number in ("1", "2")),
        "--out",
        str(out / "merged"),
    )


WAYS = (through_text_only_http, through_a_server_with_log_probabilities,
        through_two_servers_with_faults, killed_over_http, in_shards)  # fmt: skip


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Results of the audit in one process."""
    out = tmp_path_factory.mktemp("alone")
    audit(out)
    return results(out)


def results(out: Path) -> dict[str, Any]:
    """All but the controls that only a model behind a server is asked again at the end: 8 calls."""
    # and what they showed
    (path,) = out.rglob("record.json")
    found: dict[str, Any] = json.loads(load_result(path).results())
    calls = found["counts"].pop("model_calls")
    del found["controls"]["changed"]
    assert calls == (36 if found["controls"].pop("late") is None else 44)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_the_same_bytes(way: Callable[[Path], None], alone: dict[str, Any], tmp_path: Path) -> None:
    way(tmp_path)
    assert results(tmp_path) == alone


@pytest.mark.hosts
def test_the_same_bytes_on_a_cluster_of_two_nodes(
    alone: dict[str, Any], tmp_path: Path, address: str
) -> None:
    audit(tmp_path, "--ray", address)
    assert results(tmp_path) == alone
