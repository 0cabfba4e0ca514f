"""Every public name of `leakbound.stats` and `leakbound.privacy` at extreme values: a number that
is not NaN, or a sentence, in seconds and without much memory.
"""

from __future__ import annotations

import inspect
import math
import resource
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import leakbound.privacy as privacy
import leakbound.stats as stats
from leakbound.errors import LeakboundError, UsageError
from leakbound.privacy import (
    RDP,
    ZCDP,
    ApproxDP,
    BoundedRange,
    DiscreteGaussian,
    Gaussian,
    NonPrivate,
    PureDP,
    Subsampled,
    gdp_delta,
    gdp_epsilon,
    gdp_trade_off,
    pure_composition_epsilon,
    self_compose,
    subsampled_gaussian_epsilon,
    zcdp_epsilon,
)
from leakbound.stats.counts.unconditional import unconditional

SECONDS, ROOM = 8.0, 1 << 30  # CPU time and memory of a call and four readings: 2 s each
NAN, INF = math.nan, math.inf
COUNT = st.sampled_from(
    [-1, 0, 1, 2, 10, 1000, 10**6, 10**9, 10**12, 10**15, 10**20, 10**400, 2.5, NAN]
)
REAL = st.one_of(
    st.sampled_from(
        [0.0, 1e-300, 1e-12, 1e-5, 0.1, 0.5, 0.95, 1 - 1e-12, 1.0, 2.0, 10.0, 699.0, 1e3]
    ),
    st.sampled_from([-1.0, 1e20, 1e300, INF, -INF, NAN, 5e-324, 10**20]),
    st.floats(0, 1),
)
LISTS = st.one_of(
    st.sampled_from([[], [0.0], [NAN, 1.0], [INF, -INF], [1e308, -1e308], [[1.0], [1.0, 2.0]]]),
    st.sampled_from([[0.5] * 50, [0.0, -INF], list(range(20)), [[0.5]]]),
    st.lists(st.floats(0, 1), min_size=1, max_size=4),
)
ARRAY = LISTS | st.sampled_from([0.5, NAN])
SHIFT = st.sampled_from([[], [0], [1, -1], [-1, 10**9], [10**20], [10**30], [1] * 500, [NAN]])
SAFE = st.sampled_from([1e-75, 1e-5, 0.1, 1.0, 699.0, 1e3])
TIMES = st.sampled_from([1, 10, 10**6, 10**15])
GUARANTEE = st.one_of(
    *(st.builds(kind, SAFE) for kind in (PureDP, BoundedRange, ZCDP, DiscreteGaussian)),
    st.builds(ApproxDP, SAFE, st.sampled_from([0.0, 1e-300, 1e-5, 0.999])),
    st.builds(Gaussian, SAFE, SAFE),
    st.builds(RDP, st.sampled_from([1.0001, 2.0, 1e6, 1e150]), SAFE),
    st.builds(DiscreteGaussian, SAFE, TIMES),
    st.builds(Subsampled, SAFE, st.sampled_from([1e-300, 0.1, 1.0]), TIMES),
    st.just(NonPrivate()),
)
LAW = st.one_of(
    st.builds(
        stats.CategoricalLaw,
        ARRAY.map(lambda a: np.ravel(a[-1] if a == [[1.0], [1.0, 2.0]] else a)),
    ),
    st.builds(
        stats.CategoricalLaw,
        st.sampled_from([np.array(p) for p in ([1.0, 0.0], [0.5, 0.5], [5e-324, 1.0])]),
    ),
    st.builds(
        stats.GaussianLaw,
        st.sampled_from([np.zeros(2), np.array([0.0, 1e300]), np.array([NAN])]),
        REAL,
    ),
)
CLAIM = st.sampled_from([lambda n: (1.0, 0.0), lambda n: (n * 0.1, 1e-5), lambda n: (1e3, 0.5)])
MIXED = st.tuples(REAL, st.builds(lambda: stats.EProcess(PureDP(0.5)))).map(
    lambda part: {"a": part}
)
PAIR = st.one_of(st.none(), st.tuples(ARRAY, ARRAY), LISTS)
# What a parameter is drawn from: by name, of one function or of all, or else by its annotation.
BY_NAME = {
    "canaries_to_reject.claim": CLAIM,
    "canaries_to_reject.guesses": st.just(lambda n: n),
    "MixedEProcess.parts": MIXED,
    "compose_rdp.parts": st.lists(st.builds(RDP, st.just(2.0), SAFE), max_size=3),
    "Composed.parts": st.lists(GUARANTEE, max_size=3).map(tuple),
    "compose.parts": st.lists(GUARANTEE, max_size=4),
    "guarantee": GUARANTEE,
    "claim": GUARANTEE,
    "law1": LAW,
    "law0": LAW,
    "shift": SHIFT,
    "support": PAIR,
    "expected": PAIR,
    "estimator": st.sampled_from([stats.clopper_pearson, stats.gdp]),
    "assumption": st.builds(stats.Assumption, st.floats(0, 1), st.floats(0, 1)),
    "method": st.sampled_from(["analytic", "classical", "other"]),
    "threshold": st.just("given"),
    "relation": st.just("replace_one"),
    "leak": st.just("small_noise"),
}
BY_KIND = [
    ("ArrayLike", ARRAY),
    ("Floats", ARRAY),
    ("Sequence[float]", ARRAY),
    ("Iterable[float]", LISTS),
    ("tuple[float", ARRAY),
    ("bool", st.booleans()),
    ("int", COUNT),
    ("float", REAL),
]
# Types, and records of results, which hold what they are given.
PLAIN = {"Guarantee", "Kind", "OutputDistribution", "Relation", "ThresholdRule"}
PLAIN |= {"BoundReading", "CategoricalLaw", "Estimate", "GaussianLaw", "NoiseFit", "Power"}
CALLS = {
    name: getattr(module, name)
    for module in (stats, privacy)
    for name in module.__all__
    if name not in PLAIN
}
SLOW = dict.fromkeys(("leaves", "self_compose", "compose", "Composed", "canaries_to_reject"), 12)
SLOW |= dict.fromkeys(("trade_off", "Subsampled", "subsampled_gaussian_epsilon"), 8)
SLOW |= {"clopper_pearson_power": 12}


