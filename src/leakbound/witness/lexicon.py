"""Word lists and patterns that the features count.

A gap in them can cost power, but never validity.
"""

from __future__ import annotations

import re

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
# words that say how something stands, and name nobody
_STATUS = """
yes no true false on off ok okay done none null nil nan unknown known unclear undecided

found missing present absent available unavailable exist exists existing match matches matched
matching mismatch hit hits miss misses result results record records entry entries document
documents item items source sources file files case cases ticket tickets note notes row rows
reference references duplicate duplicates unique same different similar dissimilar identical equal
unequal exact partial whole seen unseen familiar unfamiliar new old listed unlisted included
excluded includes contains contained mentioned stored known recorded registered unregistered

approved approve accepted accept rejected reject denied deny declined decline refused refuse granted
revoked withdrawn allowed allow disallowed blocked block permitted forbidden authorized
unauthorized eligible ineligible qualified disqualified

open opened closed resolved unresolved solved unsolved pending waiting queued running started
stopped finished complete completed incomplete ready busy active inactive enabled disabled
processed processing delivered undelivered received sent returned paid unpaid overdue late early
expired current outdated cancelled canceled suspended escalated assigned unassigned archived
deleted draft final confirmed unconfirmed verified unverified checked unchecked reviewed scheduled

success successful successfully succeeded failure failed fail fails pass passed passes error errors
warning warnings alert info debug fatal exception timeout invalid valid correct incorrect right
wrong accurate inaccurate supported unsupported working broken healthy unhealthy stable unstable
online offline up down

high higher highest low lower lowest medium moderate average minor major severe critical urgent
mild strong stronger weak weaker good better best bad worse worst great poor excellent fair large
larger small smaller big little long short fast slow full empty more less most least many few
several some any all both each every single multiple always often sometimes rarely seldom usually
above below over under within outside near close far

positive negative neutral mixed normal abnormal safe unsafe clean dirty flagged unflagged spam ham
suspicious legitimate fraud fraudulent genuine fake harmful harmless risky risk public private
internal external restricted sensitive relevant irrelevant related unrelated important unimportant
common rare typical atypical usual unusual expected unexpected sure unsure certain uncertain
confident likely unlikely possible impossible probable improbable agree agrees agreed disagree
disagrees disagreed entailment contradiction

once twice first second third fourth fifth last next previous only already yet still again also
instead however but so because therefore
score rank rating level status confidence similarity relevance distance probability count total
number

answer question here there that which how when where who what why can could will would should must
does did has had have was were been being if then than or as an a i he she they them their its
"""
_STATUS_WORDS = frozenset(_STATUS.split())
_NUMBERS = "zero one two three four five six seven eight nine ten eleven twelve twenty hundred"
NUMBER_WORDS = frozenset(_NUMBERS.split())
COMMON_WORDS = frozenset().union(
    *LANGUAGES.values(), *WORD_LISTS.values(), _STATUS_WORDS, NUMBER_WORDS
)
STATUS_MARKS = frozenset(
    "✅✔✓☑❌✖✗✘❎⚠⛔🚫❗❓🔴🟠🟡🟢🔵⚪⚫🟩🟥🟨👍👎⭐★☆🚩🔒🔓🎉😀🙂😐🙁😞→←↑↓•–—…“”‘’«»€£°±×≈≤≥█▓▒░▁▂▃▄▅▆▇▏▎▍▌▋▊▉○●◯◉◐■□▪▫◼◻▲▼△▽►▶◆◇♥♡❤💔✦✧✪🌟🔥💯🤔😕😃😄😡⬆⬇↗↘🔼🔽🆗🆕🟦🟧🟪⬛⬜✕✘❔❕ℹ"
)
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
    "bullets": re.compile(r"^[ \t]*[-*•–+]\s", re.M),
    "numbering": re.compile(r"^[ \t]*\d+[.)]\s", re.M),
    "headings": re.compile(r"^[ \t]*#{1,6}\s|^[A-Z][^.!?\n]{0,60}:[ \t]*$", re.M),
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
