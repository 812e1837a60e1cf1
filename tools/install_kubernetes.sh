#!/usr/bin/env bash
# Builds the Kubernetes of the test cluster into a cache folder outside of the tree, unless this version is there. Quiet
# when there is nothing to do; about ten minutes on two cores, once for all checkouts. Versions: tools/kubernetes/go.mod.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
version=$(awk '$1 == "require" && $2 == "k8s.io/kubernetes" { print $3 }' "$here/kubernetes/go.mod")
folder=${XDG_CACHE_HOME:-$HOME/.cache}/headrace/kubernetes/$version
programs=(kube-apiserver kube-controller-manager kube-scheduler kube-proxy kubelet kubectl)

missing=()
for program in "${programs[@]}"; do
    [[ -x $folder/$program ]] || missing+=("$program")
done
[[ ${#missing[@]} -eq 0 ]] && exit 0
if ! command -v go >/dev/null; then
    echo "install_kubernetes: no Go toolchain on PATH; install Go 1.24 or newer" >&2
    exit 1
fi

echo "building Kubernetes $version: ${missing[*]} (about ten minutes, once)" >&2
mkdir -p "$folder"
# Two checkouts may ask at once: the second finds what the first has built.
exec 9>"$folder/.lock"
flock 9
building=$(mktemp -d "$folder/.building-XXXXXX")
trap 'rm -rf "$building"' EXIT
log=$folder/build.log
minor=${version#v1.} minor=${minor%%.*}
flags="-s -w"
for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
    flags+=" -X $package.gitVersion=$version -X $package.gitMajor=1 -X $package.gitMinor=$minor"
done
for program in "${missing[@]}"; do
    [[ -x $folder/$program ]] && continue
    if ! (cd "$here/kubernetes" && CGO_ENABLED=0 nice go build -mod=readonly -trimpath -ldflags "$flags" \
        -o "$building/" "k8s.io/kubernetes/cmd/$program") >"$log" 2>&1; then
        tail -20 "$log" >&2
        echo "install_kubernetes: $program cannot be built; the whole log is in $log" >&2
        exit 1
    fi
    mv "$building/$program" "$folder/$program"
done
rm -f "$log"
