"""OpenStack Swift with its S3 API as one process: proxy, account, container and object server over one folder.

Run by the Python of Swift's own environment, which has nothing of Headrace: `swift_server.py FOLDER PORT USER SECRET`.
"""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import eventlet

eventlet.monkey_patch()

from eventlet import wsgi  # noqa: E402 - what is imported before is not patched
from swift.common import utils  # noqa: E402
from swift.common.ring import RingBuilder  # noqa: E402
from swift.common.storage_policy import reload_storage_policies  # noqa: E402
from swift.common.wsgi import SwiftHttpProtocol, loadapp  # noqa: E402

STORES = ("account", "container", "object")
STORE = """
[DEFAULT]
devices = {folder}/disks
mount_check = false
swift_dir = {folder}
disable_fallocate = true
[pipeline:main]
pipeline = {kind}-server
[app:{kind}-server]
use = egg:swift#{kind}
"""
PROXY = """
[DEFAULT]
swift_dir = {folder}
[pipeline:main]
pipeline = catch_errors gatekeeper healthcheck listing_formats bulk s3api tempauth slo dlo proxy-logging proxy-server
[app:proxy-server]
use = egg:swift#proxy
account_autocreate = true
allow_account_management = true
[filter:catch_errors]
use = egg:swift#catch_errors
[filter:gatekeeper]
use = egg:swift#gatekeeper
[filter:healthcheck]
use = egg:swift#healthcheck
[filter:listing_formats]
use = egg:swift#listing_formats
[filter:bulk]
use = egg:swift#bulk
[filter:s3api]
use = egg:swift#s3api
location = us-east-1
max_bucket_listing = 100
[filter:tempauth]
use = egg:swift#tempauth
user_{account}_{user} = {secret} .admin
[filter:slo]
use = egg:swift#slo
[filter:dlo]
use = egg:swift#dlo
[filter:proxy-logging]
use = egg:swift#proxy_logging
"""


def main(folder: Path, port: int, name: str, secret: str) -> None:
    """Serves until it is ended."""
    (folder / "disks" / "disk").mkdir(parents=True, exist_ok=True)
    (folder / "swift.conf").write_text("[swift-hash]\nswift_hash_path_suffix = test\n")
    utils.set_swift_dir(str(folder))
    reload_storage_policies()
    listening = {kind: eventlet.listen(("127.0.0.1", 0)) for kind in STORES}
    for kind, listener in listening.items():
        save_ring(folder / f"{kind}.ring.gz", listener.getsockname()[1])
    for kind, listener in listening.items():
        serve(listener, folder / f"{kind}.conf", STORE.format(folder=folder, kind=kind))
    account, _, user = name.partition(":")
    proxy = PROXY.format(folder=folder, account=account, user=user, secret=secret)
    listener = eventlet.listen(("127.0.0.1", port))
    serve(listener, folder / "proxy.conf", proxy).wait()


def save_ring(path: Path, port: int) -> None:
    """One disk for all."""
    builder = RingBuilder(part_power=1, replicas=1, min_part_hours=0)
    place = {"ip": "127.0.0.1", "port": port, "replication_ip": "127.0.0.1", "replication_port": port}
    builder.add_dev({"id": 0, "region": 1, "zone": 1, "device": "disk", "weight": 1, **place})
    builder.rebalance()
    builder.get_ring().save(str(path))


def serve(listener: socket.socket, path: Path, configuration: str) -> eventlet.greenthread.GreenThread:
    """Serves the application of a configuration."""
    path.write_text(configuration)
    return eventlet.spawn(
        wsgi.server, listener, loadapp(str(path)), log_output=False, protocol=SwiftHttpProtocol
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4])
