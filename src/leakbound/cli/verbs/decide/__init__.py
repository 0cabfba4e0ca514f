"""`report`, `compare`, `gate`, `verify`, `bounds`, `export`: what reads finished runs."""
