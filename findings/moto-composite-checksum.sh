#!/usr/bin/env bash
# moto 5.2.5: for an object that was uploaded in parts with CRC-32, HEAD tells the CRC of the parts' CRCs as
# `x-amz-checksum-crc32`, without the number of parts behind it and without `x-amz-checksum-type`. S3 tells `…-2` and
# COMPOSITE. Only the object's ETag (`…-2`) shows that this is no checksum of its bytes.
# Needs Python with venv. Exits 0 while this is so.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check 'moto[s3]==5.2.5' 'boto3==1.44.8' 'botocore==1.44.8'
AWS_ACCESS_KEY_ID=x AWS_SECRET_ACCESS_KEY=x AWS_DEFAULT_REGION=us-east-1 "$work/venv/bin/python" - <<'PYTHON'
import base64
import zlib

import boto3
from moto import mock_aws

with mock_aws():
    s3 = boto3.client("s3")
    s3.create_bucket(Bucket="data")
    place = {"Bucket": "data", "Key": "object"}
    upload = s3.create_multipart_upload(**place, ChecksumAlgorithm="CRC32")["UploadId"]
    bodies, parts = [b"a" * (5 << 20), b"b"], []
    for number, body in enumerate(bodies, 1):
        sent = s3.upload_part(**place, UploadId=upload, PartNumber=number, Body=body, ChecksumAlgorithm="CRC32")
        parts.append({"PartNumber": number, "ETag": sent["ETag"], "ChecksumCRC32": sent["ChecksumCRC32"]})
    s3.complete_multipart_upload(**place, UploadId=upload, MultipartUpload={"Parts": parts})
    head = s3.head_object(**place, ChecksumMode="ENABLED")


def told(crc: int) -> str:
    return base64.b64encode(crc.to_bytes(4, "big")).decode()


whole = told(zlib.crc32(b"".join(bodies)))
composite = told(zlib.crc32(b"".join(zlib.crc32(body).to_bytes(4, "big") for body in bodies)))
print(f"ETag {head['ETag']}, told {head['ChecksumCRC32']}, type {head.get('ChecksumType')},", end=" ")
print(f"of the whole {whole}, of the parts' CRCs {composite}")
assert head["ETag"].endswith('-2"')
assert head["ChecksumCRC32"] == composite != whole
assert "ChecksumType" not in head
PYTHON
