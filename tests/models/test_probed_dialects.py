"""`probe` finds the parameters that an endpoint takes, and an audit goes by its file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from loopback.strict import Strict

from leakbound.errors import Refused
from leakbound.models import Complete, Dialect, Endpoint
from leakbound.models.openai import OpenAIModel
from leakbound.models.probe import ProbeRecord, capabilities_of, load_probe, probe_endpoint

WHERE = ("http://127.0.0.1:9/v1",)
O_SERIES = ("max_tokens", "temperature", "top_p", "stop")  # what o3 and gpt-5 refuse


def probed(**ways: Any) -> tuple[ProbeRecord, Strict]:
    server = Strict(**ways)
    return probe_endpoint("m", Endpoint(WHERE, transport=server)), server


@pytest.mark.parametrize("names", [True, False])
def test_what_a_reasoning_model_refuses_is_found(names: bool, tmp_path: Path) -> None:
    """Whether the endpoint says which parameter it refuses or not."""
    record, server = probed(refused=O_SERIES, names=names, reasoning=60)
    assert set(record.dialect.omit) == {"stop", "temperature", "top_p"}
    assert record.dialect.params == {"max_completion_tokens": 4096}
    assert record.holds("reasoning")
    assert record.requests <= 40
    file = tmp_path / "probe.json"
    file.write_text(record.model_dump_json())
    kept = load_probe(file)
    assert kept == record
    can, dialect = capabilities_of(kept), kept.dialect
    before = len(server.bodies)
    endpoint = Endpoint(WHERE, capabilities=can, dialect=dialect, transport=server)
    assert OpenAIModel("m", endpoint).answer([Complete("a", max_tokens=3)]) == ["Rome."]
    assert set(server.bodies[before]) == {"model", "messages", "stream", "max_completion_tokens"}
    with pytest.raises(Refused, match="max_tokens" if names else "leakbound probe"):
        OpenAIModel("m", Endpoint(WHERE, transport=server)).answer([Complete("a")])


def test_reasoning_aloud_gets_room_and_is_no_part_of_the_answer() -> None:
    record, server = probed(reasoning=100, aloud=True)
    assert record.dialect == Dialect({"max_tokens": 4096}, ("stop",))
    plain = OpenAIModel("m", Endpoint(WHERE, transport=server))
    assert plain.answer([Complete("a", max_tokens=16)]) == [""]
    assert "with reasoning alone" in plain.endpoint.meter.line()
    spoken = OpenAIModel("m", Endpoint(WHERE, dialect=record.dialect, transport=server))
    (found,) = spoken.replies([Complete("a", max_tokens=16)])
    assert (found.answer, found.reasoning[:9]) == ("Rome.", "They ask.")


def test_an_endpoint_that_takes_everything_keeps_the_usual_form() -> None:
    record, server = probed()
    assert not record.dialect
    assert record.finding("parameters").holds is True
    assert record.finding("reasoning").holds is False
    assert server.bodies[0]["max_tokens"] == 12


def test_a_refusal_that_no_parameter_explains_is_no_answer() -> None:
    from leakbound.errors import TargetError

    with pytest.raises(TargetError, match="neither"):
        probed(refused=("messages",), names=False)


@pytest.mark.parametrize("name", ["temperature", "top_p", "stop"])
def test_no_more_is_left_out_than_is_refused(name: str) -> None:
    """Where top_p was refused without a name, temperature was left out with it."""
    record, _ = probed(refused=(name,), names=False)
    assert record.dialect.omit == (name,)
