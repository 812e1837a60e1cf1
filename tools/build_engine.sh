#!/bin/bash
# Builds the engine and installs the package, editable, into the environment.
#
# Usage: tools/build_engine.sh tried|released
#   tried     what demo and tests run with: optimised, without LTO and debug information, in the folder of crates that
#             `cargo test` compiles anyway; quicker to build
#   released  what a wheel and the images have, and what is measured
set -euo pipefail
cd "$(dirname "$0")/.."
python=$PWD/.venv/bin/python
kind=${1:?tried or released}
command -v cargo >/dev/null || { echo "setup: Rust (cargo 1.91 or newer) is needed to build the engine" >&2; exit 1; }

takes_s=420
if [[ $kind == tried ]]; then
    takes_s=200
    # Ours are optimised, which they are not for the tests of Rust: those compile them far more often than they compute.
    export CARGO_INCREMENTAL=0
    settings=(opt-level=1 codegen-units=16 debug-assertions=false overflow-checks=false)
    MATURIN_PEP517_ARGS="--profile dev"
    for package in headrace-engine headrace-python; do
        for setting in "${settings[@]}"; do
            MATURIN_PEP517_ARGS+=" --config profile.dev.package.$package.$setting"
        done
    done
    export MATURIN_PEP517_ARGS
fi
crates=$(cargo tree --locked --package headrace-python --edges normal,build --prefix none | sort --unique | wc -l)
mkdir -p .cache
tools/run_step.py --say "building the engine" --log .cache/engine.log --takes "$takes_s" --count '^ *Compiling ' --of "$crates" -- \
    "$python" -m pip install --verbose --no-deps --no-build-isolation --editable .
