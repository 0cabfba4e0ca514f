"""Outside an audit: `answer`, one private answer, paid for in a ledger; `probe`, what the model at
an address really supports.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from leakbound.api.kinds import as_model, in_python, require_numbers
from leakbound.api.parameters import MechanismName, Rows
from leakbound.auditing.prepare.rows import public_task, require_public, rows_given, task_of
from leakbound.auditing.spec.audit_spec import make_spec
from leakbound.auditing.spec.groups import Design
from leakbound.errors import UsageError
from leakbound.mechanisms import MECHANISMS, PublicFacts, service_options
from leakbound.models import Endpoint, Model, Scripted
from leakbound.models.openai.endpoint import key_from_environment
from leakbound.models.probe.endpoint_probe import ProbeRecord
from leakbound.models.probe.probe import probe_endpoint, probe_model
from leakbound.serving import Answer, PrivateICL
from leakbound.serving.ledger import DATASET, Ledger
from leakbound.tasks import Mechanism, Task, require_mechanism


@in_python
def answer(
    query: str,
    rows: Rows,
    *,
    mechanism: Mechanism | MechanismName = "report_noisy_max",
    epsilon: float = 1.0,
    delta: float = 1e-5,
    task: Task | str | None = None,
    labels: Sequence[str] | None = None,
    model: Model | str = "pocket",
    budget: float | None = None,
    ledger: Ledger | str | Path = "leakbound-ledger.sqlite",
    dataset: str = DATASET,
    record_ids: Sequence[str] | None = None,
) -> Answer:
    """Answer one query from private rows, within a budget that is spent before the model is asked.

    Args:
        query: What is asked (public).
        rows: Examples, (input, label) pairs, mappings, or a data frame (PRIVATE).
        mechanism: A mechanism, or its name, calibrated to epsilon and delta for one answer, with
            examples grouped by the public rule of its class (`group_options`).
        epsilon: What a mechanism given by name is calibrated to.
        delta: Of the calibration and of the budget.
        task: How rows and query become prompts: a task, or its name, such as "generation".
        labels: The public labels of a classification, in place of a task. They are inferred from
            the rows only where the mechanism gives no guarantee.
        model: A model, or its address.
        budget: Total epsilon of all answers; None: epsilon, which is one answer.
        ledger: A ledger, or the file or PostgreSQL address that keeps what was spent.
        dataset: Name of the data set; the budget is for all answers from it.
        record_ids: An id for each row (PRIVATE), which its account belongs to; None: its content.

    Returns:
        The text, and what was spent and remains.

    Raises:
        BudgetExhausted: If the budget does not allow another answer; nothing is released.
        LeakboundError: With a sentence for whatever cannot be used.

    Guarantee:
        That of the mechanism, under its relation; see `Answer.spent`.
    """
    require_numbers({"epsilon": epsilon, "delta": delta, "budget": budget})
    made = build(mechanism, epsilon, delta) if isinstance(mechanism, str) else mechanism
    require_mechanism(made)
    fixed = _public_task(task, labels)
    require_public(fixed, made)
    context = rows_given(rows, Design())
    found = task if isinstance(task, Task) else task_of(context, task, fixed)
    if isinstance(mechanism, str):
        facts = PublicFacts(len(context), len(found.labels), epsilon, delta)
        made = build(mechanism, epsilon, delta, facts)
    opened = as_model(model if made.needs else Scripted(name=made.name), Endpoint(separate=True))
    total = epsilon if budget is None else budget
    book = ledger if isinstance(ledger, Ledger) else Ledger(ledger, total, delta)
    return PrivateICL(made, context, found, opened, book,
                      dataset=dataset, record_ids=record_ids).answer(query)  # fmt: skip


def _public_task(task: Task | str | None, labels: Sequence[str] | None) -> Task | None:
    """The task of a name or of labels; None where it would have to be inferred."""
    if isinstance(task, Task):
        if labels is None:
            return task
        raise UsageError(
            f"labels are given, and the task {task.name} has its own; leave one of them out."
        )
    values = {"task": task, "labels": None if labels is None else list(labels)}
    return public_task(make_spec(values).design, own_rows=True)


def build(name: str, epsilon: float, delta: float, facts: PublicFacts | None = None) -> Mechanism:
    """A mechanism by name, calibrated for one answer, with examples grouped by public facts."""
    options = {} if facts is None else service_options(name, {}, facts)
    made: Mechanism = MECHANISMS[name].for_claim(epsilon, delta, **options)
    return made


@in_python
def probe(model: Model | str, *, base_url: str | None = None) -> ProbeRecord:
    """Ask a model about public texts, and record what it really supports.

    Args:
        model: A model, or its address; "openai/<model>" is a model behind a server.
        base_url: Address of that server, such as "http://127.0.0.1:8000/v1"; None: the default one.

    Returns:
        What was found: kinds of requests, where log-probabilities stand, seeds, limits.

    Raises:
        TargetError: If it is not there or answers nothing.
        UsageError: If a base URL is given for a model that is not behind a server.
    """
    if isinstance(model, str) and model.startswith("openai/"):
        endpoint = Endpoint((base_url,)) if base_url else Endpoint()
        key = key_from_environment(endpoint)
        return probe_endpoint(model.removeprefix("openai/"), endpoint, key)
    opened = as_model(model)
    return probe_model(opened, opened.name)
