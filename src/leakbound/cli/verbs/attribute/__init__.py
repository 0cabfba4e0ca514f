"""`influence` and `score-generations`: where an answer comes from."""
