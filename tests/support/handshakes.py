"""TLS handshakes in memory: what a client sees of a server's certificate, without a network."""

from __future__ import annotations

import ssl


def handshake(server: ssl.SSLContext, authorities: str, host: str) -> ssl.SSLObject:
    """The client's side after a handshake. Raises `ssl.SSLCertVerificationError` when it does not believe."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.load_verify_locations(cadata=authorities)
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    near = client.wrap_bio(down, up, server_hostname=host)
    far = server.wrap_bio(up, down, server_side=True)
    for _ in range(10):
        if _is_done(near) & _is_done(far):
            return near
    raise TimeoutError("the handshake does not end")


def _is_done(side: ssl.SSLObject) -> bool:
    try:
        side.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True
