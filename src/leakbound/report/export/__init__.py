"""Decisions in the formats of continuous integration: SARIF and JUnit."""
