"""Uses of the public face; a type checker reports nothing."""

from leakbound_lab.tuning import tune

import leakbound
from leakbound import Attack, AuditResult, Claim, Example, Task
from leakbound.attribution import UnitKind
from leakbound.canaries import Hex
from leakbound.mechanisms import ReportNoisyMax
from leakbound.queries import Membership
from leakbound.scores import PredictedMember

ROWS = [("a message", "work"), ("another", "home")]


def system(context: tuple[Example, ...], query: str) -> str:
    return "no"


result: AuditResult = leakbound.audit(ROWS, system=system, pairs=10)
leakbound.audit(mechanism=ReportNoisyMax.calibrated(4, 1e-5), canary=Hex(8), model="pocket")
leakbound.audit(task=Task("mail", ("work", "home")), claim=Claim(2.0, 1e-5), data="rows.jsonl")
leakbound.audit(attack=Attack(Hex(16), Membership(), PredictedMember()), estimator="e_process")
verdict: str = result.verdict
leakbound.gate(result, max_epsilon=2.0, min_power=0.8)
leakbound.audit(mechanism="report_noisy_max", attack=Attack(Hex(16), Membership()))
leakbound.plan(ROWS, mechanism="report_noisy_max", pairs=100, settings={"canary.digits": 8})
leakbound.compare([result, "runs/other"])
leakbound.sweep({"epsilon": [1, 2]}, {"mechanism": "report_noisy_max"})
leakbound.sweep({"canary": [Hex(8), "natural"]}, rows=ROWS, system=system, pairs=10)
tune(rows=ROWS, canary=Hex(8), max_calls=100)
leakbound.influence("a note", by=("sentence", UnitKind("chunk", 200)))
leakbound.answer("a query", ROWS, mechanism="report_noisy_max", labels=["work", "home"])
leakbound.canaries.Hex(4)
leakbound.estimators.ESTIMATORS["e_process"]
