"""Roles, each a process of its own: one module and one `main` for each."""

from headrace import authorities
from headrace.garbage import collect_seldom

# Before all else that its programs load.
collect_seldom()
authorities.are_named_by_us()
