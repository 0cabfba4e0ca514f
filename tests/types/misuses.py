"""Twenty misuses of the public face; a type checker reports one error for each."""

from leakbound_lab.tuning import tune

import leakbound
from leakbound import Task
from leakbound.canaries import Hex
from leakbound.mechanisms import ReportNoisyMax

leakbound.audit(pair=10)
leakbound.audit(mechanism=3)
leakbound.audit(mechanism="report_noisy_mx")
leakbound.plan(canary="hxe")
leakbound.audit(canary=Task("mail", ("a", "b")))
leakbound.audit(epsilon="1")
leakbound.audit(insertion="remove")
leakbound.plan(pairs="10")
leakbound.plan(shot=4)
leakbound.audti()
Hex(digits="8")
ReportNoisyMax(sigma=1.0, partition=4)
leakbound.gate("runs/one", max_epsilon="2")
leakbound.sweep({"epsilon": [1, 2]}, pair=10)
tune(canary="hxe")
leakbound.answer("a query", [("a message", "a label")], mechanism="report_noisy_mx")
leakbound.audit(system=3)
leakbound.influence("a note", by="sentences")
leakbound.canaries.Hxe(4)
print(leakbound.audit([("a message", "a label")]).verdikt)
