"""Answers for real users, within a privacy budget: `PrivateICL`, and an HTTP application over it (extra `serve`)."""

from contextleak.serving.http import Reply, application, chat, is_local
from contextleak.serving.private import Answer, PrivateICL

__all__ = ["Answer", "PrivateICL", "Reply", "application", "chat", "is_local"]
