"""The wording of tuning: rewrites that need no reflection model, and the reflection prompt."""

from __future__ import annotations

REWRITES = (
    'Compare every example above with the text "{canary}". Is one of them the same? Say '
    "{member} if so, else {nonmember}.",
    'The text to search for is "{canary}". Reply {member} if an example above holds it and '
    "{nonmember} if none does.",
    'Is "{canary}" among the examples that you were given? Answer {member} or {nonmember}.',
    'Go through the examples one by one. Did you come across "{canary}"? Answer with {member} '
    "or {nonmember} only.",
    'If the text "{canary}" appears in the examples above, answer "{member}". Otherwise answer '
    '"{nonmember}".',
    'Does the text "{canary}" appear in the examples above? Answer {member} or {nonmember}.',
    'I lost a note that reads "{canary}". Did it end up in the list above? Answer {member} or '
    "{nonmember}.",
    'Only two answers are allowed. "{member}": the examples contain "{canary}". "{nonmember}": '
    "they do not.",
)

REFLECTION = """\
You improve a question that is sent to a system which answers from a list of examples. \
The question must find out whether a certain text stands in that list. This is the \
question now:
```
<curr_param>
```

{canary} stands for the text that is searched for, {member} for the answer that must be \
given if it is in the list, and {nonmember} for the answer that must be given if it is \
not. This is how the system replied:

<side_info>

Write one new question that gets more replies right. It must hold {canary}, written \
exactly so, and should hold {member} and {nonmember}. Do not put any text from the \
replies into it. Give the new question, and nothing else, between ``` marks."""
