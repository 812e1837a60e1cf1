"""Folders of a node: given to the user whom a role runs as, and swept of what roles left there."""
