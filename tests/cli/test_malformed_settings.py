"""Configuration files and values of options that a user could really write, and no audit takes."""

from __future__ import annotations

from pathlib import Path

import pytest
from malformed import mistaken, written

YES_NO = "labels is [True, False]; it must be a list of texts, such as [work, home]; put yes, no"
HELP = "`leakbound audit --help-all` shows all keys, as options."
TEXTS: list[tuple[str, str, str]] = [
    # name of a file, what it holds, what is said of it
    ("empty", "", "must hold keys and values, such as 'epsilon: 1'."),
    ("mark", "\ufeff", "must hold keys and values, such as 'epsilon: 1'."),
    ("number", "5", "must hold keys and values"),
    ("text", "hello", "must hold keys and values"),
    ("list", "- pairs: 5", "must hold keys and values"),
    ("blank", "pairs:\u00a05", "must hold keys and values"),
    ("tab", "design:\n\tpairs: 1", "is not YAML: line 2: found character"),
    ("two", "pairs: 5\n---\npairs: 6", "is not YAML: line 2: a second document begins there."),
    ("quote", 'pairs: "5', "is not YAML: line 2: found unexpected end of stream."),
    ("brace", "{pairs: 5", "is not YAML: line 2: expected ',' or '}'"),
    ("alias", "pairs: *nope", "is not YAML: line 1: found undefined alias 'nope'."),
    ("tag", "pairs: !!python/object/apply:os.system ['echo']", "is not YAML: line 1: could not"),
    ("nul", "pairs: 5\0", "is not YAML: unacceptable character #x0000"),
    ("deep", "rows: " + "[" * 3000, "a value is nested too deeply; write it with fewer brackets."),
    ("digits", "pairs: " + "9" * 5000, "9999999999...; it must be one number, or a text in quot"),
    ("range", "pairs: 1:30", "a value is 1:30; it must be one number, or a text in quotes."),
    ("clock", "seed: 12:30:45", "a value is 12:30:45; it must be one number, or a text in quot"),
    ("twice", "pairs: 5\nepsilon: 1\npairs: 6", "the configuration gives 'pairs' twice"),
    ("both", "pairs: 5\ndesign: {pairs: 6}", "gives pairs twice; give it once."),
    ("nothing", "pairs:", "pairs is empty; it must be a whole number."),
    ("no-kind", "mechanism:", "mechanism is empty; it must be a name or {kind: NAME, ...}."),
    ("kinds", "mechanism: [few_shot]", "mechanism is ['few_shot']; it must be a name or {kind: N"),
    ("comma", "epsilon: 0,5", "epsilon is '0,5'; it must be a number."),
    ("not-a-number", "epsilon: .nan", "epsilon is nan; it must be greater than 0."),
    ("endless", "epsilon: .inf", "states nothing that a trial could reject; state an epsilon bel"),
    ("huge", "epsilon: 1e+400", "states nothing that a trial could reject; state an epsilon below"),
    ("minus", "epsilon: -1", "epsilon is -1; it must be greater than 0."),
    ("sure", "delta: 1", "delta is 1; it must be less than 1."),
    ("seed", "seed: -1", "seed is -1; it must be greater than or equal to 0."),
    ("octal", "seed: 0o17", "seed is '0o17'; it must be a whole number."),
    ("one-off", "pair: 5", "the configuration key 'pair' is not known. Did you mean 'pairs'?"),
    ("capital", "Pairs: 5", "Did you mean 'pairs'?"),
    ("dashes", "stop-when-rejected: true", "Did you mean 'stop_when_rejected'?"),
    ("inside", "design: {kind: paired}", "'kind' is not known in design."),
    ("option", "mechanism: {kind: report_noisy_max, partition: 5}", "Did you mean 'partitions'?"),
    ("name", "query: {kind: membershp}", "Did you mean 'membership'?"),
    ("word", "canary: {kind: hex, digits: eight}", "the option digits of hex is 'eight'; it must"),
    ("other", "canary: {kind: hex, length: 8}", "hex has no option 'length'; its options are: dig"),
    ("path", "data: {path: rows.jsonl}", "data is {'path': 'rows.jsonl'}; it must be a string."),
    ("rows", "rows: 5", "rows must be a list of objects with named fields"),
    ("yes-no", "labels: [yes, no]", YES_NO),
    ("numbers", "labels: [1, 2]", "labels is [1, 2]; it must be a list of texts"),
    ("one", "labels: [a]", "labels is ['a']; it must name at least two labels, such as work,home"),
    ("none", "labels: []", "labels is []; it must name at least two labels"),
    ("same", "labels: [a, ' a']", "labels is ['a', ' a'], the same label twice; it must name"),
    ("model", "model: {kind: openai, name: x}", "it must be a string."),
    ("app", "system: app.py", "Did you mean 'python:app.py:OBJECT'?"),
    ("part", "system: {kind: http}", "'kind' is not known in system. Known keys: mechanism, addr"),
    ("limit", "threshold: {a: 1}", "threshold is {'a': 1}; it must be a string or a number."),
    ("template", "query: {kind: membership, template: no slot}", "it must hold {canary}."),
    ("grid", "grid: {epsilon: [1, 2]}", "a grid belongs to a sweep; run leakbound sweep"),
    ("endpoint", "endpoint: [a]", "must hold keys and values, such as 'base_url: http://127.0"),
    ("reach", "endpoint: {base-url: x}", "the key of endpoint 'base-url' is not known"),
]
GRIDS: list[tuple[str, str]] = [
    ("grid: {epsilon: []}", "the grid's values of 'epsilon' are []; they must be a list of number"),
    ("grid: [1]", 'the grid is [1]; it must hold keys and lists, such as {"epsilon": [1, 2, 4]}.'),
    ("grid: {epsilonn: [1, 2]}", "'epsilonn' is not known. Did you mean 'epsilon'?"),
    (
        "grid: {epsilon: [1, 1]}",
        "the grid's values of 'epsilon' name one value twice; give it once",
    ),
    ("grid: {epsilon: [1, two]}", "epsilon=two: epsilon is 'two'; it must be a number."),
]
VALUES: list[tuple[tuple[str, ...], str]] = [
    (("--epsilon", "0"), "epsilon is 0.0; it must be greater than 0."),
    (("--epsilon", "nan"), "epsilon is nan; it must be greater than 0."),
    (("--epsilon", "0,5"), "'0,5' is not a number. Did you mean 0.5? Try: leakbound plan --help"),
    (("--delta", "0,00001"), "'0,00001' is not a number. Did you mean 0.00001? Try"),
    (("--delta", "nan"), "delta is nan; it must be less than 1."),
    (("--confidence", "95%"), "'95%' is not a number. Try: leakbound plan --help"),
    (("--confidence", "0.4"), "confidence is 0.4; it must be at least 0.5 and below 1."),
    (("--pairs", "1e9"), "'1e9' is not a whole number."),
    (("--pairs", "1000000000"), "pairs is 1000000000; it must be less than or equal to 10000000."),
    (("--pairs", ""), "'' is not a whole number."),
    (("--shots", "0"), "shots is 0; it must be greater than or equal to 1."),
    (("--seed", "-1"), "seed is -1; it must be greater than or equal to 0."),
    (("--state-check", "nan"), "state_check is nan; it must be less than or equal to 1."),
    (("--assume-hit", "2"), "assume_hit is 2.0; it must be a probability from 0 to 1."),
    (("--simulations", "9" * 11), "it must be less than or equal to 10000000."),
    (("--threshold", "nan"), "and its value is NaN; it must be a number."),
    (
        ("--threshold", "split:nan"),
        "the threshold is 'split:nan', and its fraction is nan; it must",
    ),
    (("--insertion", "ADD"), "insertion is 'ADD'; it must be 'replace', 'append' or 'add'."),
    (("--background-copies", "1.5"), "background_copies is 1.5; it must be a whole number from 0"),
    (("--query", "membership:template={canary"), "it must hold {canary}. Write it with {canary}."),
    (
        ("--query", "membership:template={canary!r}"),
        "it must hold {canary}. Write it with {canary}.",
    ),
    (
        ("--query", "membership:template="),
        "the template of the query membership is empty; it must hold a text",
    ),
    (("--set", "pairs="), "pairs is empty; it must be a whole number."),
    (("--set", "pairs=1:30"), "a value is 1:30; it must be one number, or a text in quotes."),
    (("--set", "labels=[yes, no]"), YES_NO),
    (("--set", "canary="), "canary is empty; it must be a name or {kind: NAME, ...}."),
    (("--config", ""), "--config is empty; name a YAML file, or leave it out."),
    (("--config", "/dev/null"), "'/dev/null' is a pipe or a device; save what it holds as a file."),
    (("--config", "x" * 300), "a path is longer than the file system allows; name a shorter one."),
    (("--pilot", "nowhere"), "'nowhere' does not exist; give the folder of a finished run"),
    (("--nope",), "No such option '--nope'."),
    (("extra",), "the data file 'extra' does not exist; give a .jsonl"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "text", "sentence"), TEXTS, ids=[name for name, _, _ in TEXTS])
