"""What a gate decided: on a screen, as a page, and as SARIF and JUnit for CI."""
