"""Network namespaces, their cables and their limits. Needs root. Knows nothing of what runs inside."""
