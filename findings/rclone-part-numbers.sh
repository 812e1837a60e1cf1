#!/usr/bin/env bash
# rclone 1.76.0 `serve s3`: an upload of the parts 2 and 5 is refused at its end (400 InvalidPart), as is one that leaves out a
# part that was sent. S3 asks for rising numbers, not for numbers without gaps, and joins the parts that the end names.
# Needs Go, and curl 7.75 or newer. Exits 0 while this is so.
set -euo pipefail
export PATH=$PATH:/usr/local/go/bin
work=$(mktemp -d)
trap 'kill "${server:-}" 2>/dev/null || :; rm -rf "$work"' EXIT
GOBIN=$work CGO_ENABLED=0 go install github.com/rclone/rclone@v1.76.0
mkdir -p "$work/root/data"
"$work/rclone" serve s3 --config '' --addr 127.0.0.1:28438 --auth-key key,secret "$work/root" 2>"$work/log" &
server=$!
ask() {
    curl --silent --retry 20 --retry-connrefused --retry-delay 1 \
        --user key:secret --aws-sigv4 aws:amz:us-east-1:s3 -H 'x-amz-content-sha256: UNSIGNED-PAYLOAD' "$@"
}
object=http://127.0.0.1:28438/data/object
head -c 5242880 /dev/zero >"$work/part"
# uploaded NUMBER...: the status at the end of an upload of parts with these numbers.
uploaded() {
    local id number tag list=
    id=$(ask -X POST "$object?uploads=" | sed -n 's:.*<UploadId>\(.*\)</UploadId>.*:\1:p')
    for number in "$@"; do
        tag=$(ask -D - -o /dev/null -T "$work/part" "$object?partNumber=$number&uploadId=$id" | tr -d '\r"' | sed -n 's/^Etag: //Ip')
        list+="<Part><PartNumber>$number</PartNumber><ETag>$tag</ETag></Part>"
    done
    ask -o "$work/answer" -w '%{http_code}' -d "<CompleteMultipartUpload>$list</CompleteMultipartUpload>" "$object?uploadId=$id"
}
whole=$(uploaded 1 2)
gap=$(uploaded 2 5)
echo "parts 1 and 2: $whole, parts 2 and 5: $gap $(sed -n 's:.*<Code>\(.*\)</Code>.*:\1:p' "$work/answer")"
[[ $whole == 200 && $gap == 400 ]] && grep -q InvalidPart "$work/answer"
