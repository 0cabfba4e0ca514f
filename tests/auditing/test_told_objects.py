"""What no file and no field tells of an object is another audit, and what it states is its own."""

from __future__ import annotations

import functools
import importlib
import math
import subprocess
import sys
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import leakbound
from leakbound import _sources
from leakbound._catalogue import is_told
from leakbound._sources import class_source, code_of
from leakbound.attacks import Canary
from leakbound.attacks.canaries import Coded, Unigram
from leakbound.attacks.queries import Membership
from leakbound.attacks.scores import ReferenceDirection, ScoreMargin
from leakbound.auditing import make_spec, prepare
from leakbound.auditing.prepare.build import Handed
from leakbound.errors import IgnoredEntryPoint, UsageError
from leakbound.estimators import ClopperPearson, EProcess, Exact
from leakbound.mechanisms import FewShot, ReportNoisyMax
from leakbound.models import Complete, Model, Scripted
from leakbound.privacy import Gaussian, PureDP
from leakbound.serving import Ledger, PrivateICL
from leakbound.stats.arrays import Floats
from leakbound.systems import load
from leakbound.systems.callable import says_stateful
from leakbound.systems.load import as_system
from leakbound.tasks import Example, Job, Outputs, Query, Task, Votes
from leakbound.tasks.named_tasks import tasks_by_name

SMALL: dict[str, Any] = {"pairs": 30, "shots": 4, "controls": 2, "epsilon": 1.0}


def seen(prompt: str) -> str:
    before, *quoted = prompt.rsplit('"', 2)
    return "yes" if len(quoted) == 2 and quoted[0] in before else "no"


SEES = Scripted(seen, name="sees")


def shown(found: leakbound.AuditResult) -> tuple[object, ...]:
    return found.verdict, found.reason, found.bound.epsilon


def hiding(all_rows: bool) -> FewShot:
    @dataclass(frozen=True)
    class Hiding(FewShot):
        name: ClassVar[str] = "hiding"

        def shown(self, job: Job) -> Job:
            return Job((), job.query) if all_rows else job

    return Hiding()


@dataclass(frozen=True)
class Filtered(FewShot):
    name: ClassVar[str] = "filtered"
    hide: Callable[[str], bool] = field(default=bool, repr=False)

    def shown(self, job: Job) -> Job:
        return Job(tuple(row for row in job.context if not self.hide(str(row.input))), job.query)


@dataclass(frozen=True)
class Early(ReportNoisyMax):
    """Its noise is drawn in `collect`, of which its base says nothing."""

    name: ClassVar[str] = "early"
    exactness: ClassVar[Any] = "none"
    vote_noise: ClassVar[Any] = None

    def collect(self, task: Task, jobs: Any, draws: Sequence[int], model: Model) -> Any:
        found = super().collect(task, jobs, draws, model)
        noise = (np.random.default_rng([abs(draw), at]) for at, draw in enumerate(draws))
        return [
            Votes(
                tuple(
                    (np.array(one.counts) + rng.normal(0, self.sigma, len(one.counts)))
                    .astype(int)
                    .tolist()
                )
            )
            for one, rng in zip(found, noise, strict=True)
        ]

    def release(self, aggregate: Any, draws: int, rng: np.random.Generator) -> Outputs:
        return Outputs(np.full(draws, int(np.argmax(aggregate.counts[:-1]))))

    def output_distribution(self, aggregate: Any) -> None:
        return None


class Switched(FewShot):
    """Its state is no field."""

    def __init__(self, on: bool) -> None:
        object.__setattr__(self, "on", on)

    def shown(self, job: Job) -> Job:
        return Job((), job.query) if self.on else job  # type: ignore[attr-defined]


def made(on: bool) -> FewShot:
    """Its class says that it stands in this file, where none of its name does."""
    body = {"shown": lambda self, job: Job((), job.query) if on else job}
    return type("Made", (FewShot,), {**body, "__module__": __name__})()


def unnamed(on: bool) -> FewShot:
    """Its class is said to stand in the module of its metaclass, which is of Python."""
    body = {"shown": lambda self, job: Job((), job.query) if on else job}
    return types.new_class("Unnamed", (FewShot,), {}, lambda space: space.update(body))()  # type: ignore[no-any-return]


