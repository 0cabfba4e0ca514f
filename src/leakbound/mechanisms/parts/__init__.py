"""What mechanisms are made of: `MechanismBase`, prompts of partitions, noise, private choices of
tokens.
"""
