"""Reports of influence: heat maps of contexts, studies, and both in a terminal."""
