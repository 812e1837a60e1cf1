#!/usr/bin/env bash
# PyArrow 26.0.1, obstore 0.12.1, OpenDAL 0.47.12 and smart_open 9.0.2: of an object that is written over while a program has it
# open, the first read gives bytes of the old version and a later one bytes of the new, without an error, although the storage
# tells an ETag with each answer. s3fs 2026.9.0 asks with `If-Match`, and raises. One would expect an open file to be one version,
# as on a disk. A training job that reads a shard while it is being replaced trains on a mixture; caches that are filled so keep it.
# Needs Python with venv. Exits 0 while this is so.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check 'moto[s3,server]==5.2.5' 'boto3==1.43.117' 'botocore==1.43.117' \
    'pyarrow==26.0.1' 'obstore==0.12.1' 'opendal==0.47.12' 'smart_open==9.0.2' 's3fs==2026.9.0'
cd "$work"
AWS_ACCESS_KEY_ID=x AWS_SECRET_ACCESS_KEY=x AWS_DEFAULT_REGION=us-east-1 "$work/venv/bin/python" - <<'PYTHON'
import logging
from collections.abc import Callable
from typing import Any

import boto3
import obstore
import opendal
import pyarrow.fs
import s3fs
import smart_open
from moto.server import ThreadedMotoServer
from obstore.store import S3Store

SIZE, END = 20_000_000, 1000
logging.getLogger("werkzeug").setLevel(logging.ERROR)
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
endpoint = "http://{}:{}".format(*server.get_host_and_port())
client = boto3.client("s3", endpoint_url=endpoint)
client.create_bucket(Bucket="data")


def put(letter: bytes) -> None:
    client.put_object(Bucket="data", Key="object", Body=letter * SIZE)


def seen(opened: Callable[[], Any]) -> str:
    """The letters at the beginning and at the end of a file that was replaced between the two reads."""
    put(b"a")
    file = opened()
    first = bytes(file.read(END))
    put(b"b")
    try:
        file.seek(SIZE - END)
        last = bytes(file.read(END))
    except OSError as error:
        return type(error).__name__
    return f"{first[:1].decode()}{last[:1].decode()}"


arrow = pyarrow.fs.S3FileSystem(endpoint_override=endpoint)
store = S3Store("data", endpoint=endpoint, client_options={"allow_http": True})
operator = opendal.Operator("s3", bucket="data", endpoint=endpoint, region="us-east-1")
# The one that is careful reads ahead from where it is; a small block has it ask again.
careful = s3fs.S3FileSystem(endpoint_url=endpoint, default_block_size=1 << 16, default_cache_type="readahead")
found = {
    "PyArrow": seen(lambda: arrow.open_input_file("data/object")),
    "obstore": seen(lambda: obstore.open_reader(store, "object")),
    "OpenDAL": seen(lambda: operator.open("object", "rb")),
    "smart_open": seen(lambda: smart_open.open("s3://data/object", "rb", transport_params={"client": client})),
    "s3fs": seen(lambda: careful.open("data/object", "rb")),
}
server.stop()
print(f"a: old, b: new: {found}")
mixing = ("PyArrow", "obstore", "OpenDAL", "smart_open")
assert found == {**dict.fromkeys(mixing, "ab"), "s3fs": "FileExpired"}
PYTHON
