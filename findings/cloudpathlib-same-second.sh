#!/usr/bin/env bash
# cloudpathlib 0.26.0: an object that is replaced within a second of its last version is not fetched again: `read_text` goes on to
# give the old content from the local copy, also by a new path object, while `stat` tells the new size. Copies are compared by
# the time of modification alone, which S3 tells in whole seconds, and neither ETag nor size counts. A job that writes a list,
# corrects it and hands it on reads the uncorrected one.
# Needs Python with venv. Exits 0 while this is so.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check 'moto[s3,server]==5.2.5' 'boto3==1.43.117' 'botocore==1.43.117' 'cloudpathlib[s3]==0.26.0'
cd "$work"
AWS_ACCESS_KEY_ID=x AWS_SECRET_ACCESS_KEY=x AWS_DEFAULT_REGION=us-east-1 "$work/venv/bin/python" - <<'PYTHON'
import logging

import boto3
from cloudpathlib import S3Client
from moto.server import ThreadedMotoServer

logging.getLogger("werkzeug").setLevel(logging.ERROR)
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
endpoint = "http://{}:{}".format(*server.get_host_and_port())
client = boto3.client("s3", endpoint_url=endpoint)
client.create_bucket(Bucket="data")
paths = S3Client(endpoint_url=endpoint, local_cache_dir="copies")


def put(content: bytes) -> object:
    client.put_object(Bucket="data", Key="list.txt", Body=content)
    return client.head_object(Bucket="data", Key="list.txt")["LastModified"]


# Again until both versions are of one second.
for attempt in range(50):
    first_time = put(b"first")
    first = paths.CloudPath("s3://data/list.txt").read_text()
    if put(b"the second") == first_time:
        break
path = paths.CloudPath("s3://data/list.txt")
second, size = path.read_text(), path.stat().st_size
server.stop()
print(f"first: {first!r}; once replaced: {second!r}, while stat tells {size} bytes")
assert (first, second, size) == ("first", "first", len("the second"))
PYTHON
