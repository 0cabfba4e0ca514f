"""Each figure has the attack that its paper's section names, and each statement its measure."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from leakbound_lab.reproduce import RecipeContext, load_recipes
from leakbound_lab.reproduce.context import Scale
from leakbound_lab.reproduce.measures.tight_exact import bootstrap_audits

from leakbound.attacks import IfThenExplicit, InputOutput, ZeroShotSignals
from leakbound.attacks.templates import SIGNAL_MEMBER, SIGNAL_NONMEMBER
from leakbound.auditing import make_spec, prepare, run_audit
from leakbound.auditing.spec.audit_spec import flat_keys
from leakbound.mechanisms import EmbeddingMean
from leakbound.models import Scripted
from leakbound.tasks import Example, Job, Task, Vector

RECIPES = load_recipes()
CANARY = Example("deadbeef", "work")
TASK = Task("mail", ("work", "home"))
FREE = Task("note")
SECTION = {  # CL: Sections 4.1 and 4.2 use the strongest attack; A.6 says what 5 and 6 use
    "fig3": ("membership", "hex"), "fig6": ("membership", "hex"),
    "fig7": ("if_then_explicit", "hex"),
    **dict.fromkeys(("fig8", "fig9", "fig10", "fig11", "fig14", "fig15"),
                    ("if_then_explicit", "false_fact")),
}  # fmt: skip


@pytest.mark.parametrize("figure", SECTION)
def test_a_figure_of_contextleak_has_the_attack_of_its_section(figure: str) -> None:
    """The first release attacked figures 3, 6 and 7 with the weak pair of Sections 5 and 6."""
    recipe = RECIPES[f"contextleak/{figure}"]
    options = recipe.options.get("audit", recipe.options.get("attack"))
    spec = make_spec(flat_keys(options))  # type: ignore[arg-type]
    assert (spec.attack.query.kind, spec.attack.canary.kind) == SECTION[figure]
    assert "Section" in recipe.differences, "the section is named"


def test_the_input_output_query_asks_for_exactly_the_canary() -> None:
    options = RECIPES["contextleak/fig4"].options["queries"]
    assert options["input_output"] == {"kind": "input_output", "exact": True}  # type: ignore[index]
    asked = InputOutput(exact=True).render(CANARY, TASK, "work", "home")
    assert "deadbeef" in str(asked.query.text)
    assert "appear in the examples" in str(asked.query.text)
    assert "exactly" in str(asked.query.text)
    assert (asked.member, asked.nonmember) == asked.query.labels == ("yes", "no")
    assert InputOutput().render(CANARY, TASK, "work", "home").query.text == "deadbeef"


def test_if_then_asks_generation_for_the_canary_itself() -> None:
    for query, task in ((IfThenExplicit(), FREE), (IfThenExplicit(repeat_canary=True), TASK)):
        asked = query.render(CANARY, task, "work", "home")
        assert (asked.member, asked.nonmember) == ("deadbeef", SIGNAL_NONMEMBER)
        assert asked.query.labels == ("deadbeef", SIGNAL_NONMEMBER)
        assert str(asked.query.text).count("deadbeef") == 2


def test_a_canary_that_is_an_answer_is_in_no_record_that_keeps_no_text(tmp_path: Path) -> None:
    def say(prompt: str) -> str:
        context, query = prompt.rsplit("Input: ", 1)
        return query.split('"')[1] if query.split('"')[1] in context else SIGNAL_NONMEMBER

    rows = tuple(Example(f"a row about number {i}", "ab"[i % 2]) for i in range(20))
    spec = make_spec({
        "query": {"kind": "if_then_explicit", "repeat_canary": True}, "canary": "natural",
        "shots": 4, "pairs": 8, "simulations": 0, "labels": ["a", "b"], "store_text": "none",
    })  # fmt: skip
    record, folder = run_audit(prepare(spec, Scripted(say), rows=rows), tmp_path)
    assert record.curves.auroc == 1.0
    assert "row about" not in record.to_json()
    kept = b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())
    assert b"row about" not in kept


def picking(always: str | None) -> Scripted:
    """Reads its context; without one it picks a signal at random, or always the same."""

    def say(prompt: str) -> str:
        context, query = prompt.rsplit("Input: ", 1)
        if "Input: " not in context:
            say.asked += 1  # type: ignore[attr-defined]
            return always or (SIGNAL_MEMBER, SIGNAL_NONMEMBER)[say.asked % 2]  # type: ignore[attr-defined]
        return SIGNAL_MEMBER if query.split('"')[1] in context else SIGNAL_NONMEMBER

    say.asked = 0  # type: ignore[attr-defined]
    place = {SIGNAL_MEMBER: (1.0, 0.0), SIGNAL_NONMEMBER: (-1.0, 0.0)}
    return Scripted(say, embed=lambda text: place.get(text, (0.0, 1.0)), name=f"picks {always}")


def test_the_candidates_of_the_black_box_are_zero_shot_answers() -> None:
    """In the first release the two signals were the candidates, whatever the model said."""
    asked = ZeroShotSignals().render(CANARY, FREE, "", "")
    job = Job((CANARY, Example("other", "")), asked.query)
    for always, choices in ((None, 2), (SIGNAL_NONMEMBER, 1)):
        (found,) = EmbeddingMean(0.1, 2).collect(FREE, [job], [0], picking(always))
        assert isinstance(found, Vector)
        assert len(found.choices) == choices
    assert found.choices == (SIGNAL_NONMEMBER,)


@pytest.mark.parametrize("always", [None, SIGNAL_NONMEMBER])
def test_a_model_that_always_picks_one_text_hides_the_canary(
    always: str | None, tmp_path: Path
) -> None:
    """XL, Sections 4.3: the black box finds 0 where the zero-shot answer is always the same."""
    rows = tuple(Example(f"a row about number {i}", "ab"[i % 2]) for i in range(20))
    spec = make_spec({
        "mechanism": {"kind": "embedding_mean", "partitions": 2}, "query": "zero_shot_signals",
        "epsilon": 8, "shots": 4, "pairs": 20, "simulations": 4000, "labels": ["a", "b"],
    })  # fmt: skip
    record = run_audit(prepare(spec, picking(always), rows=rows), tmp_path)[0]
    assert (record.curves.auroc > 0.6) == (always is None)
    assert record.low_fpr[0].fpr == 0.1
    if always:
        assert record.curves.auroc == 0.5


@pytest.mark.slow
def test_algorithm_1_of_tight_auditing(tmp_path: Path) -> None:
    """A perfect attack on votes: the bootstrap gives the guarantee, which it may exceed by the
    choice of its threshold; each repeat is another draw, and none is a trial.
    """
    yes = Scripted(
        lambda p: "yes" if p.rsplit("Input: ", 1)[1].split('"')[1] in p.rsplit("Input: ", 1)[0]
        else "no"
    )  # fmt: skip
    context = RecipeContext(
        tmp_path, scale=Scale(pairs=6, simulations=40_000), opener=lambda spec: yes
    )
    audit = {"mechanism": "report_noisy_max", "query": "membership", "canary": "hex"}
    found = {one.setting: one for one in bootstrap_audits(context, audit)}
    for epsilon in (1, 2, 4):
        one = found[f"ε = {epsilon}, white box"]
        assert one.value == pytest.approx(epsilon, rel=0.12)
        assert one.ceiling == pytest.approx(epsilon, rel=1e-6)
        assert ", sd 0.00" not in one.shown
        assert one.sample is not None
        assert (one.sample.unit, one.sample.n) == ("paired trial", 6)  # not the repeats of draws
        assert one.sample.mean == pytest.approx(one.value, rel=0.25)  # what each adds to ε
        assert found[f"ε = {epsilon}, black box"].value < one.value


def test_what_converges_in_theorem_3_4_of_poe() -> None:
    found = {v.setting: v.value for v in RECIPES["poetry/theorem3.4"].run(None)}  # type: ignore[arg-type]
    rooted = [found[f"n = {n}, n-th root, as in the theorem"] for n in (1, 4, 16, 64, 256, 1024)]
    assert rooted == sorted(rooted, reverse=True)
    assert rooted[-1] < 0.01
    assert found["n = 4, as a model answers"] > 2 * rooted[1]


def test_theorem_3_1_of_context_influence_holds_at_lambda_1_alone() -> None:
    """Elsewhere the ratio is no constant; the influence stays below its bound."""
    values = list(RECIPES["influence/theorem3.1"].run(None))  # type: ignore[arg-type]
    for ratio, bound in zip(values[::2], values[1::2], strict=True):
        assert bound.value <= 1
        assert math.isclose(ratio.value, 1, rel_tol=1e-6) == (ratio.setting == "λ = 1")