def executed(on: bool) -> FewShot:
    space: dict[str, Any] = {"FewShot": FewShot, "Job": Job}
    shown = "Job((), job.query)" if on else "job"
    exec(f"class Run(FewShot):\n    def shown(self, job):\n        return {shown}\n", space)
    return space["Run"]()  # type: ignore[no-any-return]


class Words(Canary):
    name: ClassVar[str] = "words"
    of_rows: ClassVar[bool] = False

    def __init__(self, *words: str) -> None:
        self.words = words

    def make(self, held_out: Example, label: str, rng: np.random.Generator) -> Example:
        return Example(self.words[int(rng.integers(len(self.words)))], label)


ODD = tuple(f"zq{at}xv w{at}kp" for at in range(8))
BLACK: dict[str, Any] = {"score": "predicted_member", "access": "black_box", "shots": 8}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"mechanism": hiding(False)}, {"mechanism": hiding(True)}),
        ({"mechanism": Filtered(lambda _: False)}, {"mechanism": Filtered(lambda _: True)}),
        ({"mechanism": Switched(False)}, {"mechanism": Switched(True)}),
        ({"mechanism": made(False)}, {"mechanism": made(True)}),
        ({"mechanism": unnamed(False)}, {"mechanism": unnamed(True)}),
        ({"mechanism": executed(False)}, {"mechanism": executed(True)}),
        ({"canary": Words(*ODD)}, {"canary": Words(*["the"] * 6, ODD[0], ODD[1])}),
        (
            {"mechanism": Early(50.0, partitions=2), **BLACK},
            {"mechanism": Early(0.01, partitions=2), **BLACK},
        ),
    ],
    ids=[
        "closure",
        "hidden_field",
        "slot",
        "type",
        "new_class",
        "exec",
        "state",
        "noise_in_collect",
    ],
)
def test_answers_of_one_object_are_not_those_of_another(
    one: dict[str, Any], other: dict[str, Any], tmp_path: Path
) -> None:
    """They were: the second audit had the verdict of the first."""
    both: dict[str, Any] = SMALL | {"out": tmp_path / "both", "model": SEES}
    first, again = leakbound.audit(**both | one), leakbound.audit(**both | other)
    alone = leakbound.audit(**both | other | {"out": tmp_path / "alone"})
    assert shown(again) == shown(alone) != shown(first)


def test_a_class_whose_helper_is_edited_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_mechanism.py").write_text(
        "import my_filter\nfrom leakbound.mechanisms import FewShot\nclass Mine(FewShot): pass\n"
    )
    (tmp_path / "my_filter.py").write_text("def hide(text): return False\n")
    monkeypatch.syspath_prepend(tmp_path)
    import my_mechanism  # type: ignore[import-not-found]

    before = my_mechanism.Mine().source
    assert before == my_mechanism.Mine().source
    (tmp_path / "my_filter.py").write_text("def hide(text): return True\n")
    assert importlib.reload(my_mechanism).Mine().source != before


LOADING = """
import importlib, sys
from pathlib import Path
import my_mechanism, my_filter
print(my_mechanism.Mine().source)
if sys.argv[1:]:
    Path(my_filter.__file__).write_text("def hide(text): return True\\n")
    print(my_mechanism.Mine().source)
    importlib.reload(my_filter)
    print(my_mechanism.Mine().source)
"""


@pytest.mark.slow
@pytest.mark.process
def test_code_that_is_edited_while_it_runs_is_not_what_runs_later(tmp_path: Path) -> None:
    """The file was read when an audit began, so answers of the code that was loaded before were
    filed under the edited code, and the next process had them."""
    (tmp_path / "my_mechanism.py").write_text(
        "import my_filter\nfrom leakbound.mechanisms import FewShot\nclass Mine(FewShot): pass\n"
    )
    (tmp_path / "my_filter.py").write_text("def hide(text): return False\n")

    def sources(*given: str) -> list[str]:
        code = [sys.executable, "-c", LOADING, *given]
        return subprocess.run(
            code, cwd=tmp_path, check=True, capture_output=True, text=True
        ).stdout.split()

    before, edited = sources(), sources("edit")
    after, again = sources(), sources()
    assert edited[0] == before[0]
    assert after == again
    assert len({*edited, *after}) == 4


ASKING = """
import importlib, sys
from pathlib import Path
if sys.argv[1:]:
    import desk.app
    Path(desk.app.__file__).write_text("def answer(context, query): return 'yes'\\n")
from leakbound.systems.load import load_system
system = load_system("python:desk.app:answer")
print(system.source, system.system.open(()).ask("?").text)
"""


