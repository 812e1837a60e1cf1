from __future__ import annotations

from shared_fixtures import data, private_environment

__all__ = ["data", "private_environment"]
