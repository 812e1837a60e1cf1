#!/usr/bin/env bash
# versitygw 1.8.0 (posix): a GET with `If-Modified-Since` set to the `Last-Modified` that the server itself has just told is
# answered by 200 and the whole object, not by 304: it compares with the fraction of a second of the file's time, which the
# header has no place for. Only an object whose time has no fraction is ever "not modified". `If-None-Match` works.
# Needs Go, and curl 7.75 or newer. Exits 0 while this is so.
set -euo pipefail
export PATH=$PATH:/usr/local/go/bin
work=$(mktemp -d)
trap 'kill "${server:-}" 2>/dev/null || :; rm -rf "$work"' EXIT
GOBIN=$work CGO_ENABLED=0 go install github.com/versity/versitygw/cmd/versitygw@v1.8.0
mkdir -p "$work/root/data"
ROOT_ACCESS_KEY_ID=key ROOT_SECRET_ACCESS_KEY=secret "$work/versitygw" --quiet --port 127.0.0.1:28436 posix "$work/root" &
server=$!
ask() {
    curl --silent --retry 20 --retry-connrefused --retry-delay 1 \
        --user key:secret --aws-sigv4 aws:amz:us-east-1:s3 -H 'x-amz-content-sha256: UNSIGNED-PAYLOAD' "$@"
}
object=http://127.0.0.1:28436/data/object
ask --fail -X PUT -d 'hello world' "$object"
for time in 10:00:00.500 10:00:00.000; do
    touch -m -d "2026-01-02T${time}Z" "$work/root/data/object"
    told=$(ask --head "$object" | tr -d '\r' | sed -n 's/^Last-Modified: //Ip')
    statuses+=("$(ask --output /dev/null --write-out '%{http_code}' -H "If-Modified-Since: $told" "$object")")
    echo "file of $time, Last-Modified: $told, If-Modified-Since that: ${statuses[-1]}"
done
[[ ${statuses[*]} == '200 304' ]]
