"""Names of parameters and fields, by which functions and services say what takes rows, and what
the question; the likeliest first."""

CONTEXTS = (
    "context", "contexts", "rows", "documents", "docs", "examples", "records", "notes", "data",
    "passages", "knowledge", "chunks", "snippets", "sources", "knowledge_base", "kb", "corpus",
    "transcript", "history", "background", "memory", "facts", "evidence", "document", "passage",
)  # fmt: skip
# Of a conversation: no documents, where something else may be.
PAST = ("history", "chat_history", "conversation", "memory", "transcript")
ASKED = (  # and never a context, as a text or an input may be
    "query", "question", "prompt", "message", "q", "user_input", "user_message", "user_query",
    "utterance", "instruction", "user",
)  # fmt: skip
QUERIES = (*ASKED[:4], "input", "text", *ASKED[4:])
