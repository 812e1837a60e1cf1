#!/bin/bash
# Makes the environment of the training example: Horovod on TensorFlow and Debian's Open MPI, in .cache/horovod.
# Horovod is built from its source once, in about two minutes on two cores; the wheel is kept for all checkouts.
# TensorFlow is the one for processors alone (tensorflow-cpu): with a GPU, HOROVOD_PYTHON names another environment.
# Usage: tools/setup_horovod.sh [--check] [PYTHON]; with --check it only says whether that is possible here.
set -euo pipefail

only_check=
if [[ ${1:-} == --check ]]; then
    only_check=yes
    shift
fi
checkout=$(cd "$(dirname "$0")/.." && pwd)
python=${1:-python3}
lock=$checkout/requirements-horovod.lock
folder=$checkout/.cache/horovod
log=$checkout/.cache/horovod.log

stop() {
    echo "setup_horovod: $*" >&2
    exit 1
}

command -v mpicxx >/dev/null && command -v mpirun >/dev/null ||
    stop "Open MPI is missing; as root: apt-get install --no-install-recommends openmpi-bin libopenmpi-dev"
command -v cmake >/dev/null || stop "cmake is missing; as root: apt-get install --no-install-recommends cmake"

# TensorFlow 2.13 has no wheels for a newer Python, and some locked packages have none for an older one.
fits() { "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info[:2] != (3, 11))' >/dev/null 2>&1; }
of_uv() { command -v uv >/dev/null && UV_PYTHON_DOWNLOADS=never uv python find 3.11 2>/dev/null || true; }

# The one that was named, or another one that is at hand; nothing is downloaded.
named=$python
for python in "$named" python3.11 "$(of_uv)" ''; do
    [[ -n $python ]] || stop "TensorFlow 2.13 needs Python 3.11 with its module venv; $named is $("$named" --version 2>&1)," \
        "and there is no python3.11 beside it; install one (Debian 12: apt-get install python3.11-venv; elsewhere:" \
        "uv python install 3.11), or name it: make PYTHON=/path/to/python3.11 demo"
    ! fits "$python" || break
done
[[ $python == "$named" ]] || echo "setup: $python has the TensorFlow of Horovod, which is not for $named" >&2

[[ -z $only_check ]] || exit 0

# What the wheel depends on: a change of any of these builds it anew.
key=$({
    cat "$lock"
    sed -n '/^build()/,/^}/p' "$0"
    "$python" -c 'import sysconfig; print(sysconfig.get_config_var("SOABI"))'
    mpirun --version | head -1
    c++ -dumpfullversion
} | sha256sum | cut -c1-16)
wheels=${XDG_CACHE_HOME:-$HOME/.cache}/headrace/horovod/$key

pip() { "$folder/bin/python" -m pip --quiet --disable-pip-version-check "$@"; }

# Everything but TensorFlow and MPI is off: what is found by chance would be built against, and would have to be there.
build() {
    local name=$1 place=$2
    HOROVOD_WITH_MPI=1 HOROVOD_WITH_TENSORFLOW=1 HOROVOD_WITHOUT_GLOO=1 HOROVOD_WITHOUT_PYTORCH=1 \
        HOROVOD_WITHOUT_MXNET=1 HOROVOD_CPU_OPERATIONS=MPI MAKEFLAGS=-j$(nproc) PATH="$folder/bin:$PATH" \
        nice "$folder/bin/python" -m pip --quiet wheel --no-deps --no-build-isolation --require-hashes \
        --requirement "$name" --wheel-dir "$place"
}

only_horovod() { sed -n '/^horovod==/,/[^\\]$/p' "$lock"; }
all_but_horovod() { sed '/^horovod==/,/[^\\]$/d' "$lock"; }

mkdir -p "$checkout/.cache"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
only_horovod >"$work/horovod.txt"
all_but_horovod >"$work/others.txt"

echo "setup: installing TensorFlow 2.13 for Horovod" >&2
"$python" -m venv --clear "$folder"
pip install --require-hashes --no-deps --only-binary :all: --requirement "$work/others.txt"

if ! compgen -G "$wheels/horovod-*.whl" >/dev/null; then
    echo "setup: building Horovod (about two minutes on two cores, once)" >&2
    build "$work/horovod.txt" "$work" >"$log" 2>&1 || { tail -30 "$log" >&2; stop "the build failed; the whole log is in $log"; }
    mkdir -p "$wheels"
    # Renamed into place: a build beside this one must not meet half a wheel.
    for wheel in "$work"/horovod-*.whl; do
        cp "$wheel" "$wheels/.$$.whl" && mv "$wheels/.$$.whl" "$wheels/$(basename "$wheel")"
    done
fi
pip install --no-deps --no-index "$wheels"/horovod-*.whl

# Compiled is not yet loadable.
"$folder/bin/python" -c 'import horovod.tensorflow' >"$log" 2>&1 || { tail -5 "$log" >&2; stop "Horovod does not load; see $log"; }
rm -f "$log"
