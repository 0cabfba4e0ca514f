"""Invariants of behaviour: members, draws and seeds, what is kept, what is asked and decoded."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import math
import pickle
from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from leakbound.models import NextLogits
from leakbound.stats import CategoricalLaw
from leakbound.tasks import Aggregate, AnyRequest, Mechanism, Outputs, require_mechanism
from leakbound.testing.conformance_parts import GIVEN, PLANTED, TWO, Bench, Broken, Watched

SURE = 0.9  # a likelier answer than this may well come 64 times in a row, whatever the noise


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
    if isinstance(declared, CategoricalLaw) and float(declared.probabilities.max()) > SURE:
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
    """`needs` names what is asked, and `requests` names requests that are really made."""
    mechanism = bench.mechanism
    used: set[type[AnyRequest]] = set()
    for task, query in bench.queries():
        watched, job = bench.watched("random", task), bench.job(query)
        mechanism.collect(task, [job], [bench.seed], watched)
        kinds = {type(request) for request in watched.requests}
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
    """Under a guarantee, neighbouring contexts make the same number of requests."""
    bench.guaranteed()
    counts: dict[str, set[int]] = {}
    for pattern in bench.patterns:
        for job in bench.neighbours(GIVEN[1]):
            watched = bench.watched(pattern, GIVEN[0])
            bench.mechanism.collect(GIVEN[0], [job], [bench.seed], watched)
            counts.setdefault(pattern, set()).add(watched.calls)
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
