#!/usr/bin/env bash
# Builds helm, which checks the chart, into a cache folder outside of the tree, and says where it is. Quiet otherwise when
# this version is there. Two to four minutes on two cores, once: it is a Go module, so no registry of binaries is needed.
set -euo pipefail

version=v4.3.1
cache=${XDG_CACHE_HOME:-$HOME/.cache}/headrace/tools
helm=$cache/helm-$version

if [[ -x $helm ]]; then
    echo "$helm"
    exit 0
fi
export PATH=$PATH:/usr/local/go/bin
if ! command -v go >/dev/null; then
    echo "install_helm: no Go toolchain on PATH; install Go 1.26 or newer" >&2
    exit 1
fi

mkdir -p "$cache"
# One builder at a time; whoever waited finds the other's work.
exec 9>"$cache/helm.lock"
flock 9
if [[ ! -x $helm ]]; then
    echo "building helm $version (two to four minutes, once)" >&2
    build=$(mktemp -d "$cache/helm-build-XXXXXX")
    trap 'rm -rf "$build"' EXIT
    if ! GOBIN=$build CGO_ENABLED=0 nice go install -trimpath -ldflags='-s -w' \
        "helm.sh/helm/v4/cmd/helm@$version" >"$build/log" 2>&1; then
        tail -20 "$build/log" >&2
        echo "install_helm: the build of helm $version failed" >&2
        exit 1
    fi
    mv "$build/helm" "$helm"
fi
echo "$helm"
