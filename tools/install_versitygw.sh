#!/usr/bin/env bash
# Builds the S3-compatible server of the tests, the demo and the benchmarks into .cache/bin, unless this version is
# there. Quiet when there is nothing to do; about two minutes on two cores, once. Why this one: docs/decisions/0007.
set -euo pipefail

source "$(dirname "$0")/go_programs.sh"
version=v1.8.0
folder=${1:-$(cd "$(dirname "$0")/.." && pwd)/.cache/bin}
stamp=$folder/versitygw.version

is_there() { [[ -x $folder/versitygw && -f $stamp && $(<"$stamp") == "$version" ]]; }

is_there && exit 0
need_go 1.24
build_in "$folder"
is_there && exit 0
GOBIN=$building logged 120 "building versitygw $version, the S3 server" \
    go install -v -ldflags='-s -w' "github.com/versity/versitygw/cmd/versitygw@$version"
mv "$building/versitygw" "$folder/versitygw"
echo "$version" >"$stamp"
