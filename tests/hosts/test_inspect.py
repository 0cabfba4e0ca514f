"""inspect_ai runs audits of leakbound: real evaluations with its own mock model."""

from __future__ import annotations

import gc
import importlib.util
import os
import random
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

inspect_ai = pytest.importorskip("inspect_ai")
from inspect_ai.log import EvalLog, read_eval_log  # noqa: E402
from inspect_ai.model import ModelOutput, ModelUsage, get_model  # noqa: E402
from inspect_ai.solver import generate, solver  # noqa: E402
from leakbound_hosts.difference.command import command  # noqa: E402
from leakbound_hosts.inspect.audits import audit, paired_trial  # noqa: E402
from leakbound_hosts.inspect.logs import result_of_log  # noqa: E402
from leakbound_hosts.inspect.rates import (  # noqa: E402
    StopAtRate,
    compare_logs,
    rate_of_log,
)
from leakbound_hosts.rates import (  # noqa: E402
    PlannedRateTest,
    RateTest,
    e_benjamini_hochberg,
    rate_bounds,
)

import leakbound  # noqa: E402
from leakbound.errors import DataError, StoreError, UsageError  # noqa: E402
from leakbound.models import Scripted  # noqa: E402

pytestmark = [pytest.mark.hosts, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """Streams that inspect_ai leaves open are closed where their warnings are ignored."""
    yield
    gc.collect()


SHAPE = {"pairs": 40, "shots": 4}
CODE = re.compile(r"\b[0-9a-f]{8,}\b")  # a canary of random hexadecimal digits


def copies(prompt: str) -> int:
    """How often the canary that is asked about stands in the examples."""
    found = CODE.findall(prompt)
    return found.count(found[-1]) - 1 if found else 0


def leaking(prompt: str) -> str:
    return "yes" if copies(prompt) else "no"


def safe(prompt: str) -> str:
    """Sees a context that is full of the canary, and not a single one."""
    return "yes" if copies(prompt) > 1 else "no"


def mock(
    answer: Callable[[str], str], delay: random.Random | None = None, name: str = "model"
) -> Any:
    """The mock model of inspect_ai, which answers by a function of the last message."""
    import anyio

    async def output(messages: Any, *_: Any) -> ModelOutput:
        if delay is not None:
            await anyio.sleep(delay.random() / 100)
        found = ModelOutput.from_content("mock", answer(messages[-1].text))
        found.usage = ModelUsage()  # else the mock counts tokens, with a file from the network
        return found

    return get_model(f"mockllm/{name}", custom_outputs=output, memoize=False)


def evaluated(task: Any, model: Any, folder: Path, **options: Any) -> EvalLog:
    (log,) = inspect_ai.eval(task, model=model, display="none", log_dir=str(folder), **options)
    return log


def metrics(log: EvalLog) -> dict[str, float]:
    assert log.status == "success", log.error
    assert log.results is not None
    (scores,) = log.results.scores
    return {name: float(one.value) for name, one in scores.metrics.items()}


def message(log: EvalLog) -> str:
    assert log.status == "error"
    assert log.error is not None
    return log.error.message


def here(answer: Callable[[str], str], folder: Path, **options: Any) -> leakbound.AuditResult:
    """The same audit without inspect_ai."""
    model = Scripted(complete=answer)
    return leakbound.audit(model=model, batch_pairs=1, out=folder, **SHAPE, **options)


def test_a_leak_ends_the_evaluation_at_the_pair_at_which_it_ends_an_audit(tmp_path: Path) -> None:
    log = evaluated(audit(**SHAPE), mock(leaking), tmp_path, max_samples=1)
    alone = here(leaking, tmp_path / "alone", stop_when_rejected=True)
    found = metrics(log)
    assert found["violation"] == 1
    assert found["pairs"] == alone.counts["pairs"] < SHAPE["pairs"]
    assert found["epsilon"] == alone.estimates[0].epsilon
    assert log.results is not None
    assert log.results.early_stopping is not None
    told = log.results.early_stopping
    assert told.metadata["rejected"] is True
    assert told.metadata["pairs"] == found["pairs"]
    # the pairs that are left, and the control pairs after the last
    assert len(told.early_stops) == SHAPE["pairs"] - found["pairs"] + 8


def test_what_does_not_leak_is_asked_to_the_end(tmp_path: Path) -> None:
    found = metrics(evaluated(audit(**SHAPE), mock(safe), tmp_path))
    assert (found["violation"], found["inconclusive"], found["pairs"]) == (
        0,
        1,
        40,
    )  # seen only in bulk
    assert found["e_value"] <= 1


def test_the_order_of_completion_changes_no_bound(tmp_path: Path) -> None:
    """Pairs that are answered first may be answered first because of what they say."""
    plain = metrics(evaluated(audit(**SHAPE), mock(leaking), tmp_path / "1", max_samples=1))
    mixed = mock(leaking, random.Random(0))
    log = evaluated(audit(**SHAPE), mixed, tmp_path / "2", max_samples=16)
    assert metrics(log) == plain
    assert log.results is not None
    assert log.results.early_stopping is not None
    assert int(str(log.results.early_stopping.metadata["pairs_not_counted"])) > 0


def test_models_that_run_at_once_are_told_apart(tmp_path: Path) -> None:
    """They share the manager of their task."""
    models = [mock(leaking, random.Random(0), "leaks"), mock(safe, random.Random(1), "safe")]
    logs = inspect_ai.eval(audit(**SHAPE), model=models, display="none", log_dir=str(tmp_path))
    found = {log.eval.model: log.results.early_stopping.metadata for log in logs}
    assert (found["mockllm/leaks"]["rejected"], found["mockllm/leaks"]["pairs"]) == (True, 11)
    assert (found["mockllm/safe"]["rejected"], found["mockllm/safe"]["pairs"]) == (False, 40)


def test_a_retried_evaluation_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its log holds the answers of both attempts, and each pair counts once."""
    calls = iter(range(1000))

    def failing(prompt: str) -> str:
        if next(calls) == 40:
            raise ConnectionError("gone")
        return safe(prompt)

    log = evaluated(audit(**SHAPE), mock(failing), tmp_path, max_samples=1)
    assert log.status == "error"
    for key, value in tokenizers().items():
        monkeypatch.setenv(key, value)  # the second attempt asks the mock as it is
    (again,) = inspect_ai.eval_retry(log, display="none", log_dir=str(tmp_path))
    assert metrics(again)["pairs"] == SHAPE["pairs"]
    assert result_of_log(again.location, tmp_path / "runs").counts["pairs"] == SHAPE["pairs"]


def test_a_log_becomes_a_run_with_the_same_result(tmp_path: Path) -> None:
    log = evaluated(audit(**SHAPE), mock(leaking), tmp_path, max_samples=4)
    result = result_of_log(log.location, tmp_path / "runs")
    alone = here(leaking, tmp_path / "alone", stop_when_rejected=True)
    assert result.verdict == alone.verdict == "violation"
    assert result.estimates == alone.estimates
    (folder,) = (tmp_path / "runs").iterdir()
    assert leakbound.load_result(folder).results() == result.results()
    with pytest.raises(StoreError, match="holds no paired trials"):
        result_of_log(_without_samples(log, tmp_path), tmp_path / "runs")


def _without_samples(log: EvalLog, folder: Path) -> Path:
    from inspect_ai.log import write_eval_log

    path = folder / "empty.json"
    write_eval_log(log.model_copy(update={"samples": []}), str(path))
    return path


def test_epochs_are_no_trials(tmp_path: Path) -> None:
    log = evaluated(audit(**SHAPE), mock(leaking), tmp_path, epochs=2)
    assert "epochs of one sample are not independent" in message(log)
    task = audit(**SHAPE, stop_when_rejected=False)
    log = evaluated(task, mock(leaking), tmp_path, epochs=2)
    assert "use more pairs" in message(log)


def test_a_key_is_given_once() -> None:
    with pytest.raises(
        leakbound.LeakboundError, match="settings has epsilon, which is a parameter"
    ):
        audit(settings={"epsilon": 2})


@solver
def careful() -> Any:
    """An agent that refuses to say yes, and counts its answers in the store."""

    async def solve(state: Any, generate: Any) -> Any:
        assert state.store.get("answers", 0) == 0, "two contexts share a store"
        state.store.set("answers", 1)
        state = await generate(state)
        state.output.completion = state.output.completion.replace("yes", "no")
        return state

    return solve


def test_a_solver_is_audited_in_front_of_the_model(tmp_path: Path) -> None:
    task = inspect_ai.task_with(audit(**SHAPE), solver=paired_trial(careful()))
    log = evaluated(task, mock(leaking), tmp_path)
    found = metrics(log)
    assert (found["violation"], found["inconclusive"], found["pairs"]) == (0, 1, 40)
    result = result_of_log(log.location, tmp_path / "runs")
    assert result.reason == "attack_blind"
    assert result.spec["model"] == "inspect/mockllm/model through careful"
    open_ = inspect_ai.task_with(audit(**SHAPE), solver=paired_trial(generate()))
    assert metrics(evaluated(open_, mock(leaking), tmp_path))["violation"] == 1


def test_a_noisy_mechanism_is_tested_by_its_own_release(tmp_path: Path) -> None:
    """Every partition of a perfect attack votes, and the noise hides it as it should."""
    settings: dict[str, object] = {"mechanism.partitions": 4, "simulations": 4000}
    task = audit(mechanism="report_noisy_max", **SHAPE, settings=settings)
    log = evaluated(task, mock(leaking), tmp_path)
    found = metrics(log)
    alone = here(
        leaking, tmp_path / "alone", stop_when_rejected=True, mechanism="report_noisy_max",
        simulations=4000, settings={"mechanism.partitions": 4},
    )  # fmt: skip
    assert found["violation"] == (alone.verdict == "violation") == 0
    assert found["epsilon"] == alone.estimates[0].epsilon


def tokenizers() -> dict[str, str]:
    """The command line counts tokens by a file that LiteLLM brings, and nothing is downloaded."""
    found = importlib.util.find_spec("litellm")
    if found is None or found.origin is None:
        pytest.skip("litellm, which brings the file that counts tokens, is not installed")
    folder = Path(found.origin).parent / "litellm_core_utils" / "tokenizers"
    return {**os.environ, "TIKTOKEN_CACHE_DIR": str(folder), "INSPECT_DISPLAY": "plain"}


def test_the_command_line_finds_the_task(tmp_path: Path) -> None:
    command = [
        str(Path(sys.executable).parent / "inspect"), "eval", "leakbound_hosts/audit",
        "--model", "mockllm/model", "-T", "pairs=6", "-T", "shots=4", "--log-dir", str(tmp_path),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, env=tokenizers(), cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = tmp_path.glob("*.eval")
    log = read_eval_log(str(path))
    assert log.eval.task == "leakbound_hosts/audit"
    found = metrics(log)
    assert (found["inconclusive"], found["pairs"]) == (1, 6)  # the mock says neither yes nor no
    assert "paired_trial_scores" in done.stdout


def test_a_model_of_inspect_is_a_model_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key, value in tokenizers().items():
        monkeypatch.setenv(key, value)
    result = leakbound.audit(model="inspect/mockllm/model", pairs=4, shots=4, out=tmp_path)
    assert result.verdict == "inconclusive"
    assert result.reason == "unreadable_answers" or result.reason == "attack_blind"
    with pytest.raises(leakbound.LeakboundError, match="inspect_ai cannot open the model"):
        leakbound.open_model("inspect/nobody/nothing")


def plain(right: set[int], samples: int, **options: Any) -> Any:
    """A task whose samples the mock answers with their numbers; those of `right` are correct."""
    from inspect_ai import Task
    from inspect_ai.dataset import Sample
    from inspect_ai.scorer import match

    data = [
        Sample(f"{i}", target=f"{i}" if i in right else "none", id=i + 1) for i in range(samples)
    ]
    return Task(dataset=data, scorer=match(), **options)


def same(prompt: str) -> str:
    return prompt


def test_an_evaluation_ends_once_its_rate_is_decided(tmp_path: Path) -> None:
    right = {i for i in range(100) if i % 10}
    rule = StopAtRate(above=0.5, below=0.3)
    task = plain(right, 100, early_stopping=rule)
    log = evaluated(task, mock(same, random.Random(0)), tmp_path, max_samples=10)
    assert log.results is not None
    assert log.results.early_stopping is not None
    told = log.results.early_stopping.metadata
    test = RateTest(0.5, confidence=0.975)  # each of the two sides has half of the error
    test.observe([float(i in right) for i in range(100)])
    assert told["samples"] == test.rejected_at
    assert told["shown"] == f"the rate is above 0.5, after {test.rejected_at} samples"
    assert log.results.early_stopping.early_stops
    whole = rate_of_log(evaluated(plain(right, 100), mock(same), tmp_path))
    assert (whole.mean, whole.samples) == (0.9, 100)
    assert 0.7 < whole.lower < 0.9 < whole.upper < 1


@pytest.mark.parametrize(
    ("right", "shown"), [(9, "the rate is above 0.5"), (2, "nothing, given up")]
)
def test_a_planned_rate_ends_an_evaluation_on_both_sides(
    tmp_path: Path, right: int, shown: str
) -> None:
    correct = {i for i in range(100) if i % 10 < right}
    rule = StopAtRate(above=0.5, planned=0.8)
    task = plain(correct, 100, early_stopping=rule)
    log = evaluated(task, mock(same, random.Random(0)), tmp_path, max_samples=10)
    assert log.results is not None
    assert log.results.early_stopping is not None
    told, test = log.results.early_stopping.metadata, PlannedRateTest(0.5, 0.8)
    test.observe([int(i in correct) for i in range(100)])
    assert told["shown"] == f"{shown}{',' if right > 5 else ''} after {test.seen} samples"
    assert told["samples"] == test.seen < 20
    assert log.results.early_stopping.early_stops


def test_a_plan_for_a_rate_that_its_limit_does_not_leave_is_refused() -> None:
    for wrong in ({"above": 0.5, "planned": 0.4}, {"above": 0.5, "below": 0.3, "planned": 0.6}):
        with pytest.raises(UsageError, match="must lie beyond the one limit"):
            StopAtRate(**wrong)


def test_logs_are_compared_by_sample(tmp_path: Path) -> None:
    """Nine of ten against seven of ten, on the same samples."""
    better = evaluated(plain({i for i in range(200) if i % 10}, 200), mock(same), tmp_path)
    worse = evaluated(plain({i for i in range(200) if i % 10 > 2}, 200), mock(same), tmp_path)
    found = compare_logs(better, worse)
    assert found.samples == 200
    assert found.mean == pytest.approx(0.2)
    assert 0 < found.lower < 0.2 < found.upper
    other = compare_logs(worse, better)
    assert (other.lower, other.upper) == pytest.approx((-found.upper, -found.lower), abs=0.01)
    evidence = [found.e_value, other.e_value]
    assert e_benjamini_hochberg(evidence) == (True, False)
    told = CliRunner().invoke(command, [better.location, worse.location], standalone_mode=False)
    assert told.return_value == 1
    assert "200 pairs by id" in told.output
    assert "A 0.900, B 0.700: -0.200" in told.output
    with pytest.raises(DataError, match="not of the same samples"):
        compare_logs(better, evaluated(plain(set(), 20), mock(same), tmp_path))


def test_a_log_that_unpacks_to_all_memory_gets_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was read whole, however much it was."""
    log = tmp_path / "a.eval"
    with zipfile.ZipFile(log, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("summaries.json", bytes(2 << 20))
        packed.writestr("header.json", bytes(2 << 20))
    assert log.stat().st_size < 10_000
    monkeypatch.setattr("leakbound_hosts.inspect.stopping.MOST_UNPACKED", 3 << 20)
    for read in (result_of_log, partial(compare_logs, log)):
        with pytest.raises(DataError, match="unpacks to more than 3 MB; evaluate fewer samples"):
            read(log)


def test_a_sample_without_a_score_counts_against_what_is_shown() -> None:
    """As 0 in the lower and as 1 in the upper bound."""
    from leakbound_hosts.inspect.rates import _bounds

    found = _bounds([1.0, None] * 50, 0.95)
    assert found.lower == rate_bounds([1.0, 0.0] * 50).lower
    assert found.upper == rate_bounds([1.0, 1.0] * 50).upper
    assert found.mean == 1


DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "integrations.md").read_text().partition("\n## Inspect\n")[2]


def fences(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, flags=re.M | re.S)


def test_what_the_page_says_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for key, value in tokenizers().items():
        monkeypatch.setenv(key, value)
    bin = Path(sys.executable).parent
    for line in "".join(fences("bash")).splitlines():
        command, _, note = line.partition("#")
        if not command.startswith("pip "):
            done = subprocess.run(f"{bin}/{command}", shell=True, capture_output=True, text=True)
            assert done.returncode == int((re.findall(r"exit (\d)", note) or ["0"])[0]), done.stdout
            shown = fences("text")[0] if command.startswith("inspect") else ""
            assert re.sub(r"\s+$", "", shown, flags=re.M) in re.sub(
                r" +$", "", done.stdout, flags=re.M
            )
    for code in fences("py"):
        exec(compile(code, "integrations.md", "exec", dont_inherit=True), {"__name__": "page"})
    told = capsys.readouterr().out.splitlines()
    assert told[0].startswith("inconclusive ")
    assert f'print(log.results.early_stopping.metadata["shown"])  # {told[1]}' in PAGE
    assert told[3:5] == ["True", "(True, False)"]
    assert told[5].startswith("118.")  # as the page says
