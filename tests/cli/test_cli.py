"""The command line as a user meets it: exit codes, sentences, no traceback."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import cli
from in_process import run

from leakbound.auditing.spec.audit_spec import GROUPS

pytest.importorskip("torch")

FEW = ("--pairs", "4", "--shots", "4", "--controls", "1")
pytestmark = [pytest.mark.process, pytest.mark.torch]


def test_an_audit_of_the_undefended_system_exits_1(tmp_path: Path) -> None:
    done = cli("audit", "--pairs", "24", "--shots", "6", "--controls", "2", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("✗ VIOLATION   few_shot")
    (page,) = tmp_path.glob("runs/*/report.html")
    assert "What this does not prove" in page.read_text()


@pytest.mark.slow
def test_options_come_from_flags_over_environment_over_file(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("pairs: 5\nshots: 4\nepsilon: 2\n")
    flags = ("--config", "a.yaml", "--shots", "6", "--set", "seed=9", "--controls", "1")
    done = cli("audit", *flags, cwd=tmp_path, LEAKBOUND_PAIRS="4")
    assert done.returncode == 3, done.stderr
    (record,) = tmp_path.glob("runs/*/record.json")
    spec = json.loads(record.read_text())["spec"]
    assert (spec["pairs"], spec["shots"], spec["epsilon"], spec["seed"]) == (4, 6, 2, 9)


MISTAKES = [
    (("audit", "--data", "none.jsonl"), 2, "does not exist"),
    (
        ("audit", "--data", "rows.jsonl", "--label-field", "kind"),
        2,
        "has no field 'kind'; it has text, label",
    ),
    (("audit", "--data", "empty.jsonl"), 2, "holds no rows"),
    (("audit", "--data", "one.jsonl"), 2, "the same label"),
    (("audit", "--query", "memberships"), 2, "Did you mean 'membership'"),
    (("audit", "--mechanism", "noisy_max"), 2, "Did you mean 'report_noisy_max'"),
    (("audit", "--canary", "hexx"), 2, "Did you mean 'hex'"),
    (("audit", "--model", "gpt"), 2, "must be one of pocket"),
    (("audit", "--model", "hf/./nowhere"), 4, "does not exist"),
    (("audit", "--model", "hf/bare"), 4, "has no weights"),
    (("audit", "--data", "long.jsonl"), 4, "nothing was sent"),
    (("audit", "--score", "label_margin"), 4, "needs white_box access"),
    (("audit", "--epsilon", "nought"), 2, "'nought' is not a number."),
    (("audit", "--epsilon", "0"), 2, "epsilon is 0"),
    (
        ("audit", "--shots", "4", "--mechanism", "report_noisy_max"),
        2,
        "10 partitions need at least as many examples",
    ),
    (("audit", "--set", "pears=4"), 2, "Did you mean 'pairs'"),
    (("audit", "--no-such-flag"), 2, "No such option"),
    (("audit", "--config", "bad.yaml"), 2, "is not YAML"),
    (("audit", "--system", "python:none.py:f"), 2, "does not exist"),
    (("audit", "--system", "python:raises.py:f", "--shots", "4"), 4, "raised KeyError"),
    (("audit", "--system", "python:broken.py:f"), 4, "cannot be imported (NameError)"),
    (("audit", "--mechanism", "report_noisy_max", "--pairs", "3"), 2, "use at least 5 pairs"),
    (
        (
            "audit",
            "--query",
            "input_output",
            "--canary",
            "given:text=x,label=y",
        ),
        2,
        "one of these labels (its option label)",
    ),
    (("report", "nowhere"), 2, "'nowhere' does not exist; give the folder"),
    (("list", "querys"), 2, "Did you mean 'queries'"),
    (("adit",), 2, "Did you mean 'audit'"),
]


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of files with one thing wrong each."""
    folder = tmp_path_factory.mktemp("desk")
    row = '{{"text": "{}", "label": "{}"}}\n'
    (folder / "rows.jsonl").write_text("".join(row.format(f"t{i}", "ab"[i % 2]) for i in range(40)))
    (folder / "one.jsonl").write_text("".join(row.format(f"t{i}", "a") for i in range(40)))
    (folder / "long.jsonl").write_text(
        "".join(row.format(f"{i} " + "long words " * 120, "ab"[i % 2]) for i in range(40))
    )
    (folder / "empty.jsonl").write_text("")
    (folder / "raises.py").write_text(
        "def f(context, query):\n    raise KeyError(context[0].input)\n"
    )
    (folder / "broken.py").write_text("nothing_here\n")
    (folder / "bad.yaml").write_text("a: [")
    (folder / "bare").mkdir()
    (folder / "bare" / "config.json").write_text("{}")
    return folder


