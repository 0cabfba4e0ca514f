"""Other projects' extension points: each package here imports its host, and only when it is used.

Nothing else of leakbound imports from here.
"""
