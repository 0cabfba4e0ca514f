"""Whoever asks a system asks as its operator says; what one process holds is not divided."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from leakbound_hosts.pytest_plugin import PrivacyAudit
from leakbound_hosts.ray import RayCluster, on_cluster
from leakbound_lab.tuning import tune
from limits import expires
from stores import DISPOSABLE, NearestStore, documents

import leakbound
from leakbound.auditing import make_spec, prepare
from leakbound.auditing.prepare.build import open_models
from leakbound.auditing.prepare.prepared import Prepared
from leakbound.errors import TargetError, UsageError
from leakbound.models import Scripted
from leakbound.systems import CallOptions, SystemMechanism
from leakbound.tasks import as_context

ROWS = [(f"message {i}", "ab"[i % 2]) for i in range(40)]
SLOW = CallOptions(timeout=expires(0.02), retries=0)  # every call takes longer
FILE = f"python:{Path(__file__).parents[2]}/examples/note_store.py:NoteStore"


APP = """
import time

def sleeps(context, query):
    time.sleep(0.5)
    return "no"
"""


@pytest.fixture
def sleeps(tmp_path: Path) -> Any:
    (tmp_path / "app.py").write_text(APP)
    spec = importlib.util.spec_from_file_location("slow_app", tmp_path / "app.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.sleeps


def test_a_sweep_calls_its_systems_as_it_is_told(tmp_path: Path, sleeps: Any) -> None:
    """It used the defaults, which have no limit: no point failed."""
    record = leakbound.sweep(
        {"epsilon": [1, 2]}, rows=ROWS, system=sleeps, pairs=1, controls=0, state_check=0,
        calls=SLOW, out=tmp_path / "sweep",
    )  # fmt: skip
    assert [point.cause for point in record.missing] == ["failed", "failed"]


def test_tuning_calls_its_system_as_it_is_told(tmp_path: Path, sleeps: Any) -> None:
    with pytest.raises(TargetError, match="None of 2 calls"):
        tune(rows=ROWS, system=sleeps, pilot_pairs=1, reflection="none", calls=SLOW,
                       out=tmp_path)  # fmt: skip


def test_the_pytest_fixture_calls_its_system_as_it_is_told(tmp_path: Path, sleeps: Any) -> None:
    with pytest.raises(pytest.fail.Exception, match=r"within 0\.02 seconds"):
        PrivacyAudit("a test", tmp_path, live=True)(
            ROWS, sleeps, calls=SLOW, pairs=1, controls=0, state_check=0
        )


def test_calls_are_refused_where_a_model_is_asked(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="calls are those of a system"):
        tune(rows=ROWS, model=Scripted(complete=str), calls=SLOW, reflection="none", out=tmp_path)


def test_tuning_leaves_a_shared_store_as_it_was(tmp_path: Path) -> None:
    store = Closing()
    tune({"design": "session"}, rows=documents(40), system=store, pilot_pairs=1, max_calls=40,
                   reflection="none", shots=2, out=tmp_path, calls=DISPOSABLE)  # fmt: skip
    assert store.open_sessions == 0
    assert not store.records


class Closing(NearestStore):
    """Counts sessions."""

    open_sessions = 0

    def open(self, context: Any) -> Any:
        self.open_sessions += 1
        session = super().open(context)
        session.close = lambda: setattr(self, "open_sessions", self.open_sessions - 1)  # type: ignore[method-assign]
        return session


# -- what a cluster cannot divide


@pytest.fixture
def service(tmp_path: Path) -> Callable[..., str]:
    def address(**more: Any) -> str:
        base = "http://127.0.0.1:9"
        values = {"url": f"{base}/ask", "answer": "a", "body": {"q": "{query}"}, **more}
        (tmp_path / "service.yaml").write_text(yaml.safe_dump(values))
        return f"http:{tmp_path / 'service.yaml'}"

    return address


def ready(**keys: Any) -> Prepared:
    return prepare(make_spec({"pairs": 2, "shots": 2, **keys}), rows=as_context(ROWS))


def test_a_shared_store_is_not_divided_among_workers() -> None:
    with pytest.raises(UsageError, match="a store lives in one process"):
        on_cluster(ready(system=FILE, design="session"), RayCluster(), open_models)
    assert callable(on_cluster(ready(system=FILE), RayCluster(), open_models))


def test_a_service_that_keeps_a_context_is_not_asked_by_several_workers(
    service: Callable[..., str],
) -> None:
    there = "http://127.0.0.1:9/docs"
    setup = {"url": there, "body": {"rows": "{rows}"}}
    plant = {"url": there, "body": {"text": "{input}", "id": "{id}"}}
    remove = {"url": f"{there}/{{id}}", "method": "DELETE"}
    for more in ({"setup": setup}, {"plant": plant, "remove": remove}):
        with pytest.raises(UsageError, match="about each other's contexts"):
            on_cluster(ready(system=service(**more)), RayCluster(), open_models)
    free = service(body={"q": "{query}", "rows": "{rows}"})
    assert callable(on_cluster(ready(system=free), RayCluster(), open_models))


def test_one_run_is_asked_by_one_process(capsys: pytest.CaptureFixture[str]) -> None:
    from leakbound.cli.main import main

    with pytest.raises(SystemExit) as ended:
        main(["audit", "--system", FILE, "--design", "one_run", "--ray", "local"])
    assert ended.value.code == 2
    assert "queries one store from one process" in capsys.readouterr().err


def test_a_mechanism_over_the_same_store_is_another_object() -> None:
    """`called` of a shared store keeps the store that is to be closed."""
    from leakbound.systems import SharedStore

    shared = SharedStore(NearestStore(), ())
    mechanism = SystemMechanism(shared, "store")
    assert mechanism.called(SLOW).system is shared
