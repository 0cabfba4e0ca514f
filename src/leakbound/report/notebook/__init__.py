"""Results as cards in a notebook."""
