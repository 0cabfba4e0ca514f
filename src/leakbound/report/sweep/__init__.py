"""Reports of a sweep: its page, its figures as files, and a summary in a terminal."""
