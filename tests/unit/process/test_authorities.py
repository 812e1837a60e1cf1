"""The authorities of this machine: unread where a program of ours begins, and there for whoever asks for them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.testing.cluster.certificates import make_authority

_SAYS = """
import ssl, sys
from pathlib import Path
{begin}
import headrace.control.client
from headrace.control.tls import client_context
from aiohttp import connector

contexts = (
    connector._SSL_CONTEXT_VERIFIED,
    ssl.create_default_context(),
    client_context(None),
)
print([len(context.get_ca_certs()) for context in contexts])
"""


@pytest.mark.parametrize(
    ("begin", "of_aiohttp"),
    [
        ("import headrace.roles", 0),
        ("import headrace.local", 0),
        ("import headrace.cli", 0),
        ("", 1),
        ("import headrace; headrace.open_dataset", 1),
        ("import aiohttp, headrace.roles", 1),
    ],
)
def test_only_in_programs_of_ours_aiohttp_knows_no_authority(
    tmp_path: Path, begin: str, of_aiohttp: int
) -> None:
    make_authority(tmp_path)
    done = subprocess.run(
        [sys.executable, "-P", "-c", _SAYS.format(begin=begin)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "SSL_CERT_FILE": str(tmp_path / "authority.pem"), "SSL_CERT_DIR": str(tmp_path)},
    )
    assert done.stdout == f"{[of_aiohttp, 1, 1]}\n"
