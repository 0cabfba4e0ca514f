"""`demo`, `init`, `list`, `probe`: the first minutes."""
