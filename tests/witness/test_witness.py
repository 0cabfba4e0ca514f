"""The learned witness: valid whatever it learns, predictable, and quick where a system leaks.

Simulated systems and seeds are fixed, so every figure repeats.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from leakbound_lab.planted.channels import CHANNELS, reply_pairs

from leakbound.errors import UsageError
from leakbound.privacy import ApproxDP, Gaussian, NonPrivate, PureDP
from leakbound.witness import (
    ReplyFacts,
    WitnessProcess,
    mask_reply,
    reply_from_json,
    reply_to_json,
)
from leakbound.witness.process import FIRST, PLANNED, RATES, SCAN, Portfolio, Record, plan_stakes

QUICK = ("refusal", "tool call", "latency")  # kinds of channel that make test looks at
DELTA = 1e-5
WORDS = ("red", "green", "blue", "sorry", "no", "42", "- item", "**x**", "ja und nein")


def small_pairs(
    seed: int, pairs: int, rates: tuple[float, float], size: int = 3
) -> Iterator[tuple[ReplyFacts, ReplyFacts]]:
    """Cheap replies of a few words; those of a leak begin with a word of their own."""
    rng = np.random.default_rng(seed)
    for _ in range(pairs):
        texts = []
        for rate in rates:
            words = [WORDS[i] for i in rng.integers(0, len(WORDS), size)]
            texts.append(" ".join(["leak", *words] if rng.random() < rate else words))
        yield ReplyFacts(texts[0]), ReplyFacts(texts[1])


def observed(
    process: WitnessProcess, pairs: Iterator[tuple[ReplyFacts, ReplyFacts]]
) -> WitnessProcess:
    for reply_in, reply_out in pairs:
        process.observe(reply_in, reply_out)
    return process


def small_audit(
    seed: int, claim: float, rates: tuple[float, float], pairs: int = 60
) -> WitnessProcess:
    process = WitnessProcess(ApproxDP(claim, DELTA), horizon=pairs, scan=())
    return observed(process, small_pairs(seed, pairs, rates))


@pytest.mark.slow
@pytest.mark.parametrize("claim", [0.0, 0.25, 1.0])
def test_the_mean_e_value_on_the_edge_of_the_claim_is_at_most_one(claim: float) -> None:
    """One-sided 5 sigma: a false alarm rate below 1e-6 if the e-values were normal."""
    low = 0.2
    high = low * math.exp(claim)
    final = [small_audit(seed, claim, (high, low)).e_value for seed in range(120)]
    assert np.mean(final) <= 1 + 5 * np.std(final) / math.sqrt(len(final))


@pytest.mark.slow
@pytest.mark.parametrize("claim", [0.0, 0.25])
def test_a_system_on_the_edge_is_seldom_accused(claim: float) -> None:
    """At most 17 of 120: more have a probability below 1e-4 at 5 %, and the seeds are fixed."""
    rates = (0.2 * math.exp(claim), 0.2)
    assert sum(small_audit(1000 + seed, claim, rates).rejected for seed in range(120)) <= 17


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**31), st.floats(0.0, 2.5), st.floats(0.0, 0.2))
def test_one_step_is_a_supermartingale(seed: int, epsilon: float, delta: float) -> None:
    """Over replies from laws that keep the claim, the next factor's largest mean is at most 1.

    Each law is a mixture: with probability delta anything, else randomised response between two
    sets of replies with odds e^epsilon.
    """
    rng = np.random.default_rng(seed)
    process = WitnessProcess(ApproxDP(epsilon, delta), horizon=50, scan=())
    observed(process, small_pairs(seed, FIRST + int(rng.integers(0, 20)), (0.6, 0.1)))
    replies = [ReplyFacts(text) for text in ("leak red", "blue", "no sorry", "leak - item", "42")]
    process._stake()
    test = process._tests[process.epsilon]
    assert process._panel is not None
    start, before = test._log_e, test.log_e
    values = [process._panel.values(process._corpus.encode(_features(r))) for r in replies]
    factor = np.zeros((len(replies), len(replies)))
    for i, j in itertools.product(range(len(replies)), repeat=2):
        test._log_e = np.array(start)
        test.settle(values[i], values[j])
        factor[i, j] = math.exp(test.log_e - before)
    for members in itertools.product([False, True], repeat=len(replies)):
        law_in, law_out = _laws(np.array(members), epsilon, delta, rng)
        assert law_in @ factor @ law_out <= 1 + 1e-9
        assert law_out @ factor @ law_in <= 1 + 1e-9  # neighbours in the other direction


def _features(reply: ReplyFacts):  # type: ignore[no-untyped-def]
    from leakbound.witness.features import features

    return features(reply)


def _laws(
    members: np.ndarray, epsilon: float, delta: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Two laws on replies that are (epsilon, delta)-indistinguishable in both directions."""
    each = rng.random(members.size) + 0.01
    weight = {side: each * (members == side) for side in (True, False)}
    if not members.any() or members.all():
        return each / each.sum(), each / each.sum()
    high = math.exp(epsilon) / (1 + math.exp(epsilon))
    on, off = (weight[side] / weight[side].sum() for side in (True, False))
    law_in, law_out = high * on + (1 - high) * off, (1 - high) * on + high * off
    free = np.eye(members.size)[int(rng.integers(members.size))]
    return (1 - delta) * law_in + delta * free, (1 - delta) * law_out + delta * free


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 2**31), st.integers(0, 39), st.text(max_size=40), st.booleans())
def test_changing_a_pair_changes_nothing_before_it(
    seed: int, at: int, text: str, inside: bool
) -> None:
    """Stakes and e-values up to a pair, its own stake included, do not depend on it."""
    pairs = list(small_pairs(seed, 40, (0.5, 0.1)))
    changed = list(pairs)
    odd = ReplyFacts(text, seconds=3.0, tool_calls=("odd",))
    changed[at] = (odd, pairs[at][1]) if inside else (pairs[at][0], odd)
    paths, stakes = [], []
    for version in (pairs, changed):
        process = WitnessProcess(PureDP(0.25), horizon=40)
        observed(process, iter(version[:at]))
        process.observe(*version[at])
        test = process._tests[process.epsilon]
        weights = test._portfolio.weights if test._portfolio else np.zeros(0)
        paths.append(process.log_e_values[:at])
        stakes.append((tuple(test._shares), weights))
    assert np.array_equal(*paths)
    assert stakes[0][0] == stakes[1][0]
    assert np.array_equal(stakes[0][1], stakes[1][1])


