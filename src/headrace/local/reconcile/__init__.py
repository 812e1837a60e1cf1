"""Datasets brought in line with their declarations: what is observed, what the planner says of it, and the steps that
follow, each of which may be cut off and taken again.

Must not know who asks: commands and the supervisor's HTTP API stand above it.
"""
