"""The configuration of one copy: the mirror of `CopyConfig` in `crates/engine/src/engine/copying.rs`."""

from __future__ import annotations

from pydantic import Field

from headrace.settings.engine import EngineConfig, plain_json
from headrace.settings.model import Model
from headrace.settings.origins import OriginConfig


class CopyConfig(Model):
    """From where to where. The state directory of `source` is this copy's own, and keeps its ledger."""

    source: EngineConfig
    source_path: str = ""
    target: OriginConfig
    files: int = Field(default=16, ge=1)
    part_bytes: int = Field(default=16 << 20, ge=5 << 20)

    def to_json(self) -> str:
        """The engine's own form, credentials in clear: never log, print or store what this returns."""
        return plain_json(self)
