"""Roles, each a process of its own, and what starts and supervises them. ARCHITECTURE.md has the order of the rooms."""

from headrace import authorities
from headrace.garbage import collect_seldom

# Before all else that its programs load.
collect_seldom()
authorities.are_named_by_us()