@pytest.mark.slow
@pytest.mark.process
def test_a_system_that_was_imported_before_it_was_edited_is_imported_again(tmp_path: Path) -> None:
    """The module was the old one, and its answers were filed under the edited text."""
    (tmp_path / "desk").mkdir()
    for name, text in (("__init__", ""), ("app", "def answer(context, query): return 'no'\n")):
        (tmp_path / "desk" / f"{name}.py").write_text(text)
    told = [
        subprocess.run(
            [sys.executable, "-c", ASKING, *given], cwd=tmp_path, check=True, capture_output=True,
            text=True,
        ).stdout.split() for given in ([], ["edit"], [])
    ]  # fmt: skip
    assert [one[1] for one in told] == ["no", "yes", "yes"]
    assert told[0] != told[1] == told[2]


@dataclass(frozen=True)
class Asking(Membership):
    """A query of one's own, by the name of another, which says what it is used with."""

    name: ClassVar[str] = "extraction"
    canary: ClassVar[str] = "natural"
    score: ClassVar[str] = "predicted_member"


def test_what_a_query_states_is_read_from_it(tmp_path: Path) -> None:
    """The class that the catalogue has by its name was asked, or none."""
    given: dict[str, Any] = {"mechanism": "report_noisy_max", "model": SEES, "shots": 10}
    attack = leakbound.audit(**SMALL | given | {"query": Asking(), "out": tmp_path}).attack
    assert (attack["canary"], attack["score"]) == ("natural", "predicted_member")


@dataclass(frozen=True)
class Sampled(ReportNoisyMax):
    name: ClassVar[str] = "sampled"
    exactness: ClassVar[Any] = "given_sample"


@dataclass(frozen=True)
class Constant(ScoreMargin):
    """It inherited the exact chances of another score: a bound of 1.91 from zeros."""

    name: ClassVar[str] = "constant"
    quotes: ClassVar[bool] = False
    of_votes: ClassVar[Any] = "none"

    def score(self, outputs: Outputs, rendered: Any, answers: tuple[str, ...]) -> Floats:
        return np.zeros(len(outputs.answers))


def test_the_chances_of_a_score_are_those_of_its_own_class(tmp_path: Path) -> None:
    found = leakbound.audit(
        mechanism=Sampled(0.3, partitions=4), score=Constant(), out=tmp_path, model=SEES,
        **SMALL | {"shots": 8, "pairs": 60},
    )  # fmt: skip
    assert found.verdict == "inconclusive"
    assert not found.bound.epsilon


@dataclass(frozen=True)
class Flips(FewShot):
    """Randomised response that keeps its claim, and is drawn in `collect`."""

    name: ClassVar[str] = "flips"
    exactness: ClassVar[Any] = "given_sample"

    @property
    def guarantee(self) -> PureDP:
        return PureDP(1.0)

    def noise_in_collect(self, task: Task, query: Query) -> bool:
        return True

    def collect(self, task: Task, jobs: Any, draws: Sequence[int], model: Model) -> Any:
        found = []
        for at, one in enumerate(super().collect(task, jobs, draws, model)):
            odds = np.where(np.array(one.counts) > 0, math.e, 1.0)
            rng = np.random.default_rng([draws[at], at])
            found.append(Votes(tuple(rng.multinomial(1, odds / odds.sum()).tolist())))
        return found

    def output_distribution(self, aggregate: Any) -> Any:
        return FewShot.output_distribution(self, aggregate)


def test_a_point_estimate_decides_nothing(tmp_path: Path) -> None:
    """Given what was drawn, the loss is infinite: that was a violation."""
    found = leakbound.audit(mechanism=Flips(), estimator=Exact(), out=tmp_path, model=SEES, **SMALL)
    assert found.bound.kind == "point_estimate"
    assert found.verdict == "inconclusive"


class Agent:
    stateful = True

    def answer(self, context: list[str], query: str) -> str:
        return "no"


def test_what_is_made_of_a_stateful_object_is_stateful() -> None:
    """A partial call and a decorated one were asked at once, 64 at a time."""
    method = Agent().answer

    @functools.wraps(method)
    def decorated(context: list[str], query: str) -> str:
        return method(context, query)

    for one in (Agent(), method, functools.partial(method), decorated):
        assert says_stateful(one)
    assert not says_stateful(functools.partial(shown))


