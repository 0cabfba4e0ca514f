"""`plan`, `audit`, `audit-log`, `tune`, `sweep`, `merge`: what makes runs."""
