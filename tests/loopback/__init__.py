"""Real servers on this machine, for tests:

OpenAI-compatible in three dialects, with each known defect, and with faults.
"""
