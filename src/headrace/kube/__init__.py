"""Talking to the API server of Kubernetes: the only code that does."""
