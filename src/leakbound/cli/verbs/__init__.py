"""The verbs of the command line, by the section of the help in which they stand; one file a
verb.
"""
