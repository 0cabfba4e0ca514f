"""leakbound in other people's tools: experiment trackers, evaluation frameworks, a pytest plugin,
exports to registries, and adapters that audit indexes and agents of frameworks.

No host is imported before it is used.
"""
