"""`leakbound probe` as users meet it:

the table, the record that --capabilities reads, exit codes, and no key.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from leakbound.attacks import QUERIES, SCORES
from leakbound.cli import main
from leakbound.cli.verbs.start.probe import consequences, probe_table
from leakbound.mechanisms import MECHANISMS
from leakbound.models.probe import ProbeFinding, ProbeRecord

pytest.importorskip("torch")
pytest.importorskip("uvicorn")

from loopback.running import running
from loopback.speaking import speaking

pytestmark = pytest.mark.torch

LOGS = [
    "product_of_experts",
    "subsample_average",
    "context_influence_decoding",
    "bounded_cid",
]  # need ScoreLabels


@pytest.fixture(scope="module")
def urls(pocket: Any) -> Iterator[dict[str, str]]:
    """Two servers: one shifts its echo, one does not."""
    ways: dict[str, Any] = {"dialect": "llamacpp", "key": "sk-hush", "echo_limit": 100}
    with (
        running(speaking(pocket, shift_echo=True, **ways)) as shifted,
        running(speaking(pocket, **ways)) as straight,
    ):
        yield {"shifted": shifted, "straight": straight}


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(list(arguments))
    return int(end.value.code or 0)


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAKBOUND_API_KEY", "sk-hush")


@pytest.mark.slow
def test_a_misaligned_server_is_told_with_what_it_costs(
    urls: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("probe", "openai/pocket", "--base-url", urls["shifted"]) == 0
    shown = capsys.readouterr()
    (line,) = [line for line in shown.out.splitlines() if " echo_aligned " in line]
    assert line.split()[0] == "no"
    assert "shifted by one" in line
    lines = shown.out.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("  missing: answer_prob"))
    assert lines[at + 1].strip().startswith("needs ScoreLabels: each echoed token")
    assert "hush" not in shown.out + shown.err


@pytest.mark.slow
def test_an_audit_goes_by_the_record(
    urls: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was found is allowed, what was not is refused before any question of the audit."""
    audit = ["audit", "--model", "openai/pocket", "--mechanism", "product_of_experts", "--pairs",
             "2", "--controls", "1", "--shots", "4",
             "--out", str(tmp_path / "runs")]  # fmt: skip
    ends = {}
    for name, url in urls.items():
        assert run("probe", "openai/pocket", "--base-url", url, "--json") == 0
        record = tmp_path / f"{name}.json"
        record.write_text(capsys.readouterr().out)
        ends[name] = run(*audit, "--base-url", url, "--capabilities", str(record))
        if name == "shifted":
            assert "echo_shift=1" in capsys.readouterr().err
    assert ends == {"shifted": 4, "straight": 3}


def test_exit_codes_and_sentences(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run("probe", "openai/pocket", "--base-url", "http://127.0.0.1:9/v1") == 4
    assert "does not answer" in capsys.readouterr().err
    assert run("probe", "nothing") == 2
    assert "is not known" in capsys.readouterr().err
    assert (
        run(
            "audit",
            "--model",
            "openai/x",
            "--base-url",
            "http://127.0.0.1:9/v1",
            "--capabilities",
            str(tmp_path / "no.json"),
        )
        == 2
    )
    assert "write it with leakbound probe" in capsys.readouterr().err


def test_the_wrong_key_is_refused_and_not_shown(
    urls: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LEAKBOUND_API_KEY", "sk-wrong")
    assert run("probe", "openai/pocket", "--base-url", urls["straight"]) == 4
    shown = capsys.readouterr()
    assert "HTTP 401" in shown.err
    assert "sk-" not in shown.out + shown.err


def test_a_local_model_is_probed_in_the_same_way(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("probe", "pocket", "--json") == 0
    record = json.loads(capsys.readouterr().out)
    assert record["address"] == "pocket"
    assert set(record["supports"]) == {
        "Complete",
        "Embed",
        "NextLogits",
        "ScoreLabels",
        "ScoreTokens",
    }


# --- what follows from a record


def record(
    *supports: str, base_url: str | None = "http://127.0.0.1/v1", **holds: bool | None
) -> ProbeRecord:
    findings = tuple(
        ProbeFinding(check=check, holds=value, detail=f"told {check}")
        for check, value in holds.items()
    )  # type: ignore[arg-type]
    return ProbeRecord(
        address="openai/x", base_url=base_url, requests=1, findings=findings, supports=supports
    )


def test_consequences_cover_the_catalogues() -> None:
    found = consequences(record("Complete"))
    assert [set(names) for names in found.values()][:3] == [
        set(MECHANISMS),
        set(QUERIES),
        set(SCORES),
    ]
    there = {name for name, missing in found["mechanisms"].items() if not missing}
    assert there == {
        name
        for name, kind in MECHANISMS.items()
        if {need.__name__ for need in kind.needs} <= {"Complete"}
    }


def test_a_local_model_of_every_ask_misses_nothing() -> None:
    full = record("Complete", "Embed", "NextLogits", "ScoreLabels", "ScoreTokens", base_url=None)
    assert not any(missing for names in consequences(full).values() for missing in names.values())
    assert "missing" not in probe_table(full)


def test_scores_follow_the_mechanisms_that_release_them() -> None:
    votes_only = consequences(record("Complete"))["scores"]
    assert votes_only["label_margin"] == ""
    mute = consequences(record("Embed"))["scores"]
    assert "report_noisy_max" in mute["label_margin"]
    assert "embedding_mean" in mute["distance_gap"]
    assert mute["reference_direction"] == mute["distance_gap"]


@pytest.mark.parametrize(
    ("findings", "reason"),
    [
        ({}, "neither echo nor prompt_logprobs"),
        ({"logprobs_valid": False}, "told logprobs_valid"),
        ({"echo": True, "echo_aligned": False}, "told echo_aligned"),
        ({"echo": True, "echo_aligned": None}, "could not be determined"),
        (
            {"prompt_logprobs": True, "prompt_logprobs_aligned": False},
            "told prompt_logprobs_aligned",
        ),
    ],
)
def test_the_reason_is_the_one_that_was_found(
    findings: dict[str, bool | None], reason: str
) -> None:
    for name in LOGS:
        assert reason in consequences(record("Complete", **findings))["mechanisms"][name]
