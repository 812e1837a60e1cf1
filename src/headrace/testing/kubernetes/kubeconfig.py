"""Writes kubeconfig files: who somebody is, and where the API server is."""

from __future__ import annotations

import base64
import json
from pathlib import Path

from headrace.testing.kubernetes.layout import API_PORT, Addresses


def write_kubeconfig(path: Path, addresses: Addresses, certificates: Path, name: str) -> None:
    """For the certificate `NAME.pem`. All is inside, so that the file can be copied away."""
    shown = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "headrace",
        "clusters": [
            {
                "name": "headrace",
                "cluster": {
                    "server": f"https://{addresses.control}:{API_PORT}",
                    "certificate-authority-data": _encoded(certificates / "authority.pem"),
                },
            }
        ],
        "users": [
            {
                "name": name,
                "user": {
                    "client-certificate-data": _encoded(certificates / f"{name}.pem"),
                    "client-key-data": _encoded(certificates / f"{name}.key"),
                },
            }
        ],
        "contexts": [{"name": "headrace", "context": {"cluster": "headrace", "user": name}}],
    }
    path.touch(mode=0o600)
    # JSON is YAML, too.
    path.write_text(json.dumps(shown, indent=1))


def _encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
