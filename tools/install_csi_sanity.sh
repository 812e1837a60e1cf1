#!/usr/bin/env bash
# Builds csi-sanity, by which Kubernetes checks drivers of volumes, into a cache folder outside of the tree, and says where it
# is. Quiet otherwise when this version is there. Under a minute on two cores, once: it is a Go module. Version and
# checksums: tools/csi-sanity.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
source "$here/go_programs.sh"
module=github.com/kubernetes-csi/csi-test/v5
version=$(required "$here/csi-sanity/go.mod" "$module")
folder=$(cache_folder)/tools
program=$folder/csi-sanity-$version

if [[ ! -x $program ]]; then
    need_go 1.26
    build_in "$folder"
fi
if [[ ! -x $program ]]; then
    cd "$here/csi-sanity"
    logged 40 "building csi-sanity $version" \
        go build -v -mod=readonly -trimpath -ldflags='-s -w' -o "$building/csi-sanity" "$module/cmd/csi-sanity"
    mv "$building/csi-sanity" "$program"
fi
echo "$program"
