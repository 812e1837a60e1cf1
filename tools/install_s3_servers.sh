#!/usr/bin/env bash
# Installs the S3 servers of tests/integration/test_s3_servers.py into .cache/servers, each unless this version is there:
# those of `make test` (quick), or all of them. docs/servers.md says what they are.
# Usage: tools/install_s3_servers.sh quick|all
set -euo pipefail

source "$(dirname "$0")/go_programs.sh"
checkout=$(cd "$(dirname "$0")/.." && pwd)
folder=$checkout/.cache/servers
build_in "$folder"

# unless_there NAME VERSION COMMAND...: runs the command where this version of the server is not there.
unless_there() {
    local name=$1 version=$2 stamp=$folder/$1.version
    shift 2
    [[ -f $stamp && $(<"$stamp") == "$version" ]] && return
    rm -f "$stamp"
    "$@" "$version"
    echo "$version" >"$stamp"
}

# python_program NAME VERSION: what requirements-NAME.lock holds, in an environment of its own.
python_program() {
    python3 -m venv --clear "$folder/$1"
    logged 15 "installing $1" "$folder/$1/bin/python" -m pip install --quiet --disable-pip-version-check \
        --require-hashes --no-deps --only-binary :all: --requirement "$checkout/requirements-$1.lock"
}

go_program() {
    need_go 1.24
    logged 60 "building $1" env GOBIN="$building" go install -v -ldflags='-s -w' "$2@$3"
    mv "$building/$1" "$folder/$1"
}

# go_program_in PROGRAM MODULE PACKAGE VERSION: of a module with replacements, which counts only where it is the main one.
go_program_in() {
    need_go 1.24
    local source
    source=$(go mod download -json "$2@$4" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
    logged 240 "building $1" env -C "$source" go build -v -mod=readonly -ldflags='-s -w' -o "$building/$1" "./$3"
    mv "$building/$1" "$folder/$1"
}

# Its own packages as they were on a day after its last release.
s3rver() {
    logged 20 "installing s3rver" npm install --silent --no-audit --no-fund --ignore-scripts --no-save \
        --before=2026-11-01 --prefix "$building/s3rver" "s3rver@$1"
    rm -rf "$folder/s3rver"
    mv "$building/s3rver" "$folder/s3rver"
}

# jar FILE GROUP:ARTIFACT CLASSIFIER VERSION
jar() {
    logged 30 "downloading $1" mvn --batch-mode --quiet dependency:copy "-Dartifact=$2:$4:jar:$3" \
        -DoutputDirectory="$building/jars"
    mv "$building/jars/${2#*:}-$4-$3.jar" "$folder/$1"
}

unless_there moto 5.2.5 python_program moto
unless_there gofakes3 v1.2.0 go_program gofakes3 github.com/johannesboyne/gofakes3/cmd/gofakes3
unless_there s3rver 3.7.1 s3rver
[[ ${1:-} == all ]] || exit 0
unless_there s3proxy 3.1.0 jar s3proxy.jar org.gaul:s3proxy jar-with-dependencies
unless_there s3mock 5.2.0 jar s3mock.jar com.adobe.testing:s3mock exec
unless_there swift 2.38.3 python_program swift
unless_there rclone v1.76.0 go_program rclone github.com/rclone/rclone
unless_there minio v0.0.0-20260212201848-7aac2a2c5b7c go_program minio github.com/minio/minio
# 4.53
unless_there weed v0.0.0-20261109003541-7506e5f91cd6 go_program_in weed github.com/seaweedfs/seaweedfs weed