@pytest.mark.parametrize(
    ("args", "code", "sentence"), MISTAKES, ids=[" ".join(m[0]) for m in MISTAKES]
)
def test_mistakes_get_a_sentence(
    desk: Path, args: tuple[str, ...], code: int, sentence: str
) -> None:
    done = cli(*args, cwd=desk)
    assert done.returncode == code, (done.stdout, done.stderr)
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(desk.glob("runs/*/record.json"))


def test_help_names_every_option_and_the_exit_codes(tmp_path: Path) -> None:
    shown = cli("audit", "--help-all", cwd=tmp_path).stdout
    fields = [field for kind in GROUPS.values() for field in kind.model_fields.items()]
    others = {"address": "system", "layout": "design", "system_options": "system_option"}
    names = [others.get(name, name) for name, info in fields if not info.exclude]
    flags = [f"--{name.replace('_', '-')}" for name in names]
    assert [flag for flag in flags if f"  {flag} " not in shown] == []
    assert "130 interrupted" in " ".join(cli("--help", cwd=tmp_path).stdout.split())


def test_list_shows_the_catalogues(tmp_path: Path) -> None:
    shown = cli("list", cwd=tmp_path).stdout
    for name in (
        "few_shot",
        "prompt_defense",
        "report_noisy_max",
        "membership",
        "input_output",
        "if_then_explicit",
        "hex",
        "pocket",
    ):
        assert name in shown


@pytest.mark.slow
def test_report_puts_runs_side_by_side(tmp_path: Path) -> None:
    few = ("--pairs", "2", "--shots", "2", "--controls", "1")
    for seed in ("1", "2"):
        assert cli("audit", *few, "--seed", seed, cwd=tmp_path).returncode == 3
    runs = [str(p) for p in sorted((tmp_path / "runs").iterdir())]
    done = cli("report", *runs, "--html", "both.html", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "both.html").read_text().count("<section") == 2
    done = cli("report", "runs", "--html", "all.html", cwd=tmp_path)  # the example of its help
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "all.html").read_text() == (tmp_path / "both.html").read_text()


@pytest.mark.slow
def test_fresh_sets_the_old_run_aside(tmp_path: Path) -> None:
    few = ("--pairs", "2", "--shots", "2", "--controls", "1", "--threshold", "0.5")
    for extra in ((), (), ("--fresh",)):
        assert cli("audit", *few, *extra, cwd=tmp_path).returncode == 3
    assert len(list((tmp_path / "runs").iterdir())) == 2


@pytest.mark.parametrize(
    "flags",
    [
        ("--threshold", "split:0.5"),
        ("--threshold", "bonferroni", "--estimator", "clopper_pearson"),
        ("--canary", "false_fact:facts=[Lemons are square., Rain falls upwards.]"),
    ],
)
def test_flags_take_values_that_are_texts_or_lists(tmp_path: Path, flags: tuple[str, ...]) -> None:
    done = cli("plan", "--pairs", "8", "--shots", "6", *flags, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_an_answer_takes_its_query_as_an_argument(tmp_path: Path) -> None:
    command = ("answer", "--mechanism", "zero_shot", "--shots", "4", "my parcel is late")
    done = cli(*command, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_another_package_adds_a_verb_and_replaces_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    code = "import click\n@click.command()\ndef verb():\n    click.echo('of-a-stranger')\n"
    (tmp_path / "stranger.py").write_text(code)
    info = tmp_path / "stranger-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: stranger\nVersion: 1.0\n")
    verbs = "of-another-package = stranger:verb\naudit = stranger:verb\n"
    (info / "entry_points.txt").write_text(f"[leakbound.verbs]\n{verbs}")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "of-a-stranger" in run("of-another-package").output
    assert "of-a-stranger" not in run("audit", "--help").output
