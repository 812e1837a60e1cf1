#!/usr/bin/env bash
# gofakes3 1.2.0 (memory): `Range: bytes=-64` of an object of eleven bytes is answered by 416. HTTP gives the whole object where
# fewer bytes are there than the last so many that are asked for, and so does S3. Readers that look at the end of a file first,
# such as those of Parquet and ZIP, ask for a fixed number of bytes, however small the file is.
# Needs Go and curl. Exits 0 while this is so.
set -euo pipefail
export PATH=$PATH:/usr/local/go/bin
work=$(mktemp -d)
trap 'kill "${server:-}" 2>/dev/null || :; rm -rf "$work"' EXIT
GOBIN=$work CGO_ENABLED=0 go install github.com/johannesboyne/gofakes3/cmd/gofakes3@v1.2.0
"$work/gofakes3" -backend memory -host 127.0.0.1:28435 -initialbucket data -quiet &
server=$!
object=http://127.0.0.1:28435/data/object
curl --silent --fail --retry 20 --retry-connrefused --retry-delay 1 -X PUT -d 'hello world' "$object"
status() { curl --silent --output /dev/null --write-out '%{http_code}' --range "$1" "$object"; }
exact=$(status -11)
longer=$(status -64)
echo "the last 11 bytes of 11: $exact, the last 64: $longer"
[[ $exact == 206 && $longer == 416 ]]