def test_configuration_files(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    text: str,
    sentence: str,
) -> None:
    monkeypatch.chdir(written(tmp_path, {f"{name}.yaml": f"{text}\n"}))
    mistaken(capsys, ("plan", "--config", f"{name}.yaml"), 2, sentence)


@pytest.mark.parametrize(("text", "sentence"), GRIDS)
def test_grids(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    text: str,
    sentence: str,
) -> None:
    monkeypatch.chdir(written(tmp_path, {"grid.yaml": text}))
    mistaken(capsys, ("sweep", "--config", "grid.yaml"), 2, sentence)


@pytest.mark.slow
@pytest.mark.parametrize("text", ["pairs=1:5", "pairs=4,,8"])
def test_lists_that_only_look_like_grids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    monkeypatch.chdir(tmp_path)
    said = {"pairs=1:5": "a value is 1:5; it must be one", "pairs=4,,8": "pairs is empty; it must"}
    mistaken(capsys, ("sweep", "--grid", text), 2, said[text])


@pytest.mark.parametrize(("args", "sentence"), VALUES, ids=[" ".join(a)[:40] for a, _ in VALUES])
def test_values_of_options(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    args: tuple[str, ...],
    sentence: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    mistaken(capsys, ("plan", *args), 2, sentence)


def test_a_far_confidence_is_not_taken_for_its_complement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    near = mistaken(capsys, ("plan", "--confidence", "0.05"), 2, "confidence is 0.05; it must be")
    assert "Did you mean 0.95?" in near
    assert "mean" not in mistaken(capsys, ("plan", "--confidence", "0.4"), 2, "confidence is 0.4")
