"""Rows from files, folders and hubs: `read_rows` names the line of whatever cannot be read."""
