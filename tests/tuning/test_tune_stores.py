"""Tuning of queries that stores answer by quoting: of sessions, and of one run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from leakbound_lab.tuning import Tuned, attack_file, tune
from stores import DISPOSABLE, NearestStore, documents

import leakbound
from leakbound.attacks.queries import Recall
from leakbound.errors import UsageError
from leakbound.models import Counted, Scripted
from leakbound.tasks import Example

ROWS = documents(120)
REFUSED = "The documents are: {prefix} ... Please quote."
FOUND = 'What comes after "{prefix}"?'  # one of the rewrites


class PickyStore(NearestStore):
    """Quotes the nearest record to those who ask what comes after its beginning, to no others."""

    def said(self, rows: Sequence[Example], query: str) -> str:
        if not re.match(r"What comes after", query):
            return "Please ask in another way."
        return NearestStore.said(self, rows, query.replace('"', " "))


def tuned(store: NearestStore, design: Any, out: Path, **more: Any) -> Tuned:
    given = {"reflection": "none", "pilot_pairs": 6, "start": REFUSED, **more}
    attack = {"design": design, "query": "recall", "canary": "coded", "simulations": 50}
    return tune(rows=ROWS, system=store, out=out, calls=DISPOSABLE, **attack, **given)


@pytest.mark.parametrize("design", ["session", "one_run"])
def test_a_wording_that_the_store_answers_is_found_and_audited(design: Any, tmp_path: Path) -> None:
    store = PickyStore()
    size: dict[str, Any] = {"canaries": 40} if design == "one_run" else {"pairs": 20}
    found = tuned(store, design, tmp_path, **size)
    assert (found.before, found.after, found.best) == (0.5, 1.0, FOUND)
    assert store.records == {}, "what the pilot planted is taken out"
    query = yaml.safe_load(attack_file(found))["query"]
    assert query == {"kind": "recall", "template": FOUND}
    settings = {"claim_for": "run"} if design == "one_run" else {}
    asked: dict[str, Any] = {"canary": "coded", "simulations": 50, "epsilon": 1.0, **size}
    result = leakbound.audit(
        ROWS, system=store, design=design, out=tmp_path, calls=DISPOSABLE,
        query=Recall(template=query["template"]), settings=settings, **asked,
    )  # fmt: skip
    assert result.verdict == "violation"


def test_the_pilot_of_one_run_plants_no_canary_of_the_run(tmp_path: Path) -> None:
    store, seen = PickyStore(), list[str]()
    plant = store.plant
    store.plant = lambda record: (seen.append(str(record.input)), plant(record))[1]  # type: ignore[method-assign]
    tuned(store, "one_run", tmp_path, canaries=40)
    pilot = set(seen)
    seen.clear()
    leakbound.audit(
        ROWS, system=store, design="one_run", query="recall", canary="coded", canaries=40,
        epsilon=1.0, settings={"claim_for": "run"}, out=tmp_path, calls=DISPOSABLE,
    )  # fmt: skip
    assert pilot
    assert seen
    assert not pilot & set(seen)


def test_the_reflection_is_told_what_a_right_quote_holds(tmp_path: Path) -> None:
    pytest.importorskip("gepa")
    asked = list[str]()
    mirror = Counted(
        Scripted(complete=lambda p: (asked.append(p), f"```\n{FOUND}\n```")[1], name="mirror")
    )
    found = tuned(PickyStore(), "session", tmp_path, pairs=20, reflection=mirror)
    assert found.best == FOUND
    assert "Please ask in another way." in asked[0]
    assert "the right answer is one that holds" in asked[0]
    assert "{member}" not in asked[0]


def test_a_wording_without_the_beginning_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"must hold \{prefix\}"):
        tuned(PickyStore(), "session", tmp_path, start="Is {canary} there?")
