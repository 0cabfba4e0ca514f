"""Laws about behaviour:

draws and seeds, what is kept, what is asked, what is said and what it costs.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import logging
import math
import pickle
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

from leakbound.models import NextLogits
from leakbound.stats import CategoricalLaw, GaussianLaw
from leakbound.tasks import Outputs
from leakbound.testing.conformance_parts import GIVEN, PLANTED, Bench, Broken, Puppet

__all__ = ["asking", "asking_alike", "many_draws", "nothing_kept", "price", "seeds", "speaking"]

Floats = npt.NDArray[np.float64]
LEVEL = 1e-4  # of every test of equal law
DRAWS = 2000


def many_draws(bench: Bench) -> str:
    """n draws at once have the law of n single draws, and the law that is declared."""
    mechanism, job = bench.mechanism, bench.job(GIVEN[1])
    (aggregate,) = mechanism.collect(GIVEN[0], [job], [bench.seed], Puppet("random", bench.seed))
    rng = np.random.default_rng([bench.seed, 2])
    many, singles = (
        mechanism.release(aggregate, DRAWS, rng),
        [mechanism.release(aggregate, 1, rng) for _ in range(DRAWS)],
    )
    if len(many.answers) != DRAWS:
        raise Broken(f"{DRAWS} draws were asked for, {len(many.answers)} came")
    if (p := differing(many, singles)) < LEVEL:
        raise Broken(f"many draws at once and many single draws differ in law (p = {p:.2g})")
    law = mechanism.output_distribution(aggregate)
    if law is None:
        return f"{DRAWS} draws at once are like single ones (p = {p:.2g}); no law to compare with"
    if (fit := off_law(many, law)) < LEVEL:
        raise Broken(f"releases do not follow the declared law (p = {fit:.2g})")
    return f"{DRAWS} draws at once are like single ones (p = {p:.2g}) and follow the law (p = {fit:.2g})"


def seeds(bench: Bench) -> str:
    """Equal seeds give equal releases; other seeds other ones, wherever there is noise."""
    mechanism = bench.mechanism
    one, again, other = (_run(bench, seed) for seed in (1, 1, 2))
    if one != again:
        raise Broken("equal seeds give different releases")
    if not 0 < mechanism.guarantee.epsilon(1e-3) < math.inf:
        return "equal seeds give equal releases; no noise is promised"
    fresh = mechanism.release(one[0], 64, np.random.default_rng(2))
    law = mechanism.output_distribution(one[0])
    if isinstance(law, CategoricalLaw) and float(law.probabilities.max()) > 0.9:
        return "equal seeds give equal releases; one answer is too certain to see the noise"
    noisy = law is not None or fresh.noisy is not None
    if _bytes(fresh) == one[2] and (noisy or one[:2] == other[:2]):
        raise Broken(
            "different seeds give equal releases: the noise does not come from the generator"
        )
    return "equal seeds give equal releases, different ones do not"


def _run(bench: Bench, seed: int) -> tuple[Any, list[str], tuple[bytes, bytes]]:
    """(aggregate, what was shown to the model, releases) of one seed."""
    watched = bench.watched("random", GIVEN[0])
    (aggregate,) = bench.mechanism.collect(GIVEN[0], [bench.job(GIVEN[1])], [seed], watched)
    shown = [watched.words(ask) for ask in watched.asked]
    return (
        aggregate,
        shown,
        _bytes(bench.mechanism.release(aggregate, 64, np.random.default_rng(seed))),
    )


def _bytes(outputs: Any) -> tuple[bytes, bytes]:
    noisy = outputs.noisy if outputs.noisy is not None else outputs.picked
    return outputs.answers.tobytes(), b"" if noisy is None else noisy.tobytes()


def nothing_kept(bench: Bench) -> str:
    """No example stands in the mechanism after collecting, in a repr, on a stream or in a log
    record.
    """
    seen: dict[str, str] = {}
    for task, query in bench.queries():
        job = bench.job(query)
        with _captured() as heard:
            cleans = bench.mechanism.collect(task, [job], [bench.seed], bench.watched("echo", task))
        seen |= {"the log or a stream": heard.getvalue(), "repr of aggregates": repr(cleans)}
        seen |= {
            "repr of asks": repr(bench.mechanism.requests(task, job, 0)),
            "repr": repr(bench.mechanism),
        }
        seen |= {"str": str(bench.mechanism), "pickle": _pickled(bench.mechanism)}
        for where, text in seen.items():
            if PLANTED.search(text):
                raise Broken(f"an example stands in {where}")
    return "no example in repr, str, pickle, aggregates' repr, streams and logs"


def _pickled(mechanism: Any) -> str:
    """As text; of what cannot be pickled, its fields."""
    try:
        return pickle.dumps(mechanism, 0).decode("latin-1")
    except Exception:
        return repr(
            {
                name: getattr(mechanism, name, None)
                for name in dir(mechanism)
                if not name.startswith("__")
            }
        )


@contextlib.contextmanager
def _captured() -> Iterator[io.StringIO]:
    """What is printed or logged, at any level."""
    heard, root = io.StringIO(), logging.getLogger()
    handler, level = logging.StreamHandler(heard), root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        with contextlib.redirect_stdout(heard), contextlib.redirect_stderr(heard):
            yield heard
    finally:
        root.removeHandler(handler)
        root.setLevel(level)


def asking(bench: Bench) -> str:
    """`needs` is what is asked, and `asks` names asks that are really made."""
    mechanism, used = bench.mechanism, set()
    for task, query in bench.queries():
        watched, job = bench.watched("random", task), bench.job(query)
        mechanism.collect(task, [job], [bench.seed], watched)
        kinds = {type(ask) for ask in watched.asked}
        used |= kinds
        if task.labels and not kinds <= mechanism.needs:
            raise Broken(f"asks {_names(kinds - mechanism.needs)}, which needs does not name")
        made = {_in_tokens(ask, watched.model) for ask in watched.asked}
        unmade = [
            ask
            for ask in mechanism.requests(task, job, bench.seed)
            if _in_tokens(ask, watched.model) not in made
        ]
        if unmade:
            raise Broken(
                f"asks() names {len(unmade)} {_names({type(a) for a in unmade})} that collect "
                "does not make"
            )
    if not mechanism.needs <= used:
        raise Broken(f"needs names {_names(mechanism.needs - used)}, which is never asked")
    return f"asks {_names(used) or 'nothing'}, as declared"


def _names(kinds: Any) -> str:
    return ", ".join(sorted(kind.__name__ for kind in kinds))


def _in_tokens(ask: Any, model: Any) -> Any:
    """The same ask by token ids, where it is one for logits."""
    if isinstance(ask, NextLogits) and isinstance(ask.prompt, str):
        return NextLogits(tuple(model.encode(ask.prompt)), ask.response)
    return ask


def asking_alike(bench: Bench) -> str:
    """Under a promise, the number of asks tells nothing about the context:

    it is the same for both worlds.
    """
    bench.promised()
    counts: dict[str, set[int]] = {}
    for pattern in bench.patterns:
        for job in bench.neighbours(GIVEN[1]):
            watched = bench.watched(pattern, GIVEN[0])
            bench.mechanism.collect(GIVEN[0], [job], [bench.seed], watched)
            counts.setdefault(pattern, set()).add(watched.calls)
    if uneven := {pattern: sorted(found) for pattern, found in counts.items() if len(found) > 1}:
        raise Broken(f"the number of asks differs between neighbouring worlds: {uneven}")
    return "neighbouring worlds make as many asks"


def speaking(bench: Bench) -> str:
    """`speak` gives one text a draw and shows the model no example."""
    mechanism = bench.mechanism
    for task, query in bench.queries():
        cleans = mechanism.collect(
            task, [bench.job(query)], [bench.seed], bench.watched("echo", task)
        )
        outputs, watched = (
            mechanism.release(cleans[0], 7, np.random.default_rng(0)),
            bench.watched("echo", task),
        )
        texts = mechanism.decode(task, query, outputs, watched)
        if len(texts) != 7 or not all(isinstance(text, str) for text in texts):
            raise Broken(f"speak gives {len(texts)} texts for 7 draws")
        if any(PLANTED.search(watched.words(ask)) for ask in watched.asked):
            raise Broken("speak shows an example to the model")
    return "one text a draw, and no example asked about"


def price(bench: Bench) -> str:
    """One answer never costs less than the guarantee says, under the same relation."""
    mechanism, promise = bench.mechanism, bench.mechanism.guarantee
    for task, query in bench.queries():
        cost = mechanism.cost(task, query)
        if cost.relation != promise.relation:
            raise Broken(
                f"guarantee_of is under {cost.relation}, the guarantee under {promise.relation}"
            )
        for delta in (0.0, 1e-9, 1e-6, 1e-3):
            if cost.epsilon(delta) < promise.epsilon(delta) * (1 - 1e-9):
                raise Broken(
                    f"one answer costs {cost.epsilon(delta):.6g} at δ={delta:g}, the guarantee "
                    "says more"
                )
    return "no answer costs less than the guarantee"


def _columns(outputs: Outputs) -> list[npt.NDArray[Any]]:
    """What is random in releases, one array (draws,) each:

    categories as integers, noisy coordinates as floats.
    """
    picked = (
        []
        if outputs.picked is None
        else [outputs.picked @ (1000 ** np.arange(outputs.picked.shape[1]))]
    )
    noisy = [] if outputs.noisy is None else list(np.asarray(outputs.noisy, float).T)
    return [np.asarray(outputs.answers, np.int64), *picked, *noisy]


def differing(one: Outputs, other: Sequence[Outputs]) -> float:
    """p-value that many draws at once and many single draws have one law (Bonferroni over what is
    released).
    """
    singles = [np.concatenate(rows) for rows in zip(*map(_columns, other), strict=True)]
    many = _columns(one)
    found = [_two_samples(x, y) for x, y in zip(many, singles, strict=True)]
    return min(1.0, len(found) * min(found))


def _two_samples(x: npt.NDArray[Any], y: npt.NDArray[Any]) -> float:
    if x.dtype.kind == "f":
        return float(stats.ks_2samp(x, y).pvalue)
    kinds, at = np.unique(np.concatenate([x, y]), return_inverse=True)
    table = np.stack(
        [np.bincount(part, minlength=len(kinds)) for part in (at[: len(x)], at[len(x) :])]
    )
    rare = table.sum(0) < 10
    table = np.concatenate([table[:, ~rare], table[:, rare].sum(1, keepdims=True)], 1)
    table = table[:, table.sum(0) > 0]
    return float(stats.chi2_contingency(table).pvalue) if table.shape[1] > 1 else 1.0


def off_law(outputs: Outputs, law: GaussianLaw | CategoricalLaw) -> float:
    """p-value that releases follow the law that is declared for them (Bonferroni over all tests
    made).
    """
    if isinstance(law, CategoricalLaw):
        chosen = outputs.answers if outputs.picked is None else outputs.picked[:, 0]
        return _off_categories(np.asarray(chosen), np.asarray(law.probabilities, float))
    if outputs.noisy is None:
        return 0.0
    noise = (np.asarray(outputs.noisy, float) - law.mean) / law.sigma
    found = [float(stats.kstest(column, "norm").pvalue) for column in noise.T]
    spread = np.sqrt(len(noise))
    found += [
        _unlinked(noise[1:, i] @ noise[:-1, i] / spread) for i in range(noise.shape[1])
    ]  # a draw and the next
    found += [
        _unlinked(noise[:, i] @ noise[:, j] / spread)
        for i, j in itertools.combinations(range(noise.shape[1]), 2)
    ]
    return min(1.0, len(found) * min(found))


def _unlinked(z: float) -> float:
    """Two-sided p-value of a normal score."""
    return 2 * float(stats.norm.sf(abs(z)))


def _off_categories(answers: npt.NDArray[np.int64], p: Floats) -> float:
    """Chi-square over the common categories, and a binomial tail for all rare ones together."""
    seen, expected = np.bincount(answers, minlength=len(p)), p * len(answers)
    if len(seen) > len(p) or (seen[expected == 0] > 0).any():
        return 0.0
    rare = expected < 5
    tail = float(stats.binom.sf(seen[rare].sum() - 1, len(answers), min(1.0, float(p[rare].sum()))))
    if (~rare).sum() < 2:
        return min(1.0, 2 * tail)
    common = expected[~rare] * seen[~rare].sum() / expected[~rare].sum()
    return min(1.0, 2 * min(tail, float(stats.chisquare(seen[~rare], common).pvalue)))
