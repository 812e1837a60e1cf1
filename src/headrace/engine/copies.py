"""A copy of the engine as its role sees it. Typed, and nothing more."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from headrace.engine import native
from headrace.engine.handles import Job
from headrace.engine.key_renewal import renewed_while_opening
from headrace.settings.copying import CopyConfig
from headrace.settings.key_sources import KeySource
from headrace.trusted_folders import make_folder


class NativeCopier:
    """A copy whose source is listed and whose target answers. Every method may block."""

    def __init__(self, config: CopyConfig, keys: Sequence[KeySource] = ()) -> None:
        make_folder(config.source.state_directory)
        with renewed_while_opening(keys, config.source, config.target) as self._renewal:
            self._native = native.load().Copier.open(config.to_json())

    def start(self) -> Job:
        """Begins."""
        return Job(self._native.start())

    def set_view(self, view: Mapping[str, Any]) -> None:
        """Goes by these workers from now on."""
        self._native.set_view(json.dumps(view))

    def close(self) -> None:
        """Ends it; what is begun stays for the next copy of the same state."""
        try:
            self._native.close()
        finally:
            self._renewal.close()
