"""An authority of a test's own, and certificates for the addresses of its nodes. Made by openssl."""

from __future__ import annotations

import subprocess
from pathlib import Path

VALID_DAYS = "2"


def make_authority(folder: Path) -> None:
    """`authority.pem` and `authority.key`."""
    folder.mkdir(parents=True, exist_ok=True)
    _openssl(
        *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
        *("-keyout", folder / "authority.key", "-out", folder / "authority.pem"),
        *("-days", VALID_DAYS, "-subj", "/CN=headrace test authority"),
        *("-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign"),
    )


def make_certificate(folder: Path, name: str, address: str) -> None:
    """`NAME.pem` and `NAME.key` for an IP address, signed by the folder's authority."""
    request, extensions = folder / f"{name}.csr", folder / f"{name}.ext"
    extensions.write_text(f"subjectAltName=IP:{address}\nextendedKeyUsage=serverAuth,clientAuth\n")
    _openssl(
        *("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
        *("-keyout", folder / f"{name}.key", "-out", request, "-subj", f"/CN={name}"),
    )
    _openssl(
        *("x509", "-req", "-in", request, "-out", folder / f"{name}.pem", "-days", VALID_DAYS),
        *("-CA", folder / "authority.pem", "-CAkey", folder / "authority.key", "-CAcreateserial"),
        *("-extfile", extensions),
    )


def _openssl(*words: str | Path) -> None:
    command = ["openssl", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"openssl failed: {done.stderr.strip()}")
