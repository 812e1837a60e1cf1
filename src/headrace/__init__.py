"""Headrace: data acceleration for AI training."""

__version__ = "0.1.0"
