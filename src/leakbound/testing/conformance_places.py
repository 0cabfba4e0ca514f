"""The invariant of disjoint parts: an example is shown to the voter whose part holds its place."""

from __future__ import annotations

from leakbound.tasks import Example, Job
from leakbound.testing.conformance_parts import GIVEN, Bench, Broken, Skipped

OTHER = Example("an input that stands in no other example", "a label of its own")
SIZE = 2  # times the least context, so that parts may hold more than one example


def disjoint_parts(bench: Bench) -> str:
    """Replacing an example changes the requests of one voter, the same for all of a part."""
    job = bench.job(GIVEN[1], factor=SIZE)
    parts = bench.mechanism.disjoint_parts(len(job.context))
    if not parts:
        raise Skipped("no disjoint parts are stated")
    if sorted(place for part in parts for place in part) != list(range(len(job.context))):
        raise Broken("disjoint_parts does not state every place of a context once")
    shown = [{at for place in part for at in _changed(bench, job, place)} for part in parts]
    asked = len(bench.mechanism.requests(GIVEN[0], job, 0))
    each = asked // bench.mechanism.voters(len(job.context))  # 2 where votes are calibrated
    if any(len(requests) != each for requests in shown) or (
        len(set.union(*shown)) < each * len(parts)
    ):
        raise Broken("the examples of a part of disjoint_parts are not shown to one voter alone")
    return f"each of {len(parts)} voters is shown the examples of its part"


def _changed(bench: Bench, job: Job, place: int) -> list[int]:
    """Which requests show the example at a place."""
    context = (*job.context[:place], OTHER, *job.context[place + 1 :])
    before, after = (
        bench.mechanism.requests(GIVEN[0], one, 0) for one in (job, Job(context, job.query))
    )
    return [at for at, pair in enumerate(zip(before, after, strict=True)) if pair[0] != pair[1]]
