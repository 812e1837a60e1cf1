"""The certificate that new connections are served with; those that are open keep theirs, and notice nothing."""

from __future__ import annotations

import asyncio
import os
import ssl
from datetime import datetime

from headrace.webhook.certificates import Pair, facts_of


class ServingContext:
    """A TLS context whose certificate can be changed while it is in use."""

    def __init__(self) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.is_usable = asyncio.Event()
        self.ends: datetime | None = None
        """When the certificate ends that new connections are served with."""
        self._certificate = ""

    def serve(self, pair: Pair) -> bool:
        """Uses this pair for handshakes from now on; `False` when it does already.

        OpenSSL gives each connection its own hold of the certificate when it begins.
        """
        if pair.certificate == self._certificate:
            return False
        # Python loads a chain from a file only; this one is in memory, so that the key never touches a disk.
        descriptor = os.memfd_create("certificate", os.MFD_CLOEXEC)
        try:
            with open(descriptor, "w", encoding="ascii", closefd=False) as file:
                file.write(pair.certificate + pair.key.get_secret_value())
            self.context.load_cert_chain(f"/proc/self/fd/{descriptor}")
        finally:
            os.close(descriptor)
        self._certificate = pair.certificate
        self.ends = facts_of(pair).ends
        self.is_usable.set()
        return True
