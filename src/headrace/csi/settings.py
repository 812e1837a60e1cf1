"""The settings of the driver."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, field_validator

from headrace.errors import ConfigError
from headrace.settings.model import Model

_SCHEME = "unix://"
_LONGEST_NODE_BYTES = 256


class CsiSettings(Model):
    """All of it."""

    node: str = Field(min_length=1, max_length=_LONGEST_NODE_BYTES)
    endpoint: str
    node_folder: Path
    registration: Path | None = None
    """Where the kubelet looks for plugins: a socket in its folder `plugins_registry`."""
    kubelet_endpoint: Path | None = None
    """The socket of `endpoint` as the kubelet sees it."""
    unused_after_s: float = Field(default=600.0, ge=0)
    """A mount that nobody looks after or uses for so long is taken off; 0: never."""
    stranded_after_s: float = Field(default=3600.0, ge=0)
    """A mount that nobody looks after for so long is ended although it is used; 0: never."""
    linger_s: float = Field(default=20.0, ge=0)
    """How long the driver's end is put off while a mount lives by its keeper alone."""
    metrics_address: str | None = None

    @field_validator("endpoint")
    @classmethod
    def _is_a_unix_socket(cls, endpoint: str) -> str:
        if not endpoint.removeprefix(_SCHEME).startswith("/"):
            raise ConfigError.of(f"the endpoint {endpoint} is no unix:///PATH")
        return endpoint

    @property
    def socket(self) -> Path:
        """The path of the endpoint."""
        return Path(self.endpoint.removeprefix(_SCHEME))
