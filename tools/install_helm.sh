#!/usr/bin/env bash
# Builds helm, which checks the chart, into a cache folder outside of the tree, and says where it is. Quiet otherwise when
# this version is there. Two to four minutes on two cores, once: it is a Go module, so no registry of binaries is needed.
set -euo pipefail

source "$(dirname "$0")/go_programs.sh"
version=v4.3.1
folder=$(cache_folder)/tools
helm=$folder/helm-$version

if [[ ! -x $helm ]]; then
    need_go 1.26
    build_in "$folder"
fi
if [[ ! -x $helm ]]; then
    GOBIN=$building logged 150 "building helm $version" \
        go install -v -trimpath -ldflags='-s -w' "helm.sh/helm/v4/cmd/helm@$version"
    mv "$building/helm" "$helm"
fi
echo "$helm"
