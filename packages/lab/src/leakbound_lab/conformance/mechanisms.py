"""What every mechanism must keep, a user's own too: `conform(mechanism)` checks each invariant.

The model is a puppet: its answers follow scripts chosen to hurt (one partition flips, scores of
+-1e9, NaN, antipodal embeddings, unreadable answers, echoes of examples). No language model is
needed. A broken invariant is found; none is proved.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import math
import pickle
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from leakbound.errors import UsageError
from leakbound.models import Model, NextLogits
from leakbound.privacy import Guarantee, NonPrivate
from leakbound.stats import CategoricalLaw
from leakbound.stats.arrays import Floats
from leakbound.tasks import (
    Aggregate,
    AnyRequest,
    Example,
    Job,
    Mechanism,
    Outputs,
    Query,
    Task,
    require_mechanism,
)
from leakbound_lab.conformance.exact import (
    SCRIPTS,
    jobs_of,
    loss,
    sensitivity,
    tightness,
    tokens,
    vote_noise,
)
from leakbound_lab.conformance.outputs import (
    fresh_noise,
    many_draws,
    outputs,
    public_facts,
    returned,
    state,
)
from leakbound_lab.conformance.parts import (
    NOISY,
    QUIET,
    Bench,
    Broken,
    Check,
    Skipped,
    Troubled,
    Watched,
    broken_of,
    check,
    part_count,
    release_count,
)
from leakbound_lab.conformance.puppets import (
    FREE,
    GIVEN,
    MANY,
    PATTERNS,
    PLANTED,
    TWO,
    WORDINGS,
    Puppet,
    Tokens,
)

# Different draws. An aggregate that holds noise takes one of at least two values, nearly evenly
# under NOISY, so that all of them agree by chance with probability 2^-15 at most.
REUSES = 16
READINGS = ("agree", "random")
TROUBLES = ("failing", "slow")


def reuse(bench: Bench) -> str:
    """Aggregates are those of every claim, unless `noise_in_collect`; then each draw is fresh."""
    mechanism = bench.mechanism
    if not mechanism.needs:
        raise Skipped("it asks no model, so its aggregates are never reused")
    noisy, quiet = mechanism.recalibrated(*NOISY), mechanism.recalibrated(*QUIET)
    protects = 0 < mechanism.guarantee.epsilon(1e-3) < math.inf
    if protects and noisy.guarantee == quiet.guarantee:
        raise Broken(
            f"recalibrated gives the same guarantee ({noisy.guarantee.describe()}) for epsilon "
            f"{NOISY[0]:g} and {QUIET[0]:g}"
        )
    for task, query in (*bench.queries(), TWO):
        if mechanism.noise_in_collect(task, query):
            _require_fresh(bench, noisy, task, query)
        else:
            _require_equal(bench, noisy, quiet, task, query)
    return "aggregates of one claim are those of another, where this is said"


def _aggregates(
    bench: Bench, mechanism: Mechanism, task: Task, query: Query, pattern: str
) -> list[Aggregate]:
    """One for each draw, over contexts that a puppet reads in many ways."""
    jobs = [bench.job(query, flip=bool(i % 2)) for i in range(REUSES)]
    draws = [bench.seed + i // 2 for i in range(REUSES)]
    return mechanism.collect(task, jobs, draws, bench.puppet(pattern, query))


def _require_equal(
    bench: Bench, noisy: Mechanism, quiet: Mechanism, task: Task, query: Query
) -> None:
    for pattern in READINGS:
        one, other = (_aggregates(bench, m, task, query, pattern) for m in (noisy, quiet))
        if one != other:
            differing = sum(a != b for a, b in zip(one, other, strict=True))
            raise Broken(
                f"noise_in_collect is False, and {differing} of {REUSES} aggregates under "
                f"{pattern!r} differ between epsilon {NOISY[0]:g} and {QUIET[0]:g}: outputs of one "
                "claim would be reused for the other"
            )


def _require_fresh(bench: Bench, noisy: Mechanism, task: Task, query: Query) -> None:
    job, draws = bench.job(query), range(bench.seed, bench.seed + REUSES)
    puppet = bench.puppet("random", query)
    one, again = (noisy.collect(task, [job] * REUSES, list(draws), puppet) for _ in range(2))
    if one != again:
        raise Broken("equal draws give different aggregates")
    if all(aggregate == one[0] for aggregate in one):
        raise Broken(
            f"noise_in_collect is True, and {REUSES} different draws give one and the same "
            "aggregate"
        )


# Where guarantees are compared: pure DP and orders of magnitude.
COST_DELTAS = (0.0, 1e-9, 1e-6, 1e-3)
LESS = 1 - 1e-9  # for rounding


def cost(bench: Bench) -> str:
    """`cost` has a part for each release of an answer, and no less; no word changes it."""
    mechanism, most = bench.mechanism, 1
    for task, query in (*bench.queries(), TWO, MANY, (MANY[0], GIVEN[1])):
        found = mechanism.cost(task, query)
        if found.relation != mechanism.guarantee.relation:
            raise Broken(
                f"cost is stated under {found.relation}, the guarantee under "
                f"{mechanism.guarantee.relation}"
            )
        releases = 1
        if mechanism.noise_in_collect(task, query):
            releases = release_count(bench, task, query)
        most = max(most, releases)
        _require_cost(found, mechanism.guarantee, releases)
        for text in WORDINGS:
            other = mechanism.cost(task, replace(query, text=text))
            if other != found and any(other.epsilon(d) != found.epsilon(d) for d in COST_DELTAS):
                raise Broken(
                    f"the query {text[:40]!r} costs {other.describe()}, and another of its kind "
                    f"{found.describe()}; the price of an answer must not depend on its words"
                )
    return f"every answer pays for what it releases ({most} noisy choices at most)"


def _require_cost(found: Guarantee, guarantee: Guarantee, releases: int) -> None:
    if releases > 1:
        finite = any(0 < found.epsilon(delta) < math.inf for delta in COST_DELTAS)
        if finite and part_count(found) < releases:
            raise Broken(
                f"an answer makes {releases} releases that depend on an example, and its cost is "
                f"{found.describe()}; it must be compose of one part for each release"
            )
        return
    for delta in COST_DELTAS:
        if found.epsilon(delta) < guarantee.epsilon(delta) * LESS:
            raise Broken(
                f"one answer costs {found.epsilon(delta):.6g} at δ={delta:g}, and the guarantee of "
                f"one release is {guarantee.epsilon(delta):.6g}"
            )


CERTAIN = 0.9  # a likelier answer than this may well come 64 times in a row, whatever the noise


def members(bench: Bench) -> str:
    """Every member of the protocol is there, and says something that can be used."""
    try:
        mechanism = require_mechanism(bench.mechanism)
    except ValueError as error:
        raise Broken(str(error)) from None
    for task, query in (*bench.queries(), TWO):
        said: object = mechanism.noise_in_collect(task, query)
        if not isinstance(said, bool):
            raise Broken(f"noise_in_collect returns {said!r}; it must return True or False")
    voters: object = mechanism.voters(len(bench.job(GIVEN[1]).context))
    if not (isinstance(voters, int) and voters >= 1):
        raise Broken(f"voters returns {voters!r}; it must return a whole number of at least 1")
    config = mechanism.to_config()
    if config.get("kind") != mechanism.name:
        raise Broken(f"the kind in to_config is {config.get('kind')!r}, not {mechanism.name!r}")
    json.dumps(config)
    return "every member is there"


def seeds(bench: Bench) -> str:
    """Equal seeds give equal outputs; other seeds other ones, wherever there is noise."""
    mechanism = bench.mechanism
    one, again = (_run(bench, 1) for _ in range(2))
    if one != again:
        raise Broken("equal seeds give different outputs")
    if not 0 < mechanism.guarantee.epsilon(1e-3) < math.inf:
        return "equal seeds give equal outputs; no noise is guaranteed"
    fresh = mechanism.release(one[0], 64, np.random.default_rng(2))
    declared = mechanism.output_distribution(one[0])
    if isinstance(declared, CategoricalLaw) and float(declared.probabilities.max()) > CERTAIN:
        return "equal seeds give equal outputs; one answer is too certain to see the noise"
    if declared is None and fresh.noisy is None:
        return "equal seeds give equal outputs; the noise is not seen"
    if _bytes(fresh) == one[2]:
        raise Broken(
            "different seeds give equal outputs: the noise does not come from the generator"
        )
    return "equal seeds give equal outputs, different ones do not"


def _run(bench: Bench, seed: int) -> tuple[Aggregate, list[str], tuple[bytes, bytes]]:
    """(aggregate, what was shown to the model, outputs) of one seed."""
    watched = bench.watched("random", GIVEN[0])
    (aggregate,) = bench.mechanism.collect(GIVEN[0], [bench.job(GIVEN[1])], [seed], watched)
    shown = [watched.words(request) for request in watched.requests]
    outputs = bench.mechanism.release(aggregate, 64, np.random.default_rng(seed))
    return aggregate, shown, _bytes(outputs)


def _bytes(outputs: Outputs) -> tuple[bytes, bytes]:
    noisy = outputs.noisy if outputs.noisy is not None else outputs.picked
    return outputs.answers.tobytes(), b"" if noisy is None else noisy.tobytes()


def nothing_kept(bench: Bench) -> str:
    """No example stands in the mechanism after collecting, in a repr, on a stream or in a log."""
    mechanism = bench.mechanism
    for task, query in bench.queries():
        job, watched = bench.job(query), bench.watched("echo", task)
        with _capture() as written:
            aggregates = mechanism.collect(task, [job], [bench.seed], watched)
        places = {
            "the log or a stream": written.getvalue(),
            "repr of aggregates": repr(aggregates),
            "repr of requests": repr(mechanism.requests(task, job, 0)),
            "repr": repr(mechanism),
            "str": str(mechanism),
            "to_config": repr(mechanism.to_config()),
            "pickle": _pickle_of(mechanism),
        }
        for where, text in places.items():
            if PLANTED.search(text):
                raise Broken(f"an example stands in {where}")
    return "no example in repr, str, configuration, pickle, aggregates' repr, streams and logs"


def _pickle_of(mechanism: Mechanism) -> str:
    """As text; of what cannot be pickled, its attributes."""
    try:
        return pickle.dumps(mechanism, 0).decode("latin-1")
    except Exception:
        names = [name for name in dir(mechanism) if not name.startswith("__")]
        return repr({name: getattr(mechanism, name, None) for name in names})


@contextlib.contextmanager
def _capture() -> Iterator[io.StringIO]:
    """What is printed or logged, at any level."""
    written, root = io.StringIO(), logging.getLogger()
    handler, level = logging.StreamHandler(written), root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        with contextlib.redirect_stdout(written), contextlib.redirect_stderr(written):
            yield written
    finally:
        root.removeHandler(handler)
        root.setLevel(level)


def requests(bench: Bench) -> str:
    """`needs` names what is asked, `requests` what is really made; private ones set `alone`."""
    mechanism = bench.mechanism
    private = not isinstance(mechanism.guarantee, NonPrivate)
    used: set[type[AnyRequest]] = set()
    for task, query in bench.queries():
        watched, job = bench.watched("random", task), bench.job(query)
        mechanism.collect(task, [job], [bench.seed], watched)
        kinds = {type(request) for request in watched.requests}
        shown = [one for one in watched.requests if PLANTED.search(watched.words(one))]
        if private and not all(getattr(request, "alone", True) for request in shown):
            raise Broken("a request that shows an example may share a batch; it must set alone")
        used |= kinds
        if task.labels and not kinds <= mechanism.needs:
            raise Broken(f"asks {_names(kinds - mechanism.needs)}, which needs does not name")
        made = {_in_tokens(request, watched) for request in watched.requests}
        first = mechanism.requests(task, job, bench.seed)
        unmade = [request for request in first if _in_tokens(request, watched) not in made]
        if unmade:
            raise Broken(
                f"requests() names {len(unmade)} {_names({type(one) for one in unmade})} that "
                "collect does not make"
            )
    if not mechanism.needs <= used:
        raise Broken(f"needs names {_names(mechanism.needs - used)}, which is never asked")
    return f"asks {_names(used) or 'nothing'}, as declared"


def _names(kinds: Iterable[type]) -> str:
    return ", ".join(sorted(kind.__name__ for kind in kinds))


def _in_tokens(request: AnyRequest, watched: Watched) -> AnyRequest:
    """The same request by token ids, where it is one for logits."""
    if isinstance(request, NextLogits) and isinstance(request.prompt, str):
        ids = watched.model.encode(request.prompt)  # type: ignore[attr-defined]
        return replace(request, prompt=tuple(ids))
    return request


def request_count(bench: Bench) -> str:
    """Under a guarantee, neighbouring contexts make as many requests, whatever the replies are.

    A free answer may ask as often as its released text has tokens, so those of one text count.
    """
    bench.guaranteed()
    asked = [
        (GIVEN, job, Troubled(Puppet(pattern, bench.seed), pattern))
        for pattern in (*bench.patterns, "mute", *TROUBLES)
        for job in bench.neighbours(GIVEN[1])
    ]
    if FREE in bench.queries():
        jobs = jobs_of(bench, SCRIPTS[0])[-4:]  # of as many examples
        asked += [
            (FREE, j, Troubled(Tokens(2, 0.0), t)) for t in ("marks", *TROUBLES) for j in jobs
        ]
    counts = defaultdict[str, set[int]](set)
    for query, job, model in asked:
        text, count = model.count(bench, query, job)
        counts[model.trouble if query is GIVEN else f"{model.trouble}, {text!r}"].add(count)
    if uneven := {pattern: sorted(found) for pattern, found in counts.items() if len(found) > 1}:
        raise Broken(f"the number of requests differs between neighbouring contexts: {uneven}")
    return "neighbouring contexts make as many requests"


def decode(bench: Bench) -> str:
    """`decode` gives one text for each draw and shows the model no example."""
    mechanism = bench.mechanism
    for task, query in bench.queries():
        collecting, decoding = bench.watched("echo", task), bench.watched("echo", task)
        (aggregate,) = mechanism.collect(task, [bench.job(query)], [bench.seed], collecting)
        outputs = mechanism.release(aggregate, 7, np.random.default_rng(0))
        texts = mechanism.decode(task, query, outputs, decoding)
        if len(texts) != 7 or not all(isinstance(text, str) for text in texts):
            raise Broken(f"decode gives {len(texts)} texts for 7 draws")
        if any(PLANTED.search(decoding.words(request)) for request in decoding.requests):
            raise Broken("decode shows an example to the model")
    return "one text for each draw, and no example is asked about"


# ln p of answers that every voter gives: the first is likeliest, the last as good as impossible.
SURE = np.log([0.6, 0.4, 1e-9])


class _Preferring(Puppet):
    """Prefers the first of three answers, with or without examples; the last is impossible."""

    def _scores(self, prompt: str, labels: Sequence[str]) -> Any:
        return np.resize(SURE, len(labels))


def agreement(bench: Bench) -> str:
    """What every voter prefers is likelier than what is as good as impossible for all of them."""
    mechanism, puppet = bench.mechanism, _Preferring("agree", bench.seed)
    (aggregate,) = mechanism.collect(GIVEN[0], [bench.job(GIVEN[1])], [bench.seed], puppet)
    declared = mechanism.output_distribution(aggregate)
    if not isinstance(declared, CategoricalLaw):
        return "answers are counted, or their distribution is not known"
    p: Floats = declared.probabilities
    if len(p) == len(SURE) and p[-1] > p[0] * (1 - 1e-9) and p[-1] > p[1] * (1 + 1e-9):
        raise Broken(
            f"an answer that is impossible for every voter has probability {p[-1]:.3g}, the one "
            f"that all of them prefer {p[0]:.3g}"
        )
    return "what every voter prefers is the likelier answer"


def total(bench: Bench) -> str:
    """Under a guarantee, a call that fails over one row changes no status: there is an answer."""
    bench.guaranteed()
    mechanism, count = bench.mechanism, 0
    for task, query in bench.queries():
        job, model = bench.job(query, flip=True), Troubled(Puppet("random", bench.seed), "failing")
        try:
            found = mechanism.collect(task, [job], [bench.seed], model)
            out = mechanism.release(found[0], 1, np.random.default_rng(bench.seed))
        except UsageError:
            raise
        except Exception as error:
            raise Broken(
                f"a prompt that a content filter stops ends in {type(error).__name__}: who sees "
                "the error knows of a private row. Collect over answer_total"
            ) from None
        count += len(out.answers)
    return f"{count} answers came though the calls over one row had failed"


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
    shown = [{at for place in part for at in _changes(bench, job, place)} for part in parts]
    asked = len(bench.mechanism.requests(GIVEN[0], job, 0))
    each = asked // bench.mechanism.voters(len(job.context))  # 2 where votes are calibrated
    if any(len(requests) != each for requests in shown) or (
        len(set.union(*shown)) < each * len(parts)
    ):
        raise Broken("the examples of a part of disjoint_parts are not shown to one voter alone")
    return f"each of {len(parts)} voters is shown the examples of its part"


def _changes(bench: Bench, job: Job, place: int) -> list[int]:
    """Which requests show the example at a place."""
    context = (*job.context[:place], OTHER, *job.context[place + 1 :])
    before, after = (
        bench.mechanism.requests(GIVEN[0], one, 0) for one in (job, Job(context, job.query))
    )
    return [at for at, pair in enumerate(zip(before, after, strict=True)) if pair[0] != pair[1]]


@dataclass(frozen=True, slots=True)
class Invariant:
    """Something that must hold for a mechanism.

    `body` returns what was found, or raises `Broken` or `Skipped`.
    """

    name: str
    body: Callable[[Bench], str]

    def __call__(
        self,
        mechanism: Mechanism,
        *,
        seed: int = 0,
        pairs: int = 200,
        model: Model | None = None,
        patterns: Sequence[str] = PATTERNS,
    ) -> Check:
        return check(self.name, self.body, Bench(mechanism, seed, pairs, model, patterns))


INVARIANTS = tuple(Invariant(body.__name__, body) for body in (
    members, sensitivity, many_draws, fresh_noise, outputs, returned, public_facts, state, seeds,
    nothing_kept, requests, request_count, disjoint_parts, loss, tightness, tokens, vote_noise,
    agreement, total, decode, reuse, cost,
))  # fmt: skip


def conform(
    mechanism: Mechanism, *, seed: int = 0, pairs: int = 200, model: Model | None = None
) -> list[Check]:
    """Check every invariant for one mechanism.

    Args:
        mechanism: What is checked.
        seed: Root of all randomness.
        pairs: Number of neighbouring contexts.
        model: Answers free queries; None for a puppet whose tokens are bytes.
    """
    return [one(mechanism, seed=seed, pairs=pairs, model=model) for one in INVARIANTS]


def assert_conforms(
    mechanism: Mechanism, *, seed: int = 0, pairs: int = 200, model: Model | None = None
) -> None:
    """As `conform`, in a test.

    Raises:
        AssertionError: With the name and finding of every broken invariant.
    """
    checks = conform(mechanism, seed=seed, pairs=pairs, model=model)
    if broken := broken_of(checks):
        name = getattr(mechanism, "name", type(mechanism).__name__)  # it may lack one
        found = f"breaks {len(broken)} of {len(checks)} invariants. {'; '.join(broken)}"
        raise AssertionError(f"{name} {found}.")
