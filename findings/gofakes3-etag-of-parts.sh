#!/usr/bin/env bash
# gofakes3 1.2.0 (memory): CompleteMultipartUpload answers with an ETag that the object does not have afterwards. The answer
# has the form of S3 for parts (`…-2`); HEAD and GET then tell the MD5 of the whole. A client that keeps the first as the
# object's version, and reads with `If-Match`, asks for something that never was.
# Needs Go and curl. Exits 0 while this is so.
set -euo pipefail
export PATH=$PATH:/usr/local/go/bin
work=$(mktemp -d)
trap 'kill "${server:-}" 2>/dev/null || :; rm -rf "$work"' EXIT
GOBIN=$work CGO_ENABLED=0 go install github.com/johannesboyne/gofakes3/cmd/gofakes3@v1.2.0
"$work/gofakes3" -backend memory -host 127.0.0.1:28431 -initialbucket data -quiet &
server=$!
ask() { curl --silent --fail --retry 20 --retry-connrefused --retry-delay 1 "$@"; }
object=http://127.0.0.1:28431/data/object
id=$(ask -X POST "$object?uploads" | sed -n 's:.*<UploadId>\(.*\)</UploadId>.*:\1:p')
head -c 5242880 /dev/zero >"$work/part"
for number in 1 2; do
    tag[number]=$(ask -D - -o /dev/null -T "$work/part" "$object?partNumber=$number&uploadId=$id" | tr -d '\r"' | sed -n 's/^Etag: //Ip')
done
list=$(for number in 1 2; do echo "<Part><PartNumber>$number</PartNumber><ETag>${tag[number]}</ETag></Part>"; done)
told=$(ask -d "<CompleteMultipartUpload>$list</CompleteMultipartUpload>" "$object?uploadId=$id" | sed 's/&#34;\|&quot;\|"//g' | sed -n 's:.*<ETag>\(.*\)</ETag>.*:\1:p')
has=$(ask --head "$object" | tr -d '\r"' | sed -n 's/^Etag: //Ip')
md5=$(cat "$work/part" "$work/part" | md5sum | cut -d' ' -f1)
echo "CompleteMultipartUpload tells $told, HEAD tells $has, the MD5 of the whole is $md5"
[[ $told == *-2 && $has == "$md5" ]]
