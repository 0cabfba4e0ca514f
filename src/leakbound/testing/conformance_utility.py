"""Invariants of use: a mechanism finds what is plain, and answers whatever a row holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from leakbound.errors import Refused, UsageError
from leakbound.models import Embed, Request
from leakbound.stats import CategoricalLaw
from leakbound.testing.conformance_parts import GIVEN, Bench, Broken, Puppet
from leakbound.testing.puppet import FLIP

# ln p of answers that every voter gives: the first is likeliest, the last as good as impossible.
SURE = np.log([0.6, 0.4, 1e-9])


class Preferring(Puppet):
    """Prefers the first of three answers, with or without examples; the last is impossible."""

    def _scores(self, prompt: str, labels: Sequence[str]) -> Any:
        return np.resize(SURE, len(labels))


class Filtering(Puppet):
    """Refuses every prompt that shows FLIP, as the content filter of a provider does."""

    def answer(self, requests: Sequence[Request[Any]], /) -> list[Any]:
        """Answers in order."""
        if any(FLIP in _words(self, request) for request in requests):
            raise Refused("a content filter has stopped the prompt.")
        return super().answer(requests)


def _words(puppet: Puppet, request: Request[Any]) -> str:
    shown: Any = request.text if isinstance(request, Embed) else request.prompt  # type: ignore[attr-defined]
    return shown if isinstance(shown, str) else puppet.text(shown)


def agreement(bench: Bench) -> str:
    """What every voter prefers is likelier than what is as good as impossible for all of them."""
    mechanism, puppet = bench.mechanism, Preferring("agree", bench.seed)
    (aggregate,) = mechanism.collect(GIVEN[0], [bench.job(GIVEN[1])], [bench.seed], puppet)
    declared = mechanism.output_distribution(aggregate)
    if not isinstance(declared, CategoricalLaw):
        return "answers are counted, or their distribution is not known"
    p: npt.NDArray[np.float64] = declared.probabilities
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
        job, model = bench.job(query, flip=True), Filtering("random", bench.seed)
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
