#!/usr/bin/env bash
# Builds csi-sanity, by which Kubernetes checks drivers of volumes, into a cache folder outside of the tree, and says where it
# is. Quiet otherwise when this version is there. Under a minute on two cores, once: it is a Go module. Version and
# checksums: tools/csi-sanity.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)/csi-sanity
module=github.com/kubernetes-csi/csi-test/v5
version=$(awk -v module="$module" '$1 == "require" && $2 == module { print $3 }' "$here/go.mod")
cache=${XDG_CACHE_HOME:-$HOME/.cache}/headrace/tools
program=$cache/csi-sanity-$version

if [[ -x $program ]]; then
    echo "$program"
    exit 0
fi
export PATH=$PATH:/usr/local/go/bin
if ! command -v go >/dev/null; then
    echo "install_csi_sanity: no Go toolchain on PATH; install Go 1.26 or newer" >&2
    exit 1
fi

mkdir -p "$cache"
# One builder at a time; whoever waited finds the other's work.
exec 9>"$cache/csi-sanity.lock"
flock 9
if [[ ! -x $program ]]; then
    echo "building csi-sanity $version (under a minute, once)" >&2
    build=$(mktemp -d "$cache/csi-sanity-build-XXXXXX")
    trap 'rm -rf "$build"' EXIT
    cd "$here"
    if ! CGO_ENABLED=0 nice go build -mod=readonly -trimpath -ldflags='-s -w' -o "$build/csi-sanity" \
        "$module/cmd/csi-sanity" >"$build/log" 2>&1; then
        tail -20 "$build/log" >&2
        echo "install_csi_sanity: the build of csi-sanity $version failed" >&2
        exit 1
    fi
    mv "$build/csi-sanity" "$program"
fi
echo "$program"
