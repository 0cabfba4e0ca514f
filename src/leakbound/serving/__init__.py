"""Answers for real users, within a privacy budget:

`PrivateICL`, and an HTTP application over it (extra `serve`).
"""

from leakbound.serving.http import Reply, application, chat, is_local
from leakbound.serving.private import Answer, PrivateICL

__all__ = ["Answer", "PrivateICL", "Reply", "application", "chat", "is_local"]
