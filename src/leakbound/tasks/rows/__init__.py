"""Rows from files, folders and hubs: `load_rows` names the line of whatever cannot be read."""
