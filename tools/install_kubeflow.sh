#!/usr/bin/env bash
# Builds an operator of Kubeflow for the test cluster (mpi-operator or training-operator) into a cache folder outside of the
# tree, with the manifests that it is installed by. Says where that is; quiet otherwise when this version is there. A few
# minutes on two cores, once: both are Go modules, so no registry of images is needed. Versions: tools/kubeflow/*/go.mod.
set -euo pipefail

operator=${1:?install_kubeflow: which operator: mpi-operator or training-operator}
source "$(dirname "$0")/go_programs.sh"
here=$(cd "$(dirname "$0")" && pwd)/kubeflow/$operator
module=github.com/kubeflow/$operator
declare -A programs=([mpi-operator]=cmd/mpi-operator [training-operator]=cmd/training-operator.v1)
version=$(required "$here/go.mod" "$module")
folder=$(cache_folder)/kubeflow/$operator-$version

if [[ ! -f $folder/complete ]]; then
    need_go 1.26
    build_in "$folder"
fi
if [[ ! -f $folder/complete ]]; then
    cd "$here"
    logged 150 "building the $operator $version of Kubeflow" \
        go build -v -mod=readonly -trimpath -ldflags='-s -w' -o "$building/program" "$module/${programs[$operator]}"
    logged 10 "looking for the files of $module" go list -mod=readonly -m -f '{{.Dir}}' "$module"
    cp -r "$(tail -1 "$building/log")/manifests" "$building/manifests"
    chmod -R u+w "$building/manifests"
    rm -rf "$folder/manifests"
    mv "$building/manifests" "$folder/manifests"
    mv "$building/program" "$folder/$operator"
    touch "$folder/complete"
fi
echo "$folder"
