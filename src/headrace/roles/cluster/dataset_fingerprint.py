"""The fingerprint by which master and workers know that they have the same dataset."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from headrace.engine.uris import with_scheme
from headrace.settings.origins import OriginMount

_IDENTITY = ("kind", "endpoint", "bucket", "prefix", "directory")


def fingerprint(mounts: Sequence[OriginMount]) -> str:
    """Equal for equal origins at equal places, whatever the credentials."""
    digest = hashlib.sha256()
    for mount in sorted(mounts, key=lambda mount: mount.path):
        origin = mount.origin.model_dump()
        origin["endpoint"] = with_scheme(origin.get("endpoint"))
        parts = [mount.path, *(str(origin.get(key) or "") for key in _IDENTITY)]
        digest.update("".join(f"{len(part)}:{part}" for part in parts).encode())
    return digest.hexdigest()[:32]
