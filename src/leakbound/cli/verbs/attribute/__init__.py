"""`influence`: where an answer comes from."""
