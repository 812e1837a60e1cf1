"""The former place of `headrace.local.lifecycle.relaunch`, for guards that began before it moved."""

from __future__ import annotations

from headrace.local.lifecycle.relaunch import relaunch

__all__ = ["relaunch"]
