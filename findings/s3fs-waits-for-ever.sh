#!/usr/bin/env bash
# s3fs 2026.9.0: after `ls` of a folder, `exists` says of an object that another client uploads there that it is not, and `size` of one
# that is replaced tells the old length, while `cat` gives the new bytes: listings are kept for as long as the process lives. A job
# that lists a folder and then waits in a loop for its `_SUCCESS` waits for ever. One would expect `exists` to ask.
# `use_listings_cache=False` helps, as does `listings_expiry_time`.
# Needs Python with venv. Exits 0 while this is so.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check 'moto[s3,server]==5.2.5' 'boto3==1.43.117' 'botocore==1.43.117' 's3fs==2026.9.0'
cd "$work"
AWS_ACCESS_KEY_ID=x AWS_SECRET_ACCESS_KEY=x AWS_DEFAULT_REGION=us-east-1 "$work/venv/bin/python" - <<'PYTHON'
import logging

import boto3
import s3fs
from moto.server import ThreadedMotoServer

logging.getLogger("werkzeug").setLevel(logging.ERROR)
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
endpoint = "http://{}:{}".format(*server.get_host_and_port())
other = boto3.client("s3", endpoint_url=endpoint)
other.create_bucket(Bucket="data")


def seen(files: s3fs.S3FileSystem, folder: str) -> tuple[bool, int, int]:
    """Of a folder that was listed once: whether a new object is there, and the length of a replaced one, told and read."""
    other.put_object(Bucket="data", Key=f"{folder}/part", Body=b"old")
    files.ls(f"data/{folder}")
    other.put_object(Bucket="data", Key=f"{folder}/part", Body=b"new and longer")
    other.put_object(Bucket="data", Key=f"{folder}/_SUCCESS", Body=b"")
    path = f"data/{folder}/part"
    return files.exists(f"data/{folder}/_SUCCESS"), files.size(path), len(files.cat(path))


plain = seen(s3fs.S3FileSystem(endpoint_url=endpoint), "plain")
careful = seen(s3fs.S3FileSystem(endpoint_url=endpoint, use_listings_cache=False), "careful")
server.stop()
print(f"_SUCCESS is there, size told, size read: {plain}; without a cache of listings: {careful}")
assert plain == (False, 3, 14)
assert careful == (True, 14, 14)
PYTHON
