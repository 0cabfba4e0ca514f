"""The local engine and the cheap side, on the pocket model:

calls per second, and 400,000 simulated outputs.
"""

from __future__ import annotations

import time

import numpy as np

from leakbound.attacks import LabelMargin, Membership
from leakbound.auditing import make_spec, prepare
from leakbound.mechanisms import ReportNoisyMax
from leakbound.models import open_model
from leakbound.tasks import Example, Task, Votes


def calls_per_second(mechanism: str, batched: bool) -> float:
    model = open_model("pocket")
    prepared = prepare(make_spec({"mechanism": mechanism, "pairs": 8}), model)
    requests = [
        a
        for p in prepared.pairs
        for a in prepared.mechanism.requests(prepared.task, p.member, p.draw)
    ]
    model.answer(requests[:4])
    begin = time.perf_counter()
    if batched:
        model.answer(requests)
    else:
        for ask in requests:
            model.answer([ask])
    return len(requests) / (time.perf_counter() - begin)


def simulation() -> float:
    """400,000 outputs of a histogram of three classes, simulated and scored."""
    asked = Membership().render(Example("x", "a"), Task("t", ("a", "b")), "a", "b")
    mechanism, score = ReportNoisyMax(1.5), LabelMargin()
    begin = time.perf_counter()
    for i in range(200):
        outputs = mechanism.release(Votes((1, 9, 0)), 2000, np.random.default_rng(i))
        score.score(outputs, asked, ("yes", "no"))
    return time.perf_counter() - begin


def main() -> None:
    for mechanism in ("report_noisy_max", "few_shot"):
        together, alone = calls_per_second(mechanism, True), calls_per_second(mechanism, False)
        print(
            f"{mechanism:<18} {together:7.1f} calls/s batched, {alone:7.1f} one by one: ratio "
            f"{together / alone:.2f}"
        )
    print(f"400,000 outputs simulated and scored in {simulation():.3f} s (limit 1 s)")


if __name__ == "__main__":
    main()
