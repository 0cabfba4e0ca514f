"""Whole audits: of packages, and of correct references over many seeds."""

from __future__ import annotations

import math
import random
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np
from leakbound_lab.planted.mechanism_audits import finds_canaries
from leakbound_lab.planted.whole_audits import leaks

import leakbound
from leakbound.mechanisms import ReportNoisyMax
from leakbound.tasks import Context
from leakbound.tasks.synthetic import HELP_DESK, help_desk

DELTA = 1e-5
Rng = np.random.Generator
Noisy = Callable[[int], bool]  # from the number of rows that hold the text to "some do"


@dataclass(frozen=True)
class Audited:
    """What is audited, as often as `audits` says.

    Attributes:
        name: What it is.
        package: Package that draws the noise; None for a correct reference.
        epsilon: What it states.
        options: From a source of randomness to what an audit is given.
        audits: Number of audits, each with its own seed.
    """

    name: str
    package: str | None
    epsilon: float
    options: Callable[[Rng], dict[str, Any]]
    audits: int

    def record(self, seed: int = 0) -> dict[str, Any]:
        """The verdicts, as JSON."""
        results = [self._audit(np.random.default_rng([seed, index]), index)
                   for index in range(self.audits)]  # fmt: skip
        counts = {verdict: sum(result.verdict == verdict for result in results)
                  for verdict in ("violation", "no_violation", "inconclusive")}  # fmt: skip
        ends = [found.rejected_at for result in results
                if (found := result.e_values) is not None and found.rejected_at]  # fmt: skip
        return {
            "name": self.name, "package": self.package, "epsilon": self.epsilon,
            "version": version(self.package) if self.package else None, "audits": self.audits,
            **counts, "rejected_after": int(np.median(ends)) if ends else None,
        }  # fmt: skip

    def _audit(self, rng: Rng, index: int) -> Any:
        random.seed(index)
        np.random.seed(index)
        with tempfile.TemporaryDirectory() as out:
            return leakbound.audit(
                help_desk(120, rng), task=HELP_DESK, epsilon=self.epsilon, delta=DELTA,
                seed=int(rng.integers(1 << 31)), out=out, controls=40, stop_when_rejected=True,
                **self.options(rng),
            )  # fmt: skip


def counting(noisy: Noisy) -> Callable[[Rng], dict[str, Any]]:
    """A system that says whether a noisy count of matching rows is positive."""

    def options(rng: Rng) -> dict[str, Any]:
        found = leaks()

        def answer(context: Context, query: str) -> str:
            return "yes" if noisy(int(found(context, query) == "yes")) else "no"

        return {"system": answer}

    return options


def of_packages() -> list[Audited]:
    """Packages that draw noise for counts and votes."""
    import opendp.prelude as dp
    from diffpriv_pure import private_count
    from diffprivlib.mechanisms import Exponential, Geometric
    from pydp.algorithms.numerical_mechanisms import LaplaceMechanism

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.linf_distance(T=int)
    vote = dp.m.make_noisy_max(*space, dp.max_divergence(), scale=2.0)
    laplace = LaplaceMechanism(1.0, 1.0)

    def exponential(count: int) -> bool:
        votes = [float(count), float(1 - count)]
        return bool(Exponential(epsilon=1.0, sensitivity=1.0, utility=votes).randomise() == 0)

    rows: list[tuple[str, str, float, Noisy]] = [
        ("`private_count`", "diffpriv-pure", 1.0, lambda n: private_count(n, 1.0) >= 1),
        ("`make_noisy_max`, scale 2", "opendp", float(vote.map(1)), lambda n: vote([n, 1 - n]) < 1),
        ("`Exponential`", "diffprivlib", 1.0, exponential),
        ("`Geometric`", "diffprivlib", 1.0,
         lambda n: Geometric(epsilon=1.0, sensitivity=1).randomise(n) >= 1),
        ("`LaplaceMechanism`", "python-dp", 1.0, lambda n: laplace.add_noise(float(n)) >= 0.5),
    ]  # fmt: skip
    return [Audited(name, package, epsilon, counting(noisy), 50)
            for name, package, epsilon, noisy in rows]  # fmt: skip


def references() -> list[Audited]:
    """Correct references, 200 audits in all."""
    rng = np.random.default_rng(7)

    def geometric(count: int) -> bool:
        stop = -math.expm1(-1.0)
        return bool(count + rng.geometric(stop) - rng.geometric(stop) >= 1)

    def randomized(count: int) -> bool:
        truth = rng.random() < math.e / (1 + math.e)
        return bool(count) == bool(truth)

    def exponential(count: int) -> bool:
        return bool(rng.random() < 1 / (1 + math.exp((1 - 2 * count) / 2)))

    def voting(rng: Rng) -> dict[str, Any]:
        mechanism = ReportNoisyMax.calibrated(1.0, DELTA, 10)
        return {"mechanism": mechanism, "model": finds_canaries()}

    return [
        Audited("Count with two-sided geometric noise", None, 1.0, counting(geometric), 50),
        Audited("Randomized response", None, 1.0, counting(randomized), 50),
        Audited("Vote by the exponential mechanism", None, 1.0, counting(exponential), 50),
        Audited("leakbound `report_noisy_max`, 10 partitions", None, 1.0, voting, 50),
    ]  # fmt: skip
