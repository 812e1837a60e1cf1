"""What runs as a process of its own: one module and one `main` for each."""
