"""`probe` against loopback servers:

each defect is found and said, and a server without it is not accused of it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leakbound.errors import LimitReached, Refused, TargetError, UsageError
from leakbound.models import Capabilities, Endpoint, ScoreTokens
from leakbound.models.openai import OpenAIModel
from leakbound.models.probe import ProbeRecord, capabilities_of, load_probe, probe_endpoint

pytest.importorskip("torch")
pytest.importorskip("uvicorn")

from loopback.faults import FAULTS, Faults
from loopback.running import running
from loopback.speaking import speaking

pytestmark = pytest.mark.torch

Probe = Callable[..., ProbeRecord]


SHORT = {
    "echo_limit": 100
}  # of servers whose long echoes are not looked at: they take most of the time


SHAPE = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 2048,
         "max_position_embeddings": 2048, "pad_token_id": 0, "bos_token_id": 1,
         "eos_token_id": 2}  # fmt: skip


@pytest.fixture(scope="module")
def small() -> Any:
    """What servers serve whose defect stands in every answer: random weights, logits of a standard
    deviation of 2, in a fifth of the time. Where scores stand can be seen in words alone.
    """
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

    from leakbound.models.local import TransformersModel
    from leakbound.models.pocket import FOLDER

    torch.manual_seed(3)
    net = AutoModelForCausalLM.from_config(AutoConfig.for_model("llama", **SHAPE)).eval()
    for parameter in net.parameters():
        parameter.data.normal_(0, 0.2)
    with torch.inference_mode():
        spread = net(input_ids=torch.arange(3, 40)[None]).logits.std()
        net.get_output_embeddings().weight.mul_(2 / spread)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(FOLDER)
    return TransformersModel(net, tokenizer, "pocket", "0")


# Of these servers no test asks for scores in their place.
DAMAGED = {"shift_echo", "ignore_logprobs", "ignore_temperature", "ignore_seed", "ignore_echo"}


@pytest.fixture(scope="module")
def probed(pocket: Any, small: Any) -> Probe:
    """probed(dialect, **ways) -> the record of a real server that has these ways; each is asked
    once.
    """
    found: dict[str, ProbeRecord] = {}

    def probe(dialect: str, **ways: Any) -> ProbeRecord:
        name = f"{dialect} {sorted(ways.items())}"
        if name not in found:
            model = small if dialect == "bare" or DAMAGED & set(ways) else pocket
            with running(speaking(model, dialect, **(SHORT | ways))) as url:
                found[name] = probe_endpoint("pocket", Endpoint((url,)))
        return found[name]

    return probe


# --- each defect, and a server without it

SOUND = ("chat", "completions", "batches", "token_ids", "embeddings", "logprobs", "chat_logprobs",
         "logprobs_valid", "top_k", "echo", "echo_aligned", "echo_length", "prompt_logprobs",
         "prompt_logprobs_aligned", "repeats", "temperature", "seed")  # fmt: skip


@pytest.mark.slow
def test_a_sound_server_is_accused_of_nothing(probed: Probe) -> None:
    record = probed("vllm", echo_limit=None)
    assert [check for check in SOUND if not record.holds(check)] == []  # type: ignore[arg-type]
    assert record.supports == ("Complete", "Embed", "ScoreLabels", "ScoreTokens")
    assert record.requests <= 30
    assert capabilities_of(record) == Capabilities(
        completions=True,
        token_ids=True,
        seed=True,
        prompt_logprobs=True,
        echo=True,
        echo_shift=0,
        top_logprobs=20,
        embeddings=True,
    )


LIMITED = {"ignore_seed": True, "top_k_cap": 7}
DEFECTS: list[tuple[str, dict[str, Any], str, str]] = [
    ("vllm", {"shift_echo": True}, "echo_aligned", "shifted by one"),
    ("vllm", {"shift_echo": True}, "prompt_logprobs_aligned", "shifted by one"),
    ("llamacpp", {"shift_echo": True}, "echo_aligned", "shifted by one"),
    ("vllm", {"ignore_logprobs": True}, "logprobs", "ignores log-probabilities"),
    ("vllm", {"ignore_logprobs": True}, "chat_logprobs", "ignores log-probabilities"),
    ("vllm", {"ignore_temperature": True}, "temperature", "ignores the temperature"),
    ("vllm", LIMITED, "seed", "ignores the seed"),
    ("vllm", LIMITED, "echo_length", "was refused (HTTP 400)"),
    ("vllm", {"ignore_echo": True}, "echo", "without the prompt"),
    ("bare", {}, "token_ids", "refused (HTTP 400)"),
    ("bare", {}, "embeddings", "refused (HTTP 404)"),
    ("llamacpp", {"top_k_cap": 7}, "token_ids", "refused (HTTP 500)"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("dialect", "ways", "check", "told"), DEFECTS)
def test_a_defect_is_found_and_said(
    dialect: str, ways: dict[str, Any], check: Any, told: str, probed: Probe
) -> None:
    finding = probed(dialect, **ways).finding(check)
    assert finding.holds is False
    assert told in finding.detail


@pytest.mark.slow
def test_a_tokenizer_without_a_first_token_scores_prompts(probed: Probe, small: Any) -> None:
    """As those of Qwen and GPT-2: what the probe finds is what an audit reads."""
    record = probed("vllm", first_token=False)
    assert record.holds("prompt_logprobs_scored")
    assert record.holds("echo_scored")
    can = capabilities_of(record)
    assert can.prompt_logprobs
    prompt, response = "Label each message. The label is", " billing"
    sides = [
        tuple(small.tokenizer(text, add_special_tokens=False)["input_ids"])
        for text in (prompt, response)
    ]
    with running(speaking(small, "vllm", first_token=False)) as url:
        found = {}
        for name in ("completions,prompt_logprobs", "completions,echo,echo_shift=0"):
            model = OpenAIModel("pocket", Endpoint((url,), capabilities=Capabilities.parse(name)))
            found[name] = model.answer([ScoreTokens(prompt, response)])[0]
            model.close()
    (wanted,) = small.answer([ScoreTokens(*sides)])
    for scores in found.values():
        np.testing.assert_allclose(scores, wanted, atol=2e-4)


@pytest.mark.parametrize("ways", [{"shift_echo": True}, {"ignore_logprobs": True}])
def test_scores_are_withheld_where_they_would_be_wrong(ways: dict[str, Any], probed: Probe) -> None:
    record = probed("vllm", **ways)
    assert "ScoreTokens" not in record.supports
    assert not capabilities_of(record).scores


@pytest.mark.slow
def test_llamacpp_in_place_scores_and_shifted_does_not(probed: Probe) -> None:
    assert "ScoreTokens" in probed("llamacpp", top_k_cap=7).supports
    assert capabilities_of(probed("llamacpp", top_k_cap=7)).echo_shift == 0
    assert "ScoreTokens" not in probed("llamacpp", shift_echo=True).supports
    assert capabilities_of(probed("llamacpp", shift_echo=True)).echo_shift == 1


@pytest.mark.slow
def test_the_number_of_alternatives_is_counted(probed: Probe) -> None:
    """One dialect cuts silently, the other refuses:

    then it is the largest number that was answered.
    """
    assert probed("llamacpp", top_k_cap=7).finding("top_k").value == 7
    assert probed("vllm", **LIMITED).finding("top_k").value == 5
    assert probed("vllm", echo_limit=None).finding("top_k").value == 20


@pytest.mark.slow
def test_noise_is_measured_and_does_not_hide_the_place(probed: Probe) -> None:
    still, noisy = (
        probed("vllm", echo_limit=None).finding("repeats"),
        probed("vllm", noise=0.02).finding("repeats"),
    )
    assert still.value is not None
    assert still.value < 1e-4
    assert noisy.value is not None
    assert 0.01 < noisy.value < 0.3
    assert probed("vllm", noise=0.02).holds("echo_aligned")
    assert probed("vllm", noise=0.02, shift_echo=True).finding("echo_aligned").holds is False


@pytest.mark.slow
def test_noise_that_drowns_the_place_leaves_it_open(probed: Probe) -> None:
    record = probed("vllm", noise=1.5)
    assert record.finding("echo_aligned").holds is None
    assert "ScoreTokens" not in record.supports


@pytest.mark.slow
def test_nothing_can_be_said_about_seeds_without_draws(probed: Probe) -> None:
    assert probed("bare").finding("seed").holds is None
    assert probed("vllm", ignore_temperature=True).finding("seed").holds is None


# --- requests


@pytest.mark.slow
def test_only_public_texts_are_sent_and_no_key_is_kept(small: Any) -> None:
    app = speaking(small, "vllm", key="sk-hush", **SHORT)
    with running(app) as url:
        record = probe_endpoint("pocket", Endpoint((url,)), "sk-hush")
    assert "hush" not in record.model_dump_json()
    assert len(app.state.requests) == record.requests
    told = {prompt for _, body in app.state.requests for prompt in texts_of(body)}
    beginnings = ("The capital of France is Paris.", "The sun rises in the east")
    assert all(text.startswith(beginnings) for text in told)


def texts_of(body: dict[str, Any]) -> list[str]:
    parts = [
        body.get("prompt"),
        body.get("input"),
        *(turn["content"] for turn in body.get("messages", ())),
    ]
    return [
        text
        for part in parts
        for text in (part if isinstance(part, list) else [part])
        if isinstance(text, str)
    ]


def test_the_wrong_key_and_nobody_are_told_apart(small: Any) -> None:
    with (
        running(speaking(small, "vllm", key="sk-hush")) as url,
        pytest.raises(Refused, match="LEAKBOUND_API_KEY") as refused,
    ):
        probe_endpoint("pocket", Endpoint((url,)), "sk-wrong")
    assert "sk-" not in str(refused.value)
    with pytest.raises(TargetError, match="does not answer"):
        probe_endpoint("pocket", Endpoint(("http://127.0.0.1:9/v1",)))


def test_a_model_that_is_not_there_and_several_addresses_are_refused(small: Any) -> None:
    with (
        running(speaking(small, "vllm")) as url,
        pytest.raises(TargetError, match=r"neither .*HTTP 404.*'other'"),
    ):
        probe_endpoint("other", Endpoint((url,)))
    with pytest.raises(UsageError, match="one address at a time"):
        probe_endpoint("pocket", Endpoint(("http://127.0.0.1:9/v1", "http://127.0.0.1:8/v1")))


@pytest.mark.slow
def test_faults_that_pass_change_no_finding(small: Any, probed: Probe) -> None:
    """A tenth of the replies is damaged; each is asked for again."""
    kinds = tuple(kind for kind in FAULTS if kind not in ("no_choices", "slow"))
    with running(
        Faults(
            speaking(small, "vllm", ignore_temperature=True, **SHORT),
            rate=0.1,
            seed=3,
            kinds=kinds,
        )
    ) as url:
        record = probe_endpoint("pocket", Endpoint((url,)))
    assert [(f.check, f.holds) for f in record.findings] == [
        (f.check, f.holds) for f in probed("vllm", ignore_temperature=True).findings
    ]


def test_replies_that_cannot_be_read_are_paid_for(small: Any) -> None:
    """A limit on money counts tries whose replies are damaged:

    the endpoint may charge for each of them.
    """
    with running(Faults(speaking(small, "vllm"), rate=1.0, kinds=("page_200",))) as url:
        endpoint = Endpoint(
            (url,), max_cost=1.5, price_in=5000.0, price_out=0.0
        )  # 300 bytes: one question
        with pytest.raises(LimitReached, match="--max-cost"):
            probe_endpoint("pocket", endpoint)
    assert endpoint.meter.requests == endpoint.meter.unmetered == 1
    assert 0.5 < endpoint.meter.cost <= 1.5


# --- records


@pytest.mark.slow
def test_a_record_survives_its_file(probed: Probe, tmp_path: Path) -> None:
    path = tmp_path / "probe.json"
    path.write_text(probed("vllm", echo_limit=None).model_dump_json())
    assert load_probe(path) == probed("vllm", echo_limit=None)
    path.write_text('{"schema_version": 2}')
    with pytest.raises(UsageError, match="not a probe record"):
        load_probe(path)
    with pytest.raises(UsageError, match="cannot be read"):
        load_probe(tmp_path / "none.json")


def test_complete_is_what_a_text_only_endpoint_answers(probed: Probe) -> None:
    assert probed("bare").supports == ("Complete",)
    assert capabilities_of(probed("bare")) == Capabilities()
