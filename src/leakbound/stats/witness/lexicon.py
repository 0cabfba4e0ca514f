"""Word lists and patterns that the features count.

A gap in them can cost power, but never validity.
"""

from __future__ import annotations

import re

__all__ = ["LANGUAGES", "PATTERNS", "WORD_LISTS"]

_STOP_WORDS = {
    "en": "the of and to in is for on with at this your you it by be are from we",
    "de": "der die das und ist nicht ein eine ihre wurde sie mit für auf den von wir bei",
    "fr": "le la les et est une pour vous votre des dans nous avec sur pas que du sera",
    "es": "el la los es una para por su con del en las que fue se un muy al",
    "it": "il lo la gli è una per con del della che non sono di si ha nel",
    "pt": "o os as um uma para com do da em que não seu sua foi por se",
    "nl": "de het een en is niet van voor met op zijn uw wij u dat te naar",
}
LANGUAGES = {code: frozenset(words.split()) for code, words in _STOP_WORDS.items()}
_WORD_LISTS = {
    "apology": "sorry apologies apologize apologise regret unfortunately afraid",
    "first_person": "i me my mine i'm i've i'd i'll myself",
    "we": "we us our ours we're we've we'll ourselves",
    "second_person": "you your yours you're you've you'll",
    "negation": "no not never none nothing cannot can't don't doesn't didn't isn't aren't wasn't "
    "weren't won't without unable neither nor couldn't wouldn't shouldn't",
    "courtesy": "please thank thanks kindly welcome dear hello regards",
}
WORD_LISTS = {name: frozenset(words.split()) for name, words in _WORD_LISTS.items()}
PATTERNS = {
    "hedges": re.compile(
        r"\b(?:perhaps|maybe|probabl[ey]|possibly|likely|might|could be|may be|(?:it )?seems?|"
        r"(?:it )?appears?|i (?:think|believe|guess|suppose|assume)|presumably|apparently|roughly|"
        r"approximately|as far as|to my knowledge|in my opinion|unsure|uncertain|"
        r"not (?:\w+ )?(?:sure|certain))\b", re.I),
    "certainty": re.compile(
        r"\b(?:certainly|definitely|surely|clearly|absolutely|undoubtedly|obviously|guaranteed?|"
        r"without (?:any |a )?doubt|no doubt|of course|for sure|i am (?:sure|certain)|indeed)\b",
        re.I),
    "refusal": re.compile(
        r"\b(?:can(?:no|['’])t|cannot|unable to|not able to|decline|won['’]t|"
        r"not (?:allowed|permitted|going) to|against (?:our|my|the) polic|"
        r"confidential|disclose|can not|may not)\b", re.I),
    "bullets": re.compile(r"^\s*[-*•–+]\s", re.M),
    "numbering": re.compile(r"^\s*\d+[.)]\s", re.M),
    "headings": re.compile(r"^\s*#{1,6}\s|^[A-Z][^.!?\n]{0,60}:\s*$", re.M),
    "bold": re.compile(r"\*\*|__"),
    "code": re.compile(r"`"),
    "tables": re.compile(r"\|"),
    "citations": re.compile(
        r"\[\d+\]|\(\s*(?:see|source|ref)\b|\bsource:|\bp\. ?\d|§|\bdoi\b|"
        r"\b(?:section|handbook|according to)\b", re.I),
    "urls": re.compile(r"https?://|www\.|\w\.(?:com|org|net)\b", re.I),
    "quotes": re.compile(r"[\"“”«»„]"),
    "emoji": re.compile(r"[\U0001F300-\U0001FAFF\u2600-\u27BF]"),
    "parentheses": re.compile(r"[()\[\]]"),
    "numbers": re.compile(r"\d+(?:[.,]\d+)*"),
}  # fmt: skip
