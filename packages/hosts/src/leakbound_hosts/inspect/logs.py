"""Finished logs of inspect_ai as evidence: a run folder and its result, without a model call."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

from inspect_ai.log import EvalSample
from inspect_ai.scorer import Score

from leakbound.auditing import AuditResult
from leakbound.auditing.design.pairs import LATE
from leakbound.errors import DataError, StoreError
from leakbound_hosts.inspect.pairs import KEY, PairAnswers, RunningAudit
from leakbound_hosts.inspect.stopping import open_log


def result_of_log(log: str | Path, out: str | Path = "runs") -> AuditResult:
    """The result of an audit that ran in inspect_ai, from its log.

    It is written into a run folder under `out`, where `leakbound report`, `gate` and `verify` find
    it. The rows must be those of the evaluation: canaries and contexts are drawn from them again.
    """
    samples = _samples(log)
    found = [(one, score) for one in samples if (score := _score(one)) is not None]
    if not found:
        raise StoreError(
            f"{str(log)!r} holds no paired trials; give a log of leakbound_hosts/audit "
            "that has samples (without --no-log-samples)."
        )
    audited = _audit(found, Path(out))
    every = [_answers(score) for _, score in found]
    # late controls follow all pairs, as when they were asked
    for one in sorted(every, key=lambda one: (one.row.pair < -LATE, one.row.pair)):
        audited.add(one)
    return audited.write()


def _samples(log: str | Path) -> list[EvalSample]:
    try:
        return open_log(log).samples or []
    except DataError:
        raise
    except Exception as error:  # of many kinds, after the place and the form of the log
        raise StoreError(
            f"the log {str(log)!r} cannot be read ({' '.join(str(error).split())}); give a .eval "
            "or .json file of inspect_ai."
        ) from error


def _score(sample: EvalSample) -> Score | None:
    """The score that holds the answers of a pair."""
    scores = (sample.scores or {}).values()
    return next((one for one in scores if KEY in (one.metadata or {})), None)


def _answers(score: Score) -> PairAnswers:
    return PairAnswers.of_json(cast("dict[str, object]", (score.metadata or {})[KEY]))


def _audit(found: list[tuple[EvalSample, Score]], out: Path) -> RunningAudit:
    about, score = found[0][0].metadata[KEY], found[0][1]
    settings = json.dumps(about["audit"], sort_keys=True)
    audited = RunningAudit(settings, str((score.metadata or {})[KEY]["model"]), out)
    if any(one.metadata[KEY]["data"] != audited.prepared.data for one, _ in found):
        raise DataError(
            "the rows are not those of the evaluation, and its canaries were drawn from them; "
            "read the log where the data is as it was."
        )
    return audited