def test_the_order_of_observing_matters_but_not_what_comes_later() -> None:
    pairs = list(small_pairs(3, 60, (0.6, 0.1)))
    whole = observed(WitnessProcess(PureDP(0.25), horizon=60), iter(pairs))
    start = observed(WitnessProcess(PureDP(0.25), horizon=60), iter(pairs[:45]))
    assert np.array_equal(whole.log_e_values[:45], start.log_e_values)
    assert whole.pairs == 60
    assert len(whole.log_e_values) == 60


@settings(max_examples=12, deadline=None)
@given(
    st.lists(st.tuples(st.text(max_size=30), st.text(max_size=30)), min_size=14, max_size=30),
    st.floats(0, 5),
    st.floats(0, 0.5),
)
def test_the_e_value_stays_positive_on_any_text(
    texts: list[tuple[str, str]], epsilon: float, delta: float
) -> None:
    process = WitnessProcess(ApproxDP(epsilon, delta), horizon=20)
    for one, other in texts:
        process.observe(ReplyFacts(one), ReplyFacts(other, seconds=0.1, tokens=0))
        assert process.e_value > 0
    assert all(np.isfinite(path).all() for path in process.scan_log_e_values().values())


def test_a_stake_that_could_lose_more_than_everything_is_refused() -> None:
    process = observed(WitnessProcess(PureDP(0.25), scan=()), small_pairs(0, 20, (0.5, 0.1)))
    process._stake()
    test, panel = process._tests[process.epsilon], process._panel
    assert panel is not None
    test._shares = np.array([0.0, 5.0])
    x = np.zeros(len(panel.names), bool)
    worst = x if test._portfolio.payoff(x, ~x, test.odds) < 0 else ~x
    with pytest.raises(ArithmeticError, match="must stay positive"):
        test.settle(worst, ~worst)