def test_nothing_is_derived_from_a_guarantee() -> None:
    """A subclass was composed and tested by the formula of its base, whatever it stated."""
    with pytest.raises(UsageError, match="Doubtful is derived from Gaussian, which stands for one"):

        class Doubtful(Gaussian):
            pass


class Five:
    """A model without the members that say what stops it, and whether it changes."""

    name = fingerprint = "five"
    supports = frozenset({Complete})

    def check(self, requests: Any, /) -> None: ...

    def answer(self, requests: Any, /) -> list[Any]:
        return ["yes" for _ in requests]


class Paid(Five):
    limits = ("max_cost",)
    may_change = True


def test_a_model_says_what_stops_it(tmp_path: Path) -> None:
    """One row could decide whether there is an answer: a wrapper that did not say passed."""
    with pytest.raises(UsageError, match=r"model is Five; .*, and it lacks limits, may_change"):
        leakbound.audit(model=Five(), out=tmp_path, **SMALL)  # type: ignore[arg-type]
    rows = [Example(f"row {at}", "ab"[at % 2]) for at in range(20)]
    mail, ledger = Task("mail", ("a", "b")), Ledger(tmp_path / "ledger", 1.0, 1e-5)
    with pytest.raises(UsageError, match="max_cost"):
        PrivateICL(ReportNoisyMax(1.0), rows, mail, Paid(), ledger)
    assert Scripted().limits == ()


def test_a_task_of_two_packages_is_that_of_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The path decided whose rows they were; and what is no set of tasks stopped every audit."""
    for name in ("one", "two", "three"):
        info = tmp_path / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        lines = f"[leakbound.tasks]\n{name} = brought_sets:{name}\n"
        (info / "entry_points.txt").write_text(lines)
    sets = "one = {'mine': 1, 'first': 1}\ntwo = {'mine': 2}\nthree = 3\n"
    (tmp_path / "brought_sets.py").write_text(sets)
    monkeypatch.syspath_prepend(tmp_path)
    tasks_by_name.cache_clear()
    with pytest.warns(IgnoredEntryPoint) as told:
        found = tasks_by_name()
    tasks_by_name.cache_clear()
    assert "first" in found
    assert "mine" not in found
    said = " ".join(str(one.message) for one in told)
    assert "the task 'mine' is that of several packages" in said
    assert "three of leakbound.tasks is int; it must lead to tasks by their names" in said


class Law:
    support = (0, 1)


@dataclass(frozen=True)
class OwnLaw(FewShot):
    name: ClassVar[str] = "own_law"
    exactness: ClassVar[Any] = "full"

    def output_distribution(self, aggregate: Any) -> Any:
        return Law()


def test_a_law_of_ones_own_gets_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"output_distribution gives Law; it must be one of the"):
        leakbound.audit(mechanism=OwnLaw(), out=tmp_path, model=SEES, **SMALL)


@dataclass(frozen=True)
class Fitted(Canary):
    name: ClassVar[str] = "given_words"
    of_rows: ClassVar[bool] = False
    words: tuple[str, ...] = ()

    def make(self, held_out: Example, label: str, rng: np.random.Generator) -> Example:
        return Example(str(rng.choice(self.words)), label)


@dataclass(frozen=True)
class Given(Fitted):
    of_rows: ClassVar[bool] = False
    give: Callable[[], tuple[str, ...]] = field(default=tuple, repr=False)

    def fit(self, rows: Sequence[Example], tokens: Callable[[str], list[str]]) -> Fitted:
        return Fitted(self.give())


def test_a_canary_is_known_by_what_was_handed_over(tmp_path: Path) -> None:
    """What `fit` made of it was all that counted, and the plain result told nothing of a closure:
    the second audit had the answers of the first."""
    both: dict[str, Any] = SMALL | {"out": tmp_path / "both", "model": SEES}
    for words in (ODD, ODD[::-1]):
        leakbound.audit(**both, canary=Given(give=lambda words=words: words))
    assert len([*(tmp_path / "both").iterdir()]) == 2


@pytest.mark.slow
def test_installed_code_is_another_if_a_helper_of_its_package_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was read alone, and an audit of the changed code had the answers of the old one."""
    monkeypatch.setattr(_sources, "INSTALLED", (tmp_path,))
    monkeypatch.syspath_prepend(tmp_path)
    for folder in ("shopbot", "strangers"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "__init__.py").write_text("")
    (tmp_path / "strangers" / "base.py").write_text("class Base: pass\n")
    (tmp_path / "shopbot" / "bot.py").write_text(
        "from shopbot.words import said\nfrom strangers.base import Base\n"
        "def answer(context, query): return said\nclass Bot(Base): pass\n"
    )
    helper = tmp_path / "shopbot" / "words.py"
    helper.write_text("said = 'no'\n")
    import shopbot.bot as bot  # type: ignore[import-not-found]

    before = code_of(bot.answer), class_source(bot.Bot)
    (tmp_path / "strangers" / "other.py").write_text("changed = 1\n")
    assert (code_of(bot.answer), class_source(bot.Bot)) == before
    helper.write_text("said = 'yes'\n")
    assert not {code_of(bot.answer), class_source(bot.Bot)} & {*before}


