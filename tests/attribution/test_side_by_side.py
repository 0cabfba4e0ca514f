"""Several models on one page:

records a model, maps side by side, also where tokenizers cut the context differently.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

torch = pytest.importorskip("torch")
from tokenizers import Tokenizer, decoders, models, pre_tokenizers  # noqa: E402
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast  # noqa: E402

from leakbound.attribution import Case, InfluenceSettings, attribute, load_influence  # noqa: E402
from leakbound.cli.verbs.attribute.influence import command  # noqa: E402
from leakbound.errors import TargetError, UsageError  # noqa: E402
from leakbound.models import Model, Scripted, open_model  # noqa: E402
from leakbound.report.influence.page import influence_page  # noqa: E402

pytestmark = pytest.mark.torch

NOTE = Path(__file__).parents[2] / "examples" / "note.txt"
QUERY = "What is the door code of Marta?"


@pytest.fixture(scope="module")
def bytewise(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random Llama whose tokens are bytes, so that it cuts every context into more tokens than
    the pocket model.
    """
    folder = tmp_path_factory.mktemp("models") / "bytewise"
    vocabulary = {
        mark: i
        for i, mark in enumerate(
            ["<pad>", "<s>", "</s>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
        )
    }
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>",
                            pad_token="<pad>").save_pretrained(folder)  # fmt: skip
    torch.manual_seed(1)
    config = AutoConfig.for_model(
        "llama", hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32,
        vocab_size=len(vocabulary), max_position_embeddings=1024, pad_token_id=0, bos_token_id=1,
        eos_token_id=2,
    )  # fmt: skip
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    return folder


def views(page: str) -> list[str]:
    return re.findall(r'<div class="map".*?<h4>(.*?)</h4>', page, flags=re.S)


@pytest.mark.slow
@pytest.mark.parametrize("together", [True, False])
def test_one_page_and_a_folder_for_each_model(bytewise: Path, together: bool, tmp_path: Path,
                                              monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    monkeypatch.chdir(bytewise.parent)
    named = (
        ["--model", "pocket,hf/./bytewise"]
        if together
        else ["--model", "pocket", "--model", "hf/./bytewise"]
    )
    args = [*named, "--context", str(NOTE), "--question", QUERY, "--response", "48213", "--ngram",
            "8,64", "--out", str(tmp_path / "o"), "-v"]  # fmt: skip
    done = CliRunner().invoke(command, args, standalone_mode=False)
    assert done.exit_code == 0, done.output
    assert {path.name for path in (tmp_path / "o").iterdir()} == {
        "influence.html",
        "1-pocket",
        "2-bytewise",
    }
    records = [load_influence(tmp_path / "o" / name) for name in ("1-pocket", "2-bytewise")]
    assert [record.model for record in records] == ["pocket", "hf/./bytewise"]
    page = (tmp_path / "o" / "influence.html").read_text()
    assert page == influence_page(*records)
    assert views(page) == [f"{model}, λ = 1, T = 1" for model in ("pocket", "hf/./bytewise")] * 2
    text = NOTE.read_text().strip()
    for shown in re.findall(r'<p class="heat".*?</p>', page, flags=re.S):
        assert "".join(re.findall(r'<span class="piece[^>]*>([^<]*)</span>', shown)) == text
    for model in ("pocket", "hf/./bytewise"):
        assert (
            f"{model}, λ = 1, T = 1: “" in done.output or f"response, {model}, λ = 1" in done.output
        )


def test_a_size_that_one_model_lacks_has_one_map(pocket: Model, bytewise: Path) -> None:
    """64 is below the length of the context for bytes, and above it for the pocket model."""
    case = Case(
        "The code of Marta is 48213. A dog slept beside the warm oven, and the morning was grey.",
        QUERY,
        "48213",
    )
    records = [
        attribute([case], model, InfluenceSettings(ngrams=(8, 64)))
        for model in (pocket, open_model(f"hf/{bytewise}"))
    ]
    assert [
        [grid.n for grid in record.attributions[0].readings[0].grids[:-1]] for record in records
    ] == [[8], [8, 64]]
    assert len(views(influence_page(*records))) == 3


def test_expected_influence_stands_by_model(pocket: Model, bytewise: Path) -> None:
    cases = [Case(f"The code of Marta is {code}.", QUERY, code) for code in ("48213", "7306")]
    records = [
        attribute(cases, model, InfluenceSettings(ngrams=(4,)))
        for model in (pocket, open_model(f"hf/{bytewise}"))
    ]
    page = influence_page(*records)
    table = page[page.index("Expected influence over 2 contexts") : page.index("<figure>")]
    for record in records:
        assert table.count(f">{record.model}</td>") == len(record.expected)
        assert all(f"{e.mean:.3f}" in table for e in record.expected)


def test_records_of_other_contexts_are_refused(pocket: Model) -> None:
    one, other = (
        attribute([Case(text, QUERY, "x")], pocket, InfluenceSettings(ngrams=(4,)))
        for text in ("A dog slept.", "A cat slept.")
    )
    with pytest.raises(UsageError, match="all of the same contexts"):
        influence_page(one, other)


def test_a_model_without_tokens_gets_the_sentence_of_influence() -> None:
    blind: Any = Scripted(complete=lambda prompt: "x", name="blind")
    with pytest.raises(
        TargetError, match="blind shows no tokens, and influence takes spans out of the token ids"
    ):
        attribute([Case("A dog slept.", QUERY)], blind, InfluenceSettings())


def test_a_context_too_long_is_told_to_be_shorter(pocket: Model) -> None:
    with pytest.raises(TargetError, match="a shorter context, or fewer examples with --shots"):
        attribute([Case("dog " * 2100, "q", "c")], pocket, InfluenceSettings())
