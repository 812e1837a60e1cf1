"""Processes of roles: one module and one `main` for each."""