def test_a_strong_leak_is_bet_on_before_the_plan_begins() -> None:
    """The first planned stake comes at pair 12; these were rejected at pair 29 in the median."""
    found = []
    for seed in range(9):
        pairs = small_pairs(seed, 40, (0.9, 0.05))
        process = observed(WitnessProcess(PureDP(0.25), scan=()), pairs)
        paths = process.log_e_values
        assert np.allclose(paths[:FIRST], 0.0)
        assert not np.allclose(paths[FIRST:PLANNED], 0.0)
        found.append(process.rejected_at or math.inf)
    assert np.median(found) <= 26


def surfaces(kind: str, seed: int, pairs: int) -> Iterator[tuple[ReplyFacts, ReplyFacts]]:
    """Pairs of replies that differ in something that no word or sentence shows, in .9 and .1."""
    rng, busy = np.random.default_rng([seed, len(kind)]), 1.0
    for _ in range(pairs):
        busy *= math.exp(0.05 * rng.normal())  # a service that is more or less busy
        both = []
        for rate in (0.9, 0.1):
            on, words = rng.random() < rate, 1 if kind == "word" else int(rng.integers(3, 12))
            text = "\n".join(["all of it"] * words)
            text += {"blank": " " * on, "line ends": "", "word": " gold" if on else " blue"}.get(
                kind, ""
            )
            text = text.replace("\n", "\r\n") if on and kind == "line ends" else text
            seconds = busy * (1.3 if on else 1.0) * (1 + 0.02 * rng.random())
            both.append(ReplyFacts(text, seconds=seconds if kind == "busy" else None))
        yield both[0], both[1]


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("kind", ["blank", "line ends", "word", "busy"])
def test_what_no_text_shows_is_read_whatever_is_stored(kind: str, stored: bool) -> None:
    process = WitnessProcess(PureDP(0.25), horizon=80, scan=())
    for x, y in surfaces(kind, 1, 80):
        process.observe(*((x, y) if stored else map(mask_reply, (x, y))))
    assert process.rejected


@pytest.mark.parametrize(
    "kind", [pytest.param(k, marks=() if k in QUICK else pytest.mark.slow) for k in CHANNELS]
)
def test_a_channel_shifts_most_of_the_stake_to_witnesses_of_it(kind: str) -> None:
    """With a channel that is on in .6 against .05 of replies, every kind is rejected quickly."""
    seed, pairs = 7, 400 if kind == "order" else 200
    process = WitnessProcess(ApproxDP(0.25, DELTA), horizon=pairs, scan=())
    for one, other in reply_pairs(CHANNELS[kind], pairs, seed, rates=(0.6, 0.05)):
        process.observe(one, other)
        if process.rejected:
            break
    assert process.rejected, process.leaders()
    assert sum(share for _, share in process.leaders(50)) > 0.5


@pytest.mark.parametrize("side", ["in", "out"])
def test_both_directions_are_tested(side: str) -> None:
    rates = (0.7, 0.05) if side == "in" else (0.05, 0.7)
    assert small_audit(5, 0.25, rates, pairs=100).rejected


def test_a_channel_that_no_feature_was_written_for_needs_no_code() -> None:
    """The reply ends with a rare word, and a tool gets a rare argument."""
    rng = np.random.default_rng(8)

    def reply(rate: float) -> ReplyFacts:
        zone = "zone-7" if rng.random() < rate else f"zone-{int(rng.integers(2))}"
        call = {"name": "find", "arguments": {"where": zone}}
        return ReplyFacts(f"Done in {int(rng.integers(9))} steps.", tool_calls=(call,))

    process = WitnessProcess(ApproxDP(0.25, DELTA), horizon=120, scan=())
    for _ in range(120):
        process.observe(reply(0.6), reply(0.1))
    assert process.rejected
    assert process.leaders(1)[0][1] > 0.5


