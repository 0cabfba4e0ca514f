"""NAME:option=value: a component with its options, in flags, files and Python alike."""

from __future__ import annotations

import pytest

from leakbound.auditing.spec.audit_spec import make_spec
from leakbound.cli.options.spec import overrides
from leakbound.errors import UsageError


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("given:text=4711", {"text": "4711"}),  # what the class takes as a text stays one
        ("given:text=yes, or no: {canary}?", {"text": "yes, or no: {canary}?"}),
        ("given:text=a=b,label=work", {"text": "a=b", "label": "work"}),
        ("hex:digits=8", {"digits": 8}),
        ("false_fact:facts=[Rain falls., Ice burns.]", {"facts": ["Rain falls.", "Ice burns."]}),
        ("false_fact:file=facts.txt", {"file": "facts.txt"}),
    ],
)
def test_the_class_says_how_an_option_is_read(text: str, options: dict[str, object]) -> None:
    assert make_spec({"canary": text}).attack.canary.options == options
    assert overrides((), {"canary": text}) == {"canary": {"kind": text.split(":")[0], **options}}


@pytest.mark.parametrize("text", ["hex:", "hex:digits", "hex:digits=8,digits=9", "hex:digits=[8"])
def test_what_names_no_option_or_one_twice_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="it must be NAME:option=value,option=value"):
        make_spec({"canary": text})


def test_a_flag_with_its_name_wins_over_options_that_are_set() -> None:
    found = overrides(("canary.digits=4", "query.words=3"), {"canary": "hex:digits=8"})
    assert found["canary"] == {"kind": "hex", "digits": 8}
    assert found["query"] == {"words": 3}
