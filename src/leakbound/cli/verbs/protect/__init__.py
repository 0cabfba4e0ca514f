"""`answer`, `serve`, `ledger`: private answers within a budget."""
