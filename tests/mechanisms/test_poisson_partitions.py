"""CL, Algorithm 3: partitions that are drawn by coins, and what is proven of them."""

from __future__ import annotations

import pytest

from leakbound.errors import UsageError
from leakbound.mechanisms import ReportNoisyMax
from leakbound.tasks import Example, Job, Query, Task
from leakbound.tasks.partition import poisson_places


def test_poisson_partitions_are_disjoint_and_do_not_read_the_examples() -> None:
    """CL, Algorithm 3: parts of shots / T on average, drawn from what is left, some examples in
    none. A part that loses an example keeps all others: replacing one changes one request.
    """
    drawn = [poisson_places(20, 10, draw) for draw in range(400)]
    held = [[place for part in parts for place in part] for parts in drawn]
    assert all(len(set(places)) == len(places) for places in held)
    assert all(len(parts) == 10 for parts in drawn)
    assert min(len(part) for parts in drawn for part in parts) == 0
    left_out = 1 - sum(map(len, held)) / (20 * len(held))
    assert left_out == pytest.approx(0.0749, abs=0.02)  # exact; 7 standard errors
    one = ReportNoisyMax(1.0, 10, sampling="poisson")
    rows = tuple(Example(f"row {i}", "work") for i in range(20))
    query = Query("there?", ("yes", "no"))
    for draw in range(20):
        before = one.requests(Task("t"), Job(rows, query), draw)
        other = (*rows[:7], Example("another", "home"), *rows[8:])
        after = one.requests(Task("t"), Job(other, query), draw)
        assert sum(a != b for a, b in zip(before, after, strict=True)) <= 1
    assert one.guarantee == ReportNoisyMax(1.0, 10).guarantee
    assert one.guarantee.relation == "replace_one"
    assert one.disjoint_parts(20) == ()
    assert "sampling" not in ReportNoisyMax(1.0, 10).to_config()
    with pytest.raises(UsageError, match="position or poisson"):
        ReportNoisyMax(1.0, 10, sampling="random")  # type: ignore[arg-type]
