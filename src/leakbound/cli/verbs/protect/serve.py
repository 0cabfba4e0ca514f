"""leakbound serve: the same answers over HTTP."""

from __future__ import annotations

import logging
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from leakbound._catalogue import options_of
from leakbound._install import install_hint
from leakbound.auditing.prepare.build import build_served
from leakbound.cli.options.ledger import Accounts
from leakbound.cli.options.reply_time import (
    AUTO,
    OFF,
    for_private_rows,
    reply_options,
    seconds_of,
    usual_state,
)
from leakbound.cli.screen.help_pages import COUNT, PATH, RealRange, cli_command, option, together
from leakbound.cli.screen.output import emit, is_quiet, say
from leakbound.cli.verbs.protect.answer import (
    answer_options,
    load_private,
    open_private,
    say_at_best,
)
from leakbound.errors import UsageError
from leakbound.models import Endpoint, Local
from leakbound.serving import (
    PrivateICL,
    ServiceState,
    Tenant,
    Tenants,
    application,
    is_local,
    load_tenants,
)
from leakbound.serving.http.formats import ignorable_fields
from leakbound.serving.ledger import affordable_answers
from leakbound.serving.ledger.units import ACCURACY
from leakbound.tasks import Mechanism, Query, Task

if TYPE_CHECKING:
    from leakbound.serving.http.server import Listener

EXAMPLES = (1, 4, 16)  # budgets, in prices of one answer, whose answers a refusal counts
GROUPS = ("partitions", "group_size")  # options that say how examples are grouped
TOKEN = "LEAKBOUND_TOKEN"
TIMED = (
    "Each answer leaves {:.3g} s after its payment. Reply times of one request at a time are "
    "covered; contention that concurrent requests see, power and memory are not."
)
UNTIMED = "How long an answer takes is not covered (--reply-after)."


@dataclass(frozen=True, slots=True)
class _ClientAccess:
    """Who may ask, and over which connection."""

    host: str
    token: str | None
    tenants: Path | None
    certificate: Path | None
    behind_proxy: bool

    def allowed(self) -> Tenants | None:
        """The tenants of the file, if there is one; refuses what would let anybody in."""
        if self.tenants is not None and self.token is not None:
            raise UsageError(
                f"there are --tenants and {TOKEN}; unset the variable, or leave --tenants out."
            )
        if not is_local(self.host):
            self._require_protection()
        return None if self.tenants is None else load_tenants(self.tenants)

    def _require_protection(self) -> None:
        if self.token is None and self.tenants is None:
            raise UsageError(
                f"--host {self.host!r} lets other machines in, and no token is set; put one into "
                f"the environment variable {TOKEN} (clients send it as bearer token), name a file "
                "of --tenants, or listen on 127.0.0.1."
            )
        if self.certificate is None and not self.behind_proxy:
            raise UsageError(
                f"--host {self.host} would send tokens and answers over plain HTTP; give "
                "--tls-cert and --tls-key, or --behind-proxy where a proxy in front of this server "
                "ends TLS."
            )


_serving_options = together(
    option("--host", "address to listen on", default="127.0.0.1"),
    option("--port", "port on this machine; 0: a free one", click.IntRange(0, 65535), 8000),
    option(
        "--tenants", "TOML or JSON file (mode 0600) of clients with tokens, caps and rates", PATH
    ),
    option("--tls-cert", "certificate chain (PEM)", PATH),
    option("--tls-key", "key of the certificate (PEM)", PATH),
    option("--behind-proxy", "serve plain HTTP, behind a proxy that terminates TLS", bool),
    option(
        "--by-content",
        "a row's content names its record, so a changed row has a new budget; a finite --budget "
        "needs this or --record-id",
        bool,
    ),
    option("--longest-request", "maximum bytes of a request", COUNT, 65_536),
    option(
        "--request-timeout",
        "timeout in seconds of a TLS handshake, of headers, of a body",
        RealRange(0.1, 3600),
        10.0,
    ),
    option(
        "--state",
        "file that remembers earlier runs: accounts of tenants, idempotency keys "
        "[default: beside the ledger]",
        PATH,
    ),
    option(
        "--ignore-field",
        "ignore this field of requests, and say so in the reply",
        click.Choice(ignorable_fields()),
        name="ignored",
        multiple=True,
    ),
)


