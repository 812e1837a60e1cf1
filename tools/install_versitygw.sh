#!/usr/bin/env bash
# Builds the S3-compatible server of the tests, the demo and the benchmarks into .cache/bin, unless this version is
# there. Quiet when there is nothing to do; about two minutes on two cores, once. Why this one: docs/decisions/0007.
set -euo pipefail

version=v1.8.0
checkout=$(cd "$(dirname "$0")/.." && pwd)
folder=${1:-$checkout/.cache/bin}
stamp=$folder/versitygw.version

if [[ -x $folder/versitygw && -f $stamp && $(<"$stamp") == "$version" ]]; then
    exit 0
fi
if ! command -v go >/dev/null; then
    echo "install_versitygw: no Go toolchain on PATH; install Go 1.24 or newer" >&2
    exit 1
fi

echo "building versitygw $version (about two minutes, once)" >&2
mkdir -p "$folder"
log=$folder/versitygw-build.log
if ! GOBIN=$folder CGO_ENABLED=0 nice go install -ldflags='-s -w' \
    "github.com/versity/versitygw/cmd/versitygw@$version" >"$log" 2>&1; then
    tail -20 "$log" >&2
    echo "install_versitygw: the build failed; the whole log is in $log" >&2
    exit 1
fi
rm -f "$log"
echo "$version" >"$stamp"
