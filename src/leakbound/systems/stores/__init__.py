"""Stores that keep the records of a whole audit: `SharedStore`, indexes, and what is left in
them.
"""
