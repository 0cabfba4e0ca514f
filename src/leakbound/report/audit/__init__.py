"""Reports of one audit, or of several side by side."""
