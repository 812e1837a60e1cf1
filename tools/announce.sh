#!/bin/bash
# Says before a set-up begins what it will install, where, how much disk that takes and about how long; nothing where all
# is there. The figures are of two idle cores.
# Usage: tools/announce.sh demo|test
set -euo pipefail
cd "$(dirname "$0")/.."
for_what=${1:?demo or test}
kept=${XDG_CACHE_HOME:-$HOME/.cache}/headrace

missing=() mb=0 seconds=0
# needs FILE MB SECONDS WHAT: a step whose work is there once FILE is; of several processes at once it takes SECONDS.
needs() {
    compgen -G "$1" >/dev/null && return
    mb=$((mb + $2)) seconds=$((seconds + $3))
    missing+=("$4")
}

packages() { cat -- "$@" | sed '/^#/d; s/ .*//; /^$/d' | xargs dpkg-query --show --showformat='${Status}\n' 2>&1 | grep -vc 'install ok installed' || true; }
lists=(tools/debian-packages-demo.txt)
[[ $for_what == demo ]] || lists+=(tools/debian-packages.txt)
lacking=$(packages "${lists[@]}")
if ((lacking)); then
    mb=$((mb + lacking * 40)) seconds=$((seconds + lacking * 4))
    missing+=("$lacking Debian packages (system-wide, with apt-get, as root)")
fi
needs .cache/stamps/python-demo 250 25 "Python packages, at the versions of requirements-demo.lock (.venv)"
needs .cache/stamps/engine 900 170 "the engine, from its Rust sources (target, and crates in cargo's home)"
needs .cache/bin/versitygw 45 90 "versitygw, an S3 server, from its Go sources (.cache/bin)"
if tools/setup_horovod.sh --check >/dev/null 2>&1 || [[ $for_what == demo ]]; then
    needs .cache/stamps/horovod 1300 90 "TensorFlow 2.13 and Horovod (.cache/horovod; its wheel in $kept)"
fi
if [[ $for_what == test ]]; then
    needs .cache/stamps/python 1900 50 "Python packages of tests and tools (.venv)"
    needs "$kept/kubernetes/*/kubectl" 450 480 "Kubernetes, from its Go sources ($kept)"
    needs "$kept/tools/helm-*" 60 60 "helm and csi-sanity, from their Go sources ($kept)"
    needs "$kept/images/*.tar" 350 60 "a Debian and Python packages for the images of the test cluster ($kept)"
    needs ".cache/servers/gofakes3" 180 40 "three more S3 servers (.cache/servers)"
fi

((${#missing[@]})) || exit 0
{
    echo "setup: \`make $for_what\` first installs what is not there yet, and nothing else:"
    printf 'setup:   - %s\n' "${missing[@]}"
    echo "setup: about $((mb / 100 + 1))00 MB in all and $(((seconds + 59) / 60)) minutes on two idle cores; interrupt it when you like, it goes on from there."
    free_mb=$(df --output=avail -m . | tail -1)
    ((free_mb > mb)) || echo "setup: WARNING: only $free_mb MB are free here" >&2
} >&2
