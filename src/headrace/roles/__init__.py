"""Roles, each a process of its own, and what starts and supervises them. ARCHITECTURE.md has the order of the rooms."""

from headrace.process import program

# Before all else that its programs load.
program.begins()