@dataclass(frozen=True)
class Windows(ReportNoisyMax):
    """Each voter is shown all parts but one, so one record moves nine votes of ten."""

    name: ClassVar[str] = "windows"

    def requests(self, task: Task, job: Job, draw: int) -> list[Any]:
        rows, parts = job.context, self.partitions
        shown = [[one for at, one in enumerate(rows) if at % parts != j] for j in range(parts)]
        return [Complete(task.prompt(tuple(part), job.query)) for part in shown]


class Apart(Windows):
    name: ClassVar[str] = "apart"

    def disjoint_parts(self, shots: int) -> tuple[tuple[int, ...], ...]:
        return ()


def test_parts_of_other_requests_place_no_copies(tmp_path: Path) -> None:
    """They hid a leak of nine votes in both contexts, and the audit passed."""
    both: dict[str, Any] = BLACK | {"shots": 10, "pairs": 60, "controls": 4, "epsilon": 4.0}
    both |= {"out": tmp_path, "model": SEES, "settings": {"labels": ["a", "b"]}}
    rows = [Example(f"token{at} note", "ab"[at % 2]) for at in range(60)]
    found = [
        leakbound.audit(rows, mechanism=one.calibrated(4.0, 1e-5, partitions=10), **both)
        for one in (Windows, Apart)
    ]
    assert shown(found[0]) == shown(found[1])
    assert found[0].verdict == "violation"


class Described(FewShot):
    """A harmless method, of which nobody knows that it is harmless."""

    name: ClassVar[str] = "described"

    def describe(self) -> str:
        return "few examples"


def test_what_a_class_states_in_vain_is_said(tmp_path: Path) -> None:
    both: dict[str, Any] = SMALL | {"model": SEES, "out": tmp_path}
    plain = leakbound.audit(**both, mechanism=FewShot())
    silent = leakbound.audit(**both, mechanism=Described())
    assert "unused_statement" not in [one.code for one in plain.findings]
    (said,) = [one.sentence for one in silent.findings if one.code == "unused_statement"]
    assert said.startswith("Described inherits exactness, and overrides or adds code")
    assert "(exactness = Base.exactness)" in said


class Fixed(Coded):
    """Its codes are those of rows, and `code_digits` of its base says that they are drawn."""

    def make(self, held_out: Example, label: str, rng: np.random.Generator) -> Example:
        return Example(held_out.input, held_out.label)


class Fits(Canary):
    name: ClassVar[str] = "fits"
    of_rows: ClassVar[bool] = False

    def fit(self, rows: Sequence[Example], tokens: Callable[[str], list[str]]) -> Canary:
        return Fixed()

    def make(self, held_out: Example, label: str, rng: np.random.Generator) -> Example:
        raise NotImplementedError


@pytest.mark.parametrize("canary", [Fixed(), Fits()])
def test_what_a_canary_becomes_states_what_it_is(canary: Canary, tmp_path: Path) -> None:
    """One that another's `fit` made was not asked, and constant answers quoted drawn codes."""
    with pytest.raises(UsageError, match="Fixed, which inherits code_digits and overrides"):
        leakbound.audit(**SMALL, system=lambda context, query: "no", canary=canary, out=tmp_path)


@dataclass(frozen=True)
class OwnDirection(ReferenceDirection):
    name: ClassVar[str] = "own_direction"

    def score(self, outputs: Outputs, rendered: Any, answers: tuple[str, ...]) -> Floats:
        return np.full(len(outputs.answers), 7.0)


def test_a_score_that_learns_stays_of_its_class() -> None:
    """Its base took its place, under its name."""
    fitted = OwnDirection().fit(np.ones((4, 2)), np.zeros((4, 2)))
    assert isinstance(fitted, OwnDirection)
    assert fitted.direction


