"""leakbound probe: what a model at an address really supports, and what it can serve."""

from __future__ import annotations

import json
from collections.abc import Mapping

import click

from leakbound.attacks import QUERIES, SCORES
from leakbound.cli.options.endpoint import endpoint_options
from leakbound.cli.options.takers import require_taken
from leakbound.cli.screen.help_pages import cli_command
from leakbound.cli.screen.output import emit
from leakbound.mechanisms import MECHANISMS
from leakbound.models import Endpoint, open_model
from leakbound.models.openai.endpoint import key_from_environment
from leakbound.models.probe import ProbeRecord, probe_endpoint, probe_model

STATES = {True: "yes", False: "no", None: "unclear"}
SAME_OUTPUT = {"reference_direction": "distance_gap"}  # reads what the other reads
READINGS = {
    "given responses at lambda 1 and temperature 1": "ScoreTokens",
    "sampled responses and any other lambda or temperature": "NextLogits",
}
LOCAL = "use a local model (pocket or hf/...)"
REASONS = {
    "Complete": "no text comes back",
    "Embed": "there are no embeddings; give --embedder",
    "NextLogits": f"an endpoint shows some next tokens at most, never all; {LOCAL}",
}  # of an endpoint
NO_TOKENS = (
    "ablates spans by token ids, and an endpoint does not show the tokens of a context; " + LOCAL
)


@cli_command("openai/my-model --base-url http://127.0.0.1:8000/v1 --json > capabilities.json")
@click.argument("address")
@endpoint_options
def command(address: str, endpoint: Endpoint) -> int:
    """Send the model at ADDRESS at most 40 requests about public texts, and report what it really
    supports.

    Checks log-probabilities and their positions, seeds, temperature, repeated requests and limits;
    then reports which mechanisms, scores and influence readings it can serve. --json prints the
    record, which --capabilities of other commands reads; here --capabilities is ignored. Exits with
    0, or with 4 if nothing answers.
    """
    require_taken([address])
    kind, _, model = address.partition("/")
    if kind == "openai" and model:
        record = probe_endpoint(model, endpoint, key_from_environment(endpoint))
    else:
        record = probe_model(open_model(address), address)
    click.echo(probe_table(record))
    emit(json.loads(record.model_dump_json()))
    return 0


def probe_table(record: ProbeRecord) -> str:
    where = f" at {record.base_url}" if record.base_url else ""
    lines = [f"{record.address}{where}: {record.requests} requests about public texts"]
    lines += [f"  {STATES[f.holds]:<8} {f.check:<24} {f.detail}" for f in record.findings]
    for title, found in consequences(record).items():
        available = [name for name, reason in found.items() if not reason]
        lines += [title, f"  available: {', '.join(available) or 'none'}"]
        for reason in dict.fromkeys(filter(None, found.values())):
            names = [name for name, why in found.items() if why == reason]
            lines += [f"  missing: {', '.join(names)}", f"    {reason}"]
    return "\n".join(lines)


def consequences(record: ProbeRecord) -> dict[str, dict[str, str]]:
    """What a model can serve."""
    mechanisms = {
        name: _lack(record, {need.__name__ for need in kind.needs})
        for name, kind in MECHANISMS.usable.items()
    }
    influence = {reading: _lack(record, {need}) for reading, need in READINGS.items()}
    return {
        "mechanisms": mechanisms,
        "queries": {name: _lack(record, {"Complete"}) for name in QUERIES.usable},
        "scores": {name: _score(name, mechanisms) for name in SCORES.usable},
        "influence": dict.fromkeys(READINGS, NO_TOKENS) if record.base_url else influence,
    }


def _lack(record: ProbeRecord, needs: set[str]) -> str:
    return "; ".join(
        f"needs {need}: {_why(record, need)}" for need in sorted(needs - set(record.supports))
    )


def _score(name: str, mechanisms: Mapping[str, str]) -> str:
    """A white-box score reads what some mechanisms show, and is available with one of them."""
    if SCORES[name].access == "black_box":
        return ""
    read = SAME_OUTPUT.get(name, name)
    carriers = [one for one, kind in MECHANISMS.usable.items() if kind.strongest_score == read]
    available = any(not mechanisms[carrier] for carrier in carriers)
    return "" if available or not carriers else f"reads outputs of {' and '.join(carriers)}"


def _why(record: ProbeRecord, need: str) -> str:
    if record.base_url is None:
        return "the model does not answer it"
    if need in REASONS:
        return REASONS[need]
    if record.finding("logprobs_valid").holds is False:
        return f"its log-probabilities are invalid ({record.finding('logprobs_valid').detail})"
    for check in ("echo_aligned", "prompt_logprobs_aligned"):
        if record.finding(check).holds is False:
            return record.finding(check).detail
    if record.holds("echo") or record.holds("prompt_logprobs"):
        return (
            "it could not be determined whether log-probabilities of given texts belong to their "
            "tokens"
        )
    return "no log-probabilities of given texts (neither echo nor prompt_logprobs)"
