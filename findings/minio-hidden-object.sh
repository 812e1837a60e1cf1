#!/usr/bin/env bash
# MinIO 2026-02-12: both `a` and `a/b` can be uploaded, and GET gives each; a listing names `a` alone, also one of what begins
# with `a/`, which is empty. What was uploaded to `a/b` is found only by whoever knows its name. S3 names both.
# Needs Go, and curl 7.75 or newer; the build takes some minutes. Exits 0 while this is so.
set -euo pipefail
export PATH=$PATH:/usr/local/go/bin
work=$(mktemp -d)
trap 'kill "${server:-}" 2>/dev/null || :; rm -rf "$work"' EXIT
GOBIN=$work CGO_ENABLED=0 go install github.com/minio/minio@v0.0.0-20260212201848-7aac2a2c5b7c
MINIO_ROOT_USER=headrace MINIO_ROOT_PASSWORD=secret-of-test MINIO_BROWSER=off MINIO_UPDATE=off \
    "$work/minio" server --quiet --address 127.0.0.1:28437 "$work/data" &
server=$!
ask() {
    curl --silent --fail --retry 60 --retry-connrefused --retry-delay 1 --user headrace:secret-of-test \
        --aws-sigv4 aws:amz:us-east-1:s3 -H 'x-amz-content-sha256: UNSIGNED-PAYLOAD' "$@"
}
place=http://127.0.0.1:28437/data
ask -X PUT -d '' "$place"
for key in a a/b c; do ask -X PUT -d "content of $key" "$place/$key"; done
keys() { ask "$place?$1" | grep -o '<Key>[^<]*' | sed 's/<Key>//' | paste -sd' ' || :; }
all=$(keys 'list-type=2')
below=$(keys 'list-type=2&prefix=a%2F')
echo "GET a/b: $(ask "$place/a/b"); listed: $all; listed below a/: ${below:-nothing}"
[[ $all == 'a c' && -z $below && $(ask "$place/a/b") == 'content of a/b' ]]