class Quick(EProcess):
    """Its observer is another one, and its base says that it may be read at any time."""

    name: ClassVar[str] = "quick"

    def begin(self, design: Any) -> Any:
        return ClopperPearson().begin(design)


def test_other_observers_do_not_inherit_that_they_hold_at_any_time(tmp_path: Path) -> None:
    """They were read at every pair, and rejected twice as often as they say."""
    with pytest.raises(UsageError, match="Quick, which inherits anytime and overrides code"):
        leakbound.audit(
            **SMALL, system=lambda context, query: "no", estimator=Quick(), out=tmp_path,
        )  # fmt: skip


class Traced:
    def __init__(self, function: Callable[..., object]) -> None:
        functools.update_wrapper(self, function)
        self.function = function

    def __call__(self, *given: Any, **named: Any) -> object:
        return self.function(*given, **named)


def all_in_one(context: str, question: str) -> str:
    return "yes" if isinstance(context, str) else "no"


class AllInOne:
    def __call__(self, context: str, question: str) -> str:
        return all_in_one(context, question)


@functools.wraps(AllInOne())
def through(*given: Any, **named: Any) -> object:
    return AllInOne()(*given, **named)


@pytest.mark.parametrize(
    "system",
    [all_in_one, Traced(all_in_one), AllInOne(), through, functools.partial(Traced(all_in_one))],
)
def test_a_decorated_function_is_handed_what_it_declares(system: Any) -> None:
    """It got a tuple of rows in place of one text, and a leak passed."""
    session = as_system(system, "app").open((Example("a row", "x"), Example("another", "y")))
    assert session.ask("anything?").text == "yes"  # type: ignore[union-attr]


@pytest.mark.slow
def test_the_code_behind_a_scheme_is_part_of_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the address was: changed code had the answers of the old one, in the same run."""
    file = tmp_path / "reads_plugin.py"
    file.write_text("def open_system(rest):\n    return lambda context, query: 'no'\n")
    monkeypatch.syspath_prepend(tmp_path)
    import reads_plugin  # type: ignore[import-not-found]

    monkeypatch.setattr(load, "opener_of", lambda group, scheme: reads_plugin.open_system)
    before = load.load_system("reads:x").source
    assert before == load.load_system("reads:x").source
    file.write_text(file.read_text() + "LEAK = True\n")
    assert load.load_system("reads:x").source != before


TYPED = """
import leakbound
REDACT = {redact}
def answer(context, query):
    return "yes" if not REDACT and any(row.text in query for row in context) else "no"
rows = [(f"message {{at}}", "ab"[at % 2]) for at in range(60)]
for again in range(2):
    found = leakbound.audit(rows, system=answer, pairs=30, shots=4, controls=4, out="runs")
    print(found.name, found.verdict)
"""


@pytest.mark.slow
@pytest.mark.process
def test_a_function_of_no_file_is_another_in_another_process(tmp_path: Path) -> None:
    """Its own code was its identity: another constant that it reads had its answers."""
    told = [
        subprocess.run(
            [sys.executable, "-"], input=TYPED.format(redact=redact), cwd=tmp_path, check=True,
            capture_output=True, text=True,
        ).stdout.split() for redact in (True, False)
    ]  # fmt: skip
    assert told[1][1] == told[1][3] == "violation" != told[0][1]
    assert told[0][0] == told[0][2] != told[1][0] == told[1][2]  # one process goes on


@dataclass(frozen=True)
class Renamed(Coded):
    name: ClassVar[str] = "renamed"


def test_an_attack_by_another_name_is_the_same_attack() -> None:
    """It counted as another kind: a third one, so that an audit with two passed."""
    kinds = [
        prepare(
            make_spec({"query": "recall", "canary": "coded", "mechanism": "few_shot", "shots": 4}),
            SEES, handed=Handed() if canary is None else Handed(canary=canary),
        ) for canary in (None, Renamed())
    ]  # fmt: skip
    shipped, renamed = [([one.name for one in each.others], each.of_own_kind) for each in kinds]
    assert shipped == renamed
    assert not renamed[1]


def test_what_fit_has_not_made_yet_hides_nothing() -> None:
    fresh, fitted = Unigram(), Unigram().fit((Example("a b c d", ""),) * 3, str.split)
    assert is_told(fresh)
    assert not is_told(fitted)