def test_what_leads_is_told_by_counts_where_an_average_says_nothing() -> None:
    """One number of thirty digits would make up the whole average."""
    rng = np.random.default_rng(9)
    process, higher = WitnessProcess(ApproxDP(0.25, DELTA), horizon=80, scan=()), 0
    for pair in range(80):
        one, other = (int(rng.integers(20, 25)) + 30 * (rng.random() < rate) for rate in (0.8, 0.1))
        one = 10**30 if pair == 40 else one
        higher += one > other
        process.observe(ReplyFacts(f"see {one} of it"), ReplyFacts(f"see {other} of it"))
    said = process.leads()
    assert re.fullmatch(
        r"With the canary, the measurement '[a-z_ 0-9]+' is higher in \d+ of 80 pairs of replies\.",
        said,
    )
    assert f" {higher} of 80" in said
    assert "e+" not in said


@pytest.mark.parametrize(
    ("there", "elsewhere", "said"),
    [
        (ReplyFacts("fine", seconds=1.5), ReplyFacts("fine", seconds=1.0), "0.5 seconds slower"),
        (ReplyFacts("fine", tokens=60), ReplyFacts("fine", tokens=40), "20 tokens longer"),
        (ReplyFacts(""), ReplyFacts("Nothing to report."), "3 words shorter"),
        (ReplyFacts("Thanks!"), ReplyFacts("Thanks."), "Mark '.': 0% of the replies when"),
        (
            ReplyFacts("fine", finish_reason="length"),
            ReplyFacts("fine", finish_reason="stop"),
            "Finish 'stop': 0% of the replies when",
        ),
    ],
    ids=["time", "tokens", "empty", "mark", "finish"],
)
def test_what_leads_is_told_by_the_plainest_reading(
    there: ReplyFacts, elsewhere: ReplyFacts, said: str
) -> None:
    """Of several that tell contexts apart as well: not a residual, a component or half of a set."""
    process = WitnessProcess(ApproxDP(0.25, DELTA), horizon=60, scan=())
    for _ in range(60):
        process.observe(there, elsewhere)
    assert said in process.leads()


def test_a_process_over_masked_replies_repeats_from_the_store() -> None:
    """What is kept of a reply without its text is enough to find a refusal and to replay."""
    replies = list(reply_pairs(CHANNELS["refusal"], 60, 3, rates=(0.8, 0.05)))
    paths = []
    for stored in (False, True):
        process = WitnessProcess(ApproxDP(0.25, DELTA), horizon=60, scan=())
        for both in replies:
            kept = [mask_reply(reply) for reply in both]
            text = [json.dumps(reply_to_json(reply)) for reply in kept]
            again = [reply_from_json(json.loads(one)) for one in text]
            process.observe(*(again if stored else kept))
        paths.append(process.log_e_values)
    assert process.rejected
    assert np.array_equal(*paths)


def test_the_canary_of_a_pair_may_be_a_feature() -> None:
    rng = np.random.default_rng(9)
    process = WitnessProcess(ApproxDP(0.25, DELTA), horizon=80, scan=())
    for _ in range(80):
        secret = f"s{int(rng.integers(10**9))}x"
        texts = [f"code {secret if rng.random() < rate else 'none'}" for rate in (0.7, 0.1)]
        process.observe(ReplyFacts(texts[0]), ReplyFacts(texts[1]), canary=secret)
    assert process.rejected


def bound(process: WitnessProcess) -> float:
    """The last claim of the scan up to which all are rejected."""
    paths = process.scan_log_e_values()
    rejected = itertools.takewhile(lambda e: paths[e].max() >= process.log_threshold, paths)
    return max(rejected, default=0.0)


def test_the_bound_is_below_the_truth_and_grows_with_the_leak() -> None:
    bounds = []
    for high in (0.3, 0.95):
        process = WitnessProcess(PureDP(0.25), horizon=150)
        observed(process, small_pairs(11, 150, (high, 0.1)))
        bounds.append(bound(process))
        assert bounds[-1] <= math.log(high / 0.1)
    assert bounds[1] >= 0.75
    assert bounds[1] > bounds[0]


def test_a_bound_is_not_below_a_claim_that_is_rejected() -> None:
    """Smaller claims are staked as carefully: else too few pairs were left to reject them."""
    process = WitnessProcess(ApproxDP(1.0, DELTA), 0.975, horizon=30)
    observed(process, small_pairs(3, 30, (1.0, 0.0)))
    assert process.rejected
    assert bound(process) >= 1.0


