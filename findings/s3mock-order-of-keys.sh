#!/usr/bin/env bash
# S3Mock 5.2.0: ListObjectsV2 orders keys by UTF-16, as Java compares strings, so that U+1F600 (a pair of surrogates from
# U+D83D) comes before U+FF5E. S3 orders by the bytes of UTF-8, where it comes after. Only characters beyond U+FFFF beside
# some of U+E000 to U+FFFF show it, such as emoji beside full-width forms.
# Needs Java 17 or newer, Maven and curl. Exits 0 while this is so.
set -euo pipefail
work=$(mktemp -d)
trap 'kill "${server:-}" 2>/dev/null || :; rm -rf "$work"' EXIT
mvn --batch-mode --quiet dependency:copy -Dartifact=com.adobe.testing:s3mock:5.2.0:jar:exec -DoutputDirectory="$work"
java -jar "$work/s3mock-5.2.0-exec.jar" --http.port=28433 --server.port=28434 >"$work/log" 2>&1 &
server=$!
ask() { curl --silent --fail --retry 200 --retry-connrefused --retry-delay 1 "$@"; }
place=http://127.0.0.1:28433/data
ask -X PUT "$place"
for key in '%F0%9F%98%80' '%EF%BD%9E'; do ask -X PUT -d x "$place/$key" >/dev/null; done
keys=$(ask "$place?list-type=2&encoding-type=url" | grep -o '<Key>[^<]*' | sed 's/<Key>//' | paste -sd' ')
echo "listed: $keys"
[[ $keys == '%F0%9F%98%80 %EF%BD%9E' ]]
