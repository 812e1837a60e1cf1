#!/usr/bin/env bash
# s3rver 3.7.1: `Range: bytes=-4`, the last four bytes, is answered by 206 with the first five (`0-4`). HTTP and S3 give the last four.
# Formats whose index lies at the end (Parquet, ZIP, ORC) are opened so by readers that do not know the length; they find
# no magic there, and call a good file damaged. A client that looks at `Content-Range` notices.
# Its pages need a digest that OpenSSL 3 calls legacy.
# Needs Node with npm, and curl 7.75 or newer. Exits 0 while this is so.
set -euo pipefail
work=$(mktemp -d)
trap 'kill "${server:-}" 2>/dev/null || :; rm -rf "$work"' EXIT
npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$work" s3rver@3.7.1
mkdir "$work/data"
node --no-deprecation --openssl-legacy-provider "$work/node_modules/s3rver/bin/s3rver.js" \
    -d "$work/data" -a 127.0.0.1 -p 28439 --silent --configure-bucket data &
server=$!
ask() {
    curl --silent --fail --retry 20 --retry-connrefused --retry-delay 1 \
        --user S3RVER:S3RVER --aws-sigv4 aws:amz:us-east-1:s3 -H 'x-amz-content-sha256: UNSIGNED-PAYLOAD' "$@"
}
object=http://127.0.0.1:28439/data/object
ask -X PUT -d 'head....PAR1' "$object"
exact=$(ask --range 8-11 "$object")
suffix=$(ask --range -4 "$object")
echo "bytes 8 to 11: $exact, the last 4: $suffix"
[[ $exact == PAR1 && $suffix == head. ]]
