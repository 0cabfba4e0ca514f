"""Labels and responses are scored by the tokens that the model would read behind the prompt."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from tokenizers import Tokenizer, decoders, models  # noqa: E402
from tokenizers.processors import TemplateProcessing  # noqa: E402
from transformers import PreTrainedTokenizerFast  # noqa: E402

import leakbound  # noqa: E402
from leakbound.errors import TargetError, UsageError  # noqa: E402
from leakbound.models import Complete, Local, ScoreLabels, ScoreTokens, open_model  # noqa: E402
from leakbound.models.local import TransformersModel  # noqa: E402
from leakbound.models.local.engine.passes import Sharing  # noqa: E402
from leakbound.models.local.text_ids import TextIds  # noqa: E402
from leakbound.models.pocket import FOLDER  # noqa: E402

pytestmark = pytest.mark.torch

CHAT = "{% for m in messages %}<s>{{ m.content }}</s>{% endfor %}<a>"
LABELS = ("yes", "no", "quite another thing")


@pytest.fixture(scope="module")
def pocket() -> TransformersModel:
    found = open_model("pocket")
    assert isinstance(found, TransformersModel)
    return found


def tokenizer(**changes: Any) -> PreTrainedTokenizerFast:
    found = PreTrainedTokenizerFast.from_pretrained(FOLDER)
    for name, value in changes.items():
        setattr(found, name, value)
    return found


def merging() -> PreTrainedTokenizerFast:
    """Words of characters, of which some pairs are one token, also across a seam."""
    vocabulary = {token: n for n, token in enumerate(["<unk>", *"abcdeg: ", ":a", " b", "bc"])}
    merges = [(":", "a"), (" ", "b"), ("b", "c")]
    found = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>"))
    found.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(tokenizer_object=found, unk_token="<unk>")


def ending() -> PreTrainedTokenizerFast:
    """The pocket tokenizer, which puts an end of text behind every text."""
    found = tokenizer()
    found.backend_tokenizer.post_processor = TemplateProcessing(
        single="<bos> $A <eos>", special_tokens=[("<bos>", 1), ("<eos>", 2)]
    )
    assert found("a")["input_ids"][-1] == 2
    return found


def over(pocket: TransformersModel, tokens: Any, **more: Any) -> TransformersModel:
    return TransformersModel(pocket.model, tokens, "tiny", "0", sharing=Sharing(), **more)


def test_what_follows_a_chat_template_has_no_blank_before_it(pocket: TransformersModel) -> None:
    model = over(pocket, tokenizer(chat_template=CHAT))
    prompt, label = model.joined("Is it so?", "yes")
    read = model.tokenizer("<s>Is it so?</s><a>yes", add_special_tokens=False)["input_ids"]
    assert list(prompt + label) == read
    assert model.tokenizer.decode(label) == "yes"
    assert model.encode_response("yes") == label
    asked = [ScoreLabels("Is it so?", LABELS), ScoreTokens("Is it so?", "yes")]
    scores, tokens = model.answer(asked)
    again = model.answer([ScoreTokens(prompt, label)])[0]
    np.testing.assert_allclose(scores[0], again.sum(), atol=1e-4)
    np.testing.assert_allclose(tokens, again, atol=1e-4)


def test_an_end_of_text_behind_the_prompt_is_left_out(pocket: TransformersModel) -> None:
    model = over(pocket, ending())
    assert model.encode("a b") == (1, *pocket.texts.plain("a b", special=False))
    assert 2 not in model.joined("a b", "c")[0] + model.joined("a b", "c")[1]
    assert model.encode("") == (1,)
    scores = model.answer([ScoreLabels("Is it so?", LABELS)])[0]
    ids = [model.encode_response(label) for label in LABELS]
    prompt = (1, *pocket.texts.plain("Is it so?", special=False))
    want = [pocket.answer([ScoreTokens(prompt, label)])[0].sum() for label in ids]
    np.testing.assert_allclose(scores, want, atol=1e-4)


@pytest.mark.parametrize(
    ("prompt", "response", "tokens"),
    [
        ("d:", "bc", (["d", ":"], [" b", "c"])),  # one blank between them
        ("d: ", "bc", (["d", ":"], [" b", "c"])),  # which stands there already: its token is shared
        ("d", " bc", (["d"], [" b", "c"])),
        ("d ", "ca", (["d", " "], ["c", "a"])),
        ("d", "", (["d"], [])),
    ],
)
def test_a_token_over_the_seam_is_the_responses(
    prompt: str, response: str, tokens: tuple[list[str], list[str]]
) -> None:
    texts = TextIds(merging())
    found = [texts.tokenizer.convert_ids_to_tokens(ids) for ids in texts.joined(prompt, response)]  # type: ignore[attr-defined]
    assert tuple(found) == tokens


def test_a_tokenizer_without_offsets_is_read_by_its_ids() -> None:
    """As tokenizers written in Python are; a chat template makes `:a` one token over the seam."""
    fast = merging()
    fast.chat_template = "{% for m in messages %}{{ m.content }}:{% endfor %}"

    class Slow:
        chat_template = fast.chat_template
        bos_token_id = eos_token_id = None
        apply_chat_template = fast.apply_chat_template

        def __call__(self, text: str, **options: Any) -> Any:
            if options.pop("return_offsets_mapping", False):
                raise NotImplementedError
            return fast(text, **options)

    slow = TextIds(Slow())  # type: ignore[arg-type]
    assert slow.joined("d", "ag") == TextIds(fast).joined("d", "ag")
    assert len(slow.joined("d", "ag")[0]) == 1


@pytest.mark.parametrize("labels", [("yes", ""), ("yes", "  "), ()])
def test_an_empty_label_is_refused(pocket: TransformersModel, labels: tuple[str, ...]) -> None:
    with pytest.raises(TargetError, match=r"at least one non-blank char|there is no label"):
        pocket.check([ScoreLabels("Is it so?", labels)])


def test_labels_may_be_scored_by_length_or_by_their_first_token() -> None:
    request = ScoreLabels("Sort the message.\n\nMessage: a fee\nQueue:", LABELS)
    found = {}
    for kind in ("sum", "mean", "first_token"):
        model = open_model("pocket", local=Local(label_scores=kind))
        assert isinstance(model, TransformersModel)
        found[kind] = model.answer([request])[0]
        assert model.fingerprint.endswith(kind) or kind == "sum"
        assert ("label scores" in model.computation) == (kind != "sum")
    tokens = [model.answer([ScoreTokens(request.prompt, label)])[0] for label in LABELS]
    assert len(tokens[2]) > 1
    np.testing.assert_allclose(found["sum"], [t.sum() for t in tokens], atol=1e-4)
    np.testing.assert_allclose(found["mean"], [t.mean() for t in tokens], atol=1e-4)
    np.testing.assert_allclose(found["first_token"], [t[0] for t in tokens], atol=1e-4)
    with pytest.raises(UsageError, match="label_scores is 'max'; it must be one of sum, mean"):
        open_model("pocket", local=Local(label_scores="max"))


def test_nothing_of_a_call_is_kept(pocket: TransformersModel) -> None:
    pocket.answer([ScoreLabels("Is it so?", LABELS), Complete("Once", 2)])
    pocket.check([ScoreLabels("Is it so?", LABELS)])
    assert pocket._pairs == {}


@pytest.mark.slow
def test_a_record_says_how_answers_were_computed(pocket: TransformersModel, tmp_path: Any) -> None:
    result = leakbound.audit(
        mechanism="report_noisy_max", pairs=5, shots=10, controls=1, out=tmp_path, epsilon=1
    )
    said = result.provenance
    assert said["computation"] == "exact"
    labels = json.loads(said["label_ids"])
    assert all(pocket.text(ids).strip() == label for label, ids in labels.items())