def test_a_silent_system_has_no_positive_bound_at_this_seed() -> None:
    process = observed(WitnessProcess(PureDP(0.25)), small_pairs(12, 100, (0.2, 0.2)))
    assert bound(process) == 0.0
    assert not process.rejected


def test_claims_are_read_at_the_process_delta() -> None:
    process = observed(WitnessProcess(ApproxDP(0.25, DELTA)), small_pairs(5, 80, (0.9, 0.05)))
    assert set(process.scan_log_e_values()) == {*SCAN}
    assert process.rejected_at is not None
    gaussian = WitnessProcess(Gaussian(1.0, 4.0), delta=0.01, scan=())
    assert gaussian.epsilon == pytest.approx(Gaussian(1.0, 4.0).epsilon(0.01))


def test_claims_that_state_nothing_are_refused() -> None:
    with pytest.raises(UsageError, match="states nothing"):
        WitnessProcess(NonPrivate())
    with pytest.raises(UsageError, match="horizon"):
        WitnessProcess(PureDP(1.0), horizon=-1)
    with pytest.raises(UsageError, match="delta"):
        WitnessProcess(PureDP(1.0), delta=1.0)
    with pytest.raises(UsageError, match="scan"):
        WitnessProcess(PureDP(1.0), scan=(-1.0,))


def test_pairs_beyond_the_horizon_are_still_tested() -> None:
    process = WitnessProcess(PureDP(0.25), horizon=15, scan=())
    observed(process, small_pairs(13, 90, (0.9, 0.05)))
    assert process.rejected
    assert process.rejected_at is not None
    assert process.rejected_at > 15


def test_equal_replies_throughout_say_nothing() -> None:
    process = WitnessProcess(PureDP(0.25), horizon=30)
    for _ in range(30):
        process.observe(ReplyFacts("yes"), ReplyFacts("yes"))
    assert process.e_value == 1.0
    assert process.leaders() == ()


def test_weights_ignore_what_the_names_of_the_contexts_would_tell() -> None:
    """Exchanging all pairs exchanges the two directions of every witness."""
    rng = np.random.default_rng(2)
    past = rng.random((60, 7)) < 0.3
    swapped = past.reshape(30, 2, 7)[:, ::-1].reshape(60, 7)
    one, other = (Record(rows, 40).gains(0.3) for rows in (past, swapped))
    assert np.array_equal(one, other[:, [1, 0, 3, 2]])


def test_weights_sum_to_one_and_payoffs_keep_their_range() -> None:
    rng = np.random.default_rng(4)
    record = Record(rng.random((80, 9)) < 0.4, 50)
    portfolio = Portfolio.of(record, np.log(rng.random((9, 4))), 0.25)
    assert portfolio.weights.sum() == pytest.approx(1)
    assert 0 <= portfolio.confidence <= 1
    odds = math.exp(0.25)
    for _ in range(50):
        x, y = rng.random((2, 9)) < 0.5
        assert -odds - 1e-12 <= portfolio.payoff(x, y, odds) <= 1 + 1e-12


def test_the_plan_reaches_the_level_about_as_often_as_the_best_fixed_share() -> None:
    """The channel known: the plan's chance of a rejection within 200 pairs, in 2,000 games."""
    level, odds = math.log(20), math.exp(0.25)
    plan = plan_stakes(200, 0.25, DELTA, level)
    rng = np.random.default_rng(6)
    x, y = (rng.random((2000, 200)) < rate for rate in RATES)
    payoff = x - odds * y - DELTA

    def reached(share: float | None) -> float:
        log_e, done = np.zeros(2000), np.zeros(2000, bool)
        for t in range(200):
            shares = (
                np.interp(log_e, plan.log_e, plan.shares[200 - t, :, -1])
                if share is None
                else np.full(2000, share)
            )
            log_e += np.where(done, 0, np.log1p(shares * 0.999 / (odds + DELTA) * payoff[:, t]))
            done |= log_e >= level
        return float(done.mean())

    assert reached(None) >= max(reached(0.4), reached(0.5)) - 0.01
