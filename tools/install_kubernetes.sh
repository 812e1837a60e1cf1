#!/usr/bin/env bash
# Builds the Kubernetes of the test cluster into a cache folder outside of the tree, unless this version is there. Quiet
# when there is nothing to do; about ten minutes on two cores, once for all checkouts. Versions: tools/kubernetes/go.mod.
set -euo pipefail

source "$(dirname "$0")/go_programs.sh"
here=$(cd "$(dirname "$0")" && pwd)/kubernetes
version=$(required "$here/go.mod" k8s.io/kubernetes)
folder=$(cache_folder)/kubernetes/$version

missing=()
for program in kube-apiserver kube-controller-manager kube-scheduler kube-proxy kubelet kubectl; do
    [[ -x $folder/$program ]] || missing+=("$program")
done
[[ ${#missing[@]} -eq 0 ]] && exit 0

need_go 1.24
echo "setup: building Kubernetes $version: ${missing[*]} (about ten minutes, once)" >&2
build_in "$folder"
cd "$here"
minor=${version#v1.} minor=${minor%%.*}
flags="-s -w"
for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
    flags+=" -X $package.gitVersion=$version -X $package.gitMajor=1 -X $package.gitMinor=$minor"
done
for program in "${missing[@]}"; do
    [[ -x $folder/$program ]] && continue
    logged 150 "building $program" \
        go build -v -mod=readonly -trimpath -ldflags "$flags" -o "$building/" "k8s.io/kubernetes/cmd/$program"
    mv "$building/$program" "$folder/$program"
done
