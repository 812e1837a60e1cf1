#!/usr/bin/env bash
# moto 5.2.5: GET with `partNumber=2` sends the whole object with status 200, while HEAD with the same tells the length of
# that part. S3 answers both by 206 and the part alone. A client that fetches an object part by part, and trusts that each
# answer is the part that it asked for, puts the object together several times over.
# Needs Python with venv. Exits 0 while this is so.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check 'moto[s3]==5.2.5' 'boto3==1.44.8' 'botocore==1.44.8'
AWS_ACCESS_KEY_ID=x AWS_SECRET_ACCESS_KEY=x AWS_DEFAULT_REGION=us-east-1 "$work/venv/bin/python" - <<'PYTHON'
import boto3
from moto import mock_aws

with mock_aws():
    s3 = boto3.client("s3")
    s3.create_bucket(Bucket="data")
    place = {"Bucket": "data", "Key": "object"}
    upload = s3.create_multipart_upload(**place)["UploadId"]
    parts = []
    for number, body in enumerate((b"a" * (5 << 20), b"tail"), 1):
        sent = s3.upload_part(**place, UploadId=upload, PartNumber=number, Body=body)
        parts.append({"PartNumber": number, "ETag": sent["ETag"]})
    s3.complete_multipart_upload(**place, UploadId=upload, MultipartUpload={"Parts": parts})
    head = s3.head_object(**place, PartNumber=2)
    got = s3.get_object(**place, PartNumber=2)
    sent_bytes = len(got["Body"].read())

status = got["ResponseMetadata"]["HTTPStatusCode"]
print(f"HEAD of part 2: {head['ContentLength']} bytes; GET of part 2: status {status}, {sent_bytes} bytes")
assert head["ContentLength"] == len(b"tail")
assert (status, sent_bytes) == (200, (5 << 20) + len(b"tail"))
PYTHON
