"""What `init` finds out: fields of rows, files, sources, and how a server is asked."""
