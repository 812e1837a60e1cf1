#!/usr/bin/env bash
# s3rver 3.7.1: ListObjectsV2 gives keys in the order of files and folders, not of their bytes: `a/x` before `a-x`, although
# `-` comes before `/`. A client that goes on by `start-after`, or cuts the key space, has to look at the order itself.
# Its pages need a digest that OpenSSL 3 calls legacy.
# Needs Node with npm, and curl 7.75 or newer. Exits 0 while this is so.
set -euo pipefail
work=$(mktemp -d)
trap 'kill "${server:-}" 2>/dev/null || :; rm -rf "$work"' EXIT
npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$work" s3rver@3.7.1
mkdir "$work/data"
node --no-deprecation --openssl-legacy-provider "$work/node_modules/s3rver/bin/s3rver.js" \
    -d "$work/data" -a 127.0.0.1 -p 28432 --silent --configure-bucket data &
server=$!
ask() {
    curl --silent --fail --retry 20 --retry-connrefused --retry-delay 1 \
        --user S3RVER:S3RVER --aws-sigv4 aws:amz:us-east-1:s3 -H 'x-amz-content-sha256: UNSIGNED-PAYLOAD' "$@"
}
for key in a-x a/x b; do ask -X PUT -d "$key" "http://127.0.0.1:28432/data/$key"; done
keys=$(ask "http://127.0.0.1:28432/data?list-type=2" | grep -o '<Key>[^<]*' | sed 's/<Key>//' | paste -sd' ')
echo "listed: $keys"
[[ $keys == 'a/x a-x b' ]]
