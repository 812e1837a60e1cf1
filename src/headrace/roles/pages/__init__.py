"""Web pages of a process that has no event loop: metrics, health, progress."""