@cli_command(
    "--data private.jsonl --mechanism report_noisy_max --epsilon 0.5 --budget 4",
    first="--data --labels --model --mechanism --epsilon --budget --port --tenants",
)
@answer_options
@reply_options
@_serving_options
def command(
    config: str | None, assignments: tuple[str, ...], budget: float | None, host: str, port: int,
    tenants: Path | None, tls_cert: Path | None, tls_key: Path | None, behind_proxy: bool,
    reply_after: str | None, by_content: bool, longest_row: int | None, longest_request: int,
    request_timeout: float, state: Path | None, ignored: tuple[str, ...], endpoint: Endpoint,
    local: Local, accounts: Accounts, ledger: str, longest_query: int, **flags: object,
) -> int:  # fmt: skip
    """Answer queries from the private rows over HTTP, as the OpenAI API: /v1/chat/completions,
    /v1/completions, /v1/responses, /v1/models.

    Needs a --budget: the total epsilon of all answers that it ever gives. Listens on this machine
    only. For any other --host, give --tls-cert and --tls-key, and put a bearer token into the
    environment variable LEAKBOUND_TOKEN, or name a file of --tenants. System and earlier messages
    are part of the query. With an exhausted budget, it answers HTTP 403.
    """
    listening = _listener(host, port, tls_cert, tls_key, request_timeout)
    token = os.environ.get(TOKEN) or None
    allowed = _ClientAccess(host, token, tenants, tls_cert, behind_proxy).allowed()
    spec, _, task = load_private(config, assignments, endpoint, flags)
    _require_budget(budget, build_served(spec, task), task, spec.decision.delta)
    accounts.require_named(by_content, budget, spec.design)
    chosen = reply_after or (OFF if budget is None or math.isinf(budget) else AUTO)
    private = open_private(
        config, assignments, budget, ledger, longest_query, for_private_rows(endpoint, chosen),
        local, accounts, flags,
    )  # fmt: skip
    kept = ServiceState(state or usual_state(ledger))
    after = seconds_of(chosen, longest_row, private)
    app = application(
        private, token, longest_request, tenants=allowed, state=kept, ignored_fields=ignored,
        timeout=request_timeout, reply_after=after,
    )  # fmt: skip
    _banner(private, allowed, after)
    from leakbound.serving.http.server import listen

    level = logging.WARNING if is_quiet() else logging.INFO
    facts = {"reply_after": after}
    listen(app, listening, lambda port: emit(_facts(private, listening, port) | facts), level)
    return 0


for _option in command.params:
    if isinstance(_option, click.Option) and _option.name == "budget":
        _option.help = "total epsilon of all answers at delta, or inf [required]"


def _listener(host: str, port: int, certificate: Path | None, key: Path | None, timeout: float
              ) -> Listener:  # fmt: skip
    try:
        from leakbound.serving.http.server import Listener
    except ImportError:
        raise UsageError(
            f"serving needs starlette and uvicorn; install them with: {install_hint('serve')}."
        ) from None
    return Listener(host, port, certificate, key, timeout)


def _facts(private: PrivateICL, listener: Listener, port: int) -> dict[str, object]:
    price, ledger = private.mechanism.cost(private.task, Query("-")), private.ledger
    return {
        "host": listener.host, "port": port, "tls": listener.certificate is not None,
        "mechanism": private.mechanism.name, "ledger": ledger.address, "budget": ledger.epsilon,
        "delta": ledger.delta, "epsilon_of_one_answer": price.epsilon(ledger.delta),
        "answers_left": ledger.answers_left(price, private.dataset),
    }  # fmt: skip


# --- what the budget buys


def _require_budget(budget: float | None, mechanism: Mechanism, task: Task, delta: float) -> None:
    """There is no default: how much the rows may lose is for their owner to say."""
    price = mechanism.cost(task, Query("-"))
    one = price.epsilon(delta)
    if budget is not None and not budget < one * (1 - ACCURACY):
        return
    what = "there is no --budget" if budget is None else f"--budget {budget:g} buys no answer"
    if math.isinf(one):
        raise UsageError(
            f"{what}, and {mechanism.name} gives no guarantee: an answer costs an infinite "
            "epsilon. Choose a private mechanism, or --budget inf."
        )
    bought = ", ".join(
        f"--budget {_up(epsilon):g} buys {_count(affordable_answers(price, epsilon, delta))}"
        for epsilon in (times * one for times in EXAMPLES)
    )
    raise UsageError(
        f"{what}: it is the total epsilon of all answers that this service ever gives. One answer "
        f"of {mechanism.name} costs epsilon {_up(one):g} at delta {delta:g}; {bought}. Choose one "
        "of these or another, or inf."
    )


def _banner(private: PrivateICL, tenants: Tenants | None, after: float | None) -> None:
    """What an answer costs, what the budget buys, and who may ask: on standard error."""
    price, ledger = private.mechanism.cost(private.task, Query("-")), private.ledger
    if ledger.answers_left(price, private.dataset) == 0:
        say("The budget is spent: every query gets HTTP 403. A larger one needs a new --ledger.",
            err=True)  # fmt: skip
    if is_quiet():
        return
    one = _up(price.epsilon(ledger.delta))
    say(f"One answer of {private.mechanism.name} costs ε = {one:g} at δ = {ledger.delta:g}. "
        f"{ledger.describe(price, private.dataset)}", err=True)  # fmt: skip
    say(UNTIMED if after is None else TIMED.format(after), err=True)
    say_at_best(private)
    # how examples are grouped; an audit does not use the rule of services
    options = options_of(private.mechanism) or {}
    if groups := ",".join(f"{name}={options[name]}" for name in GROUPS if name in options):
        say(f"To audit what is served: leakbound audit --mechanism {private.mechanism.name}:"
            f"{groups}, and the same --shots and --epsilon.", err=True)  # fmt: skip
    for tenant in () if tenants is None else tenants.all:
        say(_limits(tenant), err=True)


def _limits(tenant: Tenant) -> str:
    limits = {
        "answers": tenant.answers, "ε": tenant.epsilon, "requests a minute": tenant.rate
    }  # fmt: skip
    caps = [f"{value:g} {name}" for name, value in limits.items() if value is not None]
    return f"Tenant {tenant.name}: {'at most ' + ', '.join(caps) if caps else 'no own limit'}."


def _count(answers: int | None) -> str:
    if answers is None:
        return "any number of answers"
    return f"{answers:,} answer{'' if answers == 1 else 's'}"


def _up(epsilon: float) -> float:
    if not 0 < epsilon < math.inf:
        return epsilon
    unit = 10.0 ** (math.floor(math.log10(epsilon)) - 3)
    return math.ceil(epsilon / unit - 1e-6) * unit
