#!/usr/bin/env bash
# PyArrow 26.0.1: `S3FileSystem.delete_file` of the only object of a folder makes an object: an empty one, `folder/`, so that the
# folder goes on to exist. Deleting so needs the right to write, and prefixes never get empty: what lists a bucket finds markers
# of folders that hold nothing, beside storage where the uploader made none.
# Needs Python with venv. Exits 0 while this is so.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check 'moto[s3,server]==5.2.5' 'boto3==1.43.117' 'botocore==1.43.117' 'pyarrow==26.0.1'
cd "$work"
AWS_ACCESS_KEY_ID=x AWS_SECRET_ACCESS_KEY=x AWS_DEFAULT_REGION=us-east-1 "$work/venv/bin/python" - <<'PYTHON'
import logging

import boto3
import pyarrow.fs
from moto.server import ThreadedMotoServer

logging.getLogger("werkzeug").setLevel(logging.ERROR)
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
endpoint = "http://{}:{}".format(*server.get_host_and_port())
client = boto3.client("s3", endpoint_url=endpoint)
client.create_bucket(Bucket="data")


def keys() -> list[str]:
    return [each["Key"] for each in client.list_objects_v2(Bucket="data").get("Contents", [])]


client.put_object(Bucket="data", Key="epoch-1/part.bin", Body=b"bytes")
before = keys()
pyarrow.fs.S3FileSystem(endpoint_override=endpoint).delete_file("data/epoch-1/part.bin")
after = keys()
server.stop()
print(f"before: {before}; after the only object was deleted: {after}")
assert (before, after) == (["epoch-1/part.bin"], ["epoch-1/"])
PYTHON
