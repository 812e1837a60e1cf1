#!/usr/bin/env bash
# s3fs 2026.9.0, PyArrow 26.0.1 and OpenDAL 0.47.12: when a `with` block that writes an object ends by an exception, what was written
# so far is stored under the object's name, as if it were whole. obstore 0.12.1 and smart_open 9.0.2 store nothing. Storage
# keeps no object that is half written, so one would expect none. A checkpoint whose writer fails in the middle (memory, a
# full queue, Ctrl-C) so takes the place of the last good one, and the next run resumes from it.
# Needs Python with venv. Exits 0 while this is so.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check 'moto[s3,server]==5.2.5' 'boto3==1.43.117' 'botocore==1.43.117' \
    'pyarrow==26.0.1' 'obstore==0.12.1' 'opendal==0.47.12' 'smart_open==9.0.2' 's3fs==2026.9.0'
cd "$work"
AWS_ACCESS_KEY_ID=x AWS_SECRET_ACCESS_KEY=x AWS_DEFAULT_REGION=us-east-1 "$work/venv/bin/python" - <<'PYTHON'
import contextlib
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

logging.getLogger("werkzeug").setLevel(logging.ERROR)
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
endpoint = "http://{}:{}".format(*server.get_host_and_port())
client = boto3.client("s3", endpoint_url=endpoint)
client.create_bucket(Bucket="data")


def left(opened: Callable[[], Any]) -> str:
    """The checkpoint after a writer that failed in the middle of the next one."""
    client.put_object(Bucket="data", Key="checkpoint", Body=b"good and whole")
    with contextlib.suppress(RuntimeError), opened() as file:
        file.write(b"half")
        raise RuntimeError("out of memory")
    return client.get_object(Bucket="data", Key="checkpoint")["Body"].read().decode()


arrow = pyarrow.fs.S3FileSystem(endpoint_override=endpoint)
store = S3Store("data", endpoint=endpoint, client_options={"allow_http": True})
operator = opendal.Operator("s3", bucket="data", endpoint=endpoint, region="us-east-1")
files = s3fs.S3FileSystem(endpoint_url=endpoint)
found = {
    "s3fs": left(lambda: files.open("data/checkpoint", "wb")),
    "PyArrow": left(lambda: arrow.open_output_stream("data/checkpoint")),
    "OpenDAL": left(lambda: operator.open("checkpoint", "wb")),
    "obstore": left(lambda: obstore.open_writer(store, "checkpoint")),
    "smart_open": left(
        lambda: smart_open.open("s3://data/checkpoint", "wb", transport_params={"client": client})
    ),
}
server.stop()
print(found)
half, whole = ("s3fs", "PyArrow", "OpenDAL"), ("obstore", "smart_open")
assert found == {**dict.fromkeys(half, "half"), **dict.fromkeys(whole, "good and whole")}
PYTHON
