#!/usr/bin/env bash
# Builds the Kubeflow MPI operator of the test cluster into a cache folder outside of the tree, with its kind and its rights,
# and puts the kinds of the training operator beside it, which our objects are checked against. Says where that is; quiet
# otherwise when these versions are there. About three minutes on two cores, once: both are Go modules, so no registry of
# images is needed.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
mpi=github.com/kubeflow/mpi-operator
mpi_version=$(awk -v module="$mpi" '$1 == "require" && $2 == module { print $3 }' "$here/kubeflow/go.mod")
training=github.com/kubeflow/training-operator
training_version=v1.9.4
training_sum=h1:MjYXzeaHGBmF47BlhCo6+Mb7ypHrVfO6vsys1ZHF56A=
folder=${XDG_CACHE_HOME:-$HOME/.cache}/headrace/kubeflow/$mpi_version-$training_version

if [[ -f $folder/complete ]]; then
    echo "$folder"
    exit 0
fi
export PATH=$PATH:/usr/local/go/bin
if ! command -v go >/dev/null; then
    echo "install_mpi_operator: no Go toolchain on PATH; install Go 1.26 or newer" >&2
    exit 1
fi

mkdir -p "$folder"
# One builder at a time; whoever waited finds the other's work.
exec 9>"$folder/.lock"
flock 9
if [[ ! -f $folder/complete ]]; then
    echo "building the MPI operator $mpi_version (about three minutes, once)" >&2
    build=$(mktemp -d "$folder/.building-XXXXXX")
    trap 'chmod -R u+w "$build"; rm -rf "$build"' EXIT
    log=$folder/build.log
    fail() {
        tail -20 "$log" >&2
        echo "install_mpi_operator: $1 failed; the whole log is in $log" >&2
        exit 1
    }
    (cd "$here/kubeflow" && CGO_ENABLED=0 nice go build -mod=readonly -trimpath -ldflags='-s -w' \
        -o "$build/" "$mpi/cmd/mpi-operator") >"$log" 2>&1 || fail "the build of $mpi $mpi_version"
    mpi_source=$(cd "$here/kubeflow" && go list -mod=readonly -m -f '{{.Dir}}' "$mpi") || fail "the search for the files of $mpi"
    found=$(cd "$build" && go mod download -json "$training@$training_version" 2>"$log") || fail "the download of $training"
    [[ $found == *"\"Sum\": \"$training_sum\""* ]] || fail "the check of $training $training_version"
    training_source=$(sed -n 's/^\t"Dir": "\(.*\)",\?$/\1/p' <<<"$found")
    install -m 644 "$mpi_source/manifests/base/kubeflow.org_mpijobs.yaml" "$mpi_source/manifests/base/cluster-role.yaml" "$folder/"
    for kind in pytorchjobs tfjobs; do
        install -m 644 "$training_source/manifests/base/crds/kubeflow.org_$kind.yaml" "$folder/"
    done
    # The same kind as the MPI operator of earlier days served it.
    install -m 644 "$training_source/manifests/base/crds/kubeflow.org_mpijobs.yaml" "$folder/kubeflow.org_mpijobs_v1.yaml"
    mv "$build/mpi-operator" "$folder/mpi-operator"
    rm -f "$log"
    touch "$folder/complete"
fi
echo "$folder"
