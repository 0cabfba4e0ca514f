"""Commands with a model behind a server:

the same evidence as in this process, the same bytes at any speed, limits that resume.
"""

from __future__ import annotations

import math
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from commands import cli, launch

from leakbound.auditing import load_result, make_spec, prepare, run_audit
from leakbound.auditing.store.run_store import RunStore
from leakbound.models import Model

pytest.importorskip("uvicorn")
pytest.importorskip("torch")

from loopback.faults import Faults
from loopback.parrot import Parrot
from loopback.running import running
from loopback.speaking import speaking

pytestmark = [pytest.mark.process, pytest.mark.torch]

KEY = "sk-kept-away-from-everything-1234"
AUDIT = {
    "mechanism": "few_shot",
    "pairs": 6,
    "shots": 6,
    "batch_pairs": 2,
    "simulations": 1000,
    "controls": 2,
}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    app = Faults(
        speaking(dialect="vllm", key=KEY),
        rate=0.1,
        seed=5,
        kinds=("too_many", "truncated", "page_502"),
    )
    with running(app) as found:
        yield found


def run(
    *words: str, code: int | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    done = cli(*words, **{"LEAKBOUND_API_KEY": KEY, **environment})
    assert code is None or done.returncode == code, done.stderr
    assert KEY not in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done


def audit(url: str, out: Path, *words: str, code: int | None = None, **environment: str) -> Any:
    options = [
        word
        for name, value in AUDIT.items()
        for word in (f"--{name.replace('_', '-')}", str(value))
    ]
    return run("audit", "--model", "openai/pocket", "--base-url", url, "--capabilities",
               "completions", *options, "--out", str(out), *words, code=code,
               **environment)  # fmt: skip


def only(out: Path, name: str = "record.json") -> Path:
    (found,) = out.rglob(name)
    return found


@pytest.mark.slow
def test_the_same_audit_here_and_behind_a_server(url: str, tmp_path: Path, pocket: Model) -> None:
    done = audit(url, tmp_path / "there")
    assert done.returncode in (0, 1, 3), done.stderr
    assert "requests (" in done.stderr.splitlines()[-1]
    prepared = prepare(make_spec(AUDIT), pocket)
    here, folder = run_audit(prepared, tmp_path / "here")
    there = load_result(only(tmp_path / "there"))
    stores = RunStore(folder, {}), RunStore(only(tmp_path / "there").parent, {})
    assert list(stores[0].evidence()) == list(stores[1].evidence())
    assert here.estimates == there.estimates
    assert there.provenance["model"] == "openai/pocket"
    for path in (tmp_path / "there").rglob("*"):
        assert path.is_dir() or KEY.encode() not in path.read_bytes(), path
        assert path.is_dir() or url.encode() not in path.read_bytes(), path


@pytest.mark.slow
def test_a_limit_ends_like_an_interruption_and_the_same_command_goes_on(
    url: str, tmp_path: Path
) -> None:
    """And a record does not tell how fast, in how many parts and at what price it was made."""
    prices = ("--price-in", "100", "--price-out", "100", "--connections", "1")
    with running(speaking(dialect="vllm")) as calm:
        stopped = audit(calm, tmp_path / "parts", *prices, "--max-cost", "0.2", code=130)
    assert "--max-cost" in stopped.stderr
    assert not list((tmp_path / "parts").rglob("record.json"))
    done = audit(url, tmp_path / "parts", *prices)
    beside = tmp_path / "whole" / "beside"  # runs in one folder share the key of their digests
    beside.mkdir(parents=True)
    shutil.copy(only(tmp_path / "parts").with_name("key"), beside)
    whole = audit(url, tmp_path / "whole", "--connections", "32", "--timeout", "500")
    assert _requests(done.stderr) < _requests(whole.stderr)
    one, many = only(tmp_path / "parts"), only(tmp_path / "whole")
    assert one.parent.name == many.parent.name
    assert one.read_bytes() == many.read_bytes()


def _requests(told: str) -> int:
    """Those that were needed: how many of them failed and were sent again is chance."""
    sent, again = map(int, re.findall(r"(\d+) requests \((\d+) of them", told)[-1])
    return sent - again


def test_an_answer_comes_through_the_address_in_the_environment(url: str, tmp_path: Path) -> None:
    ledger = (
        "--ledger",
        str(tmp_path / "ledger.sqlite"),
        "--mechanism",
        "report_noisy_max",
        "--shots",
        "20",
    )
    words = ("--model", "openai/pocket", "--capabilities", "completions")
    done = run("answer", *words, *ledger, "my invoice is wrong", code=0, LEAKBOUND_BASE_URL=url)
    assert done.stdout.strip() in ("red", "blue", "green", "gold", "(no answer)")
    assert "requests" not in done.stderr  # how many there were depends on the rows


def test_a_wrong_key_and_a_wrong_address_are_sentences(url: str, tmp_path: Path) -> None:
    wrong = audit(url, tmp_path, code=4, LEAKBOUND_API_KEY="sk-wrong")
    assert "HTTP 401" in wrong.stderr
    lost = audit(url.removesuffix("/v1"), tmp_path, code=4)
    assert "HTTP 404" in lost.stderr


def test_no_option_and_no_configuration_takes_a_key(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("api_key: sk-1\n")
    assert "not known" in run("plan", "--config", str(tmp_path / "a.yaml"), code=2).stderr
    assert "No such option" in run("plan", "--api-key", "sk-1", code=2).stderr


def test_a_plan_contacts_nobody_and_bounds_the_cost() -> None:
    parrot = Parrot()
    with running(parrot) as there:
        words = ("plan", "--model", "openai/any", "--base-url", there, "--pairs", "5")
        assert "price unknown" in run(*words, code=0).stdout
        assert " · at most $" in run(*words, "--price-in", "1", "--price-out", "2", code=0).stdout
    assert not parrot.prompts


@pytest.mark.slow
def test_an_interruption_is_a_sentence(tmp_path: Path) -> None:
    parrot = Parrot(pause=math.inf)
    with running(parrot) as there:
        words = (
            "audit",
            "--model",
            "openai/any",
            "--base-url",
            there,
            "--pairs",
            "4",
            "--out",
            str(tmp_path),
        )
        process = launch(*words)
        while not parrot.prompts and process.poll() is None:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        told = process.communicate()[1]
    assert process.returncode == 130
    assert "the same command resumes" in told
    assert "Traceback" not in told
