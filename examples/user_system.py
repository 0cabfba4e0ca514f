"""A system of your own: any callable (context, query) -> str. This one searches its examples word
by word, and leaks.

leakbound audit --system python:examples/user_system.py:answer --pairs 40
"""

from __future__ import annotations

from leakbound import Example


def answer(context: tuple[Example, ...], query: str) -> str:
    """Yes or no to a query with a quoted text: is it in an example? Else the label of the most
    similar example.
    """
    quoted = query.split('"')[1::2]
    if quoted:
        return "yes" if any(text in row.text for row in context for text in quoted) else "no"
    words = set(query.lower().split())
    return max(context, key=lambda row: len(words & set(row.text.lower().split()))).label
