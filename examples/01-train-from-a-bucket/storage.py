"""The storage of the demo: a real S3 server with the data in it, behind a limited link."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from progress import say, say_sometimes

from headrace.testing.fashion_mnist import make_fashion_mnist
from headrace.testing.network import NamespaceLink, ProxyLink, storage_link
from headrace.testing.photos import PhotoSet, make_photos
from headrace.testing.s3_server import S3Server

PHOTO_BUCKET = "imagenet"
FASHION_BUCKET = "fashion-mnist"


@dataclass(frozen=True)
class Data:
    """The folders that become buckets."""

    photos: Path
    fashion: Path


@dataclass(frozen=True)
class Storage:
    """The running server and the link to it."""

    server: S3Server
    link: NamespaceLink | ProxyLink

    def describe_link(self) -> str:
        if isinstance(self.link, NamespaceLink):
            return "network namespace behind a veth pair, tc tbf on the storage side"
        return "rate-limiting TCP proxy (not root)"


def make_data(cache: Path, *, photos: int) -> Data:
    """Makes the data, or finds it made."""
    say(f"making {photos:,} photos of about 110 KB and both forms of Fashion-MNIST (once)")
    progress = say_sometimes()
    made = make_photos(
        PhotoSet(photos), cache, report=lambda done, all_: progress(f"{done:,} of {all_:,} photos")
    )
    return Data(made, make_fashion_mnist(cache))


@contextlib.contextmanager
def serve(data: Data, work: Path, *, rate_bits_per_s: int) -> Iterator[Storage]:
    """Serves the data as two buckets until the block ends."""
    with (
        storage_link(rate_bits_per_s) as link,
        S3Server(work / "buckets", state=work / "server", link=link) as server,
    ):
        server.link_bucket(PHOTO_BUCKET, data.photos)
        server.link_bucket(FASHION_BUCKET, data.fashion)
        yield Storage(server, link)
