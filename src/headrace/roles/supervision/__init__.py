"""Supervisors of mounts: they start the mount process, keep its connection, and start the next one when it dies."""
