"""The Python of docs/integrations.md runs with the packages that are installed here."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
import yaml

pytestmark = [pytest.mark.hosts, pytest.mark.filterwarnings("ignore")]  # of the hosts themselves
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it fetches one when it is imported
PAGE = (Path(__file__).parents[2] / "docs" / "integrations.md").read_text()
PAGE = PAGE.partition("\n## Inspect\n")[0]  # what follows is run by test_inspect.py


def fences(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, flags=re.M | re.S)


def test_the_python_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("MLFLOW_ALLOW_FILE_STORE", "true"), ("WANDB_SILENT", "true"),
                        ("MLFLOW_TRACKING_URI", (tmp_path / "mlruns").as_uri()),
                        ("WANDB_DATA_DIR", str(tmp_path)),
                        ("WANDB_CACHE_DIR", str(tmp_path))):  # fmt: skip
        monkeypatch.setenv(name, value)
    for package in ("mlflow", "wandb", "opentelemetry"):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    exec(compile("".join(fences("py")), "integrations.md", "exec", dont_inherit=True), {})
    assert list((tmp_path / "mlruns").rglob("record.json"))
    assert list(tmp_path.rglob("*.wandb"))


def test_the_configuration_of_the_page_makes_a_guardrail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("litellm")
    pytest.importorskip("fastapi")
    from leakbound_hosts.litellm import LedgerGuardrail

    monkeypatch.chdir(tmp_path)
    (config,) = map(yaml.safe_load, fences("yaml"))
    options = config["guardrails"][0]["litellm_params"]
    named = f"{LedgerGuardrail.__module__}.{LedgerGuardrail.__name__}"
    assert options.pop("guardrail") == named
    guard = LedgerGuardrail(event_hook=options.pop("mode"), guardrail_name="ledger", **options)
    assert guard.ledger.answers_left(guard.price, "mail") == 8
