#!/usr/bin/env bash
# Builds an operator of Kubeflow for the test cluster (mpi-operator or training-operator) into a cache folder outside of the
# tree, with the manifests that it is installed by. Says where that is; quiet otherwise when this version is there. A few
# minutes on two cores, once: both are Go modules, so no registry of images is needed. Versions: tools/kubeflow/*/go.mod.
set -euo pipefail

operator=${1:?install_kubeflow: which operator: mpi-operator or training-operator}
here=$(cd "$(dirname "$0")" && pwd)/kubeflow/$operator
module=github.com/kubeflow/$operator
declare -A programs=([mpi-operator]=cmd/mpi-operator [training-operator]=cmd/training-operator.v1)
version=$(awk -v module="$module" '$1 == "require" && $2 == module { print $3 }' "$here/go.mod")
folder=${XDG_CACHE_HOME:-$HOME/.cache}/headrace/kubeflow/$operator-$version

if [[ -f $folder/complete ]]; then
    echo "$folder"
    exit 0
fi
export PATH=$PATH:/usr/local/go/bin
if ! command -v go >/dev/null; then
    echo "install_kubeflow: no Go toolchain on PATH; install Go 1.26 or newer" >&2
    exit 1
fi

mkdir -p "$folder"
# One builder at a time; whoever waited finds the other's work.
exec 9>"$folder/.lock"
flock 9
if [[ ! -f $folder/complete ]]; then
    echo "building the $operator $version of Kubeflow (a few minutes, once)" >&2
    log=$folder/build.log
    fail() {
        tail -20 "$log" >&2
        echo "install_kubeflow: $1 failed; the whole log is in $log" >&2
        exit 1
    }
    building=$(mktemp -d "$folder/.building-XXXXXX")
    trap 'chmod -R u+w "$building"; rm -rf "$building"' EXIT
    cd "$here"
    CGO_ENABLED=0 nice go build -mod=readonly -trimpath -ldflags='-s -w' -o "$building/program" "$module/${programs[$operator]}" \
        >"$log" 2>&1 || fail "the build of $module $version"
    source=$(go list -mod=readonly -m -f '{{.Dir}}' "$module" 2>"$log") || fail "the search for the files of $module"
    cp -r "$source/manifests" "$building/manifests"
    chmod -R u+w "$building/manifests"
    rm -rf "$folder/manifests"
    mv "$building/manifests" "$folder/manifests"
    mv "$building/program" "$folder/$operator"
    rm -f "$log"
    touch "$folder/complete"
fi
echo "$folder"
