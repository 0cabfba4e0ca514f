"""One run: many canaries in one store, each in or out by its own fair coin, one question each."""

from leakbound.auditing.one_run.prepare import PreparedOneRun, plan_one_run, prepare_one_run
from leakbound.auditing.one_run.run import run_one_run

__all__ = ["PreparedOneRun", "plan_one_run", "prepare_one_run", "run_one_run"]
