"""`plan`, `audit`, `audit-log`, `sweep`, `merge`: what makes runs."""