def drawn(name: str, parameter: inspect.Parameter) -> st.SearchStrategy[Any]:
    kind = str(parameter.annotation)
    by_kind = next((strategy for part, strategy in BY_KIND if part in kind), None)
    named = BY_NAME.get(parameter.name, by_kind)
    found: Any = BY_NAME.get(f"{name}.{parameter.name}", named)
    return found if parameter.default is parameter.empty else found | st.just(parameter.default)


@contextmanager
def limited() -> Iterator[None]:
    """CPU time and, where the system says how much there is, memory."""

    def late(*_: Any) -> None:
        raise AssertionError(f"it takes more than {SECONDS:g} seconds")

    before, old = signal.signal(signal.SIGPROF, late), resource.getrlimit(resource.RLIMIT_AS)
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + ROOM, old[1]))
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    start = time.process_time()
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_AS, old)
        signal.signal(signal.SIGPROF, before)
    assert time.process_time() - start < SECONDS


def numbers(found: Any) -> Iterator[Any]:
    """All numbers of a result, and what a guarantee or a test then says."""
    match found:
        case stats.EProcess():
            found.update(np.ones(1), np.zeros(1))
            yield from (found.e_value, found.epsilon_lower_bound(1e-5).epsilon)
        case stats.MixedEProcess():
            yield found.e_value
        case stats.VoteScores():
            yield from (found.thresholds, *found.support(), found.exceedance([found.low]))
        case stats.Estimate():
            yield from (found.epsilon, found.mu, *found.details.values())
        case tuple() | list():
            for one in found:
                yield from numbers(one)
        case _ if hasattr(found, "describe"):
            assert found.describe()
            yield from (found.epsilon(delta) for delta in (0.0, 1e-300, 1e-5, 0.999))
        case _ if is_dataclass(found):
            assert str(found)
        case _:
            yield found


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
def test_extreme_values_give_a_number_or_a_sentence(name: str) -> None:
    call = CALLS[name]
    parameters = inspect.signature(call).parameters.values()
    arguments = st.fixed_dictionaries({one.name: drawn(name, one) for one in parameters})

    @settings(max_examples=SLOW.get(name, 30), database=None)
    @given(arguments)
    def check(given_values: dict[str, Any]) -> None:
        with limited(), suppress(LeakboundError):  # its sentence
            for number in numbers(call(**given_values)):
                if number is not None and not isinstance(number, str):
                    assert not np.isnan(np.asarray(number, float)).any()

    check()


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: stats.EProcess(ApproxDP(699.0, 1e-5)), "epsilon below 300"),
        (lambda: stats.EProcess(PureDP(1.0), support=([NAN], [0.0])), "support is nan"),
        (lambda: stats.EProcess(PureDP(1.0), support=[0.5]), "support has 1 parts"),  # type: ignore[arg-type]
        (lambda: unconditional(10**20, 1, 1, 1), r"tp is 1\d+; it must be at most 1e\+15"),
        (
            lambda: unconditional(10**9, 1, 1, 1),
            r"canary-in trials is 1000000001; .* at most 1e\+07",
        ),
        (lambda: stats.VoteScores.count(NAN, 1.0), "partitions is nan; it must be a whole"),  # type: ignore[arg-type]
        (lambda: stats.binomial_upper(1000, 10, 0.05), "at most the number of trials"),
        (lambda: stats.auroc([[1.0], [1.0, 2.0]], [1.0]), "member is .*; it must be numbers"),
        (lambda: stats.cut(1.0, 10**9), "digits is 1000000000; it must be at most 16"),
        (
            lambda: stats.clopper_pearson_power(10**13, 1, 1),
            r"pairs is 1\d+; it must be at most 1e\+08",
        ),
        (lambda: gdp_delta([1.0, 2.0], [1.0] * 3), r"shapes \(2,\), \(3,\); they must"),
        (
            lambda: self_compose(PureDP(1.0), 0),
            "count is 0; it must be a whole number of at least 1",
        ),
        (lambda: self_compose(PureDP(1.0), 10**6), "the number of parts is 1000000; it must be"),
        (lambda: privacy.PureDP(1e200), r"epsilon is 1e\+200; it must be at most 1e\+150"),
        (lambda: Gaussian(1.0, 1e-200), r"sigma is 1e-200; it must be between 1e-75 and 1e\+75"),
        (lambda: stats.one_run(10**7, 1, 1), r"canaries is 1\d+; it must be at most 1e\+06"),
        (lambda: privacy.discrete_gaussian_pmf(1e20), "must be between 0 and 500000"),
        (lambda: privacy.share_down(-1.0, 10**6), "total is -1.0; it must be"),
        (lambda: privacy.sum_up([NAN, 1.0]), "values is .*; it must be a list of numbers"),
    ],
)
def test_what_is_refused_says_why(call: Any, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        call()


def test_known_limits() -> None:
    assert [gdp_delta(1e20, mu) for mu in (INF, 1e-300)] == [1.0, 0.0]
    assert gdp_delta(1e13, 1e7) == pytest.approx(1.0)
    assert gdp_trade_off([0.0, 0.5], INF).tolist() == [1.0, 1.0]
    exact, above = (pure_composition_epsilon(1e-3, 10**6 + more, 1e-5) for more in (0, 1))
    assert exact < above == zcdp_epsilon((10**6 + 1) * 1e-6 / 2, 1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(("sigma", "rate", "steps"), [(4.0, 0.01, 10**4), (4.0, 0.5, 10**6)])
def test_coarse_grids_bound_subsampled_gaussians(
    monkeypatch: pytest.MonkeyPatch, sigma: float, rate: float, steps: int
) -> None:
    pytest.importorskip("dp_accounting")
    exact = subsampled_gaussian_epsilon(sigma, rate, steps, 1e-5, interval=1e-3)
    monkeypatch.setattr(sys.modules["leakbound.privacy.compose"], "MOST_POINTS", (4_000, 1 << 14))
    coarse = subsampled_gaussian_epsilon(sigma, rate, steps, 1e-5, interval=1.1e-3)
    assert exact < coarse < 2.5 * exact
    assert coarse < gdp_epsilon(math.sqrt(steps) / sigma, 1e-5)
    assert subsampled_gaussian_epsilon(1e6, 1.0, 10**12, 1e-5) == gdp_epsilon(1.0, 1e-5)
