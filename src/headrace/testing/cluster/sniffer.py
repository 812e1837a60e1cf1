"""A program that keeps what TCP carries over a node's link, so that a test can search it. Needs root.

python -m headrace.testing.cluster.sniffer DEVICE PORT FILE
"""

from __future__ import annotations

import socket
import struct
import sys
from pathlib import Path

ETHERNET_BYTES = 14
TCP = 6
# The largest packet that segmentation offload lets pass in one piece.
LARGEST_PACKET_BYTES = 1 << 17
RECEIVE_BUFFER_BYTES = 32 << 20
ALL_PROTOCOLS = 0x0003
# Beyond what the machine gives to anybody: what comes while a busy machine gives no time is not lost.
SO_RCVBUFFORCE = 33


def payload_of(packet: bytes, port: int) -> bytes:
    """The payload of a packet of this port, in either direction; nothing of others."""
    if packet[12:14] != b"\x08\x00" or packet[ETHERNET_BYTES + 9] != TCP:
        return b""
    ip_bytes = (packet[ETHERNET_BYTES] & 0x0F) * 4
    total_bytes = struct.unpack_from("!H", packet, ETHERNET_BYTES + 2)[0]
    start = ETHERNET_BYTES + ip_bytes
    if port not in struct.unpack_from("!HH", packet, start):
        return b""
    tcp_bytes = (packet[start + 12] >> 4) * 4
    # A frame may be padded; a packet of offload beyond 64 KiB tells no length.
    end = ETHERNET_BYTES + total_bytes if total_bytes else len(packet)
    return packet[start + tcp_bytes : end]


def main(device: str, port: int, path: Path) -> None:
    with (
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL_PROTOCOLS)) as link,
        path.open("wb", buffering=0) as file,
    ):
        link.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BUFFER_BYTES)
        link.bind((device, 0))
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while True:
            if payload := payload_of(link.recv(LARGEST_PACKET_BYTES), port):
                file.write(payload)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
